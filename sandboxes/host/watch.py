"""Sees the end of every live body, at once, and says what became of it.

Started for each body by boot and adopt. It alone turns a running machine into a dead one; an end that an operation
asked for is that operation's to write down.

    wait_end ──▶ link let go ──▶ phase dead, fact machine.died ──▶ execs end as lost ──▶ driver.release
"""

from __future__ import annotations

import asyncio

from sandboxes.host import log
from sandboxes.host.body import Body
from sandboxes.host.machines import Machines
from sandboxes.host.registry import Machine
from sandboxes.host.work import Meter
from sandboxes.lifecycle import Phase
from sandboxes.linux import space


def put(machines: Machines, machine: Machine, body: Body, *, new: bool = False) -> None:
    """From here on the body's end is seen. `new`: nothing of anybody's runs in it yet."""
    machines.bodies[machine.machine_id] = body
    machines.meters[machine.machine_id] = Meter(ports=frozenset() if new else None)
    task = asyncio.create_task(_watch(machines, machine, body), name=f"watch {machine.machine_id}")
    machines.watches[machine.machine_id] = task


async def _watch(machines: Machines, machine: Machine, body: Body) -> None:
    reason = await body.live.wait_end()
    log.line("machine.ended", machine_id=machine.machine_id, reason=reason, phase=machine.phase.value)
    machines.way_out.disembodied(machine.machine_id)
    await body.end()
    if machines.bodies.get(machine.machine_id) is body:
        del machines.bodies[machine.machine_id]
        machines.meters.pop(machine.machine_id, None)
        space.forgo(machines.home(machine.machine_id).path)
    if machine.phase is Phase.RUNNING:
        await died(machines, machine, reason)
        await machines.execs(machine.machine_id).settle()
        await machines.driver.release(machines.home(machine.machine_id))
    else:
        await machines.execs(machine.machine_id).settle()


async def died(machines: Machines, machine: Machine, reason: str) -> None:
    await machines.registry.set_phase(machine, Phase.DEAD, end_reason=reason)
    machines.tell(machine, "machine.died", None, {"reason": reason})


async def ended(machines: Machines, machine_id: str) -> None:
    """Returns when the body's end has been dealt with; at once when there is none."""
    task = machines.watches.get(machine_id)
    if task is not None:
        await asyncio.shield(task)
