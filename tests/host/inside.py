"""hostd within the test's own process, over a driver that the test may break. For what cannot be done from outside."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

from aiohttp import web

from sandboxes.drivers.base import MachineHome, OnStage
from sandboxes.drivers.fake import FakeDriver, FakeMachine
from sandboxes.host.app import MACHINES, build
from sandboxes.host.machines import Machines
from sandboxes.spec import MachineSpec, Shape
from tests.host.client import Hostd


class Broken(RuntimeError):
    """What a broken stage raises: nothing of ours."""


class BreakableDriver(FakeDriver):
    """Fails at the stage named by `broken`, after having done the work of it."""

    broken = ""

    async def prepare(self, shape: Shape, on_stage: OnStage) -> None:
        await super().prepare(shape, on_stage)
        self._maybe("prepare")

    async def create_disk(self, home: MachineHome, spec: MachineSpec) -> None:
        await super().create_disk(home, spec)
        self._maybe("create_disk")

    async def launch(self, home: MachineHome, spec: MachineSpec, on_stage: OnStage) -> FakeMachine:
        def stage(name: str) -> None:
            on_stage(name)
            self._maybe(f"launch {name}")

        live = await super().launch(home, spec, stage)
        if self.broken == "launch dead":
            await live.kill()
        if self.broken == "fit_disk":
            live.fit_disk = self._fail  # type: ignore[method-assign]
        return live

    async def destroy(self, home: MachineHome) -> None:
        self._maybe("destroy")
        await super().destroy(home)

    async def _fail(self, *_: Any) -> None:
        raise Broken(self.broken)

    def _maybe(self, stage: str) -> None:
        if self.broken == stage:
            raise Broken(stage)


class Inside(Hostd):
    """The same calls as on a process, and the parts within reach."""

    machines: Machines
    breakable: BreakableDriver

    def rss_bytes(self) -> int:
        raise NotImplementedError("it shares the test's own memory")


@contextlib.asynccontextmanager
async def inside(folder: Path, driver: type[FakeDriver] = BreakableDriver) -> AsyncIterator[Inside]:
    hostd = Inside(folder)
    hostd.state.mkdir(parents=True, exist_ok=True)
    hostd.breakable = cast(BreakableDriver, driver(hostd.state))
    app = build(hostd.state, hostd.breakable, {"default": "fake"})
    hostd.machines = app[MACHINES]
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    await web.UnixSite(runner, str(hostd.socket)).start()
    (folder / "log").touch()
    try:
        yield hostd
    finally:
        hostd.breakable.broken = ""
        with contextlib.suppress(AssertionError):
            for machine in list(hostd.machines.registry):
                await hostd.operate(machine.machine_id, "destroy", machine.generation)
        await hostd.close()
        await runner.cleanup()
