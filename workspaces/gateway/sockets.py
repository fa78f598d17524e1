"""What all sockets of a workspace share: they end with the first of their parts, and with the right to them.

Called by `terminals`, `tunnels`, `filewatches` and `app`; calls `access` through the gate. A close code is the same
word for a socket that had been accepted as the status for one that was not.

Close codes: 1012 the host or this gateway restarts (come again), 4401 credentials ended, 4403 not allowed any more,
4404 the workspace is gone for you, 4409 the workspace cannot run, 4429 too many sockets, 4503 come again later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from django.db import DatabaseError

from workspaces.api.errors import Problem
from workspaces.gateway.exchange import Exchange
from workspaces.gateway.gate import Gate
from workspaces.gateway.nudges import pause
from workspaces.gateway.socket import Socket
from workspaces.gateway.upstairs import Place

LOOK_APART_S = 0.25
LOST = 1012

Part = Coroutine[None, None, "int | None"]


async def until_first(socket: Socket, *parts: Part) -> None:
    """The client, what it is connected to, the permission: whichever ends first names the close code, or None when
    there is nobody left to be told."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        done, _pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        code = next(iter(done)).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if code is not None:
        await socket.close(code)


async def permitted(gate: Gate, exchange: Exchange, place: Place, scope: str) -> int | None:
    """Runs as long as the socket may be open; a nudge makes it ask at once, the clock every few seconds."""
    with gate.nudges.about_permission(place.workspace_id) as changed:
        while True:
            await asyncio.sleep(LOOK_APART_S)  # a busy workspace rings often
            await pause(changed, gate.config.limits.recheck_s)
            try:
                now = await gate.still(exchange, place.workspace_id, scope)
            except Problem as problem:
                if problem.status < 500:
                    return close_code(problem)
                continue
            except DatabaseError:
                continue  # a database that is away revokes nothing
            if now.role != place.role:
                return 4403


def close_code(problem: Problem) -> int:
    return {401: 4401, 403: 4403, 404: 4404, 409: 4409, 429: 4429}.get(problem.status, 4503)
