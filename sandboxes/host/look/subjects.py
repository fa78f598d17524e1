"""Which disk is meant, and that nobody writes to it while it is read. Called by `routes.py`.

A checkpoint never changes. `head` is the disk of a machine that sleeps: should it wake in the middle, the answer is
taken back, because half of it may be of a later moment. In a comparison `head` of a running machine is a look at this
moment: a checkpoint without memory, made by an ordinary operation and dropped by one.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from sandboxes.errors import Conflict, NotFound, SandboxError
from sandboxes.host import log, points, requests
from sandboxes.host.look.reader import Source
from sandboxes.host.machines import Machines
from sandboxes.host.operations import Operations
from sandboxes.lifecycle import OperationState, Phase

HEAD = "head"
AWAKE = frozenset({Phase.STARTING, Phase.RUNNING, Phase.STOPPING})
QUIESCE_S = 10.0
OPERATION_S = 120.0


@dataclass(frozen=True)
class Subject:
    """`still_there` raises when what was read may have changed under the reader."""

    machines: Machines
    machine_id: str
    source: Source
    is_head: bool

    def still_there(self) -> None:
        if self.is_head:
            _asleep(self.machines, self.machine_id)


class Subjects:
    def __init__(self, machines: Machines, operations: Operations) -> None:
        self._machines, self._operations = machines, operations

    def find(self, machine_id: str, which: str) -> Subject:
        """Raises NotFound, and Conflict `workspace_running` for the head of a machine that is not asleep."""
        machine = self._machines.registry.find(machine_id)
        if machine.phase is Phase.ABSENT:
            raise NotFound("no such machine on this host")
        home = self._machines.home(machine_id)
        if which == HEAD:
            _asleep(self._machines, machine_id)
            return Subject(self._machines, machine_id, Source(home.disk, machine_id), is_head=True)
        folder = points.checkpoint_folder(home, which)
        if points.read(folder) is None:
            raise NotFound("no such checkpoint on this host")
        return Subject(self._machines, machine_id, Source(folder, machine_id), is_head=False)

    @contextlib.asynccontextmanager
    async def compared(self, machine_id: str, which: str) -> AsyncIterator[Subject]:
        """As `find`, and the head of a running machine as it is at this moment."""
        try:
            subject = self.find(machine_id, which)
        except Conflict as error:
            if error.code != "workspace_running":
                raise
        else:
            yield subject
            return
        async with self._quiesced(machine_id) as subject:
            yield subject

    @contextlib.asynccontextmanager
    async def _quiesced(self, machine_id: str) -> AsyncIterator[Subject]:
        checkpoint_id = f"{points.LOOK}{secrets.token_hex(8)}"
        await self._operate(machine_id, "capture", checkpoint_id)
        try:
            yield self.find(machine_id, checkpoint_id)
        finally:
            try:
                await self._operate(machine_id, "drop", checkpoint_id)
            except SandboxError as error:  # somebody else's operation is under way: the folder goes without one
                log.line("look.dropped_aside", machine_id=machine_id, code=error.code)
                points.forget(points.checkpoint_folder(self._machines.home(machine_id), checkpoint_id))

    async def _operate(self, machine_id: str, kind: str, checkpoint_id: str) -> None:
        operation_id = f"{kind}-{checkpoint_id}"
        machine = self._machines.registry.find(machine_id)
        body: dict[str, Any] = {"operation_id": operation_id, "kind": kind, "generation": machine.generation,
                                "checkpoint_id": checkpoint_id, "grace_s": QUIESCE_S}
        asked = requests.read_operation({**body, "memory": False} if kind == "capture" else body, machine_id)
        await self._operations.begin(machine_id, asked, {"type": "system", "name": "look"})
        operation = await self._operations.wait(machine_id, operation_id, OPERATION_S)
        if operation.state is not OperationState.DONE:
            said = operation.error or {"code": "busy", "detail": f"{kind} takes too long"}
            raise SandboxError(str(said.get("detail", "")), code=str(said["code"]), reason=said.get("reason"))


def _asleep(machines: Machines, machine_id: str) -> None:
    phase = machines.registry.find(machine_id).phase
    if phase in AWAKE or machine_id in machines.bodies:
        raise Conflict(f"the machine is {phase.value}: its disk changes while it is read", code="workspace_running",
                       reason=phase.value)
    if phase is Phase.ABSENT:
        raise NotFound("no such machine on this host")
