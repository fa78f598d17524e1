"""A raw connection to the program behind a preview, its workspace woken first. Called by `passage` and `frames`; calls
`wake` and `rawhost`. A person waits a moment and is then shown a page that waits; a program is waited for.
"""

from __future__ import annotations

from workspaces.api.errors import Problem
from workspaces.gateway import rawhost
from workspaces.gateway.execs import as_actor
from workspaces.gateway.gate import Gate
from workspaces.gateway.previews.entry import Visit
from workspaces.gateway.rawhost import Raw
from workspaces.gateway.wake import GONE

CAUSE = "preview"
PERSONS_PATIENCE_S = 1.5


async def connect(gate: Gate, visit: Visit, port: int, *, person: bool) -> Raw:
    """Raises Problem in this package's own words, see `said`."""
    place = visit.place
    try:
        if place.state in GONE or place.state == "failed":
            raise Problem("state_conflict", reason="deleted" if place.state in GONE else place.state_reason or "failed")
        patience = PERSONS_PATIENCE_S if person else gate.config.limits.wake_timeout_s
        return await gate.wake.then(
            visit.actor, place, CAUSE, patience, lambda: rawhost.connect(
                gate.config.host_socket, place.workspace_id, port, as_actor(visit.actor, place)))
    except Problem as problem:
        raise said(problem) from None


def said(problem: Problem) -> Problem:
    """What it is called here."""
    if problem.code in ("wake_timeout", "not_running"):
        return Problem("workspace_waking", "It slept, or is changing its state, and is on its way.", retry_after_s=2)
    if problem.code == "state_conflict":
        reason = str(problem.extra.get("reason") or "")
        words = {"deleted": "It is in the trash.", "owner_suspended": "Its owner is suspended."}
        return Problem("workspace_stopped", words.get(reason, f"It does not run: {reason or problem.detail}."),
                       reason=reason or None)
    if problem.code in ("not_found", "forbidden"):
        return Problem("preview_forbidden", "It is not there for you.")
    return problem
