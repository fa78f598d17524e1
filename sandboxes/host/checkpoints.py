"""Operations that make and forget checkpoints: capture, drop. Called by `operations.py`.

A checkpoint is a capture in a folder of its own, complete before it has its name. It costs one more layer and the pages
that changed, whatever the disk holds. Running, parked, stopped: the phase stays what it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from sandboxes.drivers.base import DEEPEST, Capture
from sandboxes.errors import Conflict
from sandboxes.host import points, quiet
from sandboxes.host.machines import Machines
from sandboxes.host.points import Point
from sandboxes.host.registry import Machine
from sandboxes.host.step import Step
from sandboxes.lifecycle import Phase

Json = dict[str, Any]


async def capture(machines: Machines, machine: Machine, step: Step) -> Json:
    """The same checkpoint id: the same result."""
    if machine.phase is Phase.ABSENT:
        raise Conflict("the machine has no disk", reason="absent")
    home = machines.home(machine.machine_id)
    folder = points.checkpoint_folder(home, step.operation.options["checkpoint_id"])
    known = points.read(folder)
    if known is not None:
        return known.result
    if await machines.driver.depth(home) >= DEEPEST:
        step("collapse")
        await machines.driver.collapse(home, 1)
    beside = points.aside(folder)
    try:
        point = await _captured(machines, machine, step, beside)
        use = await machines.driver.usage(beside)
        point.result.update(memory_bytes=use.memory_bytes, disk_bytes=use.disk_bytes)
        points.write(beside, point)
        points.publish(beside, folder)
    finally:
        await asyncio.to_thread(shutil.rmtree, beside, True)
    return point.result


async def _captured(machines: Machines, machine: Machine, step: Step, beside: Path) -> Point:
    memory: bool = step.operation.options["memory"]
    if machine.phase is Phase.RUNNING:
        return await _capture_running(machines, machine, step, beside)
    step("capture")
    home = machines.home(machine.machine_id)
    parked = points.read(home.standby) if machine.phase is Phase.PARKED else None
    if machine.phase is Phase.PARKED:
        taken = await machines.driver.share(home.standby, beside, memory=memory and parked is not None)
    else:
        taken = await machines.driver.freeze(home, beside)
    return Point(step.operation.options["checkpoint_id"], parked.epoch if parked else machine.epoch,
                 execs=parked.execs if parked and taken.fingerprint else [],
                 result=_result(taken, 0.0, parked.result["consistency"] if parked else "clean"))


async def _capture_running(machines: Machines, machine: Machine, step: Step, beside: Path) -> Point:
    body = machines.running_body(machine.machine_id)
    capabilities = await machines.driver.capabilities()
    memory = step.operation.options["memory"] and capabilities.memory_images
    execs: list[Json] = []
    rest = quiet.Rest()

    @contextlib.asynccontextmanager
    async def still() -> AsyncIterator[None]:
        async with quiet.at_rest(body, step, rest):
            execs.extend(machines.execs(machine.machine_id).captured() if memory else [])
            yield

    taken = await body.live.capture(beside, memory=memory, still=still())
    return Point(step.operation.options["checkpoint_id"], body.epoch, execs=execs,
                 result=_result(taken, rest.lasted_ms, rest.consistency))


def _result(taken: Capture, pause_ms: float, consistency: str) -> Json:
    return {"memory": bool(taken.fingerprint), "pause_ms": pause_ms, "consistency": consistency,
            "fingerprint": taken.fingerprint}


async def drop(machines: Machines, machine: Machine, step: Step) -> Json:
    """Not there: done. Layers that others still name stay with them."""
    folder = points.checkpoint_folder(machines.home(machine.machine_id), step.operation.options["checkpoint_id"])
    step("drop")
    return {"freed_bytes": await asyncio.to_thread(points.forget, folder)}
