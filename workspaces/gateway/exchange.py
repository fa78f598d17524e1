"""One HTTP request and its one answer, over raw ASGI.

Made by `app`, used by every route; calls only the ASGI server's `receive` and `send`. Knows HTTP, not what
is asked for. Two promises are kept here: a body is never read beyond its limit, and an answer is begun once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any
from urllib.parse import parse_qsl

from workspaces.actors import Actor
from workspaces.api.errors import Problem
from workspaces.api.errors import body as problem_body

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Scope = dict[str, Any]
Headers = list[tuple[bytes, bytes]]


SPLITS = re.compile(rb"[\r\n\0]")


class ClientGone(Exception):
    """The client closed its connection. Nobody is left to answer."""


class Exchange:
    """`actor_name` and `status` are filled in on the way, for the access log."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.receive = receive
        self._send = send
        self.method: str = scope.get("method", "GET")
        self.path: str = scope["path"]
        self.status = 0
        self.actor_name = "-"
        #: For the audit: who it was, why it was refused, and what else to keep (never a secret or a command).
        self.actor: Actor | None = None
        self.refusal = ""
        self.glass = False
        self.passed_on = False
        self.noted: dict[str, Any] = {}
        self.body_touched = False
        #: What this exchange holds until it is over (its actor's slot).
        self.holds = contextlib.ExitStack()
        self._body_done = False
        self._query: dict[str, str] | None = None

    # what was asked

    def header(self, name: bytes) -> str | None:
        """The first value of a header; names are lower case already."""
        for key, value in self.scope["headers"]:
            if key == name:
                return str(value.decode("latin-1"))
        return None

    @property
    def raw_target(self) -> str:
        """Path and query exactly as the client spelled them."""
        raw: bytes = self.scope.get("raw_path") or self.path.encode()
        query: bytes = self.scope.get("query_string", b"")
        return (raw + b"?" + query if query else raw).decode("latin-1")

    @property
    def query_string(self) -> str:
        return str(self.scope.get("query_string", b"").decode("latin-1"))

    @property
    def query(self) -> dict[str, str]:
        if self._query is None:
            self._query = dict(parse_qsl(self.query_string, keep_blank_values=True))
        return self._query

    @property
    def declared_length(self) -> int | None:
        value = self.header(b"content-length")
        return int(value) if value is not None and value.isdigit() else None

    @property
    def has_body(self) -> bool:
        return bool(self.declared_length) or self.header(b"transfer-encoding") is not None

    # its body

    async def pieces(self, idle_s: float, limit_bytes: int | None = None) -> AsyncIterator[bytes]:
        """The body as it comes; the client is not read from while a piece is being dealt with."""
        total = 0
        self.body_touched = True
        while not self._body_done:
            try:
                async with asyncio.timeout(idle_s):
                    message = await self.receive()
            except TimeoutError:
                raise Problem("request_timeout", "The body came too slowly.") from None
            if message["type"] == "http.disconnect":
                raise ClientGone
            self._body_done = not message.get("more_body", False)
            piece: bytes = message.get("body", b"")
            total += len(piece)
            if limit_bytes is not None and total > limit_bytes:
                raise too_large(limit_bytes)
            if piece:
                yield piece

    async def body(self, limit_bytes: int, timeout_s: float) -> bytes:
        """The whole body, when it is small and comes in time."""
        declared = self.declared_length
        if declared is not None and declared > limit_bytes:
            raise too_large(limit_bytes)
        if not self.has_body:
            return b""
        try:
            async with asyncio.timeout(timeout_s):
                return b"".join([piece async for piece in self.pieces(timeout_s, limit_bytes)])
        except TimeoutError:
            raise Problem("request_timeout", "The body came too slowly.") from None

    async def json_object(self, limit_bytes: int, timeout_s: float) -> dict[str, Any]:
        """A JSON object, or the problem that says why it is none. An empty body reads as `{}`."""
        raw = await self.body(limit_bytes, timeout_s)
        if not raw.strip():
            return {}
        try:
            value = json.loads(raw)
        except (ValueError, RecursionError):
            raise Problem("malformed", "The body is not JSON.") from None
        if not isinstance(value, dict):
            raise Problem("invalid", "The body must be a JSON object.", errors={"body": ["Must be an object."]})
        return value

    # its answer

    @property
    def answered(self) -> bool:
        return self.status != 0

    async def begin(self, status: int, headers: Headers) -> None:
        refuse_split(headers)
        self.status = status
        if not self._body_done and self.has_body and self.body_touched:
            headers = [*headers, (b"connection", b"close")]  # the rest of that body is not wanted
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, data: bytes, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    async def answer(self, status: int, data: bytes, content_type: bytes, extra: Iterable[tuple[bytes, bytes]] = ()
                     ) -> None:
        headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(data)), *SAFE, *extra]
        await self.begin(status, headers)
        await self.write(data, more=False)

    async def json(self, status: int, value: Any, extra: Iterable[tuple[bytes, bytes]] = ()) -> None:
        await self.answer(status, json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"),
                          b"application/json", extra)

    async def problem(self, problem: Problem, extra: Iterable[tuple[bytes, bytes]] | None = None) -> None:
        self.refusal = problem.code
        value = problem_body(problem.code, problem.detail, **problem.extra)
        await self.answer(value["status"], json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"),
                          b"application/problem+json", problem_headers(problem) if extra is None else extra)


#: On everything the gateway says itself: no sniffing, no cache, no address of ours to others.
SAFE: Headers = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"),
                 (b"referrer-policy", b"same-origin")]


def refuse_split(headers: Headers) -> None:
    """The server below writes headers as they are: a line break in one would begin a header, or an answer, of its own.
    Nothing is sent then; the caller answers with `internal`, and the log says where."""
    for name, value in headers:
        if SPLITS.search(name) or SPLITS.search(value):
            raise ValueError(f"a line break in the header {name!r}")


def too_large(limit_bytes: int) -> Problem:
    return Problem("too_large", f"At most {limit_bytes} bytes are taken here.", limit_bytes=limit_bytes)


def problem_headers(problem: Problem) -> Headers:
    headers: Headers = []
    wait = problem.extra.get("retry_after_s")
    if isinstance(wait, int | float) and math.isfinite(wait):
        headers.append((b"retry-after", b"%d" % max(1, round(wait))))
    if "content_range" in problem.extra:
        headers.append((b"content-range", str(problem.extra["content_range"]).encode("ascii")))
    if problem.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="berth"'))
    if "allow" in problem.extra:
        headers.append((b"allow", str(problem.extra["allow"]).encode("ascii")))
    return headers
