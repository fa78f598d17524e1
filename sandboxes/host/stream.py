"""Server-sent events of one exec: `stdout` and `stderr` as they come, then `outcome`. Called by `app.py`.

    id: <next offset>          so that `Last-Event-ID` goes on where a broken connection stopped
    event: stdout
    data: {"data": base64, "offset": N, "next_offset": M}

Offsets count both streams together, in the order their bytes came.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncGenerator
from typing import TypeVar

from aiohttp import web

from sandboxes.host import http
from sandboxes.host.follow import Follower
from sandboxes.host.machines import Machines
from sandboxes.host.tape import STDOUT

COMMENT_S = 15.0
T = TypeVar("T")
HEADERS = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class StreamHttp:
    def __init__(self, machines: Machines) -> None:
        self._machines = machines

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/v1/machines/{mid}/execs/{eid}/stream", self.stream)]

    async def stream(self, request: web.Request) -> web.StreamResponse:
        query = http.Query(request)
        offset = _last_event_id(request, query.integer("offset", 0))
        query.done()
        execs, exec_id = self._machines.execs(request.match_info["mid"]), request.match_info["eid"]
        execs.record(exec_id)
        response = web.StreamResponse(headers=HEADERS)
        await response.prepare(request)
        async with contextlib.aclosing(with_silences(Follower(execs, exec_id, offset).pieces(), COMMENT_S)) as pieces:
            async for piece in pieces:
                await response.write(b": still here\n\n" if piece is None else output_event(*piece))
        record = execs.record(exec_id)
        await response.write(_event("outcome", (record.ended or {})["outcome"]))
        await response.write_eof()
        return response


def output_event(tag: int, at: int, data: bytes) -> bytes:
    name = "stdout" if tag == STDOUT else "stderr"
    following = at + len(data)
    said = {"data": base64.b64encode(data).decode(), "offset": at, "next_offset": following}
    return f"id: {following}\n".encode() + _event(name, said)


def _event(name: str, value: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(value, separators=(',', ':'))}\n\n".encode()


def _last_event_id(request: web.Request, offset: int) -> int:
    """A browser that reconnects asks for the same URL again: what it has since read is in the header, and wins."""
    said = request.headers.get("Last-Event-ID", "")
    return int(said) if said.isascii() and said.isdigit() and len(said) < 16 else offset


async def with_silences(items: AsyncGenerator[T, None], silence_s: float) -> AsyncGenerator[T | None, None]:
    """The items, and None whenever nothing came for `silence_s`. An item under way is never given up."""
    coming: asyncio.Future[T] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(items))
            done, _ = await asyncio.wait({coming}, timeout=silence_s)
            if not done:
                yield None
                continue
            result, coming = coming, None
            try:
                yield result.result()
            except StopAsyncIteration:
                return
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
        await items.aclose()
