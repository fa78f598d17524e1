"""Execs of tokens that wait for a member's approval: held back here, begun here once somebody said yes.

Called by `execs` (a new one that meets a pattern; one that hostd does not know) and by `gate` (the Starter's loop).
The rows upstairs are the truth, so a gateway that restarts goes on where it was: whoever waits looks at the row, and
what was approved is begun under the id it was promised with, which hostd takes once however often it is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError

from workspaces import approval_rule
from workspaces.actors import Actor
from workspaces.api.errors import Problem
from workspaces.gateway.hostd import Call
from workspaces.gateway.nudges import EVERYTHING, pause
from workspaces.gateway.upstairs import Held, Place

if TYPE_CHECKING:  # gate holds the Starter
    from workspaces.gateway.gate import Gate

log = logging.getLogger("berth.gateway.held")
LOOK_EVERY_S = 2.0
#: A beginning that failed for a reason that passes is tried again; upstairs gives it up in the end.
PASSING = frozenset({"host_unreachable", "unavailable", "busy", "agent_lost"})


def pattern_of(actor: Actor, place: Place, command: Any) -> str | None:
    """The pattern for which this exec has to wait, or None. Raises Problem invalid: too long to be asked about."""
    if actor.type != "token" or not place.approvals.get("exec"):
        return None
    if approval_rule.length(command) > approval_rule.LONGEST_COMMAND:
        most = f"At most {approval_rule.LONGEST_COMMAND} characters where commands may wait for approval."
        raise Problem("invalid", "This command is too long to ask anybody about.", errors={"command": [most]})
    return approval_rule.met_by(place.approvals, command)


async def until_decided(gate: Gate, place: Place, exec_id: str, wait_s: float) -> Held | None:
    """The row once it was begun or refused, or as it is when the time is over. None: no exec of that id waits."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    with gate.nudges.about(place.workspace_id) as changed:
        while True:
            seen = await gate.upstairs.held_exec(place.workspace_id, exec_id)
            left = deadline - loop.time()
            if seen is None or seen.settled or left <= 0:
                return seen
            # Its own end is no news that anybody tells in time.
            await pause(changed, min(left, LOOK_EVERY_S, max(0.05, seen.expires_in_s)))


async def explained(gate: Gate, workspace_id: str, exec_id: str, problem: Problem) -> Problem:
    """What hostd means by `not_found`, where the exec is one that waits or was refused."""
    if problem.code != "not_found":
        return problem
    seen = await gate.upstairs.held_exec(workspace_id, exec_id)
    if seen is None or (seen.settled and not seen.code):
        return problem
    if seen.code:
        return Problem("exec_ended", f"It never began: {seen.code}.", reason=seen.code)
    return Problem("conflict", "It waits for a member's approval.", reason="pending_approval")


@dataclass(frozen=True)
class Begin:
    """What an approved exec needs to be begun, in the name of who asked."""

    approval_id: str
    exec_id: str
    actor: Actor
    place: Place
    body: dict[str, Any]


class Starter:
    """Begins what was approved: at once when told, by the clock when not."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._beginning: dict[str, asyncio.Task[None]] = {}

    def hear(self, kind: str, _subject: str) -> None:
        if kind in ("approval", EVERYTHING):
            self._changed.set()

    async def run(self, gate: Gate) -> None:
        try:
            while True:
                with contextlib.suppress(DatabaseError):  # away; the rows wait
                    for one in await gate.upstairs.execs_to_begin():
                        if one.approval_id not in self._beginning:
                            task = asyncio.get_running_loop().create_task(self._begin(gate, one))
                            self._beginning[one.approval_id] = task
                            task.add_done_callback(partial(self._begun, one.approval_id))
                await pause(self._changed, gate.config.limits.recheck_s)
        finally:
            for task in list(self._beginning.values()):
                task.cancel()

    def _begun(self, approval_id: str, _done: asyncio.Task[None]) -> None:
        self._beginning.pop(approval_id, None)

    async def _begin(self, gate: Gate, one: Begin) -> None:
        try:
            await begin(gate, one)
            result: dict[str, str] = {}
        except Problem as problem:
            if problem.code in PASSING:
                log.info("an approved exec of %s is not begun yet: %s", one.place.workspace_id, problem.code)
                return
            result = {"code": problem.code, "detail": problem.detail}
        except Exception:
            log.exception("an approved exec of %s", one.place.workspace_id)
            return
        with contextlib.suppress(DatabaseError):  # begun all the same; the next round says so
            await gate.upstairs.exec_begun(one.approval_id, result)


async def begin(gate: Gate, one: Begin) -> None:
    place, limits = one.place, gate.config.limits
    headers = {"Berth-Actor": json.dumps(one.actor.to_json()), "Berth-Role": place.role,
               "Content-Type": "application/json"}
    sent = json.dumps({**one.body, "exec_id": one.exec_id, "wait_s": 0}).encode()
    call = Call("POST", f"{place.workspace_id}/execs", "", headers, sent, repeatable=True)
    if await gate.autos.before(one.actor, place):
        place = await gate.access.place(one.actor, place.workspace_id)
    gate.activity.happened(place.workspace_id, "exec")
    response = await gate.wake.then(one.actor, place, "exec", limits.wake_timeout_s, lambda: gate.hostd.send(call))
    response.close()
