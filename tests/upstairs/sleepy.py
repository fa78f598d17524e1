"""hostd with the fake driver and a memory of a kind: what a machine "remembers" is that it slept; and it says that its
machines get out, so that their policies are sent to it. For upstairs' tests, which need hosts that keep memory images
and documents; real memory and real networks are held by the drivers' own tests and the soak.

Run as a program it is hostd. A memory image is a file `memory`; one that does not read `whole` is damaged, one that
begins with `foreign` was captured on another kind of host.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import replace
from pathlib import Path

from sandboxes.drivers import fake
from sandboxes.drivers.base import Capabilities, Capture, Commit, MachineHome, OnStage, Still, Use
from sandboxes.errors import Conflict
from sandboxes.spec import MachineSpec

MEMORY_BYTES = 4096
WHOLE = "whole".ljust(MEMORY_BYTES)
FOREIGN = "foreign"


class SleepyMachine(fake.FakeMachine):
    async def capture(self, into: Path, *, memory: bool = True, still: Still | None = None) -> Capture:
        taken = await super().capture(into, memory=False, still=still)
        if not memory:
            return taken
        (into / "memory").write_text(WHOLE)
        return replace(taken, memory_bytes=MEMORY_BYTES, fingerprint="sleepy")

    async def park(self, into: Path, commit: Commit, still: Still | None = None) -> Capture:
        async with still or contextlib.nullcontext():
            taken = await self.capture(into)
            await commit()
            await self.kill()
        return taken


class SleepyDriver(fake.FakeDriver):
    async def capabilities(self) -> Capabilities:
        return replace(await super().capabilities(), memory_images=True, egress=True)

    async def usage(self, capture_folder: Path) -> Use:
        used = await super().usage(capture_folder)
        return Use(used.disk_bytes, MEMORY_BYTES if (capture_folder / "memory").exists() else 0)

    async def share(self, capture_folder: Path, into: Path, *, memory: bool) -> Capture:
        taken = await super().share(capture_folder, into, memory=memory)
        image = capture_folder / "memory"
        if not memory or not image.exists():
            return taken
        (into / "memory").write_text(image.read_text())
        return replace(taken, memory_bytes=MEMORY_BYTES, fingerprint="sleepy")

    async def fits(self, capture_folder: Path, spec: MachineSpec) -> str:
        image = capture_folder / "memory"
        if not image.exists():
            return "memory_image_missing"
        return "memory_image_unfit" if image.read_text().startswith(FOREIGN) else ""

    async def resume(self, home: MachineHome, spec: MachineSpec, capture: Capture, on_stage: OnStage) -> SleepyMachine:
        image = capture.folder / "memory"
        reason = await self.fits(capture.folder, spec)
        if reason or image.read_text() != WHOLE:
            raise Conflict("it cannot be resumed here", reason=reason or "memory_image_damaged")
        await self.adopt(home, capture.folder)
        return await self.launch(home, spec, on_stage)  # type: ignore[return-value]


def install() -> None:
    """From here on the fake driver of this process is this one."""
    fake.FakeMachine, fake.FakeDriver = SleepyMachine, SleepyDriver  # type: ignore[misc]


if __name__ == "__main__":
    install()
    from sandboxes.host.__main__ import main

    sys.exit(main())
