"""One WebSocket over raw ASGI: accepted once or refused with a problem, closed once.

Made by `app`, used by terminals and by the way to Daphne's sockets. Knows no route.
"""

from __future__ import annotations

import json
from typing import Any

from workspaces.api.errors import Problem
from workspaces.api.errors import body as problem_body
from workspaces.gateway.exchange import SAFE, Headers, Receive, Send, problem_headers, refuse_split


class Socket:
    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self.accepted = False
        self.closed = False
        self.status = 0
        #: The client's own farewell, once it is gone.
        self.closed_by: tuple[int, str] = (1006, "")

    async def accept(self, subprotocol: str | None = None, headers: Headers | None = None) -> None:
        refuse_split(headers or [])
        self.accepted, self.status = True, 101
        await self._send({"type": "websocket.accept", "subprotocol": subprotocol, "headers": headers or []})

    async def refuse(self, problem: Problem) -> None:
        """Before accept: an ordinary HTTP answer, so that every client can read why."""
        value = problem_body(problem.code, problem.detail, **problem.extra)
        data = json.dumps(value).encode()
        headers = [(b"content-type", b"application/problem+json"), (b"content-length", b"%d" % len(data)),
                   *SAFE, *problem_headers(problem)]
        await self.answer(value["status"], headers, data)

    async def answer(self, status: int, headers: Headers, data: bytes) -> None:
        refuse_split(headers)
        self.closed, self.status = True, status
        await self._send({"type": "websocket.http.response.start", "status": status, "headers": headers})
        await self._send({"type": "websocket.http.response.body", "body": data, "more_body": False})

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None once the client is gone."""
        while True:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                self.closed = True
                self.closed_by = (message.get("code") or 1006, message.get("reason") or "")
                return None
            if message["type"] == "websocket.receive":
                return message

    async def receive_bytes(self) -> bytes | None:
        """The next message as bytes; text is taken as what it says, None once the client is gone."""
        message = await self.receive()
        if message is None:
            return None
        data: bytes | None = message.get("bytes")
        return data if data is not None else str(message.get("text") or "").encode()

    async def send_bytes(self, data: bytes) -> None:
        await self._send({"type": "websocket.send", "bytes": data})

    async def send_text(self, text: str) -> None:
        await self._send({"type": "websocket.send", "text": text})

    async def close(self, code: int, reason: str = "") -> None:
        if not self.closed:
            self.closed = True
            await self._send({"type": "websocket.close", "code": code, "reason": reason})
