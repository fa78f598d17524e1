"""The gateway: ONE pure ASGI app on the public port. Every request of everybody comes in here.

                      ┌─ a preview's name ─▶ hostd (whatever the guest's program says; before every other route)
                      ├─ own routes ──▶ hostd (execs, files, ports, metrics, terminals)
    uvicorn ──▶ app ──┼─ waiting ─────▶ Daphne, then a nudge, then Daphne again
                      └─ all else ────▶ Daphne (pages, JSON, events)

Called by uvicorn; calls `routes` and turns whatever a route raises into one problem+json answer. Knows no
route by name. Writes one access line per request, without query strings and without secrets.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from django.db import DatabaseError

from workspaces.api.errors import Problem
from workspaces.gateway import routes
from workspaces.gateway.config import Config
from workspaces.gateway.exchange import ClientGone, Exchange, Receive, Scope, Send
from workspaces.gateway.gate import Gate, close_gate, open_gate
from workspaces.gateway.headers import is_preview_host
from workspaces.gateway.mcp.endpoint import Mcp
from workspaces.gateway.passing import socket_to_daphne
from workspaces.gateway.previews import front
from workspaces.gateway.relay import BrokenOff
from workspaces.gateway.socket import Socket
from workspaces.gateway.sockets import close_code
from workspaces.gateway.upstairs import Upstairs

log = logging.getLogger("berth.gateway")
access_log = logging.getLogger("berth.gateway.access")


class App:
    def __init__(self, config: Config, upstairs: Upstairs | None = None) -> None:
        self._config = config
        self._upstairs = upstairs
        self._gate: Gate | None = None
        self._background: list[asyncio.Task[None]] = []

    @property
    def gate(self) -> Gate:
        assert self._gate is not None, "the lifespan opens the gate"
        return self._gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(Exchange(scope, receive, send))
        elif scope["type"] == "websocket":
            await self._websocket(Exchange(scope, receive, send), Socket(receive, send))

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self._gate, self._background = open_gate(self._config, self._upstairs or Upstairs())
        async with Mcp(self, self._config.limits.json_body_bytes).open() as self._gate.mcp:
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await close_gate(self._gate, self._background)
        await send({"type": "lifespan.shutdown.complete"})

    async def _http(self, exchange: Exchange) -> None:
        began = time.monotonic()
        try:
            with exchange.holds:
                await self._answered(exchange)
        except ClientGone:
            exchange.status = exchange.status or 499
        except BrokenOff as broken:
            log.warning("answer broken off: %s %s (%s)", exchange.method, exchange.path, broken)
        finally:
            self.gate.trail.note(exchange, self.gate.access.client(exchange)[0])
            access_log.info('%s "%s %s" %d %dms', exchange.actor_name, exchange.method, exchange.path,
                            exchange.status, (time.monotonic() - began) * 1000)

    async def _answered(self, exchange: Exchange) -> None:
        try:
            host = self._host(exchange)
            if is_preview_host(host, self._config.preview_domain):
                await front.serve(self.gate, exchange, host)
            else:
                await routes.find(exchange)(self.gate, exchange)
        except Problem as problem:
            await self._say(exchange, problem)
        except DatabaseError as error:
            log.warning("database: %s", type(error).__name__)
            await self._say(exchange, Problem("unavailable", "The database does not answer.", retry_after_s=2))
        except (ClientGone, BrokenOff, asyncio.CancelledError):
            raise
        except Exception:
            log.exception("failed at %s %s", exchange.method, exchange.path)
            await self._say(exchange, Problem("internal", "The gateway failed at this; its log says where."))

    async def _say(self, exchange: Exchange, problem: Problem) -> None:
        if exchange.answered:
            raise BrokenOff(problem.code)
        await exchange.problem(problem)

    def _host(self, exchange: Exchange) -> str:
        """Whom it is for. Requests that no route should ever see, of no or several names, end here."""
        hosts = [v for k, v in exchange.scope["headers"] if k == b"host"]
        if len(hosts) != 1 or sum(k == b"authorization" for k, _v in exchange.scope["headers"]) > 1:
            raise Problem("malformed", "Exactly one Host and at most one Authorization header.")
        return str(hosts[0].decode("latin-1"))

    async def _websocket(self, exchange: Exchange, socket: Socket) -> None:
        await exchange.receive()  # the connect message
        try:
            await self._connected(exchange, socket)
        except Problem as problem:
            exchange.refusal = problem.code
            await self._end(socket, problem)
        except DatabaseError:
            await self._end(socket, Problem("unavailable", "The database does not answer.", retry_after_s=2))
        finally:
            self.gate.trail.note(exchange, self.gate.access.client(exchange)[0], socket_status=socket.status)
            access_log.info('%s "WS %s" %d', exchange.actor_name, exchange.path, socket.status)

    async def _connected(self, exchange: Exchange, socket: Socket) -> None:
        host = self._host(exchange)
        if is_preview_host(host, self._config.preview_domain):
            await front.serve_socket(self.gate, exchange, socket, host)
            return
        own = routes.find_socket(exchange)
        if own is not None:
            await own(self.gate, exchange, socket)
            return
        events = routes.EVENTS.match(exchange.path)
        if events is None:
            await self.gate.admit(exchange)  # only somebody who is known learns that there is none
            raise Problem("not_found", "There is no socket here.")
        await socket_to_daphne(self.gate, exchange, socket, events["workspace"])

    async def _end(self, socket: Socket, problem: Problem) -> None:
        if socket.accepted:
            await socket.close(close_code(problem))
        elif not socket.closed:
            await socket.refuse(problem)


def application(config: Config) -> Any:
    return App(config)
