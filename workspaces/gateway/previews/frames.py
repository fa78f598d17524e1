"""A WebSocket to the program behind a preview. Called by `front`; calls `reach`. Messages are passed whole, text as
text and binary as binary, the slower end sets the pace. How a message was cut into frames is each side's own matter,
and so are pings: the visitor's are answered here and the program's, too. Subprotocols, close codes and reasons go
through, and so does the program's refusal of the handshake.

What a visitor sends is use of the workspace; what the program sends, and pings, are not.
"""

from __future__ import annotations

import asyncio

from websockets.client import ClientProtocol
from websockets.datastructures import Headers as Fields
from websockets.exceptions import InvalidHandshake, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.uri import WebSocketURI

from workspaces.api.errors import Problem
from workspaces.gateway.exchange import Exchange
from workspaces.gateway.gate import Gate
from workspaces.gateway.previews import rewriting
from workspaces.gateway.previews.entry import Visit, target_of
from workspaces.gateway.previews.reach import CAUSE, connect
from workspaces.gateway.previews.rewriting import Outside
from workspaces.gateway.previews.standing import until_over
from workspaces.gateway.rawhost import Raw
from workspaces.gateway.socket import Socket
from workspaces.gateway.sockets import close_code, until_first

RESET, TOO_LARGE, NOT_TEXT, NO_STATUS = 4502, 1009, 1007, 1005
FAREWELL_S = 2.0
OF_THE_HANDSHAKE = frozenset({b"sec-websocket-key", b"sec-websocket-version", b"sec-websocket-extensions",
                              b"sec-websocket-protocol", b"sec-websocket-accept"})


async def forward(gate: Gate, exchange: Exchange, socket: Socket, outside: Outside, visit: Visit) -> None:
    with gate.sockets.one_of(visit.holder):
        raw = await connect(gate, visit, outside.name.port, person=False)
        try:
            program = Program(raw, outside.name.port, exchange.scope.get("subprotocols") or [],
                              gate.config.limits.preview_message_bytes)
            headers = rewriting.for_guest(exchange.scope["headers"], outside)
            async with asyncio.timeout(gate.config.limits.preview_answer_s):
                answer = await program.shake_hands(target_of(exchange), headers)
            said = rewriting.for_visitor(_bytes(answer.headers), outside, "", answer.status_code)
            if answer.status_code != 101:
                await socket.answer(answer.status_code, said, bytes(answer.body or b""))
                return
            await socket.accept(program.subprotocol, [pair for pair in said if pair[0] not in OF_THE_HANDSHAKE])
            await until_first(socket, _inward(gate, socket, visit, program), _outward(socket, program),
                              _until_over(gate, exchange, outside, visit))
        except TimeoutError:
            raise Problem("preview_timeout", "It did not answer the handshake.") from None
        finally:
            raw.close()


