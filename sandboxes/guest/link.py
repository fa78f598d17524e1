"""The host's end of the guest link: an asyncio client of one guest agent.

Called by hostd and by drivers; calls `linkstream.py` and `protocol.py`. It knows sessions, streams and credit, and
turns the agent's error codes into `sandboxes.errors`; what a method means it never knows.

    request()  OPEN ─▶  ◀─ RESULT | ERROR
    stream()   OPEN ─▶  DATA/EOF both ways under credit, ◀─ HEAD?, ◀─ RESULT | ERROR

One reader task takes frames as they come and never waits for a consumer: what a stream may receive is bounded by the
window it opened, so a stream nobody reads stops its own sender and no other. The other side may be hostile: whatever
it says or leaves unread, this side holds a bounded amount of it, and an agent that breaks the rules loses its link.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Generator
from pathlib import Path
from typing import Any

from sandboxes.errors import AgentLost, Invalid, SandboxError
from sandboxes.guest import protocol as wire
from sandboxes.guest.linkerrors import error_of
from sandboxes.guest.linkstream import LinkStream

READ_BYTES = 64 * 1024
#: How long the first HELLO may stay unanswered before it is repeated behind padding.
FIRST_HELLO_S = 0.3
LONGEST_HELLO_S = 2.0
QUIET_ROUNDS = 2
#: What may wait to be written to an agent that does not read, beyond what writers wait for themselves.
UNREAD_BYTES = 1024 * 1024
#: Bytes that are no frame. A Unix socket loses none, so after WELCOME only an agent's own restart tears one.
JUNK_BYTES = 1024 * 1024
#: Messages that have begun and not ended: of one HEAD or ERROR, of a WELCOME, and of everything on this link.
SMALL_MESSAGE_BYTES = 64 * 1024
WELCOME_BYTES = 4 * 1024 * 1024
UNFINISHED_BYTES = 4 * wire.MAX_MESSAGE_BYTES
#: What a guest may send that opens nothing by itself; the rest of the kinds is ours to send.
SMALL_KINDS = frozenset((wire.HEAD, wire.ERROR))


class ClosedSignal:
    """Set once the other side is gone. `await link.closed`, `link.closed.wait()`, `.is_set()`."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    done = is_set

    async def wait(self) -> bool:
        return await self._event.wait()

    def __await__(self) -> Generator[Any, None, bool]:
        return self._event.wait().__await__()


class Misspoke(Exception):
    """What came is not what an agent may say. Ends the link."""


