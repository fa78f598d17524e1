"""`/api/v1/workspaces/{id}/metrics` and `/api/v1/metrics`: what workspaces use and used, of one or of a list.

Called by `routes`; hostd has the figures. Looking is no use of a workspace: a sleeping one sleeps on, and a list is
answered from what hostd has anyway, without asking any guest.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qsl

from workspaces.actors import Actor
from workspaces.api.errors import Problem
from workspaces.gateway import relay
from workspaces.gateway.access import require
from workspaces.gateway.exchange import Exchange
from workspaces.gateway.gate import Gate
from workspaces.gateway.hostd import Call

Json = dict[str, Any]
SCOPE = "workspaces:read"
MOST_IDS = 100
#: A line a finger wide shows no more.
MOST_POINTS = 40
SHOWN = ("at", "cpu_percent", "memory_used_bytes", "memory_total_bytes")


async def one(gate: Gate, exchange: Exchange, workspace_id: str) -> None:
    """The guest is asked for `now`; one that does not run has none."""
    actor = await gate.admit(exchange)
    require(actor, SCOPE)
    await gate.access.metadata_place(actor, workspace_id)
    call = Call("GET", f"{workspace_id}/metrics", "", repeatable=True)
    await relay.answer_from(exchange, await gate.hostd.send(call))


async def several(gate: Gate, exchange: Exchange) -> None:
    """The last hour of those that are the caller's; others are left out as if they were not there."""
    actor = await gate.admit(exchange)
    require(actor, SCOPE)
    ids = [one for one in dict(parse_qsl(exchange.query_string)).get("ids", "").split(",") if one]
    if not 0 < len(ids) <= MOST_IDS:
        raise Problem("invalid", "ids is wrong.", errors={"ids": [f"1 to {MOST_IDS} ids of workspaces, with commas."]})
    found = await asyncio.gather(*(_hour(gate, actor, workspace_id) for workspace_id in dict.fromkeys(ids)))
    await exchange.json(200, {"results": [hour for hour in found if hour is not None]})


async def _hour(gate: Gate, actor: Actor, workspace_id: str) -> Json | None:
    try:
        await gate.access.metadata_place(actor, workspace_id)
    except Problem as problem:
        if problem.code != "not_found":
            raise
        return None
    call = Call("GET", f"{workspace_id}/metrics", "now=false", repeatable=True)
    try:
        _status, said = await gate.hostd.json(call)
    except Problem as problem:
        if problem.code != "not_found":  # hostd has never had a body of it
            raise
        said = {"interval_s": 0, "history": []}
    return {"workspace": workspace_id, **thinned(said)}


def thinned(said: Json) -> Json:
    """Few enough points for a small drawing, the newest among them; the interval says how far apart they are."""
    step = -(-len(said["history"]) // MOST_POINTS) or 1
    kept = said["history"][::-1][::step][::-1]
    return {"interval_s": said["interval_s"] * step, "history": [{name: sample.get(name) for name in SHOWN}
                                                                  for sample in kept]}
