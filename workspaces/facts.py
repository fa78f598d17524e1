"""Gathers what the state machine looks at: one workspace's rows and its body's. Called by services, announce's
callers and reconcile; calls the hatch. Writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from django.db.models import Q
from django.utils import timezone

from sandboxes import machines
from workspaces.models import Checkpoint, CheckpointState, Workspace
from workspaces.state import GONE, Facts

if TYPE_CHECKING:
    from sandboxes.machines import Belief


@dataclass(frozen=True)
class Moments:
    """What of a workspace's checkpoints is still to be done."""

    capture: str = ""
    drop: str = ""
    needed_elsewhere: bool = False


def gather(workspace: Workspace, now: datetime | None = None) -> Facts:
    body = machines.believed(workspace.pk, workspace.generation)
    moments = moments_of(workspace, body)
    due = workspace.intent == "deleted" and workspace.purge_at is not None and (
        workspace.purge_at <= (now or timezone.now()))
    return Facts(
        intent=workspace.intent, generation=workspace.body_generation, phase=body.phase,
        booted_generation=body.booted_generation, failed_reason=workspace.failed_reason, end_reason=body.end_reason,
        was_running=workspace.was_running, has_sandbox=body.exists, stage=body.stage, open_plan=body.open_plan,
        trouble=body.trouble, host_open=body.host_open, cause=workspace.cause, under_way=body.under_way,
        condition=body.condition,
        host_silent=body.host_silent, can_park=body.can_park, park_failed=body.park_failed,
        capture=moments.capture, drop=moments.drop,
        restore=workspace.wanted_head if is_restoring(workspace) else "", origin=_origin(workspace, body),
        disk_lost=body.had_disk and body.phase in GONE and body.open_plan not in ("create", "clone")
        and not workspace.may_begin_anew,
        purge_due=due and not moments.needed_elsewhere)


def is_restoring(workspace: Workspace) -> bool:
    return workspace.restore_seq > workspace.restore_done


def forks_of(workspace_id: str) -> Q:
    """Workspaces that are still to be made of that one's checkpoints. One that failed waits for a person, and holds
    nobody's trash meanwhile."""
    return Q(origin_machine=workspace_id, has_begun=False, failed_reason="") & ~Q(intent="deleted")


def needed(workspace: Workspace) -> set[str]:
    """Checkpoints that something under way needs, whoever deletes them meanwhile."""
    forks = Workspace.objects.filter(forks_of(workspace.pk))
    ids = set(forks.values_list("origin_checkpoint", flat=True))
    return ids | ({workspace.wanted_head, workspace.safety_checkpoint} if is_restoring(workspace) else set())


def moments_of(workspace: Workspace, body: Belief) -> Moments:
    """One query where nothing is to be done, which is nearly always."""
    unsettled = list(Checkpoint.objects.filter(workspace_id=workspace.pk)
                     .filter(Q(state=CheckpointState.CAPTURING) | Q(dropped_at__isnull=False))
                     .order_by("created_at", "pk"))
    strays = _strays(workspace, body)
    if not unsettled and not strays and workspace.intent != "deleted":
        return Moments()
    kept = needed(workspace)
    pending = [c.pk for c in unsettled
               if c.state == CheckpointState.CAPTURING and (c.dropped_at is None or c.pk in kept)]
    going = [c.pk for c in unsettled if c.dropped_at is not None and c.pk not in kept and c.pk not in pending]
    return Moments(pending[0] if pending else "", next(iter([*going, *strays]), ""),
                   Workspace.objects.filter(forks_of(workspace.pk)).exists())


def _strays(workspace: Workspace, body: Belief) -> list[str]:
    """Checkpoints that the host keeps and nobody names: what a worker that died, or a failed one, left there."""
    there = [str(said.get("checkpoint_id")) for said in body.checkpoints]
    if not there or body.phase in GONE:
        return []
    named = set(Checkpoint.objects.filter(workspace_id=workspace.pk).exclude(state=CheckpointState.FAILED)
                .values_list("pk", flat=True))
    return [checkpoint_id for checkpoint_id in there if checkpoint_id not in named]


def _origin(workspace: Workspace, body: Belief) -> str:
    """Of a fork that has no disk yet: whether what it is made of is there."""
    if not workspace.origin_checkpoint or workspace.has_begun or body.phase not in GONE:
        return ""
    source = Checkpoint.objects.filter(pk=workspace.origin_checkpoint).first()
    if source is None or source.state == CheckpointState.FAILED:
        return "lost"
    return "waiting" if source.state == CheckpointState.CAPTURING else "ready"
