"""Notices that a visitor may no longer look, while something is still open: streams, downloads, sockets. Used by
`passage` and `frames`; asks `entry` anew, at once after a nudge and every few seconds without one.
"""

from __future__ import annotations

import asyncio

from django.db import DatabaseError

from workspaces import previews
from workspaces.api.errors import Problem
from workspaces.gateway.exchange import Exchange
from workspaces.gateway.gate import Gate
from workspaces.gateway.nudges import pause
from workspaces.gateway.permission import LOOK_APART_S, Permitted
from workspaces.gateway.previews import entry
from workspaces.gateway.previews.entry import Visit
from workspaces.gateway.previews.rewriting import Outside


class Standing(Permitted):
    """The block is cancelled, and the Problem raised from it, once the visit is over."""

    def __init__(self, gate: Gate, exchange: Exchange, outside: Outside, visit: Visit) -> None:
        super().__init__(gate, exchange, visit.place, entry.SCOPE)
        self._outside, self._visit = outside, visit

    async def _refusal(self) -> Problem | None:
        return await over(self._gate, self._exchange, self._outside, self._visit)


async def over(gate: Gate, exchange: Exchange, outside: Outside, visit: Visit) -> Problem | None:
    """Why the visit is over, or None. What is away (a database) revokes nothing."""
    try:
        now = await entry.enter(gate, exchange, outside)
    except Problem as problem:
        return problem if problem.status < 500 else None
    except DatabaseError:
        return None
    same = (now.actor.user_id, now.actor.token_id) == (visit.actor.user_id, visit.actor.token_id)
    return None if same and now.place.role else previews.forbidden("Who you come as has changed.")


async def until_over(gate: Gate, exchange: Exchange, outside: Outside, visit: Visit) -> Problem:
    """Returns when the visit is over."""
    with gate.nudges.about_permission(visit.place.workspace_id) as changed:
        while True:
            await asyncio.sleep(LOOK_APART_S)  # a busy workspace rings often
            await pause(changed, gate.config.limits.recheck_s)
            problem = await over(gate, exchange, outside, visit)
            if problem is not None:
                return problem
