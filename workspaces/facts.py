"""Gathers what the state machine looks at: one workspace's row and its body's. Called by services, announce's
callers and reconcile; calls the hatch. Writes nothing.
"""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone

from sandboxes import machines
from workspaces.models import Workspace
from workspaces.state import Facts


def gather(workspace: Workspace, now: datetime | None = None) -> Facts:
    body = machines.believed(workspace.pk, workspace.generation)
    moment = now or timezone.now()
    return Facts(
        intent=workspace.intent, generation=workspace.generation, phase=body.phase,
        booted_generation=body.booted_generation, failed_reason=workspace.failed_reason, end_reason=body.end_reason,
        was_running=workspace.was_running, has_sandbox=body.exists, stage=body.stage, open_plan=body.open_plan,
        trouble=body.trouble, host_open=body.host_open, cause=workspace.cause,
        purge_due=workspace.intent == "deleted" and workspace.purge_at is not None and workspace.purge_at <= moment)
