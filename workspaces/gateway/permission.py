"""Notices that somebody may no longer have what is still being sent to them: long polls, streams, downloads.

Used by execs and files around an answer that may take long; `terminals` does the same for its sockets. Asks `access`
anew, at once after a nudge and every few seconds without one (field case 104). Watching begins after a moment, so a
short request pays for none of it.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from django.db import DatabaseError

from workspaces.api.errors import Problem
from workspaces.gateway.exchange import Exchange
from workspaces.gateway.gate import Gate
from workspaces.gateway.nudges import pause
from workspaces.gateway.upstairs import Place

LOOK_APART_S = 0.25


class Permitted:
    """The block is cancelled and the Problem raised from it once the permission it began with is gone."""

    def __init__(self, gate: Gate, exchange: Exchange, place: Place, scope: str, after_s: float = 0.5) -> None:
        self._gate, self._exchange, self._place, self._scope = gate, exchange, place, scope
        self._after_s = after_s
        self._timer: asyncio.TimerHandle | None = None
        self._watch: asyncio.Task[None] | None = None
        self._owner: asyncio.Task[object] | None = None
        self._lost: Problem | None = None

    async def __aenter__(self) -> Permitted:
        self._owner = asyncio.current_task()
        self._timer = asyncio.get_running_loop().call_later(self._after_s, self._begin)
        return self

    def _begin(self) -> None:
        self._watch = asyncio.get_running_loop().create_task(self._until_lost())

    async def _until_lost(self) -> None:
        with self._gate.nudges.about_permission(self._place.workspace_id) as changed:
            while self._lost is None:
                self._lost = await self._refusal()
                if self._lost is None:
                    await asyncio.sleep(LOOK_APART_S)
                    await pause(changed, self._gate.config.limits.recheck_s)
        if self._owner is not None:
            self._owner.cancel()

    async def _refusal(self) -> Problem | None:
        """Why it is over, or None. What is away (a database, a host) revokes nothing."""
        try:
            now = await self._gate.still(self._exchange, self._place.workspace_id, self._scope)
        except Problem as problem:
            return problem if problem.status < 500 else None
        except DatabaseError:
            return None
        return None if now.role == self._place.role else Problem("forbidden", "Your role here has changed.")

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._watch is not None and not self._watch.done():
            self._watch.cancel()
        if self._lost is not None and self._owner is not None and kind is asyncio.CancelledError:
            self._owner.uncancel()
            raise self._lost from None
