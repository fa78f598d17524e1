"""Requests of the public API made from inside the process: the gateway's own ASGI app, called as a server would.

Made by `endpoint` for one HTTP request to /mcp, used by the tools. The caller's token and address go along; nothing
else of theirs does. An inner request is a client of its own: when the outer one is given up, it sees a client that has
gone away, and does what REST does then (a command runs on, a change is made or not made, never half).
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from workspaces.api.errors import body as problem_body
from workspaces.gateway.exchange import Message, Receive, Scope, Send

App = Callable[[Scope, Receive, Send], Coroutine[Any, Any, None]]
Headers = dict[str, str]

#: Of the outer request: who asks, and where from. Cookies and the rest stay outside.
TAKEN_ALONG = frozenset({b"host", b"authorization", b"user-agent", b"x-forwarded-for", b"x-forwarded-proto"})
#: An answer that is to be taken whole has at most so many bytes.
WHOLE_BYTES = 12 * 1024 * 1024
PIECE_BYTES = 256 * 1024

_running: set[asyncio.Task[None]] = set()  # a task nobody refers to may be collected in the middle


class Refused(Exception):
    """The API answered with a problem: its problem+json object."""

    def __init__(self, problem: dict[str, Any]) -> None:
        super().__init__(str(problem.get("code")))
        self.problem = problem


def refusal(code: str, detail: str, **extra: Any) -> Refused:
    """A problem that a tool found by itself, in the same words."""
    return Refused(problem_body(code, detail, **extra))


@dataclass
class Reply:
    status: int
    headers: dict[bytes, bytes]
    body: bytes
    cut: bool       # there was more than what was asked for

    def header(self, name: str) -> str | None:
        value = self.headers.get(name.lower().encode("latin-1"))
        return None if value is None else value.decode("latin-1")

    def json(self) -> dict[str, Any]:
        try:
            value = json.loads(self.body) if self.body else {}
        except ValueError:
            value = None
        if not isinstance(value, dict) or self.cut:
            raise refusal("internal", "The answer was not what it should be.")
        return value


@dataclass
class _Answer:
    """What the app sends, as far as it is wanted."""

    most_bytes: int
    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    pieces: list[bytes] = field(default_factory=list)
    size: int = 0
    full: asyncio.Event = field(default_factory=asyncio.Event)
    ended: bool = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {k.lower(): v for k, v in message["headers"]}
            return
        self.ended = not message.get("more_body", False)
        if message.get("body"):
            self.pieces.append(message["body"][: self.most_bytes + 1 - self.size])
            self.size += len(self.pieces[-1])
            if self.size > self.most_bytes:
                self.full.set()
                await asyncio.Event().wait()  # as a client that reads no further; it hangs up at once

    def reply(self) -> Reply:
        """An answer that broke off is none: half a file is never taken for a whole one."""
        if not self.ended and not self.full.is_set():
            raise refusal("host_unreachable", "The answer broke off.", retry_after_s=2)
        body = b"".join(self.pieces)
        return Reply(self.status, self.headers, body[: self.most_bytes], len(body) > self.most_bytes)


class Inside:
    def __init__(self, app: App, outer: Scope) -> None:
        self._app = app
        self._outer = outer

    async def get(self, path: str, query: str = "") -> dict[str, Any]:
        return (await self.ask("GET", path, query)).json()

    async def post(self, path: str, value: dict[str, Any] | None = None, query: str = "",
                   headers: Headers | None = None) -> dict[str, Any]:
        said = json.dumps(value or {}).encode()
        return (await self.ask("POST", path, query, said, {"content-type": "application/json", **(headers or {})})
                ).json()

    async def ask(self, method: str, path: str, query: str = "", body: bytes = b"", headers: Headers | None = None,
                  most_bytes: int = WHOLE_BYTES) -> Reply:
        """The answer, at most so much of it. Raises `Refused` for a problem."""
        answer, gone = _Answer(most_bytes), asyncio.Event()
        scope = self._scope(method, path, query, body, headers or {})
        task = asyncio.get_running_loop().create_task(self._app(scope, _receiver(body, gone), answer.send))
        _running.add(task)
        task.add_done_callback(_over)
        full = asyncio.ensure_future(answer.full.wait())
        try:
            await asyncio.wait({task, full}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            full.cancel()
            gone.set()
            if answer.full.is_set():
                task.cancel()
        return _sound(answer.reply())

    def _scope(self, method: str, path: str, query: str, body: bytes, headers: Headers) -> Scope:
        kept = [(k, v) for k, v in self._outer["headers"] if k in TAKEN_ALONG]
        said = [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in headers.items()]
        if body or method in ("POST", "PUT"):
            said.append((b"content-length", b"%d" % len(body)))
        return {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1",
                "method": method, "scheme": self._outer["scheme"], "path": path, "raw_path": path.encode(),
                "query_string": query.encode("ascii"), "root_path": "", "headers": [*kept, *said],
                "client": self._outer.get("client"), "server": self._outer.get("server")}


def _receiver(body: bytes, gone: asyncio.Event) -> Receive:
    """The body in pieces, then silence until the client is gone."""
    left = deque(range(0, max(len(body), 1), PIECE_BYTES))

    async def receive() -> Message:
        if left and not gone.is_set():
            at = left.popleft()
            return {"type": "http.request", "body": body[at: at + PIECE_BYTES], "more_body": bool(left)}
        await gone.wait()
        return {"type": "http.disconnect"}
    return receive


def _sound(reply: Reply) -> Reply:
    if reply.status < 400:
        return reply
    try:
        problem = json.loads(reply.body)
        problem["code"]
    except (ValueError, KeyError, TypeError):
        raise refusal("internal", f"Refused ({reply.status}) without saying why.") from None
    raise Refused(problem)


def _over(task: asyncio.Task[None]) -> None:
    _running.discard(task)
    if not task.cancelled():
        task.exception()  # an answer that was broken off; the app has logged why
