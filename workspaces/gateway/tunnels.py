"""`…/ports`: what listens in a guest; `/ws/v1/workspaces/{id}/ports/{port}/tunnel`: raw TCP to it in binary frames.

Called by `routes`. Bytes go client ⇄ here ⇄ hostd ⇄ agent ⇄ 127.0.0.1 in the guest; a piece is handed on before the
next is read, both ways, so the slower end sets the pace. An *empty* binary frame is the end of a direction, both ways:
TCP's half-close. A tunnel wakes its workspace, and what a client sends through it is use of it. The list is neither.

Close codes: 1000 both directions have ended, 1003 text was sent, 1009 a frame too large, 4502 the program in the guest
broke off (`guest_reset`), and those of `sockets`.
"""

from __future__ import annotations

import asyncio

from workspaces.api.errors import Problem
from workspaces.gateway import rawhost, relay
from workspaces.gateway.exchange import Exchange
from workspaces.gateway.execs import as_actor, must_operate
from workspaces.gateway.gate import Gate
from workspaces.gateway.hostd import Call
from workspaces.gateway.rawhost import Raw
from workspaces.gateway.socket import Socket
from workspaces.gateway.sockets import permitted, until_first
from workspaces.gateway.upstairs import Place

SCOPE = "previews"
CAUSE = "preview"
LARGEST_FRAME_BYTES = 1024 * 1024
RESET = 4502


async def listing(gate: Gate, exchange: Exchange, workspace_id: str) -> None:
    """A sleeping workspace listens on nothing that could be seen: `not_running`, and it sleeps on."""
    actor, place = await gate.enter(exchange, workspace_id, SCOPE)
    call = Call("GET", f"{workspace_id}/ports", "", as_actor(actor, place), repeatable=True)
    await relay.answer_from(exchange, await gate.hostd.send(call))


async def serve(gate: Gate, exchange: Exchange, socket: Socket, workspace_id: str, port: str) -> None:
    actor, place = await gate.enter(exchange, workspace_id, SCOPE)
    must_operate(place)
    if int(port) > 65535:
        raise Problem("not_found", "A port is a number from 1 to 65535.")
    with gate.sockets.one_of(str(actor.user_id)):
        gate.activity.happened(workspace_id, CAUSE)
        raw = await gate.wake.then(
            actor, place, CAUSE, gate.config.limits.wake_timeout_s,
            lambda: rawhost.connect(gate.config.host_socket, workspace_id, int(port), as_actor(actor, place)))
        try:
            await socket.accept()
            await until_first(socket, _both_ways(gate, socket, place, raw), permitted(gate, exchange, place, SCOPE))
        finally:
            raw.close()


async def _both_ways(gate: Gate, socket: Socket, place: Place, raw: Raw) -> int | None:
    """Ends when both directions have, or at once when one broke or the client went."""
    ended = asyncio.Event()
    inward = asyncio.ensure_future(_inward(gate, socket, place, raw, ended))
    outward = asyncio.ensure_future(_outward(socket, raw, ended))
    try:
        done, _ = await asyncio.wait({inward, outward}, return_when=asyncio.FIRST_COMPLETED)
        done.pop().result()
        return 1000
    except _Over as over:
        return over.code
    except (ConnectionError, OSError):
        return RESET
    finally:
        for task in (inward, outward):
            task.cancel()
        await asyncio.gather(inward, outward, return_exceptions=True)


class _Over(Exception):
    """The tunnel ends before its two directions do. None: the client went."""

    def __init__(self, code: int | None) -> None:
        self.code = code


async def _inward(gate: Gate, socket: Socket, place: Place, raw: Raw, ended: asyncio.Event) -> None:
    """Goes on listening behind the client's last byte: only so is it seen that the client goes."""
    while (message := await socket.receive()) is not None:
        data = message.get("bytes")
        if data is None:
            raise _Over(1003)
        if len(data) > LARGEST_FRAME_BYTES:
            raise _Over(1009)
        if ended.is_set():
            continue
        gate.activity.happened(place.workspace_id, CAUSE)
        if data:
            await raw.write(data)
        else:
            ended.set()
            raw.write_eof()
    raise _Over(None)


async def _outward(socket: Socket, raw: Raw, ended: asyncio.Event) -> None:
    while data := await raw.read():
        await socket.send_bytes(data)
    await socket.send_bytes(b"")
    await ended.wait()
