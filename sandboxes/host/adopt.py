"""On start hostd finds every machine again: who still runs is watched and linked, who died meanwhile is said.

Called once by `app.py` before the socket is served; calls registry, driver and watch.

    was running,  body there   watched again; execs go on from what is on disk
    was running,  body gone    dead, fact machine.died; its execs are lost. The reason is host_rebooted where the
                               kernel is another than the one this folder last saw: nobody's failure, so it starts again
    record unreadable          as "was starting", end_reason record_lost: its disk, checkpoints and standby are there
    was starting               whatever there is of a body is taken down; stopped: the plan boots it again
    was stopping, body there   running: the plan stops it again
    was stopping, body gone    stopped
    standby/ there             parked, whatever was written: a body that is there stood still when that name was given
    .standby.used there        its wake is finished; the body gone before the phase was written: parked as before
    .anything else             what a dead hostd was in the middle of: cleared away
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from pathlib import Path

from sandboxes.drivers.base import MachineHome
from sandboxes.errors import DiskFull, SandboxError, StepFailed
from sandboxes.host import capacity, durable, log, points, wake, watch
from sandboxes.host.body import Body, NoBody
from sandboxes.host.machines import Machines
from sandboxes.host.registry import Machine
from sandboxes.lifecycle import OperationState, Phase
from sandboxes.linux import space

INTERRUPTED = {"code": "interrupted", "detail": "hostd ended while this ran; repeat it under a new id"}


BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


async def adopt(machines: Machines) -> None:
    machines.registry.load(machines.state / "machines")
    machines.feed.open()
    gone_because = "host_rebooted" if _host_rebooted(machines.state) else "unknown"
    for machine in machines.registry:
        try:
            await _adopt_one(machines, machine, gone_because)
        except Exception as error:
            log.failure("adopt.failed", error, machine_id=machine.machine_id)
    known = {machine.machine_id for machine in machines.registry if machine.phase is not Phase.ABSENT}
    for name in await machines.driver.strays(known):
        log.line("adopt.stray_ended", machine_id=name)
    await asyncio.to_thread(_note_boot, machines.state)


def _host_rebooted(state: Path) -> bool:
    noted = durable.read_json(state / "boot.json")
    return noted is not None and noted.get("boot_id") != BOOT_ID.read_text().strip()


def _note_boot(state: Path) -> None:
    """Last, so that a hostd that dies while it adopts after a reboot still knows of the reboot next time."""
    with contextlib.suppress(DiskFull):  # it must not keep hostd down; at worst the next start says "rebooted" again
        durable.write_json(state / "boot.json", {"boot_id": BOOT_ID.read_text().strip()})


async def _adopt_one(machines: Machines, machine: Machine, gone_because: str) -> None:
    for operation in list(machine.operations.values()):
        if operation.state is OperationState.RUNNING:
            await machines.registry.finish(machine, operation, INTERRUPTED)
    if machine.phase is Phase.ABSENT:
        await _clear_away(machines, machine)
        return
    home = machines.home(machine.machine_id)
    await asyncio.to_thread(points.clear_away, home)
    await _tidy(machines, machine, home)
    if await _is_parked(machines, machine, home):
        await _adopt_parked(machines, machine, home)
        return
    before = machine.phase
    body = await _find(machines, machine)
    if body is not None:
        if machine.phase is not Phase.RUNNING:
            await machines.registry.set_phase(machine, Phase.RUNNING, epoch=body.epoch, memory_since=body.memory_since)
        await _keep_room(machines, machine)
        watch.put(machines, machine, body)
    elif machine.phase is Phase.RUNNING:
        await watch.died(machines, machine, gone_because)
    elif machine.phase in (Phase.STARTING, Phase.STOPPING, Phase.PARKED):
        await machines.registry.set_phase(machine, Phase.STOPPED, end_reason=machine.end_reason or "interrupted")
    if body is not None or machine.phase is not before:
        machines.adopt_execs(machine, body)
    await _settle_wake(machines, machine, body)
    log.line("adopt.found", machine_id=machine.machine_id, phase=machine.phase.value, body=body is not None)


async def _keep_room(machines: Machines, machine: Machine) -> None:
    """As its boot did; whether it is there is asked of those that come."""
    if machine.spec is not None:
        room_bytes = capacity.standby_bytes(machine.spec, await machines.driver.capabilities())
        space.promise(machines.home(machine.machine_id).path, room_bytes)


async def _tidy(machines: Machines, machine: Machine, home: MachineHome) -> None:
    """A disk of which nobody can say what it is made of is left as it is; what is asked of it names that."""
    try:
        await machines.driver.tidy(home)
    except StepFailed as error:
        log.failure("adopt.not_tidied", error, machine_id=machine.machine_id)


async def _is_parked(machines: Machines, machine: Machine, home: MachineHome) -> bool:
    """A wake whose body is gone before anyone was told that it runs did not happen."""
    if points.used(home).exists() and machine.phase is Phase.STARTING and await machines.driver.find(home) is None:
        points.put_back(home)
    return home.standby.exists()


async def _adopt_parked(machines: Machines, machine: Machine, home: MachineHome) -> None:
    await machines.driver.release(home)
    if machine.phase is not Phase.PARKED:
        await machines.registry.set_phase(machine, Phase.PARKED, end_reason=machine.end_reason or "interrupted")
    point = points.read(home.standby)
    same = point is not None and point.execs_are == "same"
    machines.adopt_execs(machine, NoBody() if same else None, "rolled_back")
    log.line("adopt.found", machine_id=machine.machine_id, phase=machine.phase.value, body=False)


async def _settle_wake(machines: Machines, machine: Machine, body: Body | None) -> None:
    """What a dead hostd did not come to: execs of another past get their records, a guest at rest goes on."""
    used = points.used(machines.home(machine.machine_id))
    point = points.read(used)
    if body is None:
        await asyncio.to_thread(shutil.rmtree, used, True)
        return
    wake.settle(machines, machine, body, point)


async def _clear_away(machines: Machines, machine: Machine) -> None:
    """What a create_disk or a destroy left when hostd died in it."""
    home = machines.home(machine.machine_id)
    if home.path.exists():
        await machines.driver.destroy(home)
    await machines.purge(machine.machine_id)


async def _find(machines: Machines, machine: Machine) -> Body | None:
    """The body, linked soon; a body that was not yet fully up is taken down."""
    home = machines.home(machine.machine_id)
    live = await machines.driver.find(home)
    if live is None:
        return None
    await machines.way_out.embodied(machine.machine_id, live)
    if machine.phase in (Phase.RUNNING, Phase.STOPPING):
        return Body(machine.machine_id, live, machine.epoch, None, machine.memory_since)
    point = points.read(points.used(home))
    if machine.phase is Phase.STARTING and point is not None and machine.spec is not None:
        epoch = machine.epoch_of(machine.spec)
        since = machine.memory_since if point.execs_are == "same" else epoch
        return Body(machine.machine_id, live, epoch, None, since)
    machines.way_out.disembodied(machine.machine_id)
    await live.kill()
    await machines.driver.release(home)
    return None


async def let_go(machines: Machines) -> None:
    """hostd goes; every machine stays as it is."""
    for task in list(machines.settling):
        task.cancel()
    for task in machines.watches.values():
        task.cancel()
    await asyncio.gather(*machines.watches.values(), return_exceptions=True)
    for body in list(machines.bodies.values()):
        await machines.execs(body.machine_id).detach()
        try:
            await body.detach()
        except (SandboxError, OSError) as error:
            log.failure("body.not_let_go", error, machine_id=body.machine_id)
    machines.close()
    await machines.driver.close()
