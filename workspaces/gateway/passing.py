"""What is not the gateway's own: requests and sockets handed to Daphne, each client within its bound.

Called by `routes`, `waiting` and `app`; calls `daphne`. Knows who a client is only as far as fairness needs it.
"""

from __future__ import annotations

import asyncio
import hashlib

import aiohttp
from django.conf import settings

from workspaces.api.errors import Problem
from workspaces.gateway.access import cookies_of
from workspaces.gateway.exchange import Exchange
from workspaces.gateway.gate import Gate
from workspaces.gateway.socket import Socket
from workspaces.gateway.sockets import LOST

LONGEST_NUMBER = 15
LARGEST_TEXT, TOO_LARGE = 64 * 1024, 1009


async def to_daphne(gate: Gate, exchange: Exchange) -> None:
    client = gate.access.client(exchange)
    await gate.count(exchange)
    with gate.daphne_requests.one_of(holder_of(exchange, client[0])):
        await gate.daphne.pass_on(exchange, client, await most_bytes(gate, exchange))


async def most_bytes(gate: Gate, exchange: Exchange) -> int:
    """How large a body may be: what a stranger sends is kept here before anybody asked who it is, so it is small. To
    sign in needs little, and so do the admin's forms (whose CSRF token is in the body, so they count as strange)."""
    known, strange = gate.config.limits.json_body_bytes, gate.config.limits.stranger_body_bytes
    if not exchange.has_body or (exchange.declared_length or known) <= strange:
        return min(known, strange)
    try:
        await gate.access.actor(exchange)
    except Problem:
        return min(known, strange)
    return known


def holder_of(exchange: Exchange, address: str) -> str:
    """One name per credential, so that a person behind a shared address is not held for the others."""
    said = exchange.header(b"authorization") or cookies_of(exchange).get(settings.SESSION_COOKIE_NAME)
    return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest() if said else address


async def socket_to_daphne(gate: Gate, exchange: Exchange, socket: Socket, workspace_id: str | None) -> None:
    """Events. Who may open it and see what, is judged here (credentials, Origin, whose) and there (every batch).

    Daphne can refuse a socket only with a bare 403, so what has another name is refused here.
    """
    actor = await gate.admit(exchange)
    if workspace_id is not None:
        await gate.access.place(actor, workspace_id)
        after = exchange.query.get("after", "0")
        if not (after.isascii() and after.isdigit() and len(after) <= LONGEST_NUMBER):
            raise Problem("invalid", "after is a whole number.", errors={"after": ["A whole number."]})
    with gate.sockets.one_of(str(actor.user_id)):
        upstream = await gate.daphne.socket(exchange, gate.access.client(exchange))
        try:
            await socket.accept()
            code = await _carry(socket, upstream)
            if code is not None:
                await socket.close(code)
        finally:
            await upstream.close()


async def _carry(socket: Socket, upstream: aiohttp.ClientWebSocketResponse) -> int | None:
    tasks = [asyncio.ensure_future(work) for work in (_down(socket, upstream), _up(socket, upstream))]
    try:
        done, _pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(iter(done)).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _down(socket: Socket, upstream: aiohttp.ClientWebSocketResponse) -> int | None:
    try:
        while (message := await socket.receive()) is not None:
            if len(message.get("text") or "") > LARGEST_TEXT:
                return TOO_LARGE
            if message.get("text") is not None:
                await upstream.send_str(message["text"])
    except (aiohttp.ClientError, ConnectionError):
        return LOST
    return None


async def _up(socket: Socket, upstream: aiohttp.ClientWebSocketResponse) -> int:
    async for message in upstream:
        if message.type is aiohttp.WSMsgType.TEXT:
            await socket.send_text(message.data)
        elif message.type is aiohttp.WSMsgType.ERROR:
            return LOST
    code = upstream.close_code
    return code if code is not None and (code == 1000 or 4000 <= code < 5000) else LOST