class Program:
    """The program's end: the handshake, then messages both ways. Raises ConnectionError when it breaks off."""

    def __init__(self, raw: Raw, port: int, subprotocols: list[str], most_bytes: int) -> None:
        self._raw = raw
        self._protocol = ClientProtocol(WebSocketURI(False, "localhost", port, "/", ""), max_size=most_bytes,
                                        subprotocols=subprotocols or None)  # type: ignore[arg-type]
        self._waiting: list[Frame] = []
        self.closed_by: tuple[int, str] = (RESET, "")

    @property
    def subprotocol(self) -> str | None:
        return self._protocol.subprotocol

    async def shake_hands(self, target: str, headers: list[tuple[bytes, bytes]]) -> Response:
        """The program's answer, be it a refusal. Raises Problem guest_reset."""
        fields = Fields()
        for name, value in headers:
            if name not in OF_THE_HANDSHAKE:
                fields[name.decode("latin-1")] = value.decode("latin-1")
        for told, text in self._protocol.connect().headers.raw_items():
            if told.lower() != "host":
                fields[told] = text
        self._protocol.send_request(Request(target, fields))
        try:
            await self.flush()
            while (response := self._response(await self._heard())) is None:
                pass
        except (InvalidHandshake, ConnectionError, OSError) as error:
            raise Problem("guest_reset", f"It broke off in the handshake ({type(error).__name__}).") from None
        return response

    def _response(self, events: list[object]) -> Response | None:
        """What comes behind the response in the same bytes is kept for later."""
        refused = self._protocol.handshake_exc
        if isinstance(refused, InvalidStatus):
            return refused.response
        if refused is not None:
            raise refused
        self._waiting += [event for event in events if isinstance(event, Frame)]
        return next((event for event in events if isinstance(event, Response)), None)

    async def _heard(self) -> list[object]:
        data = await self._raw.read()
        if data:
            self._protocol.receive_data(data)
        else:
            self._protocol.receive_eof()
        await self.flush()  # pongs, and the echo of a close
        events: list[object] = list(self._protocol.events_received())
        if not data and not events and self._protocol.handshake_exc is None:
            raise ConnectionResetError("the program ended without a word")
        return events

    async def message(self) -> str | bytes | None:
        """The next whole message; None at its end, and then `closed_by` says how."""
        parts: list[bytes] = []
        text = False
        while True:
            while self._waiting:
                frame = self._waiting.pop(0)
                if frame.opcode is Opcode.CLOSE:
                    said = self._protocol.close_rcvd
                    self.closed_by = (said.code, said.reason) if said is not None else (NO_STATUS, "")
                    return None
                if frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
                    text = frame.opcode is Opcode.TEXT if frame.opcode is not Opcode.CONT else text
                    parts.append(bytes(frame.data))
                    if frame.fin:
                        whole = b"".join(parts)
                        return whole.decode() if text else whole
            try:
                events = await self._heard()
            except (ConnectionError, OSError):
                return None
            self._waiting += [event for event in events if isinstance(event, Frame)]
            if not self._waiting and self._protocol.close_sent is not None and self._protocol.close_rcvd is None:
                self.closed_by = (self._protocol.close_sent.code, "")  # too large, or no WebSocket any more
                return None

    async def send(self, message: str | bytes) -> None:
        if isinstance(message, str):
            self._protocol.send_text(message.encode())
        else:
            self._protocol.send_binary(message)
        await self.flush()

    async def close(self, code: int, reason: str) -> None:
        """The visitor's farewell; waits a moment for the program's."""
        try:
            async with asyncio.timeout(FAREWELL_S):
                self._protocol.send_close(None if code == NO_STATUS else code, reason)
                await self.flush()
                while await self._raw.read():
                    pass
        except (TimeoutError, ConnectionError, OSError):
            pass

    async def flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                await self._raw.write(data)
            else:
                self._raw.write_eof()


async def _inward(gate: Gate, socket: Socket, visit: Visit, program: Program) -> int | None:
    try:
        while (message := await socket.receive()) is not None:
            gate.activity.happened(visit.place.workspace_id, CAUSE)
            text = message.get("text")
            await program.send(text if text is not None else message["bytes"])
    except (ConnectionError, OSError):
        return RESET
    await program.close(*socket.closed_by)
    return None


async def _outward(socket: Socket, program: Program) -> int | None:
    try:
        while (message := await program.message()) is not None:
            if isinstance(message, str):
                await socket.send_text(message)
            else:
                await socket.send_bytes(message)
    except UnicodeDecodeError:
        return NOT_TEXT
    code, reason = program.closed_by
    await socket.close(1000 if code == NO_STATUS else code if code != 1006 else RESET, reason)
    return None


async def _until_over(gate: Gate, exchange: Exchange, outside: Outside, visit: Visit) -> int | None:
    return close_code(await until_over(gate, exchange, outside, visit))


def _bytes(fields: Fields) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1", "replace")) for name, value in fields.raw_items()]
