"""What hostd knows of each machine: one machine.json each, written whole; the one writer of the host-side phase.

Called by operations, boot, watch and adopt; calls `durable`. It never touches a body. A destroyed machine's
record stays for 30 days: it holds the generation that a late caller must not undercut, and its operations.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sandboxes.errors import Invalid
from sandboxes.host import durable, log
from sandboxes.host.clock import now_text
from sandboxes.lifecycle import OperationKind, OperationState, Phase
from sandboxes.spec import MachineSpec

MACHINE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
OPERATIONS_KEPT = 64
TOMBSTONE_S = 30 * 86_400
RECORD_LOST = "record_lost"


@dataclass
class Operation:
    operation_id: str
    kind: OperationKind
    generation: int
    state: OperationState = OperationState.RUNNING
    stage: str = ""
    error: dict[str, Any] | None = None
    actor: dict[str, str] | None = None
    grace_s: float = 10.0
    #: What this kind needs besides: `checkpoint_id`, `memory`, `source`, `max_depth`.
    options: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        return {"operation_id": self.operation_id, "kind": self.kind.value, "generation": self.generation,
                "state": self.state.value, "stage": self.stage, "error": self.error, "result": self.result}


@dataclass
class Machine:
    machine_id: str
    generation: int = 0
    phase: Phase = Phase.ABSENT
    spec: MachineSpec | None = None
    #: Generation of the body that runs: the epoch its agent was told.
    epoch: int = 0
    #: What a generation is counted from in its agent's eyes: a clone's memory has seen its source's epochs.
    epoch_base: int = 0
    #: The epoch in which the memory that it runs, or is parked with, was new. Execs from then on are in it.
    memory_since: int = 0
    end_reason: str | None = None
    running_since: str | None = None
    changed_at_unix_s: float = 0.0
    operations: dict[str, Operation] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False, compare=False)
    #: Of what is true of it: how often it changed, and the last change that is on the disk.
    changes: int = field(default=0, repr=False, compare=False)
    saved_changes: int = field(default=0, repr=False, compare=False)

    def epoch_of(self, spec: MachineSpec) -> int:
        return self.epoch_base + spec.generation

    @property
    def current(self) -> Operation | None:
        """The operation under way, if any. At most one runs."""
        running = (op for op in reversed(self.operations.values()) if op.state is OperationState.RUNNING)
        return next(running, None)

    def to_json(self) -> dict[str, Any]:
        return {
            "machine_id": self.machine_id, "generation": self.generation, "phase": self.phase.value,
            "spec": self.spec.to_json() if self.spec else None, "epoch": self.epoch,
            "epoch_base": self.epoch_base, "memory_since": self.memory_since,
            "end_reason": self.end_reason, "running_since": self.running_since,
            "changed_at_unix_s": self.changed_at_unix_s,
            "operations": [asdict(op) for op in self.operations.values()],
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Machine:
        spec = data.get("spec")
        operations = [_operation(item) for item in data.get("operations", [])]
        return Machine(
            machine_id=data["machine_id"], generation=data["generation"], phase=Phase(data["phase"]),
            spec=MachineSpec.from_json(spec) if spec else None, epoch=data.get("epoch", 0),
            epoch_base=data.get("epoch_base", 0), memory_since=data.get("memory_since", data.get("epoch", 0)),
            end_reason=data.get("end_reason"), running_since=data.get("running_since"),
            changed_at_unix_s=data.get("changed_at_unix_s", 0.0),
            operations={op.operation_id: op for op in operations})


def _unrecorded(machine_id: str) -> Machine:
    """It has a home, and nobody can say what was being done to it: adopt finds its disk, and its standby if any. A
    body that is there is ended, because nobody knows what its agent was told.
    """
    return Machine(machine_id, phase=Phase.STARTING, end_reason=RECORD_LOST)


def _operation(data: dict[str, Any]) -> Operation:
    known = {key: data[key] for key in Operation.__dataclass_fields__ if key in data}
    return Operation(**{**known, "kind": OperationKind(data["kind"]), "state": OperationState(data["state"])})


class Registry:
    """All machines of this host, in memory and on disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._machines: dict[str, Machine] = {}
        self._saving: dict[str, asyncio.Task[None]] = {}

    def load(self, homes: Path) -> None:
        """Reads every record; forgets tombstones past their time. One that a foreign hand cut short stops nobody
        else's: where its machine still has a home below `homes`, what is known is that, and no more.
        """
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in self._folder.glob("*/.machine.json.*"):
            path.unlink()  # a dead hostd was writing it
        for path in sorted(self._folder.glob("*/machine.json")):
            try:
                machine = Machine.from_json(durable.read_json(path) or {})
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                log.failure("registry.unreadable", error, path=path.parent.name)
                if not (homes / path.parent.name).is_dir():
                    continue
                machine = _unrecorded(path.parent.name)
            if machine.phase is Phase.ABSENT and time.time() - machine.changed_at_unix_s > TOMBSTONE_S:
                path.unlink()
                continue
            self._machines[machine.machine_id] = machine

    def __iter__(self) -> Iterator[Machine]:
        return iter(list(self._machines.values()))

    def find(self, machine_id: str) -> Machine:
        """The machine, or an absent one that is not yet remembered."""
        if not MACHINE_ID.fullmatch(machine_id):
            raise Invalid("a machine id is 1 to 64 letters, digits, - and _", errors={"machine_id": "malformed"})
        return self._machines.get(machine_id) or Machine(machine_id)

    def folder_of(self, machine_id: str) -> Path:
        return self._folder / machine_id

    async def accept(self, machine: Machine, operation: Operation, spec: MachineSpec | None) -> None:
        """Remembers an operation and its generation before anyone is told that it was accepted."""
        before = (machine.generation, machine.spec, dict(machine.operations))
        machine = self._machines.setdefault(machine.machine_id, machine)
        machine.generation = max(machine.generation, operation.generation)
        machine.spec = spec or machine.spec
        machine.operations[operation.operation_id] = operation
        for old in list(machine.operations)[:-OPERATIONS_KEPT]:
            del machine.operations[old]
        try:
            await self._save(machine)
        except BaseException:
            machine.generation, machine.spec, machine.operations = before
            raise

    async def finish(self, machine: Machine, operation: Operation, error: dict[str, Any] | None,
                     result: dict[str, Any] | None = None) -> None:
        operation.state = OperationState.FAILED if error else OperationState.DONE
        operation.error, operation.result = error, result
        await self._save_late(machine)

    async def set_phase(self, machine: Machine, phase: Phase, *, end_reason: str | None = None,
                        epoch: int | None = None, epoch_base: int | None = None,
                        memory_since: int | None = None, soon: bool = False, later: bool = False) -> None:
        """The only assignment of a phase on the host. With `soon` it is being saved when this returns: for who awaits
        `saved` before something relies on it. With `later` the end of the operation saves it: what a later hostd sees
        says so, too.
        """
        machine.phase = phase
        machine.end_reason = end_reason
        machine.running_since = now_text() if phase is Phase.RUNNING else None
        if epoch is not None:
            machine.epoch = epoch
        if epoch_base is not None:
            machine.epoch_base = epoch_base
        if memory_since is not None:
            machine.memory_since = memory_since
        if phase is Phase.ABSENT:
            machine.spec, machine.epoch_base = None, 0
        if later:
            return
        if soon:
            self._saving[machine.machine_id] = asyncio.create_task(self._save_late(machine))
        else:
            await self._save_late(machine)

    async def saved(self, machine: Machine) -> None:
        """Returns when what was set `soon` is on the disk."""
        saving = self._saving.pop(machine.machine_id, None)
        if saving is not None:
            await asyncio.shield(saving)

    async def _save_late(self, machine: Machine) -> None:
        """A fact that is already true is kept in memory when the disk is full: adopt finds it again by looking."""
        try:
            await self._save(machine)
        except OSError as error:
            log.failure("registry.not_saved", error, machine_id=machine.machine_id)
        except Exception as error:
            log.failure("registry.not_saved", error, machine_id=machine.machine_id)

    async def _save(self, machine: Machine) -> None:
        """Who waits while another saves a later truth has nothing left to do."""
        machine.changes += 1
        mine = machine.changes
        async with machine.lock:
            if machine.saved_changes >= mine:
                return
            latest, machine.changed_at_unix_s = machine.changes, time.time()
            path = self.folder_of(machine.machine_id) / "machine.json"
            await asyncio.to_thread(durable.write_json, path, machine.to_json())
            machine.saved_changes = latest
