"""Going back: a workspace's disk, and its memory where there is one, become what a checkpoint holds. Called by the
API and reconcile; the only writer of the wanted head. Never talks to a host.

    restore ──▶ safety checkpoint ──▶ rollback ──▶ note_restored: resumed, started or asleep, as it was before
                     └── failed ─────────┴─ failed ──▶ give_up: nothing has changed, and an event says why

The same workspace, the same addresses. One restore at a time: a second one is refused as `restoring`, because its
safety checkpoint would be of a state that nobody has ever seen.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction

from workspaces import checkpoints, events, quota, services
from workspaces.actors import SYSTEM, Actor
from workspaces.announce import announce
from workspaces.api.errors import Problem
from workspaces.facts import gather, is_restoring
from workspaces.models import Checkpoint, CheckpointKind, CheckpointState, Workspace
from workspaces.state import Command


def restore(actor: Actor, checkpoint: Checkpoint, *, safety: bool = True) -> tuple[Workspace, str]:
    """Wants that head. Answers with the workspace and the id of the checkpoint that undoes it ("": none was wanted).
    Raises Problem: state_conflict (deleted, restoring, capturing, failed), not_found, quota_exceeded."""
    with transaction.atomic():
        owner = quota.lock(checkpoint.workspace.owner_id)
        row = services.locked(checkpoint.workspace)
        services.permitted(row, Command.RESTORE)
        target = _usable(row, checkpoint.pk)
        if row.failed_reason and row.intent == "running":
            quota.check(owner, quota.power(row))
        kept = checkpoints.begin(row, actor, CheckpointKind.SAFETY, comment=f"before going back to {_called(target)}"
                                 ) if safety else None
        row.before_restore = {"intent": row.intent, "failed_reason": row.failed_reason,
                              "failed_detail": row.failed_detail, "actor": actor.to_json()}
        row.failed_reason = row.failed_detail = ""
        row.wanted_head, row.restore_seq = target.pk, row.restore_seq + 1
        row.safety_checkpoint = kept.pk if kept else ""
        # Asleep it stays, but with the memory of that moment, where there is one.
        intent = "standby" if row.intent == "stopped" and target.memory_usable else row.intent
        services.set_intent(row, intent, actor, f"restore by {actor.name}", said=_said(row))
    return row, row.safety_checkpoint


def _usable(row: Workspace, checkpoint_id: str) -> Checkpoint:
    target = Checkpoint.objects.filter(pk=checkpoint_id, workspace=row, dropped_at=None).first()
    if target is None:
        raise Problem("not_found", "There is no such checkpoint.")
    if target.state != CheckpointState.READY:
        raise Problem("state_conflict", f"The checkpoint is {target.state}.", reason=f"checkpoint_{target.state}")
    return target


def _called(checkpoint: Checkpoint) -> str:
    return f"{checkpoint.name!r}" if checkpoint.name else f"{checkpoint.kind} {checkpoint.pk}"


def _said(row: Workspace) -> dict[str, Any]:
    return {"checkpoint": row.wanted_head, "safety_checkpoint": row.safety_checkpoint or None}


def _who(row: Workspace) -> Actor:
    said = row.before_restore.get("actor") or SYSTEM.to_json()
    return Actor(type=said["type"], name=said["name"])


# -- what reconcile notes, within the plan runner's transaction --------------------------------------------------------


def note_restored(row: Workspace, restore: int, *, asleep: bool) -> None:
    """The held head is the wanted one. `asleep`: with a memory that waits to go on."""
    if not is_restoring(row) or row.restore_seq != restore:
        return
    row.restore_done, row.head_checkpoint = row.restore_seq, row.wanted_head
    row.save(update_fields=["restore_done", "head_checkpoint"])
    events.append(row, "workspace.restored", _who(row), {**_said(row), "memory": asleep})
    if row.intent == "standby" and not asleep:
        services.set_intent(row, "stopped", SYSTEM, "restored without memory")


def give_up(row: Workspace, reason: str, detail: str) -> None:
    """Nothing was changed on the host, so nothing stays changed here."""
    if not is_restoring(row):
        return
    before = row.before_restore
    row.restore_done = row.restore_seq
    row.failed_reason, row.failed_detail = before.get("failed_reason", ""), before.get("failed_detail", "")
    row.cause = f"restore failed: {reason}"[:60]
    row.save(update_fields=["restore_done", "failed_reason", "failed_detail", "cause"])
    events.append(row, "workspace.restore_failed", SYSTEM, {**_said(row), "reason": reason, "detail": detail})
    if row.intent == "standby" and before.get("intent") == "stopped":
        services.set_intent(row, "stopped", SYSTEM, row.cause)
    announce(row, gather(row), SYSTEM, row.cause)
