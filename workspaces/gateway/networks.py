"""`/api/v1/workspaces/{id}/network/log`: what a machine reached and what it was kept from, as its host wrote it down.

Called by `routes`; hostd keeps the rows. Where somebody's programs go is content, so members alone read it. Looking is
no use of a workspace: it wakes nothing and holds nothing awake. The policy itself is rows, and Daphne's.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode

from workspaces.gateway.exchange import Exchange
from workspaces.gateway.execs import as_actor, same_url
from workspaces.gateway.gate import Gate
from workspaces.gateway.hostd import Call

SCOPE = "network"
DEFAULT_ROWS = 50


async def log(gate: Gate, exchange: Exchange, workspace_id: str) -> None:
    """A page, oldest first; without `after` the newest there is. `next` while it is full."""
    actor, place = await gate.enter(exchange, workspace_id, SCOPE)
    asked = {"limit": str(DEFAULT_ROWS), **dict(parse_qsl(exchange.query_string, keep_blank_values=True))}
    call = Call("GET", f"{workspace_id}/network/log", urlencode(asked), as_actor(actor, place), repeatable=True)
    status, said = await gate.hostd.json(call)
    rows: list[dict[str, Any]] = said.get("results", [])
    full = "after" in asked and len(rows) >= int(asked["limit"])
    following = same_url(exchange, gate, urlencode({**asked, "after": str(rows[-1]["seq"])})) if full else None
    await exchange.json(status, {"results": rows, "next": following, "dropped": said.get("dropped", 0)})
