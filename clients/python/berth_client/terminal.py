"""A terminal in a workspace over its WebSocket: type, read, resize, share the keyboard; over broken connections too.

Made by `AsyncBerth`'s workspaces. Output is given once and in order: the place is kept, and a connection that broke is
opened again from it. What was typed is never sent twice, because nobody can say whether it arrived.

    frames, first byte the type: 0 input, 1 output, and as JSON 2 resize, 3 outcome, 4 flow, 5 keyboard lease
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from berth_client import sockets
from berth_client.hands_async import AsyncHand
from berth_client.outcome import Outcome, read_outcome
from berth_client.problems import BerthError, ExecConflict, StreamBroken

INPUT, OUTPUT, RESIZE, OUTCOME, FLOW, LEASE = range(6)
INPUT_BYTES = 32 * 1024


class Terminal:
    def __init__(self, hand: AsyncHand, socket_at: str, exec_id: str, offset: int = 0) -> None:
        self._hand, self._path, self.exec_id = hand, f"{socket_at}/terminals/{exec_id}", exec_id
        self.offset = offset
        self.outcome: Outcome | None = None
        #: Who holds the keyboard, and whether that is this connection.
        self.holder: str | None = None
        self.holds_keyboard = False
        #: Told in a sentence when the connection breaks and when the keyboard changes hands.
        self.on_note: Callable[[str], None] = lambda sentence: None
        self._size: tuple[int, int] | None = None
        self._socket: ClientConnection | None = None
        self._connected = asyncio.Event()

    async def __aenter__(self) -> Terminal:
        await self._connect()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        await self._leave()

    async def output(self) -> AsyncIterator[bytes]:
        """Everything from the offset on, until the exec has ended; then `outcome` is known."""
        again = self._hand.link.retry.again()
        while self.outcome is None:
            try:
                if self._socket is None:
                    await self._connect()
                async for data in self._received():
                    again.went_well()
                    yield data
            except BerthError as error:
                await self._leave()
                delay_s = again.delay_s(error)
                self.on_note("The connection broke; reconnecting.")
                await self._hand.sleep(delay_s)

    async def write(self, data: bytes) -> None:
        """Types. The first who types holds the keyboard; while somebody else does, it is dropped."""
        for at in range(0, len(data), INPUT_BYTES):
            await self._send(bytes((INPUT,)) + data[at:at + INPUT_BYTES])

    async def resize(self, cols: int, rows: int) -> None:
        self._size = (cols, rows)
        await self._say(RESIZE, {"cols": cols, "rows": rows})

    async def take_keyboard(self, *, force: bool = True) -> None:
        await self._say(LEASE, {"take": True, "force": force})

    async def ask_for_keyboard(self) -> None:
        """Of the person who holds it; one who gives no answer for a while can be taken from."""
        await self._say(LEASE, {"ask": True})

    async def release_keyboard(self) -> None:
        await self._say(LEASE, {"release": True})

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _connect(self) -> None:
        url = self._hand.link.socket_url(f"{self._path}?offset={self.offset}")
        with sockets.opening_named():
            self._socket = await connect(url, **sockets.options(self._hand.link))
        if self.holds_keyboard:
            await self._say(LEASE, {"take": True, "force": False})
        if self._size is not None:
            await self.resize(*self._size)
        self._connected.set()

    async def _leave(self) -> None:
        self._connected.clear()
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close()

    async def _received(self) -> AsyncIterator[bytes]:
        assert self._socket is not None
        try:
            while self.outcome is None:
                frame = await self._socket.recv(decode=False)
                if frame[:1] == bytes((OUTPUT,)):
                    self.offset += len(frame) - 1
                    yield bytes(frame[1:])
                    # After it was taken: a reader that stalls stalls the guest, not this process.
                    await self._say(FLOW, {"ack": self.offset})
                elif frame:
                    self._told(frame[0], json.loads(frame[1:]))
        except ConnectionClosed as error:
            if self.outcome is None:
                raise sockets.closing(error) from error

    def _told(self, kind: int, value: Any) -> None:
        if kind == FLOW and "offset" in value:
            self.offset = int(value["offset"])  # older output is gone: it goes on from there
        elif kind == LEASE:
            had, self.holds_keyboard, self.holder = self.holds_keyboard, bool(value.get("you")), value.get("holder")
            if self.holder is not None and not self.holds_keyboard:
                self.on_note(f"{self.holder} {'took' if had else 'holds'} the keyboard.")
        elif kind == OUTCOME:
            self.outcome = read_outcome(value)

    async def _say(self, kind: int, value: dict[str, Any]) -> None:
        """State, which is said anew after the next connect: to a socket that just broke it need not arrive."""
        if self._socket is not None:
            try:
                await self._socket.send(bytes((kind,)) + json.dumps(value).encode())
            except ConnectionClosed:
                return

    async def _send(self, frame: bytes) -> None:
        """Waits for a connection; raises StreamBroken when it broke under what was typed."""
        await self._connected.wait()
        if self.outcome is not None:
            raise ExecConflict(409, {"code": "exec_ended", "detail": "The terminal's program has ended."})
        if self._socket is None:
            raise StreamBroken("The connection broke; what was typed may not have arrived.")
        try:
            await self._socket.send(frame)
        except ConnectionClosed as error:
            raise StreamBroken("The connection broke; what was typed may not have arrived.") from error
