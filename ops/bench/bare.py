"""The floor of create and start: the stage's own template resumed by hand, to the result of a first `true` by the
same agent. No jail, no limits, no records, no HTTP (`sandboxes/drivers/qemu/bare.py`); what can be there beforehand is.
"""

from __future__ import annotations

import asyncio
import base64
import os
import time
from pathlib import Path

from ops.bench.round_trip import new_id
from ops.bench.stage import Stage
from sandboxes.drivers.base import MachineHome
from sandboxes.drivers.qemu.bare import MACHINE_ID, BareQemu
from sandboxes.drivers.qemu.driver import QemuDriver
from sandboxes.guest.image.build import ensure
from sandboxes.guest.link import GuestLink
from sandboxes.spec import MachineSpec


def resume_s(stage: Stage) -> float:
    """Seconds of one round, over a fresh disk."""
    return asyncio.run(_round(stage))


async def _round(stage: Stage) -> float:
    driver = QemuDriver(stage.instance.host_state, ensure(stage.instance.cache, lambda said: None))
    bare = await BareQemu.open(driver, MachineHome(stage.instance.data / "bare"), MachineSpec(MACHINE_ID, 1))
    try:
        started = time.perf_counter()
        async with bare.resumed() as agent_socket:
            await first_true(agent_socket)
            return time.perf_counter() - started
    finally:
        await bare.close()
        await driver.close()


async def first_true(agent_socket: Path) -> None:
    """What hostd does between an agent's first word and a first result, and nothing else."""
    link = await GuestLink.open(agent_socket, epoch=1)
    identity = {"hostname": "bare", "machine_id": "0" * 32}
    await link.request("resume", {"epoch": 1, "unix_time_ns": time.time_ns(),
                                  "entropy_b64": base64.b64encode(os.urandom(64)).decode(), **identity})
    await link.request("attach", {**identity, "env": {}, "root": {}}, timeout_s=120)
    await true_by_hand(link)
    await link.close()


async def true_by_hand(link: GuestLink) -> None:
    exec_id = new_id()
    await link.request("exec.start", {"exec_id": exec_id, "argv": ["true"], "env": {}, "user": "user", "stdin": False})
    output = await link.stream("exec.output", {"exec_id": exec_id, "offsets": {"stdout": 0, "stderr": 0}})
    async for _ in output:
        raise RuntimeError("true said something")
    ended = await output.result()
    if ended["outcome"] != {"kind": "exited", "code": 0}:
        raise RuntimeError(f"true ended as {ended['outcome']}")
