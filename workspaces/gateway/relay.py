"""Bytes from an upstream's answer to the client: flat memory, the client's pace, an honest end.

Called by the routes with an answer that has begun (`aiohttp.ClientResponse`). Each piece is handed to the
server before the next one is read, so a client that stalls stalls the guest, not this process. An answer that
breaks off is broken off towards the client too: it is never ended as if it were whole.
"""

from __future__ import annotations

from collections.abc import Callable

import aiohttp

from workspaces.gateway.departure import Departure
from workspaces.gateway.exchange import SAFE, Exchange, Headers
from workspaces.gateway.headers import FROM_HOST_DROPPED, INERT

PIECE_BYTES = 256 * 1024


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
        response.release() if response.content.at_eof() else response.close()
