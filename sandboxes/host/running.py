"""One exec while it runs: it is begun in the guest, its output is pulled onto disk, its end is written down.

Called by `execs.py`; calls the body's link, the tape and the record. Whatever breaks in between (link, agent, full
disk, hostd itself) is met by asking the guest again from the offsets that are on disk. An outcome comes from the
guest's wait status or is `lost` with a reason; it is never made up.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sandboxes.errors import AgentLost, DiskFull, NotFound, NotRunning, SandboxError
from sandboxes.guest.link import GuestLink
from sandboxes.guest.linkstream import LinkStream
from sandboxes.host import log
from sandboxes.host.body import Body, BodyEnded, NoBody
from sandboxes.host.clock import now_text, seconds_of, text_of
from sandboxes.host.journal import Journal
from sandboxes.host.outputs import open_output
from sandboxes.host.records import RECORDED_BYTES, Json, Record
from sandboxes.host.scroll import Scroll
from sandboxes.host.tape import STDERR, STDOUT

DISK_PAUSE_S = 0.5
START_S = 60.0
LINK_S = 15.0
AGAIN_S, AGAIN_S_MAX = 0.02, 2.0
STDIN_PIECE = 64 * 1024
CWD_LENGTH = 4096
SIGNAL = re.compile(r"SIG[A-Z0-9+-]{1,12}")


class Running:
    """`begun` tells the first caller that it started (or why not); `ended` is set once the end is on disk."""

    def __init__(self, record: Record, folder: Path, journal: Journal, body: Body | NoBody,
                 on_begin: Callable[[Record], None], on_end: Callable[[Running], None], *,
                 adopted: bool = False) -> None:
        self.record, self._journal, self.body = record, journal, body
        self.tape = open_output(folder, record, fresh=not adopted)
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        #: Done once the end is on disk.
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_begin, self._on_end, self._adopted = on_begin, on_end, adopted
        self._readers: set[asyncio.Event] = set()
        self.task: asyncio.Task[None] | None = None
        #: When somebody last wrote into it; Unix seconds.
        self.input_at = 0.0
        self._stdin: asyncio.Task[None] | None = None

    # -- readers: each holds a bell that rings when there is more to read, or nothing more to come ------------------

    @contextlib.contextmanager
    def bell(self) -> Any:
        ring = asyncio.Event()
        self._readers.add(ring)
        try:
            yield ring
        finally:
            self._readers.discard(ring)

    def _ring(self) -> None:
        for bell in self._readers:
            bell.set()

    # -- while the machine is parked ---------------------------------------------------------------------------------

    async def suspend(self) -> None:
        """The process stays in the machine's memory. Readers and waiters stay, too: it is not the end."""
        for task in (self.task, self._stdin):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        self.task = self._stdin = None
        self.body = NoBody()
        if not self.begun.done():
            self.begun.set_exception(NotRunning("the machine is parked", reason="parked"))
            self.begun.exception()

    def go_on(self, body: Body) -> None:
        """From the offsets that are on disk. Already going on: done."""
        if self.task is not None and not self.task.done():
            return
        self.body = body
        if self.begun.done() and self.begun.exception() is not None:
            self.begun = asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(self.run(), name=f"exec {self.record.exec_id}")

    async def lose(self, reason: str) -> None:
        """Of a suspended one: its memory is gone."""
        await self._finish(_lost(reason))

    # -- the task ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        try:
            if self.record.started is None and not self._adopted:
                await self.body.soon(LINK_S)  # nothing was sent yet, so an agent that is away is a plain refusal
            await self._until_ended()
        except asyncio.CancelledError:
            raise  # hostd goes; the next one goes on from what is on disk
        except SandboxError as error:
            self._refused(error)
        except Exception as error:
            log.failure("exec.failed", error, exec_id=self.record.exec_id)
            await self._finish(_lost("host_error"))
        finally:
            self.tape.close()

    async def _until_ended(self) -> None:
        pause_s = AGAIN_S
        while self.record.ended is None:
            try:
                link = await self.body.ready()
                stream = await self._begin(link)
                if stream is not None:
                    await self._pull(link, stream)
            except BodyEnded:
                await self._finish(_lost(self.body.lost_reason))
            except NotFound:
                await self._finish(_lost("agent_restarted"))
            except AgentLost as error:
                log.line("exec.link_lost", exec_id=self.record.exec_id, detail=error.detail)
                await asyncio.sleep(pause_s)  # the agent may be there and say so for fun
                pause_s = min(AGAIN_S_MAX, pause_s * 2)

    async def _begin(self, link: GuestLink) -> LinkStream | None:
        """Started once; a repeat of a start whose answer was lost gets the same answer from the guest.

        Its output is asked for in the same breath, so that a short exec costs one round trip.
        """
        if self.record.started is not None:
            if self._owes_stdin and self._stdin is None:
                await self._give_up("stdin_interrupted", link)  # how much of it the guest took cannot be known
                return None
            await self._take_name(link)
            stream = await self._ask_output(link)
        else:
            start = await link.stream("exec.start", _start_params(self.record), reads=False)
            stream = await self._ask_output(link)
            try:
                async with asyncio.timeout(START_S):
                    answer = await start.result()
            except BaseException as error:
                await start.cancel()
                await stream.cancel()
                if isinstance(error, TimeoutError):
                    raise AgentLost("exec.start: no answer") from error
                raise
            await self._note(started=_started(answer))
            self._on_begin(self.record)
            self._feed_stdin(link)
        if not self.begun.done():
            self.begun.set_result(None)
        return stream

    async def _ask_output(self, link: GuestLink) -> LinkStream:
        size, begin = self.tape.size, self.record.output_from or {"stdout": 0, "stderr": 0}
        return await link.stream("exec.output", {"exec_id": self.record.exec_id, "offsets": {
            "stdout": begin["stdout"] + size[STDOUT], "stderr": begin["stderr"] + size[STDERR]}})

    async def _take_name(self, link: GuestLink) -> None:
        """The guest knows a continued process by its former name, until it is told this one. Repeatable."""
        if self.record.continued_from is not None:
            said = await link.request("exec.rename", {"exec_id": self.record.continued_from, "to": self.record.exec_id})
            if self.record.output_from is None:
                await self._note(output_from=said["kept_from"])

    @property
    def _owes_stdin(self) -> bool:
        return self.record.request["stdin"] is not None and not self.record.stdin_sent

    def _feed_stdin(self, link: GuestLink) -> None:
        """Beside the output: a child may answer before it has read all."""
        if self._owes_stdin:
            self._stdin = asyncio.create_task(self._send_stdin(link), name=f"stdin {self.record.exec_id}")

    async def _send_stdin(self, link: GuestLink) -> None:
        try:
            await send_stdin(link, self.record.exec_id, self.record.request["stdin"].encode())
        except AgentLost:
            self._stdin = None
        except SandboxError:
            pass  # it reads nothing or has ended: its outcome says what came of that
        else:
            await self._note(stdin_sent=True)

    async def _give_up(self, reason: str, link: GuestLink) -> None:
        await link.request("exec.kill", {"exec_id": self.record.exec_id, "reason": "killed"})
        await self._finish(_lost(reason))

    async def kill(self, by: str) -> None:
        """Ends the whole tree in the guest; the end itself is seen as any other. Repeatable."""
        link = await self.body.soon(5)
        if self.record.killed_by is None:
            self._journal.note(self.record, killed_by=by)
        with contextlib.suppress(NotFound):
            await link.request("exec.kill", {"exec_id": self.record.exec_id, "reason": "killed"})

    async def _pull(self, link: GuestLink, stream: LinkStream) -> None:
        try:
            async for tag, data in stream:
                await self._keep(tag, data)
            result = await stream.result()
        finally:
            await stream.cancel()
        await self._finish(self._end_of(result))
        await self._forget(link)

    async def _keep(self, tag: int, data: bytes) -> None:
        """Coming back for more tells the guest that this is safe: so it is on disk first, however long that takes."""
        await self._patiently(lambda: self.tape.append(tag, data))
        if self.record.is_recorded and self.tape.total - (self.record.recording or {})["from"] >= RECORDED_BYTES:
            self.record_output(None)
        self._ring()

    # -- of a terminal ----------------------------------------------------------------------------------------------

    @property
    def screen(self) -> dict[str, int]:
        """Its size as it was last set."""
        known = self.tape.screen() if isinstance(self.tape, Scroll) else None
        tty = self.record.request["tty"]
        return {"cols": known[0], "rows": known[1]} if known else {"cols": tty["cols"], "rows": tty["rows"]}

    async def resize(self, size: dict[str, int]) -> None:
        link = await self.body.soon(5)
        await link.request("exec.resize", {"exec_id": self.record.exec_id, **size})
        if isinstance(self.tape, Scroll):
            self.tape.resized(size["cols"], size["rows"])

    def record_output(self, by: str | None) -> None:
        """Begins a recording in that name, or ends the one that goes on. Raises DiskFull with nothing changed."""
        if not isinstance(self.tape, Scroll):
            return
        here, now = self.tape.total, now_text()
        recording = {"by": by, "since": now, "from": here, "until": None, "to": None}
        if by is None:
            recording = {**(self.record.recording or recording), "until": now, "to": here}
        self._journal.note(self.record, recording=recording)
        self.tape.hold(self.record.held_output)

    async def _note(self, **happened: Any) -> None:
        await self._patiently(lambda: self._journal.note(self.record, **happened))

    async def _patiently(self, write: Callable[[], None]) -> None:
        """Repeats what a full disk refuses until there is space. The guest is held back meanwhile."""
        told = False
        while True:
            try:
                return write()
            except DiskFull as error:
                if not told:
                    log.failure("exec.waits_for_space", error, exec_id=self.record.exec_id)
                    told = True
                await asyncio.sleep(DISK_PAUSE_S)

    def _end_of(self, result: Json) -> Json:
        cut, outcome = self.tape.truncated, outcome_of(result.get("outcome"))
        if outcome["kind"] == "killed":
            outcome["by"] = self.record.killed_by or "unknown"
        return {"outcome": outcome, "ended_at": self._ended_at(result.get("ended_at")),
                "stdout_truncated": cut[STDOUT] or result.get("stdout_truncated") is True,
                "stderr_truncated": cut[STDERR] or result.get("stderr_truncated") is True}

    def _ended_at(self, said: Any) -> str:
        """The guest's word within what hostd saw itself: an end is older than its news, and a guest's clock may lie."""
        now = time.time()
        began = seconds_of((self.record.started or {"started_at": self.record.asked_at})["started_at"])
        known = isinstance(said, int | float) and began <= said <= now  # NaN is neither
        return text_of(said if known else began if isinstance(said, int | float) and said < began else now)

    async def _finish(self, ended: Json) -> None:
        if self.record.started is None and not self.begun.done():
            self.begun.set_result(None)
        await self._note(ended=ended)
        self._over()

    def _over(self) -> None:
        if self._stdin is not None:
            self._stdin.cancel()
        self._on_end(self)
        self.ended.set_result(None)
        self._ring()

    async def _forget(self, link: GuestLink) -> None:
        """Said, not asked: an exec that is not forgotten costs the guest little, and its own bound drops it."""
        with contextlib.suppress(SandboxError):
            stream = await link.stream("exec.forget", {"exec_id": self.record.exec_id}, reads=False)
            link.forget(stream.id)

    def _refused(self, error: SandboxError) -> None:
        """The guest said no, so nothing was started. Nobody else has seen this exec as anything but starting."""
        self.record.ended = _lost("refused")
        if not self.begun.done():
            self.begun.set_exception(error)
            self.begun.exception()
        self._over()


