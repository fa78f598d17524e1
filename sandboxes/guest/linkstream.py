"""One stream of the guest link, host end: bytes both ways under credit, then one result or one error.

Made and fed by `link.py`; used by hostd. Credit goes back to the guest when the consumer comes for the *next* chunk:
coming back is what says that the former one is safe, and the guest may then drop it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sandboxes.errors import AgentLost, SandboxError
from sandboxes.guest import protocol as wire

if TYPE_CHECKING:
    from sandboxes.guest.link import GuestLink

#: Credit is given back in pieces of this size at least, or whenever everything received was consumed.
CREDIT_STEP_BYTES = wire.WINDOW_BYTES // 4
#: Pieces that nobody came for yet. Small ones are joined, so only an agent that wants to be a burden has so many.
MOST_CHUNKS = 65_536


class LinkStream:
    """`async for tag, data in stream`, `write`, `write_eof`, `head`, `result`, `cancel`."""

    def __init__(self, link: GuestLink, stream_id: int, method: str, *, reads: bool = True) -> None:
        self.id = stream_id
        self.method = method
        self._link = link
        self._chunks: deque[tuple[int, bytes | bytearray]] = deque()
        self._reads = reads
        self._window = wire.WINDOW_BYTES  # what the guest may still send
        self._eof = False
        self._head: dict[str, Any] | None = None
        self._result: dict[str, Any] | None = None
        self._error: SandboxError | None = None
        self._changed = asyncio.Event()
        self._send_credit = wire.WINDOW_BYTES
        self._taken = 0
        self._owed = 0

    # -- the consumer's side ---------------------------------------------------------------------------------------

    def __aiter__(self) -> LinkStream:
        return self

    async def __anext__(self) -> tuple[int, bytes]:
        """The next chunk. Ends after the guest's last byte; a broken stream raises, it never just ends."""
        self._acknowledge()
        await self._until(lambda: bool(self._chunks) or self._over)
        if self._chunks:
            tag, data = self._chunks.popleft()
            self._taken = len(data)
            return tag, bytes(data)
        if self._error is not None:
            raise self._error
        raise StopAsyncIteration

    async def write(self, data: bytes, tag: int = 0) -> None:
        """Sends bytes, waiting for the guest's window. Raises the stream's error once it has one."""
        view = memoryview(data)
        while view:
            await self._until(lambda: self._send_credit > 0 or self._finished)
            self._raise_if_finished()
            size = min(len(view), self._send_credit, wire.MAX_PAYLOAD_BYTES)
            self._send_credit -= size
            await self._link.send_frame(wire.DATA, self.id, bytes(view[:size]), tag)
            view = view[size:]

    async def write_eof(self) -> None:
        if not self._finished:
            await self._link.send_frame(wire.EOF, self.id)

    async def head(self) -> dict[str, Any]:
        """What the guest says before the first byte. Raises the stream's error when it fails instead."""
        await self._until(lambda: self._head is not None or self._finished)
        if self._head is not None:
            return self._head
        if self._error is not None:
            raise self._error
        return {}

    async def result(self) -> dict[str, Any]:
        """The one result. Chunks not taken yet stay readable; a result waits for no reader of its own."""
        await self._until(lambda: self._finished)
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    async def cancel(self) -> None:
        """Nobody wants this stream any more. Repeatable; what was not consumed is not acknowledged."""
        if not self._finished and not self._link.closed.is_set():
            self._error = self._error or AgentLost(f"{self.method}: cancelled")
            self._changed.set()
            self._link.post_cancel(self.id)
        self._link.forget(self.id)

    # -- the link's side -------------------------------------------------------------------------------------------

    def take_data(self, tag: int, data: bytes) -> None:
        """Raises ValueError for what no agent may send: more than its window, or too many crumbs."""
        self._window -= len(data)
        if self._window < 0 or len(self._chunks) >= MOST_CHUNKS:
            raise ValueError(f"{self.method}: more than it may send")
        if not data or not self._reads:
            return
        last_tag, last = self._chunks[-1] if self._chunks else (-1, b"")
        if last_tag == tag and len(last) + len(data) <= wire.MAX_PAYLOAD_BYTES:
            if isinstance(last, bytes):
                self._chunks[-1] = (tag, last := bytearray(last))
            last += data
        else:
            self._chunks.append((tag, data))
        self._changed.set()

    def take_credit(self, count: int) -> None:
        self._send_credit += count
        self._changed.set()

    def take_eof(self) -> None:
        self._eof = True
        self._changed.set()

    def take_head(self, head: dict[str, Any]) -> None:
        """Raises ValueError at a second one."""
        if self._head is not None:
            raise ValueError(f"{self.method}: two heads")
        self._head = head
        self._changed.set()

    def take_result(self, result: dict[str, Any]) -> None:
        self._result = result
        self._close()

    def fail(self, error: SandboxError) -> None:
        self._error = self._error or error
        self._close()

    # -- inside ----------------------------------------------------------------------------------------------------

    @property
    def _finished(self) -> bool:
        return self._result is not None or self._error is not None

    @property
    def _over(self) -> bool:
        return self._eof or self._finished

    def _close(self) -> None:
        self._link.forget(self.id)
        self._changed.set()

    def _raise_if_finished(self) -> None:
        if self._error is not None:
            raise self._error
        if self._result is not None:
            raise AgentLost(f"{self.method}: the guest ended the stream before its last byte was sent")

    def _acknowledge(self) -> None:
        self._owed, self._taken = self._owed + self._taken, 0
        if self._owed and (self._owed >= CREDIT_STEP_BYTES or not self._chunks) and not self._finished:
            self._link.post_credit(self.id, self._owed)
            self._window, self._owed = self._window + self._owed, 0

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()
