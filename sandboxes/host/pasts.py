"""Operations that give a machine another past: rollback to a checkpoint of its own, clone of another's.

Called by `operations.py`; calls the driver and `points.py`. What may fail is done first, the body is ended when all is
ready, and one rename swaps the disk. Until then the machine is what it was.

    rollback:  standby of the past beside ─▶ layers and a head beside ─▶ kill ─▶ swap ─▶ standby named ─▶ parked|stopped
               ─▶ with `boot`: running
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from sandboxes.errors import NotFound, SandboxError
from sandboxes.host import log, points
from sandboxes.host.bodyend import end_body
from sandboxes.host.boot import boot
from sandboxes.host.machines import Machines
from sandboxes.host.points import Point
from sandboxes.host.registry import Machine
from sandboxes.host.step import Step, Superseded
from sandboxes.lifecycle import Phase
from sandboxes.spec import MachineSpec

Json = dict[str, Any]


async def rollback(machines: Machines, machine: Machine, step: Step) -> Json:
    """Ends the body, if any. A failure before the swap leaves everything as it was; none after it is a failure."""
    home, options = machines.home(machine.machine_id), step.operation.options
    source = points.checkpoint_folder(home, options["checkpoint_id"])
    point, why_not = await _memory_of(machines, source, machine.spec, options["memory"])
    step("prepare")
    beside = points.aside(home.standby) if point.memory else None
    try:
        if beside is not None:
            await _prepare_standby(machines, source, beside, point)
        await _swap(machines, machine, step, source)
        if beside is not None:
            points.publish(beside, home.standby)
        else:
            await asyncio.to_thread(points.forget, home.standby)
    finally:
        if beside is not None:
            await asyncio.to_thread(shutil.rmtree, beside, True)
    await machines.execs(machine.machine_id).lose("rolled_back")
    await _settle(machines, machine, parked=beside is not None)
    machines.tell(machine, "machine.rolled_back", step.operation.actor, {"checkpoint_id": options["checkpoint_id"]})
    if why_not:
        machines.tell(machine, "machine.memory_dropped", step.operation.actor, {"reason": why_not})
    if options["boot"]:
        await _run_on(machines, machine, step)
    return {"parked": beside is not None}


async def _run_on(machines: Machines, machine: Machine, step: Step) -> None:
    """It has the other past already: where it cannot run just now it rests in it, and whoever asks for a boot is told
    why."""
    try:
        await boot(machines, machine, step)
    except Superseded:
        raise
    except SandboxError as error:
        log.failure("rollback.not_booted", error, machine_id=machine.machine_id)


async def _memory_of(machines: Machines, source: Path, spec: MachineSpec | None, wanted: bool) -> tuple[Point, str]:
    """The checkpoint's note, its result saying whether its memory will be used; and why not, when it was wanted."""
    point = points.read(source)
    if point is None:
        raise NotFound("no such checkpoint on this host")
    why_not = ""
    if wanted and point.memory and spec is not None:
        why_not = await machines.driver.fits(source, spec)
    return replace(point, result={**point.result, "memory": wanted and point.memory and not why_not}), why_not


async def _prepare_standby(machines: Machines, source: Path, beside: Path, point: Point) -> None:
    await machines.driver.share(source, beside, memory=True)
    points.write(beside, replace(point, checkpoint_id="", execs_are="renewed", failed_wakes=0))


async def _swap(machines: Machines, machine: Machine, step: Step, source: Path) -> None:
    body = machines.bodies.get(machine.machine_id)

    async def end() -> None:
        step("swap")
        if body is not None:
            body.lost_reason = "rolled_back"
            await machines.registry.set_phase(machine, Phase.STOPPING)
            await end_body(machines, machine, body)

    try:
        await machines.driver.adopt(machines.home(machine.machine_id), source, end)
    except BaseException:
        if machine.phase is Phase.STOPPING and machine.machine_id not in machines.bodies:
            await machines.registry.set_phase(machine, Phase.STOPPED, end_reason="rollback_failed")
        raise


async def _settle(machines: Machines, machine: Machine, *, parked: bool) -> None:
    phase = Phase.PARKED if parked else Phase.STOPPED
    await machines.registry.set_phase(machine, phase, end_reason="rolled_back")


async def clone(machines: Machines, machine: Machine, step: Step) -> Json:
    """absent -> stopped, or parked with the source's memory. Already there: done. A failure leaves nothing."""
    home, options = machines.home(machine.machine_id), step.operation.options
    if machine.phase is not Phase.ABSENT:
        return {"parked": machine.phase is Phase.PARKED}
    assert machine.spec is not None
    source = points.checkpoint_folder(machines.home(options["source"]["machine_id"]),
                                      options["source"]["checkpoint_id"])
    point, why_not = await _memory_of(machines, source, machine.spec, options["memory"])
    step("disk")
    home.path.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        await machines.driver.adopt(home, source)
        if point.memory:
            beside = points.aside(home.standby)
            await _prepare_standby(machines, source, beside, point)
            points.publish(beside, home.standby)
    except BaseException:
        with contextlib.suppress(Exception):
            await machines.driver.destroy(home)
        await asyncio.to_thread(shutil.rmtree, home.path, True)
        raise
    await machines.registry.set_phase(machine, Phase.PARKED if point.memory else Phase.STOPPED, end_reason="cloned",
                                      epoch_base=point.epoch if point.memory else 0)
    if why_not:
        machines.tell(machine, "machine.memory_dropped", step.operation.actor, {"reason": why_not})
    return {"parked": point.memory}
