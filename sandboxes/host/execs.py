"""The execs of one machine: those that run, and those that ended and are kept, newest `KEPT` of them.

Called by the handlers, boot, adopt and watch; makes `Running`s. An ended exec lives on disk alone and is read when
someone asks. It never knows HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sandboxes.errors import Busy, DiskFull, NotFound
from sandboxes.host import log
from sandboxes.host.body import Body, NoBody
from sandboxes.host.clock import now_text
from sandboxes.host.journal import Journal
from sandboxes.host.outputs import Output, erase_output, open_output
from sandboxes.host.records import Json, Record
from sandboxes.host.running import Running

KEPT = 1000
#: Of the output of ended execs; and of what all that run may still write. Per machine: one must not fill the host.
KEPT_BYTES = 512 * 1024**2
RUNNING_BYTES = 2 * 1024**3
#: What runs costs hostd memory and descriptors even when it promises no output; a hostile agent takes any number.
RUNNING_MOST = 1024
REQUEST_BYTES = 128 * 1024**2
#: An agent that does not answer: the caller is told "starting" by then and may ask again.
BEGIN_S = 90.0
#: Told (kind, actor, data) of each start and end.
Tell = Callable[[str, Json, Json], None]


class Ended(NamedTuple):
    """What is kept in memory of an exec that has ended."""

    seq: int
    is_tty: bool
    size_bytes: int


class Execs:
    def __init__(self, folder: Path, tell: Tell, kept: int = KEPT, kept_bytes: int = KEPT_BYTES) -> None:
        self._folder, self._tell, self._kept, self._kept_bytes = folder, tell, kept, kept_bytes
        self._journal = Journal(folder)
        self._ended_bytes = 0
        self._seq = 0
        self._worked_at = 0.0
        self.running: dict[str, Running] = {}
        #: Oldest first.
        self._ended: dict[str, Ended] = {}

    # -- what a former hostd left -------------------------------------------------------------------------------------

    def load(self, body: Body | NoBody | None, lost_reason: str = "machine_died") -> None:
        """Ended ones are noted; the others go on if they are in the memory of `body`, wait if that memory is parked
        (`NoBody`), else they are lost.
        """
        for record in self._journal.load():
            self._seq = max(self._seq, record.seq)
            if record.ended is not None:
                self._keep(record, self._size_bytes(record))
            elif isinstance(body, NoBody) or (body is not None and record.epoch >= body.memory_since):
                self._go(record, body, adopted=True)
            else:
                self._lose(record, lost_reason)

    def _size_bytes(self, record: Record) -> int:
        with self.opened(record) as tape:
            return tape.size_bytes

    def _lose(self, record: Record, reason: str) -> None:
        ended = _ended_unseen(reason)
        try:
            self._journal.note(record, ended=ended)
        except DiskFull as error:
            log.failure("exec.end_not_written", error, exec_id=record.exec_id)  # `record` reads it as lost all the same
            record.ended = ended
        self._tell_end(record)
        self._keep(record, self._size_bytes(record))

    # -- starting -----------------------------------------------------------------------------------------------------

    async def start(self, request: Json, actor: Json, body_now: Callable[[], Body]) -> Running | None:
        """Returns once the guest has started it (None: it has long ended), or after BEGIN_S. The same id again joins.

        Raises what the guest refuses, and what `body_now` raises when there is no machine to start it on.
        """
        exec_id: str = request["exec_id"]
        running = self.running.get(exec_id)
        if running is None and exec_id not in self._ended:
            body = body_now()
            self._require_room(request)
            running = self._go(self._new(request, actor, body), body)
        if running is not None:
            await asyncio.wait({running.begun}, timeout=BEGIN_S)
            if running.begun.done():
                running.begun.result()
        return running

    def _new(self, request: Json, actor: Json, body: Body) -> Record:
        self._seq += 1
        record = Record(request["exec_id"], self._seq, body.epoch, request, actor, now_text())
        self._journal.add(record)
        return record

    def _go(self, record: Record, body: Body | NoBody, *, adopted: bool = False) -> Running:
        running = Running(record, self._folder, self._journal, body, self._has_begun, self._has_ended, adopted=adopted)
        self.running[record.exec_id] = running
        if isinstance(body, Body):
            running.go_on(body)
        return running

    # -- what works ---------------------------------------------------------------------------------------------------

    @property
    def worked_at(self) -> float:
        """When an exec last began, ended or was typed into; Unix seconds."""
        return max([self._worked_at, *(running.input_at for running in self.running.values())])

    @property
    def working(self) -> int:
        """Execs that run and are no terminals: an open shell at rest is no work."""
        return sum(running.record.state == "running" and not running.record.is_tty for running in self.running.values())

    def _has_begun(self, record: Record) -> None:
        self._worked_at = time.time()
        self._tell("exec.started", record.actor, {"exec_id": record.exec_id, "command": _short(record)})

    def _has_ended(self, running: Running) -> None:
        record = running.record
        self._worked_at = time.time()
        self.running.pop(record.exec_id, None)
        if record.started is None and (record.ended or {})["outcome"].get("reason") == "refused":
            self._journal.erase(record.exec_id)
            return
        self._tell_end(record)
        self._keep(record, running.tape.size_bytes)

    def _tell_end(self, record: Record) -> None:
        self._tell("exec.ended", record.actor, {"exec_id": record.exec_id, "command": _short(record),
                                                "outcome": (record.ended or {})["outcome"]})

    def _keep(self, record: Record, size_bytes: int) -> None:
        self._ended[record.exec_id] = Ended(record.seq, record.is_tty, size_bytes)
        self._ended_bytes += size_bytes
        while len(self._ended) > self._kept or (self._ended_bytes > self._kept_bytes and len(self._ended) > 1):
            exec_id = next(iter(self._ended))
            old = self._ended.pop(exec_id)
            self._ended_bytes -= old.size_bytes
            if old.size_bytes:
                erase_output(self._folder, exec_id, is_tty=old.is_tty)
            self._journal.erase(exec_id)

    def _require_room(self, request: Json) -> None:
        """Raises Busy when what runs may already write all that one machine's execs may."""
        if len(self.running) >= RUNNING_MOST:
            raise Busy(f"{RUNNING_MOST} execs run on this machine: wait for some to end")
        asked = sum(running.record.request_bytes for running in self.running.values())
        if asked > REQUEST_BYTES:
            raise Busy("the commands that run were given too much text together: wait for some to end")
        promised = sum(running.record.promised_bytes for running in self.running.values())
        if promised + 2 * int(request["max_output_bytes"]) > RUNNING_BYTES:
            raise Busy(f"{len(self.running)} execs run and may write {promised} bytes: wait for some to end, "
                       "or ask for a smaller max_output_bytes")

    # -- reading ------------------------------------------------------------------------------------------------------

    def record(self, exec_id: str) -> Record:
        running = self.running.get(exec_id)
        if running is not None:
            return running.record
        record = self._journal.read(exec_id) if exec_id in self._ended else None
        if record is None:
            raise NotFound("no such exec")
        record.ended = record.ended or _ended_unseen()
        return record

    @contextlib.contextmanager
    def opened(self, record: Record) -> Iterator[Output]:
        """The output. Files of their own for each reader: an exec may end, and be erased, while it is read."""
        tape = open_output(self._folder, record)
        running = self.running.get(record.exec_id)
        if running is not None:
            tape.truncated.update(running.tape.truncated)
        try:
            yield tape
        finally:
            tape.close()

    async def wait_end(self, exec_id: str, timeout_s: float) -> None:
        running = self.running.get(exec_id)
        if running is not None and timeout_s > 0:
            await asyncio.wait({running.ended}, timeout=timeout_s)

    def page(self, limit: int, before: int | None, state: str | None) -> tuple[list[Record], int | None]:
        """Newest first, those with a number below `before`; and the number to go on from."""
        ids = [(running.record.seq, exec_id) for exec_id, running in self.running.items()]
        ids += [(ended.seq, exec_id) for exec_id, ended in self._ended.items()]
        page: list[Record] = []
        for seq, exec_id in sorted(ids, reverse=True):
            if before is not None and seq >= before:
                continue
            record = self.record(exec_id)
            if state is not None and record.state != state:
                continue
            if len(page) == limit:
                return page, page[-1].seq
            page.append(record)
        return page, None

    # -- the machine's ends -------------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """After the body's end: returns when every exec that ran has its end on disk."""
        tasks = [running.task for running in self.running.values() if running.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    async def detach(self) -> None:
        """hostd goes: nothing is written, the next hostd goes on."""
        tasks: list[asyncio.Task[Any]] = [r.task for r in self.running.values() if r.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def close(self) -> None:
        self._journal.close()

    # -- the machine's pasts ------------------------------------------------------------------------------------------

    def captured(self) -> list[Json]:
        """Those that run, as a capture of this moment keeps them."""
        return [running.record.as_captured() for running in self.running.values() if running.record.started]

    async def suspend(self) -> None:
        """The machine is being parked: nothing ends, nothing is written."""
        for running in list(self.running.values()):
            await running.suspend()

    def go_on(self, body: Body) -> None:
        """The memory they are in runs again."""
        for running in self.running.values():
            running.go_on(body)

    async def lose(self, reason: str) -> None:
        """The memory that suspended ones were in is gone."""
        for running in list(self.running.values()):
            await running.lose(reason)

    def continue_from(self, known: Json, exec_id: str, body: Body) -> Running:
        """A process of another past goes on in this one: a new record, which names the former one."""
        self._seq += 1
        record = Record(exec_id, self._seq, body.epoch, known["request"], known["actor"], now_text(),
                        continued_from=known["exec_id"])
        self._journal.add(record)
        self._journal.note(record, started=known["started"] or {"started_at": now_text()})
        self._has_begun(record)
        return self._go(record, body, adopted=True)

    def continued(self) -> set[str]:
        """Former names of processes that go on here already."""
        return {str(running.record.continued_from) for running in self.running.values()}


def _ended_unseen(reason: str = "machine_died") -> Json:
    return {"outcome": {"kind": "lost", "reason": reason}, "ended_at": now_text()}


def _short(record: Record) -> Any:
    """A command as facts carry it: they are summaries, bounded."""
    command = record.request["command"]
    if isinstance(command, str):
        return command[:1000]
    return [word[:500] for word in command[:20]]
