"""`/ws/v1/workspaces/{id}/terminals/{eid}`: frames between a browser and a terminal in the guest.

Called by `app`. The bytes touch neither database nor Redis: client ⇄ here ⇄ hostd ⇄ agent. A frame is handed on
before the next is read, in both directions, so nothing piles up here; the client's own window (type 4 frames)
and the keyboard lease (type 5) are hostd's. While the socket is open, whether it may be is asked again.

Close codes: 1000 the exec ended (the outcome frame came before), 1009 a frame too large, 1012 the host or this
gateway restarts (come again with the last offset), 4401 credentials ended, 4403 not allowed any more,
4404 the workspace is gone for you, 4409 the workspace cannot run, 4429 too many sockets, 4503 come again later.
"""

from __future__ import annotations

import aiohttp

from workspaces.actors import Actor
from workspaces.api.errors import Problem
from workspaces.gateway.exchange import Exchange
from workspaces.gateway.execs import as_actor, must_operate
from workspaces.gateway.gate import Gate
from workspaces.gateway.held import explained
from workspaces.gateway.socket import Socket
from workspaces.gateway.sockets import LOST, permitted, until_first
from workspaces.gateway.upstairs import Place

INPUT = 0
FLOW = 4
LARGEST_FRAME_BYTES = 256 * 1024
CAUSE = "terminal"


async def serve(gate: Gate, exchange: Exchange, socket: Socket, workspace_id: str, exec_id: str) -> None:
    actor, place = await gate.enter(exchange, workspace_id, "exec")
    with gate.sockets.one_of(str(actor.user_id)):
        upstream = await connect(gate, exchange, actor, place, exec_id)
        try:
            await socket.accept()
            await until_first(socket, _inward(gate, socket, place, upstream), outward(socket, upstream),
                              permitted(gate, exchange, place, "exec"))
        finally:
            await upstream.close()


async def connect(gate: Gate, exchange: Exchange, actor: Actor, place: Place, exec_id: str
                  ) -> aiohttp.ClientWebSocketResponse:
    """The terminal at hostd. One whose exec has ended is shown without waking anything for it."""
    path = f"{place.workspace_id}/execs/{exec_id}/terminal"

    async def ask() -> aiohttp.ClientWebSocketResponse:
        return await gate.hostd.terminal(path, exchange.query_string, as_actor(actor, place))
    try:
        return await ask()
    except Problem as problem:
        if problem.code != "not_running":
            raise await explained(gate, place.workspace_id, exec_id, problem) from None
    must_operate(place)
    return await gate.wake.then(actor, place, CAUSE, gate.config.limits.wake_timeout_s, ask)


async def _inward(gate: Gate, socket: Socket, place: Place, upstream: aiohttp.ClientWebSocketResponse) -> int | None:
    """Client to guest. A viewer's keystrokes and sizes stop here already; hostd would not take them either."""
    try:
        while (frame := await socket.receive_bytes()) is not None:
            if not frame:
                continue
            if len(frame) > LARGEST_FRAME_BYTES:
                return 1009
            if frame[0] != FLOW and not place.may_operate:
                continue
            if frame[0] == INPUT:
                gate.activity.happened(place.workspace_id, CAUSE)
            await upstream.send_bytes(frame)
    except (aiohttp.ClientError, ConnectionError):
        return LOST
    return None


async def outward(socket: Socket, upstream: aiohttp.ClientWebSocketResponse) -> int:
    """Guest to client. Only hostd's own 1000 is an end; everything else asks the client to come again."""
    async for message in upstream:
        if message.type is aiohttp.WSMsgType.BINARY:
            await socket.send_bytes(message.data)
        elif message.type is aiohttp.WSMsgType.ERROR:
            return LOST
    return 1000 if upstream.close_code == 1000 else LOST
