"""Bytes from an upstream's answer to the client: flat memory, the client's pace, an honest end.

Called by the routes with an answer that has begun (`aiohttp.ClientResponse`). Each piece is handed to the
server before the next one is read, so a client that stalls stalls the guest, not this process. An answer that
breaks off is broken off towards the client too: it is never ended as if it were whole.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator, Callable

import aiohttp

from workspaces.api.errors import Problem
from workspaces.api.errors import body as problem_body
from workspaces.gateway.departure import Departure
from workspaces.gateway.exchange import SAFE, ClientGone, Exchange, Headers
from workspaces.gateway.headers import FROM_HOST_DROPPED, INERT
from workspaces.gateway.hostd import Call, Hostd, done_with


class BrokenOff(Exception):
    """The upstream ended before its answer did; the client's connection is cut to say so."""


def headers_of(response: aiohttp.ClientResponse, inert: bool) -> Headers:
    kept = [(k.lower(), v) for k, v in response.raw_headers if k.lower() not in FROM_HOST_DROPPED]
    return [*kept, *(INERT if inert else SAFE)]


async def answer_from(exchange: Exchange, response: aiohttp.ClientResponse, *, inert: bool = False,
                      moved: Callable[[], None] | None = None) -> None:
    """hostd's answer as ours. `inert`: bytes of a guest, which no browser may take for a page."""
    await stream_out(exchange, response, headers_of(response, inert), moved)


async def stream_out(exchange: Exchange, response: aiohttp.ClientResponse, headers: Headers,
                     moved: Callable[[], None] | None = None) -> None:
    try:
        async with Departure(exchange.receive):
            await exchange.begin(response.status, headers)
            async for piece in response.content.iter_any():
                await exchange.write(piece)
                if moved is not None:
                    moved()
            await exchange.write(b"", more=False)
    except (aiohttp.ClientError, ConnectionError) as error:
        raise BrokenOff(type(error).__name__) from None
    finally:
        done_with(response)


async def events_from(exchange: Exchange, response: aiohttp.ClientResponse) -> None:
    """Server-sent events. When the upstream breaks off, the client is told so in its own language."""
    headers = [*headers_of(response, inert=False), (b"x-accel-buffering", b"no")]
    try:
        await stream_out(exchange, response, headers)
    except BrokenOff:
        said = json.dumps(problem_body("host_unreachable", "The stream broke; ask again from the last offset.",
                                       retry_after_s=2))
        await exchange.write(f"\n\nevent: error\ndata: {said}\n\n".encode(), more=False)


class _Upload:
    """The client's body on its way down. What stopped it is kept: the HTTP client below only says that it failed."""

    def __init__(self, exchange: Exchange, idle_s: float, moved: Callable[[], None] | None) -> None:
        self._exchange, self._idle_s, self._moved = exchange, idle_s, moved
        self.stopped_by: BaseException | None = None

    async def pieces(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._exchange.pieces(self._idle_s):
                if self._moved is not None:
                    self._moved()
                yield piece
        except (ClientGone, Problem) as error:
            self.stopped_by = error
            raise


async def upload(hostd: Hostd, call: Call, exchange: Exchange, idle_s: float,
                 moved: Callable[[], None] | None = None) -> aiohttp.ClientResponse:
    """The client's body streamed into a call; nothing of it is kept here. Half a body is never taken for a whole."""
    if not exchange.has_body:
        return await hostd.send(dataclasses.replace(call, body=b""))
    body = _Upload(exchange, idle_s, moved)
    try:
        return await hostd.send(dataclasses.replace(call, body=body.pieces()))
    except Problem:
        if body.stopped_by is not None:
            raise body.stopped_by from None
        raise
