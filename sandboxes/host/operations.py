"""Operations on machines: started, then observed. Called by the HTTP handlers; calls boot, driver and watch.

One operation runs on a machine at a time. A second is `busy`, save that kill and destroy end what runs at its next
step boundary and take its place. An operation is remembered before it is acknowledged; the same id is the same
operation, also for a later hostd. What ran when hostd died is `interrupted`, and its undo is adopt's work.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from sandboxes.errors import Busy, Invalid, NotFound, SandboxError, StaleGeneration, StepFailed
from sandboxes.host import capacity, checkpoints, durable, log, pasts, standby, wake, watch
from sandboxes.host.body import Body
from sandboxes.host.bodyend import end_body
from sandboxes.host.boot import boot
from sandboxes.host.machines import Machines
from sandboxes.host.registry import Machine, Operation
from sandboxes.host.step import Step
from sandboxes.lifecycle import OperationKind, Phase
from sandboxes.spec import MachineSpec

Json = dict[str, Any]
TAKES_OVER = {OperationKind.KILL, OperationKind.DESTROY}
#: What a machine that is not there can be asked for only with a spec.
NEEDS_SPEC = {OperationKind.CREATE_DISK, OperationKind.CLONE}


class Operations:
    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._tasks: dict[str, tuple[Step, asyncio.Task[None]]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def begin(self, machine_id: str, request: dict[str, Any], actor: dict[str, str]) -> Operation:
        """Remembers and starts it. Raises StaleGeneration, Busy, Invalid, DiskFull."""
        async with self._locks.setdefault(machine_id, asyncio.Lock()):
            machine = self._machines.registry.find(machine_id)
            known = machine.operations.get(request["operation_id"])
            if known is not None:
                return known
            operation = Operation(request["operation_id"], OperationKind(request["kind"]), request["generation"],
                                  actor=actor, grace_s=request["grace_s"], options=request["options"])
            _check(machine, operation, request["spec"])
            former = self._running(machine, operation)
            await self._machines.registry.accept(machine, operation, request["spec"])
            if former is not None:
                former[0].taken_over.set()
            step = Step(operation)
            task = asyncio.create_task(self._run(machine, step, former[1] if former else None),
                                       name=f"{operation.kind} {machine_id}")
            self._tasks[machine_id] = (step, task)
            return operation

    def _running(self, machine: Machine, operation: Operation) -> tuple[Step, asyncio.Task[None]] | None:
        """What this one has to wait for. Raises Busy when it may not end that."""
        running = self._tasks.get(machine.machine_id)
        if running is None:
            return None
        under_way = running[0].operation.kind
        if operation.kind not in TAKES_OVER or under_way is OperationKind.DESTROY:
            raise Busy(f"{under_way.value} is under way")
        return running

    async def wait(self, machine_id: str, operation_id: str, wait_s: float) -> Operation:
        operation = self._machines.registry.find(machine_id).operations.get(operation_id)
        if operation is None:
            raise NotFound("no such operation")
        running = self._tasks.get(machine_id)
        if running is not None and running[0].operation is operation and wait_s > 0:
            await asyncio.wait({running[1]}, timeout=wait_s)
        return operation

    async def _run(self, machine: Machine, step: Step, former: asyncio.Task[None] | None) -> None:
        if former is not None:
            await asyncio.wait({former})
        operation = step.operation
        log.line("operation.begins", machine_id=machine.machine_id, operation_id=operation.operation_id,
                 kind=operation.kind.value, generation=operation.generation)
        error, result = await self._outcome(machine, step)
        await self._machines.registry.finish(machine, operation, error, result)
        if self._tasks[machine.machine_id][0] is step:
            del self._tasks[machine.machine_id]
        log.line("operation.ends", machine_id=machine.machine_id, operation_id=operation.operation_id,
                 state=operation.state.value, code=(error or {}).get("code"))

    async def _outcome(self, machine: Machine, step: Step) -> tuple[Json | None, Json | None]:
        """(error, result)."""
        try:
            step("")
            await self._machines.undisturbed(machine.machine_id)
            with durable.space_matters(step.operation.kind.value):
                return None, await _DO[step.operation.kind](self._machines, machine, step)
        except SandboxError as error:
            return error.to_json(), None
        except Exception as error:
            log.failure("operation.failed", error, operation_id=step.operation.operation_id)
            return StepFailed(f"{step.operation.stage or step.operation.kind.value}: {error}").to_json(), None

    async def close(self) -> None:
        """hostd goes: what runs is cut off, and reads as interrupted to the next one. Bodies that are up stay."""
        tasks = [task for _, task in self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _check(machine: Machine, operation: Operation, spec: MachineSpec | None) -> None:
    if operation.generation < machine.generation:
        raise StaleGeneration(f"generation {operation.generation} is older than {machine.generation}",
                              generation=machine.generation)
    if operation.kind in NEEDS_SPEC and spec is None and machine.spec is None:
        raise Invalid(f"spec: {operation.kind.value} needs one", errors={"spec": "required"})


# -- what each kind does -----------------------------------------------------------------------------------------------

async def _create_disk(machines: Machines, machine: Machine, step: Step) -> None:
    if machine.phase is not Phase.ABSENT:
        return
    step("disk")
    assert machine.spec is not None
    capacity.admit_disk(machines.state)
    home = machines.home(machine.machine_id)
    home.path.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        await machines.driver.create_disk(home, machine.spec)
    except BaseException:
        with contextlib.suppress(Exception):
            await machines.driver.destroy(home)
        raise
    await machines.registry.set_phase(machine, Phase.STOPPED)


async def _boot(machines: Machines, machine: Machine, step: Step) -> None:
    await boot(machines, machine, step)


async def _shutdown(machines: Machines, machine: Machine, step: Step) -> None:
    """The guest ends its own world; whoever does not come to an end within the grace is killed."""
    body = machines.bodies.get(machine.machine_id)
    if body is None:
        await _settle_off(machines, machine)
        return
    step("shutdown")
    body.lost_reason = "machine_stopped"
    await machines.registry.set_phase(machine, Phase.STOPPING)
    clean = await step.unless_taken_over(_ask_to_end(body), step.operation.grace_s)
    await _stopped(machines, machine, body, step, "stopped" if clean else "killed_after_grace")


async def _ask_to_end(body: Body) -> None:
    with contextlib.suppress(SandboxError):
        link = await body.soon(2)
        await link.request("shutdown", {}, timeout_s=600)
    await body.ended.wait()


async def _kill(machines: Machines, machine: Machine, step: Step) -> None:
    body = machines.bodies.get(machine.machine_id)
    if body is None:
        await _settle_off(machines, machine)
        return
    step("kill")
    body.lost_reason = "machine_stopped"
    await machines.registry.set_phase(machine, Phase.STOPPING)
    await _stopped(machines, machine, body, step, "killed")


async def _stopped(machines: Machines, machine: Machine, body: Body, step: Step, reason: str) -> None:
    await end_body(machines, machine, body)
    await machines.registry.set_phase(machine, Phase.STOPPED, end_reason=reason)
    machines.tell(machine, "machine.stopped", step.operation.actor, {"reason": reason})


async def _settle_off(machines: Machines, machine: Machine) -> None:
    """No body: dead reads as stopped once someone asked for it to be off, parked gives its memory up; absent stays
    absent.
    """
    await watch.ended(machines, machine.machine_id)
    if machine.phase is Phase.PARKED:
        await wake.drop_memory(machines, machine, "machine_stopped")
    if machine.phase is not Phase.ABSENT:
        await machines.driver.release(machines.home(machine.machine_id))
        if machine.phase is not Phase.STOPPED:
            await machines.registry.set_phase(machine, Phase.STOPPED, end_reason="stopped")


async def _destroy(machines: Machines, machine: Machine, step: Step) -> None:
    await _kill(machines, machine, step)
    step.name_only("destroy")
    home = machines.home(machine.machine_id)
    if home.path.exists():
        await machines.driver.destroy(home)
    await machines.purge(machine.machine_id)
    if machine.phase is not Phase.ABSENT:
        await machines.registry.set_phase(machine, Phase.ABSENT, end_reason="destroyed")


_DO: dict[OperationKind, Callable[[Machines, Machine, Step], Awaitable[Json | None]]] = {
    OperationKind.CREATE_DISK: _create_disk, OperationKind.BOOT: _boot, OperationKind.SHUTDOWN: _shutdown,
    OperationKind.KILL: _kill, OperationKind.DESTROY: _destroy,
    OperationKind.PARK: standby.park, OperationKind.DISCARD_MEMORY: standby.discard_memory,
    OperationKind.COLLAPSE: standby.collapse, OperationKind.CAPTURE: checkpoints.capture,
    OperationKind.DROP: checkpoints.drop, OperationKind.ROLLBACK: pasts.rollback, OperationKind.CLONE: pasts.clone,
}
