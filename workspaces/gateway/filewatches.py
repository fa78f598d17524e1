"""`/ws/v1/workspaces/{id}/files/watch?path=`: changes of a guest's files, as text frames of JSON.

Called by `routes`; hostd and the guest's agent watch, coalesce and bound. Looking is no use of a workspace: a sleeping
one is refused as `not_running` and sleeps on, and an open watch keeps none awake. What a client sends is not read.
Closed with 1000 after `gone` (the folder went), with 1012 when the guest rests or the host restarts: look anew then.
"""

from __future__ import annotations

import aiohttp

from workspaces.gateway.exchange import Exchange
from workspaces.gateway.execs import as_actor
from workspaces.gateway.gate import Gate
from workspaces.gateway.socket import Socket
from workspaces.gateway.sockets import LOST, permitted, until_first

READ = "files:read"


async def serve(gate: Gate, exchange: Exchange, socket: Socket, workspace_id: str) -> None:
    actor, place = await gate.enter(exchange, workspace_id, READ)
    with gate.sockets.one_of(str(actor.user_id)):
        upstream = await gate.hostd.terminal(f"{workspace_id}/files/watch", exchange.query_string,
                                             as_actor(actor, place))
        try:
            await socket.accept()
            await until_first(socket, _until_gone(socket), _outward(socket, upstream),
                              permitted(gate, exchange, place, READ))
        finally:
            await upstream.close()


async def _until_gone(socket: Socket) -> int | None:
    while await socket.receive() is not None:
        pass
    return None


async def _outward(socket: Socket, upstream: aiohttp.ClientWebSocketResponse) -> int | None:
    async for message in upstream:
        if message.type is aiohttp.WSMsgType.TEXT:
            await socket.send_text(message.data)
    return 1000 if upstream.close_code == 1000 else LOST
