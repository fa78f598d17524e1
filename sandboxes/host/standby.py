"""Operations of a machine that rests with its memory: park, discard_memory, and collapse of its disk's chain.

Called by `operations.py`; calls the driver, `points.py` and `quiet.py`. `wake.py` is the way back.
"""

from __future__ import annotations

import asyncio
import shutil
from typing import Any

from sandboxes.drivers.base import DEEPEST, Still
from sandboxes.errors import Conflict, SandboxError
from sandboxes.host import log, points, quiet, wake, watch
from sandboxes.host.body import Body
from sandboxes.host.machines import Machines
from sandboxes.host.points import Point
from sandboxes.host.registry import Machine
from sandboxes.host.step import Step
from sandboxes.lifecycle import Phase

Json = dict[str, Any]
#: A disk that is deeper at rest is shortened while nobody wants anything of it, so that captures of the next wake have
#: room. Whoever comes meanwhile is not kept waiting, unless it is as deep as it may be.
PARKED_DEPTH = DEEPEST // 2


async def park(machines: Machines, machine: Machine, step: Step) -> Json | None:
    """running -> parked: its memory is written, then its body ends. A failure before that leaves it running.

    Parked is what counts, and nobody waits for the body's last moments but the next operation.
    """
    if machine.phase is Phase.PARKED:
        point = points.read(machines.home(machine.machine_id).standby)
        return point.result if point is not None else None
    body = machines.running_body(machine.machine_id)
    await _require_memory_images(machines)
    parked: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
    ending = asyncio.create_task(_park_and_end(machines, machine, body, step, parked), name=f"park {body.machine_id}")
    ending.add_done_callback(lambda _: parked.done() or parked.cancel())
    try:
        await asyncio.wait({parked})
    except asyncio.CancelledError:
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)
        raise
    if parked.cancelled():
        await ending  # says why
    result = parked.result()
    machines.tell(machine, "machine.parked", step.operation.actor, {"consistency": result["consistency"]})
    depth = await machines.driver.depth(machines.home(machine.machine_id))
    if depth >= DEEPEST:
        ending = asyncio.create_task(_shorten_after(machines, machine, ending), name=f"collapse {machine.machine_id}")
    machines.leave(machine.machine_id, ending)
    if PARKED_DEPTH < depth < DEEPEST:
        machines.while_idle(machine.machine_id, asyncio.create_task(
            _shorten_after(machines, machine, ending), name=f"collapse {machine.machine_id}"))
    return result


async def _park_and_end(machines: Machines, machine: Machine, body: Body, step: Step,
                        parked: asyncio.Future[Json]) -> None:
    rest = quiet.Rest()
    await _park(machines, machine, body, rest, quiet.at_rest(body, step, rest), parked)
    await watch.ended(machines, machine.machine_id)
    await machines.driver.release(machines.home(machine.machine_id))


async def _require_memory_images(machines: Machines) -> None:
    capabilities = await machines.driver.capabilities()
    if not capabilities.memory_images:
        raise Conflict("this host's driver keeps no memory images", code="no_memory_images", reason="no_memory_images")


async def _park(machines: Machines, machine: Machine, body: Body, rest: quiet.Rest, still: Still,
                parked: asyncio.Future[Json]) -> None:
    home = machines.home(machine.machine_id)
    execs = machines.execs(machine.machine_id)
    beside = points.aside(home.standby)
    result: Json = {"memory": True}

    async def commit() -> None:
        """The machine stands still and everything is written. One rename makes it parked."""
        use = await machines.driver.usage(beside)
        result.update(consistency=rest.consistency, memory_bytes=use.memory_bytes, disk_bytes=use.disk_bytes,
                      pause_ms=rest.lasted_ms)
        points.write(beside, Point("", body.epoch, "same", execs.captured(), result))
        await execs.suspend()
        try:
            points.publish(beside, home.standby)
        except BaseException:
            execs.go_on(body)
            raise
        rest.ended = True
        await machines.registry.set_phase(machine, Phase.PARKED, end_reason="parked", later=True)
        parked.set_result(result)

    try:
        await body.live.park(beside, commit, still)
    finally:
        await asyncio.to_thread(shutil.rmtree, beside, True)


async def _shorten_after(machines: Machines, machine: Machine, ending: asyncio.Task[None]) -> None:
    """It is no part of parking: when it fails, or is cut off before its one new file is complete, the chain is as deep
    as it was.
    """
    await asyncio.wait({ending})
    if ending.cancelled() or ending.exception() is not None:
        log.line("park.not_shortened", machine_id=machine.machine_id, detail="its body did not end as it should")
        return
    try:
        await machines.driver.collapse(machines.home(machine.machine_id), 1)
    except (SandboxError, OSError) as error:
        log.failure("park.not_shortened", error, machine_id=machine.machine_id)


async def discard_memory(machines: Machines, machine: Machine, step: Step) -> Json:
    """parked -> stopped. No memory kept: done."""
    if machine.phase is Phase.PARKED:
        step("discard")
        await wake.drop_memory(machines, machine, "memory_discarded")
        await machines.registry.set_phase(machine, Phase.STOPPED, end_reason="memory_discarded")
        machines.tell(machine, "machine.stopped", step.operation.actor, {"reason": "memory_discarded"})
    return {}


async def collapse(machines: Machines, machine: Machine, step: Step) -> Json:
    step("collapse")
    home = machines.home(machine.machine_id)
    return {"depth": await machines.driver.collapse(home, step.operation.options["max_depth"])}
