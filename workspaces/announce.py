"""The only writer of `Workspace.state`: computes what people see and makes each change of it exactly one event.

Called by services (intent changed) and reconcile (facts changed), within their transaction and under the
workspace's row lock. Calls `state.visible` and `events`. Knows the body only as facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workspaces import events, nudges
from workspaces.actors import SYSTEM, Actor
from workspaces.models import Workspace
from workspaces.state import Facts, visible


def announce(workspace: Workspace, facts: Facts, actor: Actor = SYSTEM, cause: str = "",
             said: Mapping[str, Any] | None = None) -> bool:
    """True when the visible state changed. A new reason alone (a stage of a boot) is a nudge without an event."""
    state, reason = visible(facts)
    changed = state != workspace.state
    if not changed and reason == workspace.state_reason:
        return False
    workspace.state, workspace.state_reason = state, reason
    workspace.was_running = workspace.was_running or state == "running"
    Workspace.objects.filter(pk=workspace.pk).update(
        state=state, state_reason=reason, was_running=workspace.was_running)
    if changed:
        data: dict[str, Any] = {**({"reason": reason} if reason else {}), **(said or {})}
        if state == "failed" and workspace.failed_detail:
            data["detail"] = workspace.failed_detail
        events.append(workspace, f"workspace.{state}", actor, data, cause=cause)
    else:
        nudges.workspace_changed(workspace.pk, workspace.event_seq, workspace.owner_id)
    return changed
