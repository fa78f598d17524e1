"""`/api/v1/workspaces/{id}/checkpoints/{cid}/files…` and `…/diff`: contents of a past, and of a workspace that sleeps.

Called by `routes`; hostd reads the disk. Looking is no use of a workspace: it wakes nothing and holds nothing awake.
Who may read files may look, who may use checkpoints may compare. Contents are a guest's: no browser takes them for
a page.
"""

from __future__ import annotations

import json

import aiohttp

from workspaces.api.errors import Problem
from workspaces.gateway import relay
from workspaces.gateway.departure import Departure
from workspaces.gateway.exchange import Exchange
from workspaces.gateway.execs import as_actor, next_url
from workspaces.gateway.files import READ, passed
from workspaces.gateway.gate import Gate
from workspaces.gateway.hostd import Call

COMPARE = "checkpoints"
DISK_HEADER = "Berth-Disk"
#: A comparison may have to read much before its first byte; a quiesced look comes before it.
LONGEST_S = 300.0


async def listing(gate: Gate, exchange: Exchange, workspace_id: str, checkpoint_id: str) -> None:
    await _json(gate, exchange, workspace_id, f"checkpoints/{checkpoint_id}/files", READ)


async def diff(gate: Gate, exchange: Exchange, workspace_id: str, checkpoint_id: str) -> None:
    await _json(gate, exchange, workspace_id, f"checkpoints/{checkpoint_id}/diff", COMPARE)


async def content(gate: Gate, exchange: Exchange, workspace_id: str, checkpoint_id: str) -> None:
    """GET and HEAD of a file's bytes."""
    actor, place = await gate.enter(exchange, workspace_id, READ)
    call = Call(exchange.method, f"{workspace_id}/checkpoints/{checkpoint_id}/files/content", exchange.query_string,
                passed(exchange, actor, place), repeatable=True, longest_s=LONGEST_S)
    async with Departure(exchange.receive):
        response = await gate.hostd.send(call)
    await relay.answer_from(exchange, response, inert=True)


async def _json(gate: Gate, exchange: Exchange, workspace_id: str, path: str, scope: str) -> None:
    """A page of hostd's, its cursor made a URL."""
    actor, place = await gate.enter(exchange, workspace_id, scope)
    call = Call("GET", f"{workspace_id}/{path}", exchange.query_string, as_actor(actor, place), repeatable=True,
                longest_s=LONGEST_S)
    async with Departure(exchange.receive):
        response = await gate.hostd.send(call)
    try:
        value = json.loads(await response.read())
    except (aiohttp.ClientError, ConnectionError, ValueError):
        raise Problem("host_unreachable", "The host's answer broke off.", retry_after_s=2) from None
    if "next_cursor" in value:
        value["next"] = next_url(exchange, gate, value.pop("next_cursor"))
    disk = response.headers.get(DISK_HEADER)
    await exchange.json(response.status, value, [(b"berth-disk", disk.encode())] if disk else [])
