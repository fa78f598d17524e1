"""The floors of wake, restore, standby and checkpoint: a workspace's own capture, resumed and captured again by hand.

Called by those benches. As `bare.py` does for a template: the same QEMU and the same agent, no jail, no limits, no
records, no HTTP, no checksums. What can be there beforehand (a disk over the capture's layers, a tap, the memory) is.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ops.bench.bare import true_by_hand
from ops.bench.stage import Stage
from sandboxes.drivers.base import MachineHome
from sandboxes.drivers.qemu import snapshot
from sandboxes.drivers.qemu.bare import MACHINE_ID, BareQemu
from sandboxes.drivers.qemu.driver import QemuDriver
from sandboxes.guest.image.build import ensure
from sandboxes.guest.link import GuestLink
from sandboxes.spec import MachineSpec, Shape

#: Later than any epoch the guest was told.
EPOCH = 1 << 40


def keep(stage: Stage, workspace: str) -> Path:
    """The standby's files under names of our own: a wake takes the workspace's away."""
    return asyncio.run(_keep(stage, stage.instance.host_state / "machines" / workspace / "standby"))


async def _keep(stage: Stage, standby: Path) -> Path:
    kept = stage.instance.host_state / "bench-capture"
    shutil.rmtree(kept, ignore_errors=True)
    driver = _driver(stage)
    await driver.share(standby, kept, memory=True)
    await driver.close()
    return kept


def wake_s(stage: Stage, capture: Path, spec: dict[str, object]) -> float:
    """Seconds from nothing to the result of a `true` in the memory that was captured."""
    return asyncio.run(_wake(stage, capture, spec))


async def _wake(stage: Stage, capture: Path, spec: dict[str, object]) -> float:
    async with _opened(stage, capture, spec) as bare:
        started = time.perf_counter()
        async with bare.resumed() as agent_socket:
            link = await woken(agent_socket)
            await true_by_hand(link)
            seconds = time.perf_counter() - started
            await link.close()
            return seconds


def pause_ms(stage: Stage, capture: Path, spec: dict[str, object]) -> float:
    """Milliseconds that the guest stands still for quiesce, device state and a copy of its pages."""
    return asyncio.run(_pause(stage, capture, spec))


async def _pause(stage: Stage, capture: Path, spec: dict[str, object]) -> float:
    into = stage.instance.host_state / "bench-by-hand"
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    async with _opened(stage, capture, spec) as bare, bare.resumed() as agent_socket:
        link = await woken(agent_socket)
        await true_by_hand(link)
        started = time.perf_counter()
        await link.request("quiesce", {"most_s": 60}, timeout_s=60)
        assert bare.qmp is not None and bare.body is not None
        await snapshot.take(bare.qmp, bare.body, bare.memory, into, _nothing)
        await link.request("thaw", {}, timeout_s=60)
        seconds = time.perf_counter() - started
        await link.close()
        return seconds * 1000


def rest_s(stage: Stage, capture: Path, spec: dict[str, object]) -> float:
    """Seconds of what a rest needs whatever it writes: quiesce, `stop`, and the device state on the disk. No page."""
    return asyncio.run(_rest(stage, capture, spec))


async def _rest(stage: Stage, capture: Path, spec: dict[str, object]) -> float:
    state = os.open(stage.instance.host_state / "bench-device.state", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        async with _opened(stage, capture, spec) as bare, bare.resumed() as agent_socket:
            link = await woken(agent_socket)
            await true_by_hand(link)
            assert bare.qmp is not None
            _fdset, name = await bare.qmp.pass_file(state, "device-state")
            started = time.perf_counter()
            await link.request("quiesce", {"most_s": 60}, timeout_s=60)
            await bare.qmp.execute("stop")
            await bare.qmp.execute("xen-save-devices-state", {"filename": name, "live": False})
            os.fsync(state)
            seconds = time.perf_counter() - started
            await link.close()
            return seconds
    finally:
        os.close(state)


async def _nothing() -> None:
    """By hand the disk gets no new head: the floor is what must be done."""


@asynccontextmanager
async def _opened(stage: Stage, capture: Path, spec: dict[str, object]) -> AsyncIterator[BareQemu]:
    driver = _driver(stage)
    shape = Shape(cpus=int(str(spec["cpus"])), memory_mib=int(str(spec["memory_mib"])))
    whole = MachineSpec(MACHINE_ID, 1, shape=shape, disk_gib=int(str(spec["disk_gib"])))
    bare = await BareQemu.open(driver, MachineHome(stage.instance.data / "bare"), whole, capture)
    try:
        yield bare
    finally:
        await bare.close()
        await driver.close()


def _driver(stage: Stage) -> QemuDriver:
    return QemuDriver(stage.instance.host_state, ensure(stage.instance.cache, lambda said: None))


async def woken(agent_socket: Path) -> GuestLink:
    """What hostd tells an agent that was captured, before its processes go on."""
    link = await GuestLink.open(agent_socket, epoch=EPOCH)
    await link.request("resume", {"epoch": EPOCH, "unix_time_ns": time.time_ns(),
                                  "entropy_b64": base64.b64encode(os.urandom(64)).decode()})
    await link.request("thaw", {}, timeout_s=30)
    return link
