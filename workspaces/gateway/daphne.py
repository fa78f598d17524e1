"""Everything the gateway does not answer itself goes to Daphne over its Unix socket: pages, JSON, events.

Called by `app` and `waiting`. Daphne keeps whole bodies and has no backpressure, so nothing big may reach it:
a request's body is taken in here first, whole, small and in time, and only then forwarded; a slow client holds
no connection of Daphne's. Answers are streamed.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
from yarl import URL

from workspaces.api.errors import Problem
from workspaces.gateway import relay
from workspaces.gateway.config import Config
from workspaces.gateway.departure import Departure
from workspaces.gateway.exchange import Exchange, Headers
from workspaces.gateway.headers import HOP_BY_HOP, PRETENDED, named_by_connection

DROPPED_FROM_ANSWER = HOP_BY_HOP | {b"server", b"date"}
#: The handshake's own headers: the connection to Daphne makes its own.
OF_THE_HANDSHAKE = frozenset({b"sec-websocket-key", b"sec-websocket-version", b"sec-websocket-extensions",
                              b"sec-websocket-accept", b"sec-websocket-protocol"})


class Daphne:
    def __init__(self, config: Config) -> None:
        self._limits = config.limits
        self._session = aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(path=str(config.daphne_socket), limit=256, keepalive_timeout=30),
            timeout=aiohttp.ClientTimeout(total=None, connect=10, sock_read=300),
            cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        )

    async def close(self) -> None:
        await self._session.close()

    async def pass_on(self, exchange: Exchange, client: tuple[str, str], most_bytes: int) -> None:
        """The exchange answered by Daphne."""
        body = await exchange.body(most_bytes, self._limits.body_timeout_s)
        exchange.passed_on = True
        async with Departure(exchange.receive):
            response = await self.send(exchange.method, exchange.raw_target, headers_for(exchange, client), body)
        await relay.stream_out(exchange, response, answer_headers(response))

    async def send(self, method: str, target: str, headers: Headers, body: bytes) -> aiohttp.ClientResponse:
        """Daphne's answer, begun. A Daphne that is away is a 503 which says to come again."""
        try:
            return await self._session.request(
                method, URL(f"http://daphne{target}", encoded=True), data=body or None,
                headers=[(k.decode("latin-1"), v.decode("latin-1")) for k, v in headers], allow_redirects=False)
        except (aiohttp.ClientError, OSError, TimeoutError):
            raise away() from None

    async def json(self, method: str, target: str, headers: Headers, body: bytes = b""
                   ) -> tuple[int, Headers, bytes, Any]:
        """(status, headers, raw body, value) of a whole answer; value is None where it is no JSON."""
        response = await self.send(method, target, headers, body)
        try:
            raw = await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError):
            raise away() from None
        finally:
            response.release()
        try:
            value = json.loads(raw) if "json" in response.headers.get("Content-Type", "") else None
        except ValueError:
            value = None
        return response.status, answer_headers(response), raw, value

    async def socket(self, exchange: Exchange, client: tuple[str, str]) -> aiohttp.ClientWebSocketResponse:
        """A WebSocket to Daphne in the client's name. Raises what Daphne's refusal means."""
        headers = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in headers_for(exchange, client)
                   if k not in OF_THE_HANDSHAKE]
        try:
            async with asyncio.timeout(15):
                return await self._session.ws_connect(
                    URL(f"http://daphne{exchange.raw_target}", encoded=True), headers=headers,
                    max_msg_size=self._limits.socket_message_bytes, compress=0)
        except aiohttp.WSServerHandshakeError as error:
            codes = {401: "unauthenticated", 403: "forbidden", 404: "not_found"}
            raise Problem(codes.get(error.status, "unavailable"), "This socket was refused.") from None
        except (aiohttp.ClientError, OSError, TimeoutError):
            raise away() from None


def away() -> Problem:
    return Problem("unavailable", "This part of Berth is starting or restarting.", retry_after_s=2)


def headers_for(exchange: Exchange, client: tuple[str, str]) -> Headers:
    """The client's headers without what was for this hop, or pretended; who it really is, said anew."""
    dropped = HOP_BY_HOP | PRETENDED | named_by_connection(exchange.scope["headers"]) | {b"content-length", b"expect"}
    kept = [(k, v) for k, v in exchange.scope["headers"] if k not in dropped]
    address, scheme = client
    return [*kept, (b"x-forwarded-for", address.encode("latin-1")), (b"x-forwarded-proto", scheme.encode("latin-1")),
            (b"x-forwarded-host", (exchange.header(b"host") or "").encode("latin-1"))]


def answer_headers(response: aiohttp.ClientResponse) -> Headers:
    return [(k.lower(), v) for k, v in response.raw_headers if k.lower() not in DROPPED_FROM_ANSWER]
