"""Ends a live body on purpose and leaves nothing of it. Called by the operations that do; writes no phase."""

from __future__ import annotations

from sandboxes.host import watch
from sandboxes.host.body import Body
from sandboxes.host.machines import Machines
from sandboxes.host.registry import Machine


async def end_body(machines: Machines, machine: Machine, body: Body) -> None:
    """Returns when its end was dealt with: execs ended, network and groups taken down."""
    await body.live.kill()
    await watch.ended(machines, machine.machine_id)
    await machines.driver.release(machines.home(machine.machine_id))
