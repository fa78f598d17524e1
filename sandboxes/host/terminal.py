"""A terminal over WebSocket: many clients of one exec with a tty. Called by `app.py`; calls follow, keyboard, typist.

Binary frames, first byte the type: 0 input, 1 output, and as JSON 2 resize, 3 outcome, 4 flow, 5 keyboard lease.

    client ◀── sender: 4 {"offset"}, 5 lease, then 1 output from the files while the window is open, at last 3
    client ──▶ receiver: 0 into a bounded queue ──▶ typist ──▶ guest;  2, 4, 5 at once

A slow client is never waited for: its output stays in the tail on disk, and when its place there is gone it is moved
forward and told so. Once a client has acknowledged, at most WINDOW_BYTES stay unacknowledged; before, the socket's own
backpressure bounds it. Nothing a client sends ends the session of another, and malformed frames end nobody's.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

from aiohttp import WSMsgType, web

from sandboxes.errors import Conflict, SandboxError
from sandboxes.host import fields, http, log
from sandboxes.host.execs import Execs
from sandboxes.host.follow import Follower
from sandboxes.host.keyboard import Keyboard, Seat
from sandboxes.host.machines import Machines
from sandboxes.host.requests import terminal_size
from sandboxes.host.typist import TypingLine

INPUT, OUTPUT, RESIZE, OUTCOME, FLOW, LEASE = range(6)
WINDOW_BYTES = 1024 * 1024
TYPED_BYTES = 256 * 1024
MESSAGE_BYTES = 1024 * 1024
HEARTBEAT_S = 30.0


class TerminalHttp:
    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._lines: dict[tuple[str, str], TypingLine] = {}
        self._open: set[web.WebSocketResponse] = set()

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/v1/machines/{mid}/execs/{eid}/terminal", self.terminal)]

    async def terminal(self, request: web.Request) -> web.StreamResponse:
        query = http.Query(request)
        offset = query.integer("offset", 0)
        query.done()
        execs, exec_id = self._machines.execs(request.match_info["mid"]), request.match_info["eid"]
        record = execs.record(exec_id)
        if not record.is_tty:
            raise Conflict("this exec has no terminal", code="exec_not_tty")
        socket = web.WebSocketResponse(heartbeat=HEARTBEAT_S, max_msg_size=MESSAGE_BYTES, compress=False)
        await socket.prepare(request)
        place = (request.match_info["mid"], exec_id)
        client = Client(socket, execs, exec_id, offset, self._line(execs, place))
        actor = http.actor_of(request)
        seat = Seat(actor["name"], actor["type"], request.headers.get("Berth-Role", "operator"), client.ring)
        self._open.add(socket)
        keyboard = self._machines.keyboards.join(place, seat)
        try:
            await client.serve(keyboard, seat)
        finally:
            self._machines.keyboards.leave(place, seat)
            self._open.discard(socket)
            if exec_id not in execs.running:
                self._lines.pop(place, None)
        return socket

    def _line(self, execs: Execs, place: tuple[str, str]) -> TypingLine | None:
        running = execs.running.get(place[1])
        if running is None:
            return None
        return self._lines.setdefault(place, TypingLine(running))

    async def close(self) -> None:
        """hostd goes: clients are told to come again with their offset."""
        for socket in list(self._open):
            await socket.close(code=1001, message=b"hostd restarts")


class Client:
    """One connection: a sender, a receiver and a typist, which end together."""

    def __init__(self, socket: web.WebSocketResponse, execs: Execs, exec_id: str, offset: int,
                 line: TypingLine | None) -> None:
        self._socket, self._execs, self._exec_id, self._line = socket, execs, exec_id, line
        self._follower = Follower(execs, exec_id, offset)
        self._acked: int | None = None
        self._paused = False
        self._may_send = asyncio.Event()
        self._may_send.set()
        self._lease_changed = asyncio.Event()
        self._typed: asyncio.Queue[bytes] = asyncio.Queue()
        self._typed_bytes = 0
        self._typed_room = asyncio.Event()
        self._typed_room.set()

    def ring(self) -> None:
        """The keyboard changed hands."""
        self._lease_changed.set()

    async def serve(self, keyboard: Keyboard, seat: Seat) -> None:
        self._keyboard, self._seat = keyboard, seat
        sender = asyncio.create_task(self._send_output())
        others = [asyncio.create_task(part) for part in (self._receive(), self._type(), self._tell_lease())]
        try:
            await asyncio.wait([sender, others[0]], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sender, *others):
                task.cancel()
            results = await asyncio.gather(sender, *others, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, ConnectionError | SandboxError):
                log.failure("terminal.failed", result, exec_id=self._exec_id)
        await self._socket.close()

    # -- to the client ----------------------------------------------------------------------------------------------

    async def _send_output(self) -> None:
        with self._execs.opened(self._execs.record(self._exec_id)) as tape:
            expected = self._follower.offset = min(max(self._follower.offset, tape.start), tape.total)
        await self._send_json(FLOW, {"offset": expected})
        async with contextlib.aclosing(self._follower.pieces()) as pieces:
            async for _, at, data in pieces:
                if at != expected:
                    await self._send_json(FLOW, {"offset": at})
                expected = at + len(data)
                await self._may_send_past(expected)
                await self._socket.send_bytes(bytes((OUTPUT,)) + data)
        ended = self._execs.record(self._exec_id).ended or {}
        await self._send_json(OUTCOME, ended["outcome"])

    async def _may_send_past(self, offset: int) -> None:
        while self._paused or (self._acked is not None and offset - self._acked > WINDOW_BYTES):
            self._may_send.clear()
            await self._may_send.wait()

    async def _tell_lease(self) -> None:
        self._lease_changed.set()
        while True:
            await self._lease_changed.wait()
            self._lease_changed.clear()
            await self._send_json(LEASE, {**self._keyboard.seen_by(self._seat), **self._screen_now()})

    def _screen_now(self) -> dict[str, Any]:
        """What all who watch are to know besides: how large it is, and whether it is recorded."""
        record = self._execs.record(self._exec_id)
        running = self._line.running if self._line is not None else None
        recording = record.public()["recording"]
        return {"size": running.screen if running is not None else record.request["tty"],
                "recording": recording if record.is_recorded else None}

    async def _send_json(self, kind: int, value: Any) -> None:
        await self._socket.send_bytes(bytes((kind,)) + json.dumps(value, separators=(",", ":")).encode())

    # -- from the client --------------------------------------------------------------------------------------------

    async def _receive(self) -> None:
        async for message in self._socket:
            if message.type is WSMsgType.BINARY and message.data:
                await self._take(message.data[0], message.data[1:])

    async def _take(self, kind: int, payload: bytes) -> None:
        if kind == INPUT:
            await self._take_input(payload)
        elif kind in (RESIZE, FLOW, LEASE) and isinstance(value := _json(payload), dict):
            if kind == RESIZE:
                await self._take_resize(value)
            elif kind == FLOW:
                self._take_flow(value)
            else:
                self._take_lease(value)

    async def _take_input(self, data: bytes) -> None:
        """The first who writes holds the keyboard; input of others is dropped, and they are told who does."""
        if not self._keyboard.take(self._seat, force=False):
            self.ring()
            return
        if not data:
            return  # it would count for nothing in the queue, however many there are
        while self._typed_bytes >= TYPED_BYTES:
            self._typed_room.clear()
            await self._typed_room.wait()
        self._typed_bytes += len(data)
        self._typed.put_nowait(data)

    async def _type(self) -> None:
        while True:
            data = await self._typed.get()
            if self._line is not None:
                with contextlib.suppress(SandboxError):  # it has ended, or the agent is away: nobody reads this
                    await self._line.write(data)
            self._typed_bytes -= len(data)
            self._typed_room.set()

    async def _take_resize(self, value: dict[str, Any]) -> None:
        if self._line is None or not self._keyboard.may_resize(self._seat):
            return
        with contextlib.suppress(fields.Wrong, SandboxError):
            size, before = terminal_size(value), self._line.running.screen
            await self._line.resize(size)
            if size != before:
                self._keyboard.tell()

    def _take_flow(self, value: dict[str, Any]) -> None:
        if "pause" in value or "resume" in value:
            self._paused = value.get("pause") is True
        acked = value.get("ack")
        if isinstance(acked, int) and not isinstance(acked, bool) and acked >= 0:
            self._acked = min(max(self._acked or 0, acked), self._follower.offset)
        self._may_send.set()

    def _take_lease(self, value: dict[str, Any]) -> None:
        if value.get("take") is True and not self._keyboard.take(self._seat, force=value.get("force") is not False):
            self.ring()
        elif value.get("release") is True:
            self._keyboard.release(self._seat)
        elif value.get("ask") is True:
            self._keyboard.ask(self._seat)
        elif isinstance(name := value.get("give"), str):
            self._keyboard.give(self._seat, name)
        elif isinstance(name := value.get("decline"), str):
            self._keyboard.decline(self._seat, name)


def _json(payload: bytes) -> Any:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return None
