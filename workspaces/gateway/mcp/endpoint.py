"""POST /mcp: who asks, from which page, and for which workspace; then the SDK's transport. Called by `routes`.

Stateless: no session is kept here, so a request may meet any process, each one is judged anew (a revoked token is
refused at its next request), and there is nothing to clean up when a client goes. Only Bearer tokens count: a page that
somebody tricked a browser into opening has none, and its Host or Origin is refused besides.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from workspaces.actors import Actor
from workspaces.api.errors import Problem
from workspaces.gateway.access import bearer_of
from workspaces.gateway.exchange import Exchange, Message
from workspaces.gateway.mcp.inside import App, Inside
from workspaces.gateway.mcp.server import SESSION, make_server
from workspaces.gateway.mcp.tool import Session

if TYPE_CHECKING:
    from workspaces.gateway.gate import Gate

PIN_HEADER = b"berth-workspace"


class Mcp:
    def __init__(self, app: App, body_bytes: int) -> None:
        self._app = app
        self._transport = StreamableHTTPSessionManager(make_server(), stateless=True, max_request_body_size=body_bytes)

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Mcp]:
        async with self._transport.run():
            yield self

    async def answer(self, exchange: Exchange, actor: Actor, pin: str | None, body: bytes) -> None:
        session = Session(Inside(self._app, exchange.scope), actor, pin)
        await self._transport.handle_request({**exchange.scope, SESSION: session}, _again(exchange, body),
                                             _noting_status(exchange))


async def serve(gate: Gate, exchange: Exchange) -> None:
    gate.access.refuse_strange_origin(exchange)
    if bearer_of(exchange) is None:
        raise Problem("unauthenticated", "Send a token: `Authorization: Bearer …`.")
    actor = await gate.admit(exchange)
    if exchange.method != "POST":
        raise Problem("method_not_allowed", "Nothing is kept between two requests: there is only POST.", allow="POST")
    pin = pin_of(exchange, actor)
    if pin is not None:
        await gate.access.place(actor, pin)
    limits = gate.config.limits
    body = await exchange.body(limits.json_body_bytes, limits.body_timeout_s)
    assert gate.mcp is not None, "the lifespan opens it"
    await gate.mcp.answer(exchange, actor, pin, body)


def pin_of(exchange: Exchange, actor: Actor) -> str | None:
    """The one workspace of this session: named in the address or a header, or the only one that the token may see."""
    named = {word for word in (exchange.query.get("workspace"), exchange.header(PIN_HEADER)) if word}
    if len(named) > 1:
        raise Problem("invalid", "The address and the header name different workspaces.",
                      errors={"workspace": ["One workspace."]})
    if named:
        return named.pop()
    ids = actor.workspace_ids
    return next(iter(ids)) if ids is not None and len(ids) == 1 else None


def _again(exchange: Exchange, body: bytes) -> Any:
    """The body, which was read here already, then whatever the client does next."""
    given = False

    async def receive() -> Message:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await exchange.receive()
    return receive


def _noting_status(exchange: Exchange) -> Any:
    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            await exchange.begin(message["status"], list(message["headers"]))
        else:
            await exchange.write(message.get("body", b""), message.get("more_body", False))
    return send
