"""The one border between errors and HTTP, and how requests are read. Called by every handler of hostd.

`SandboxError` becomes its JSON with a status; anything else becomes 500 `internal`, with nothing of it in the body.
Callers read `code` alone. It never knows what a handler does.
"""

from __future__ import annotations

import asyncio
import json
import select
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

from aiohttp import web

from sandboxes.errors import AgentLost, Invalid, SandboxError
from sandboxes.guest.linkstream import LinkStream
from sandboxes.host import log

BODY_BYTES = 2 * 1024 * 1024
PIECE_BYTES = 64 * 1024
WAIT_S_MAX = 300.0
LOOK_S = 2.0
#: How long a guest may take none of what is sent to it.
STALL_S = 600.0

T = TypeVar("T")

STATUS = {
    "invalid": 400, "malformed": 400, "name_too_long": 400, "permission_denied": 403, "forbidden": 403,
    "not_found": 404, "file_not_found": 404, "method_not_allowed": 405, "precondition_failed": 412, "too_large": 413,
    "range_not_satisfiable": 416, "internal": 500, "step_failed": 500, "agent_lost": 502,
    "preview_not_listening": 502, "guest_reset": 502, "preview_timeout": 504,
    "no_capacity": 503, "host_unreachable": 503, "guest_disk_full": 507, "disk_full": 507,
}
CONFLICT = 409  # every other code says that the state of things refused

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def reply(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    body = json.dumps(value, separators=(",", ":")).encode()
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")


def error_reply(error: SandboxError) -> web.Response:
    headers = {}
    if (range_header := error.extra.get("content_range")) is not None:
        headers["Content-Range"] = str(range_header)
    return reply(error.to_json(), STATUS.get(error.code, CONFLICT), headers)


@web.middleware
async def border(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except SandboxError as error:
        return error_reply(error)
    except web.HTTPException as error:
        return _foreign(error)
    except (ConnectionResetError, asyncio.CancelledError):
        raise
    except Exception as error:
        if request.transport is None or request.transport.is_closing():
            log.line("http.client_gone", method=request.method, path=request.path)
            raise
        log.failure("http.internal", error, method=request.method, path=request.path)
        return reply({"code": "internal", "detail": "hostd failed at this; its log says where"}, 500)


def _foreign(error: web.HTTPException) -> web.Response:
    """aiohttp's own refusals (no such route, wrong method, body too large), in our shape."""
    code = {404: "not_found", 405: "method_not_allowed", 413: "too_large"}.get(error.status, "malformed")
    headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
    return reply({"code": code, "detail": error.reason}, error.status, headers)


async def json_body(request: web.Request) -> Any:
    """The body as JSON. Raises `too_large` above 2 MiB and `malformed` for what is not JSON."""
    if (request.content_length or 0) > BODY_BYTES:
        raise Invalid(f"a JSON body holds at most {BODY_BYTES} bytes", code="too_large")
    data = await request.read()
    try:
        return json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Invalid("the body is not JSON", code="malformed") from error


def _no_constant(name: str) -> Any:
    raise ValueError(name)


async def while_connected(request: web.Request, work: Coroutine[Any, Any, T]) -> T:
    """What the work gives, for work that may wait for a guest as long as it likes. The connection is not read from
    meanwhile, so nobody else would notice that the client went, and each that did would stay here for ever."""
    doing = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait({doing}, timeout=LOOK_S))[0]:
            if _hung_up(request):
                raise ConnectionResetError("the client went")
        return doing.result()
    finally:
        doing.cancel()
        await asyncio.gather(doing, return_exceptions=True)


async def pour(request: web.Request, stream: LinkStream) -> dict[str, Any]:
    """The body into the guest, piece by piece, and what came of it. Ends when the client goes (see above), and when
    the guest takes nothing for STALL_S. A client that goes away leaves the stream cancelled and the old file whole."""
    return await while_connected(request, _poured(request, stream))


async def _poured(request: web.Request, stream: LinkStream) -> dict[str, Any]:
    try:
        async for data in request.content.iter_chunked(PIECE_BYTES):
            async with asyncio.timeout(STALL_S):
                await stream.write(data)
        async with asyncio.timeout(STALL_S):
            await stream.write_eof()
            return await stream.result()
    except TimeoutError as error:
        raise AgentLost(f"{stream.method}: the guest took nothing for {STALL_S:g} s") from error


def _hung_up(request: web.Request) -> bool:
    """Asked of the kernel: a transport whose reading is paused does not see an end."""
    transport = request.transport
    if transport is None or transport.is_closing():
        return True
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), select.POLLRDHUP | select.POLLHUP)
    return bool(poll.poll(0))


def closed_both_ways(transport: asyncio.Transport) -> bool:
    """Of a connection whose own sending side is still open: the other end is gone, and has not just said its last."""
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), select.POLLHUP)
    return bool(poll.poll(0))


def actor_of(request: web.Request) -> dict[str, str]:
    """Header `Berth-Actor`. It names and never decides, so what cannot be read is "unknown"."""
    try:
        value = json.loads(request.headers.get("Berth-Actor", ""))
        return {"type": str(value["type"])[:32], "name": str(value["name"])[:200]}
    except (ValueError, KeyError, TypeError):
        return {"type": "system", "name": "unknown"}


class Query:
    """The raw query string: names and values are bytes, because file names are. Unknown names are refused by `done`."""

    def __init__(self, request: web.Request) -> None:
        raw = request.raw_path.partition("?")[2].partition("#")[0]
        self._values: dict[str, bytes] = {}
        self._asked: set[str] = set()
        for pair in raw.split("&"):
            name, _, value = pair.partition("=")
            if name:
                self._values[_unquote(name).decode(errors="replace")] = _unquote(value)

    def raw(self, name: str) -> bytes | None:
        self._asked.add(name)
        return self._values.get(name)

    def text(self, name: str, default: str | None = None) -> str | None:
        value = self.raw(name)
        if value is None:
            return default
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise _bad(name, "not UTF-8") from error

    def choice(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        value = self.text(name, default)
        if value not in allowed:
            raise _bad(name, f"one of {', '.join(allowed)}")
        return value

    def flag(self, name: str) -> bool:
        return self.choice(name, ("true", "false"), "false") == "true"

    def integer(self, name: str, default: int, *, low: int = 0, high: int = 2**53) -> int:
        value = self.text(name)
        if value is None:
            return default
        if not (value.isascii() and value.isdigit() and len(value) < 20 and low <= int(value) <= high):
            raise _bad(name, f"a whole number from {low} to {high}")
        return int(value)

    def seconds(self, name: str, default: float, high: float = WAIT_S_MAX) -> float:
        value = self.text(name)
        if value is None:
            return default
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0 <= number <= high:
            raise _bad(name, f"seconds from 0 to {high:g}")
        return number

    def done(self) -> None:
        if unknown := sorted(set(self._values) - self._asked):
            raise Invalid("unknown parameter", errors={name: "unknown parameter" for name in unknown})


def _unquote(text: str) -> bytes:
    return unquote_to_bytes(text.replace("+", " ").encode("utf-8", "surrogateescape"))


def _bad(name: str, expected: str) -> Invalid:
    return Invalid(f"{name}: {expected}", errors={name: expected})
