"""The one border between errors and HTTP, and how requests are read. Called by every handler of hostd.

`SandboxError` becomes its JSON with a status; anything else becomes 500 `internal`, with nothing of it in the body.
Callers read `code` alone. It never knows what a handler does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote_to_bytes

from aiohttp import web

from sandboxes.errors import Invalid, SandboxError
from sandboxes.host import log

BODY_BYTES = 2 * 1024 * 1024
WAIT_S_MAX = 300.0

STATUS = {
    "invalid": 400, "malformed": 400, "name_too_long": 400, "permission_denied": 403, "forbidden": 403,
    "not_found": 404, "file_not_found": 404, "method_not_allowed": 405, "precondition_failed": 412, "too_large": 413,
    "range_not_satisfiable": 416, "internal": 500, "step_failed": 500, "agent_lost": 502,
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
