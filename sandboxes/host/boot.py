"""Gives a machine a running body, or leaves nothing of one. Called by operations; calls driver and guest link.

    admit ▶ template ▶ launch ▶ agent ▶ resume ▶ disk ▶ attach ▶ running
                          └── from here on, any failure or end: kill the body, release what belonged to it

A parked machine's launch is a resume of its own memory (`wake.py`); when that cannot be, the same disk boots cold.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeVar

from sandboxes.drivers.base import LiveMachine, MachineHome, OnStage
from sandboxes.errors import Conflict, SandboxError, StepFailed
from sandboxes.guest.link import GuestLink
from sandboxes.host import capacity, log, points, wake, watch
from sandboxes.host.body import Body
from sandboxes.host.machines import Machines
from sandboxes.host.registry import Machine
from sandboxes.lifecycle import Phase
from sandboxes.linux import space
from sandboxes.spec import MachineSpec

ENTROPY_BYTES = 64
AGENT_S = 60.0
ATTACH_S = 120.0

T = TypeVar("T")
#: Names the stage that begins, and is a step boundary: raises when the operation was taken over.
Stage = Callable[[str], None]
Launch = Callable[[MachineHome, MachineSpec, OnStage], Awaitable[LiveMachine]]


async def boot(machines: Machines, machine: Machine, stage: Stage) -> None:
    """stopped|dead|parked -> running; already running: nothing to do."""
    if machine.phase is Phase.RUNNING and machine.machine_id in machines.bodies:
        return
    if machine.spec is None or machine.phase is Phase.ABSENT:
        raise Conflict("the machine has no disk: create_disk comes first")
    await watch.ended(machines, machine.machine_id)
    stage("admission")
    room_bytes = capacity.standby_bytes(machine.spec, await machines.driver.capabilities())
    with _spoken_for(machines, machine.spec, room_bytes):
        await _boot(machines, machine, machine.spec, stage)


@contextlib.contextmanager
def _spoken_for(machines: Machines, spec: MachineSpec, room_bytes: int) -> Iterator[None]:
    capacity.admit(machines, spec, room_bytes)
    machines.reserved[spec.machine_id] = (spec.shape.cpus, spec.shape.memory_mib)
    space.promise(machines.home(spec.machine_id).path, room_bytes)
    try:
        yield
    finally:
        machines.reserved.pop(spec.machine_id, None)
        if spec.machine_id not in machines.bodies:
            space.forgo(machines.home(spec.machine_id).path)


async def _boot(machines: Machines, machine: Machine, spec: MachineSpec, stage: Stage) -> None:
    parked = machine.phase is Phase.PARKED
    await machines.registry.set_phase(machine, Phase.STARTING, soon=True)
    try:
        if not parked or not await _boot_parked(machines, machine, spec, stage):
            await _boot_cold(machines, machine, spec, stage)
    except BaseException:
        if machine.phase is Phase.RUNNING:
            raise
        still = machines.home(machine.machine_id).standby.exists()
        await machines.registry.set_phase(machine, Phase.PARKED if still else Phase.STOPPED, end_reason="boot_failed")
        raise


async def _boot_cold(machines: Machines, machine: Machine, spec: MachineSpec, stage: Stage) -> None:
    stage("template")
    await machines.driver.prepare(spec.shape, stage_name(stage))
    epoch = machine.epoch_of(spec)
    async with _body(machines, spec, epoch, stage, machines.driver.launch) as (live, link):
        await _awaken(live, link, spec, epoch, stage)
        stage("running")
        await machines.registry.saved(machine)
        await machines.registry.set_phase(machine, Phase.RUNNING, epoch=epoch, memory_since=epoch)
    watch.put(machines, machine, Body(machine.machine_id, live, epoch, link), new=True)
    machines.came_up(machine.machine_id)
    machines.tell(machine, "machine.running", _actor(machine), {"from": "disk"})


async def _boot_parked(machines: Machines, machine: Machine, spec: MachineSpec, stage: Stage) -> bool:
    """False when its memory was given up: then the disk is ready to boot cold."""
    capture = wake.capture_of(machines, machine)
    point = points.read(capture.folder)

    async def resume(home: MachineHome, spec: MachineSpec, on_stage: OnStage) -> LiveMachine:
        if point is None:
            raise Conflict("nothing is known of this memory image", reason="memory_image_damaged")
        return await machines.driver.resume(home, spec, capture, on_stage)

    epoch = machine.epoch_of(spec)
    try:
        async with _body(machines, spec, epoch, stage, resume) as (live, link):
            await _awaken(live, link, spec, epoch, stage)
            stage("running")
            assert point is not None
            since = machine.memory_since if point.execs_are == "same" else epoch
            body = Body(machine.machine_id, live, epoch, link, since)
            await wake.begin_running(machines, machine, body)
    except SandboxError as error:
        reason = wake.given_up(machines, machine, error)
        if not reason:
            raise
        await wake.drop_memory(machines, machine, "memory_dropped")
        machines.tell(machine, "machine.memory_dropped", _actor(machine), {"reason": reason})
        return False
    await wake.go_on(machines, machine, body, point)
    await machines.registry.saved(machine)
    body.settled = True
    machines.came_up(machine.machine_id)
    machines.tell(machine, "machine.running", _actor(machine), {"from": "memory"})
    return True


def _actor(machine: Machine) -> dict[str, str] | None:
    return machine.current.actor if machine.current else None


def stage_name(stage: Stage) -> Stage:
    """For drivers: a stage within a step is named, but is no boundary at which a step may be ended."""
    name: Stage = getattr(stage, "name_only", stage)
    return name


@contextlib.asynccontextmanager
async def _body(machines: Machines, spec: MachineSpec, epoch: int, stage: Stage,
                launch: Launch) -> AsyncIterator[tuple[LiveMachine, GuestLink]]:
    """A launched body with an open link. What fails inside takes both down again."""
    home = machines.home(spec.machine_id)
    stage("launch")
    live = await launch(home, spec, stage_name(stage))
    link: GuestLink | None = None
    try:
        await machines.way_out.embodied(spec.machine_id, live)
        stage("agent")
        link = await while_alive(live, GuestLink.open(live.agent_socket, epoch=epoch, timeout_s=AGENT_S))
        yield live, link
    except BaseException as error:
        log.failure("boot.undone", error, machine_id=spec.machine_id)
        await asyncio.shield(_take_down(machines, spec, live, link))
        raise


async def _take_down(machines: Machines, spec: MachineSpec, live: LiveMachine, link: GuestLink | None) -> None:
    if link is not None:
        await link.close()
    machines.way_out.disembodied(spec.machine_id)
    await live.kill()
    await machines.driver.release(machines.home(spec.machine_id))


async def _awaken(live: LiveMachine, link: GuestLink, spec: MachineSpec, epoch: int, stage: Stage) -> None:
    """The agent acts first (clock, entropy, identity); then the disk; then the user's world. In a memory that has been
    through this before, it renews what differs; its processes are frozen until they are told to go on.
    """
    identity = {"hostname": spec.hostname, "machine_id": guest_machine_id(spec.machine_id)}
    stage("resume")
    await while_alive(live, link.request("resume", {
        "epoch": epoch, "unix_time_ns": time.time_ns(),
        "entropy_b64": base64.b64encode(os.urandom(ENTROPY_BYTES)).decode(), **identity}, timeout_s=AGENT_S))
    stage("disk")
    await while_alive(live, live.fit_disk(spec.disk_gib))
    stage("attach")
    await while_alive(live, link.request("attach", {
        **identity, "env": spec.env, "root": {"least_bytes": spec.disk_gib << 30}}, timeout_s=ATTACH_S))


def guest_machine_id(machine_id: str) -> str:
    """32 hexadecimal digits for /etc/machine-id: the same for a machine's whole life, another for every other."""
    return hashlib.sha256(f"berth machine-id {machine_id}".encode()).hexdigest()[:32]


async def while_alive(live: LiveMachine, step: Awaitable[T]) -> T:
    """The step's result, or StepFailed as soon as the body is gone: nobody waits for the dead."""
    doing = asyncio.ensure_future(step)
    ending = asyncio.ensure_future(live.wait_end())
    try:
        await asyncio.wait({doing, ending}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise StepFailed(f"the machine ended while it was starting: {ending.result()}")
        return doing.result()
    finally:
        for task in (doing, ending):
            task.cancel()
        await asyncio.gather(doing, ending, return_exceptions=True)