class GuestLink:
    """One session with one agent. Safe for any number of tasks of one event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, epoch: int) -> None:
        self.info: dict[str, Any] = {}
        self.closed = ClosedSignal()
        #: The link ended because the agent broke its rules: whoever opens the next one need not hurry.
        self.misspoke = False
        self._reader, self._writer = reader, writer
        self._epoch = epoch
        self._nonce = secrets.token_hex(8)
        self._session = wire.session_number(self._nonce, epoch)
        self._frames = wire.FrameReader()
        self._joiner = wire.MessageJoiner()
        self._streams: dict[int, LinkStream] = {}
        self._last_id = 0
        self._received = 0
        self._unfinished: dict[int, int] = {}
        self._junk_allowed = 0
        self._send_lock = asyncio.Lock()
        self._greeted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._read_loop(), name="guest-link")

    # -- opening ---------------------------------------------------------------------------------------------------

    @staticmethod
    async def open(socket_path: Path | str, epoch: int, timeout_s: float = 30.0) -> GuestLink:
        """Connects (waiting for the socket to appear) and resynchronizes.

        Raises AgentLost when no agent answers in time, StaleGeneration when the agent has seen a later epoch.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await _open(str(socket_path), epoch)
        except TimeoutError as error:
            raise AgentLost(f"the guest agent did not answer within {timeout_s:g} s") from error

    async def _greet(self) -> None:
        wait_s = FIRST_HELLO_S
        hello = {"nonce": self._nonce, "epoch": self._epoch, "protocol": wire.GENERATION}
        frames = b"".join(wire.encode_message(wire.HELLO, 0, 0, hello))
        self._writer.write(frames)
        while not self._greeted.done():
            await asyncio.wait([self._greeted], timeout=wait_s)
            wait_s = min(wait_s * 2, LONGEST_HELLO_S)
            if not self._greeted.done() and self._unsent_bytes() == 0:
                self._writer.write(wire.PADDING + frames)
        await self._greeted

    def _unsent_bytes(self) -> int:
        return self._writer.transport.get_write_buffer_size()

    # -- calls -----------------------------------------------------------------------------------------------------

    async def request(self, method: str, params: dict[str, Any] | None = None, *,
                      timeout_s: float = 30.0) -> dict[str, Any]:
        """One call, one answer. Raises the agent's error as its class; AgentLost when it does not answer in time."""
        stream: LinkStream | None = None
        try:
            async with asyncio.timeout(timeout_s):
                stream = await self.stream(method, params, reads=False)
                return await stream.result()
        except TimeoutError as error:
            raise AgentLost(f"{method}: no answer within {timeout_s:g} s") from error
        finally:
            if stream is not None:
                await stream.cancel()

    async def stream(self, method: str, params: dict[str, Any] | None = None, *, reads: bool = True) -> LinkStream:
        """Opens a stream. Its errors appear where it is read, written or asked for its result. `reads=False`: nobody
        comes for bytes, so what the guest sends all the same is dropped."""
        self._last_id += 1
        stream = LinkStream(self, self._last_id, method, reads=reads)
        try:
            body = {"method": method, "params": params or {}}
            frames = wire.encode_message(wire.OPEN, stream.id, self._session, body)
        except wire.MessageTooLong as error:
            raise Invalid(f"{method}: {error}") from error
        self._streams[stream.id] = stream
        try:
            await self.send(frames)
        except BaseException:
            self._streams.pop(stream.id, None)
            raise
        return stream

    async def drain(self, timeout_s: float = 10.0) -> None:
        """Returns when nothing is in flight: what was sent was taken, and a round trip brought nothing else."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._drain()
        except TimeoutError as error:
            raise AgentLost(f"the link did not fall silent within {timeout_s:g} s") from error

    async def _drain(self) -> None:
        quiet = 0
        while quiet < QUIET_ROUNDS:
            before = self._received
            await self.request("ping")
            quiet = quiet + 1 if self._received == before + 1 else 0

    async def close(self) -> None:
        """Ends the session from this side. Repeatable; open streams end with AgentLost."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self._end(AgentLost("the link was closed"))

    # -- what streams use ------------------------------------------------------------------------------------------

    async def send(self, frames: list[bytes]) -> None:
        """Writes frames in one piece and waits while the socket is full."""
        if self.closed.is_set():
            raise AgentLost("the guest agent is gone")
        async with self._send_lock:
            try:
                for frame in frames:
                    self._writer.write(frame)
                    await self._writer.drain()
            except (ConnectionError, OSError) as error:
                raise AgentLost(f"the guest link broke: {error}") from error

    async def send_frame(self, kind: int, stream: int, payload: bytes = b"", tag: int = 0) -> None:
        await self.send([wire.encode(kind, stream, self._session, payload, tag)])

    def post_credit(self, stream: int, count: int) -> None:
        self._post(wire.encode_credit(stream, self._session, count))

    def post_cancel(self, stream: int) -> None:
        self._post(wire.encode(wire.CANCEL, stream, self._session))

    def _post(self, frame: bytes) -> None:
        """Writes a few bytes without waiting: who cancels must never wait for the one who does not read."""
        if self.closed.is_set():
            return
        if self._unsent_bytes() > UNREAD_BYTES:
            self._misspeak("it does not read what it is told")
        else:
            self._writer.write(frame)

    def forget(self, stream: int) -> None:
        self._streams.pop(stream, None)
        self._unfinished.pop(stream, None)
        self._joiner.forget(stream)

    # -- reading ---------------------------------------------------------------------------------------------------

    async def _read_loop(self) -> None:
        try:
            while data := await self._reader.read(READ_BYTES):
                for frame in self._frames.feed(data):
                    self._take(frame)
                if self._greeted.done() and self._frames.skipped_bytes > self._junk_allowed:
                    raise Misspoke("bytes that are no frames")
                if self.closed.is_set():
                    return
            self._end(AgentLost("the guest agent closed the link"))
        except (ConnectionError, OSError) as error:
            self._end(AgentLost(f"the guest link broke: {error}"))
        except Misspoke as error:
            self._misspeak(str(error))
        except Exception as error:  # whatever a guest thought of: a link is either read or closed, never half dead
            self._misspeak(type(error).__name__)

    def _take(self, frame: wire.Frame) -> None:
        if frame.kind in (wire.WELCOME, wire.REFUSE):
            if frame.stream == 0:
                self._take_greeting(frame)
        elif frame.session == self._session and (stream := self._streams.get(frame.stream)) is not None:
            self._received += 1
            self._dispatch(stream, frame)

    def _take_greeting(self, frame: wire.Frame) -> None:
        if self._greeted.done() and (frame.kind == wire.WELCOME or frame.tag != wire.LAST):
            return  # a second answer to a second HELLO
        self._bound(frame, WELCOME_BYTES)
        try:
            body = self._joiner.add(frame)
        except (ValueError, RecursionError):
            return
        if body is not None and body.get("nonce") == "" and self._greeted.done():
            self._end(AgentLost("the guest agent was started again"))
        if body is None or body.get("nonce") != self._nonce or self._greeted.done():
            return
        if frame.kind == wire.REFUSE:
            self._greeted.set_exception(error_of(body))
            return
        if not isinstance(body.get("info"), dict):
            raise Misspoke("a WELCOME without info")
        self.info = body["info"]
        self._junk_allowed = self._frames.skipped_bytes + JUNK_BYTES
        self._greeted.set_result(None)

    def _bound(self, frame: wire.Frame, most_bytes: int) -> None:
        """Counts what a message has gathered before its last frame. Raises Misspoke when it is too much."""
        gathered = self._unfinished.pop(frame.stream, 0) + len(frame.payload)
        if gathered > most_bytes:
            raise Misspoke(f"a message of more than {most_bytes} bytes")
        if frame.tag != wire.LAST:
            self._unfinished[frame.stream] = gathered
            if sum(self._unfinished.values()) > UNFINISHED_BYTES:
                raise Misspoke("too many unfinished messages")

    def _dispatch(self, stream: LinkStream, frame: wire.Frame) -> None:
        if frame.kind == wire.DATA:
            stream.take_data(frame.tag, frame.payload)
        elif frame.kind == wire.CREDIT:
            stream.take_credit(wire.decode_credit(frame.payload))
        elif frame.kind == wire.EOF:
            stream.take_eof()
        elif frame.kind in SMALL_KINDS or frame.kind == wire.RESULT:
            self._take_message(stream, frame)

    def _take_message(self, stream: LinkStream, frame: wire.Frame) -> None:
        self._bound(frame, SMALL_MESSAGE_BYTES if frame.kind in SMALL_KINDS else wire.MAX_MESSAGE_BYTES)
        try:
            body = self._joiner.add(frame)
        except (ValueError, RecursionError) as error:
            stream.fail(AgentLost(f"{stream.method}: an answer that cannot be read: {type(error).__name__}"))
            return
        if body is None:
            return
        if frame.kind == wire.HEAD:
            stream.take_head(body)
        elif frame.kind == wire.RESULT:
            stream.take_result(body)
        elif frame.kind == wire.ERROR:
            stream.fail(error_of(body))

    def _misspeak(self, how: str) -> None:
        """The agent broke the rules: nothing more is taken from it, and nothing more is kept for it."""
        self.misspoke = True
        self._end(AgentLost(f"the guest agent misspoke: {how}"))
        self._writer.transport.abort()
        self._task.cancel()

    def _end(self, error: SandboxError) -> None:
        if not self._greeted.done():
            self._greeted.set_exception(error)
            self._greeted.exception()
        self.closed.set()
        for stream in list(self._streams.values()):
            stream.fail(error)
        self._writer.close()


async def _open(path: str, epoch: int) -> GuestLink:
    """Tries until an agent answers; the caller's deadline ends it. A connection lost before WELCOME is tried again."""
    while True:
        try:
            reader, writer = await asyncio.open_unix_connection(path)
        except (FileNotFoundError, ConnectionRefusedError):
            await asyncio.sleep(0.05)
            continue
        link = GuestLink(reader, writer, epoch)
        try:
            await link._greet()
            return link
        except AgentLost:
            await link.close()
            await asyncio.sleep(0.05)
        except BaseException:
            await link.close()
            raise