def _start_params(record: Record) -> Json:
    request, command = record.request, record.request["command"]
    params: Json = {"exec_id": record.exec_id, "env": request["env"], "user": request["user"],
                    "stdin": request["stdin"] is not None or request["stdin_open"]}
    params["shell" if isinstance(command, str) else "argv"] = command
    for name in ("cwd", "tty", "timeout_s"):
        if request[name] is not None:
            params[name] = request[name]
    if not record.is_tty:
        params["max_output_bytes"] = request["max_output_bytes"]
    return params


def _started(answer: Json) -> Json:
    """hostd's own clock: a guest may set its own as it likes, and durations must not show it."""
    cwd = answer.get("cwd")
    known = isinstance(cwd, str) and len(cwd) <= CWD_LENGTH
    return {"started_at": now_text(), **({"cwd": cwd} if known else {})}


def outcome_of(said: Any) -> Json:
    """What the guest reports, held to the shapes of the contract: a guest may be hostile."""
    kind = said.get("kind") if isinstance(said, dict) else None
    if kind == "exited" and type(said.get("code")) is int and 0 <= said["code"] <= 255:
        return {"kind": "exited", "code": said["code"]}
    if kind == "signaled" and isinstance(said.get("signal"), str) and SIGNAL.fullmatch(said["signal"]):
        return {"kind": "signaled", "signal": said["signal"]}
    if kind == "timed_out":
        return {"kind": "timed_out"}
    if kind == "killed":
        return {"kind": "killed"}
    return {"kind": "lost", "reason": "agent_misspoke"}


def _lost(reason: str) -> Json:
    return {"outcome": {"kind": "lost", "reason": reason}, "ended_at": now_text(),
            "stdout_truncated": False, "stderr_truncated": False}


async def send_stdin(link: GuestLink, exec_id: str, data: bytes) -> None:
    stream = await link.stream("exec.stdin", {"exec_id": exec_id, "eof": True}, reads=False)
    try:
        for at in range(0, len(data), STDIN_PIECE):
            await stream.write(data[at:at + STDIN_PIECE])
        await stream.write_eof()
        await stream.result()
    finally:
        await stream.cancel()
