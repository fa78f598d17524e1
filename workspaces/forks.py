"""One workspace becomes several: new ones that begin with another's disk and memory. Called by the API and reconcile.

    fork of a live one ──▶ an automatic checkpoint ──┐
    fork or create from a checkpoint ────────────────┴─▶ rows, all or none ──▶ each: clone, boot (reconcile)

The source goes on. What is made belongs to who asked, counts as theirs, and shares nothing with its source but
layers nobody writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from workspaces import checkpoints, quota, services
from workspaces.actors import SYSTEM, Actor
from workspaces.announce import announce
from workspaces.api.errors import Problem
from workspaces.facts import gather
from workspaces.ids import new_id
from workspaces.models import Checkpoint, CheckpointKind, CheckpointState, Workspace
from workspaces.state import Command

MOST = 20
#: What a fork has of its source beside disk and memory.
INHERITED = ("env", "labels", "idle", "network", "secrets", "approvals")


def fork(actor: Actor, source: Workspace, name: str, count: int = 1, checkpoint: Checkpoint | None = None
         ) -> list[Workspace]:
    """`count` workspaces, named `name` or `name-1` and so on. Raises Problem: state_conflict (deleted,
    checkpoint_failed), name_taken, quota_exceeded; then none is made."""
    with transaction.atomic():
        for user_id in sorted({actor.person, source.owner_id}):
            quota.lock(user_id)
        row = services.locked(source)
        services.permitted(row, Command.FORK)
        origin = checkpoint or checkpoints.begin(row, actor, CheckpointKind.AUTO, comment="for a fork")
        inherited = {field: getattr(row, field) for field in INHERITED}
        names = [name] if count == 1 else [f"{name}-{n}" for n in range(1, count + 1)]
        batch = new_id()
        wanted = [{**inherited, **began_from(origin), "name": one, "fork_batch": batch} for one in names]
        made = services.create_all(actor, wanted, f"forked by {actor.name}"[:60],
                                   {"from": row.pk, "checkpoint": origin.pk})
        # The first names the batch, so that a repeated request finds all of it.
        Workspace.objects.filter(fork_batch=batch).update(fork_batch=made[0].pk)
    return made


def batch_of(first_id: str) -> list[Workspace]:
    return list(Workspace.objects.select_related("owner").filter(fork_batch=first_id).order_by("created_at", "name"))


def began_from(origin: Checkpoint, wanted: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The fields of a workspace that begins from there. `wanted` may ask for another shape, which leaves the memory
    behind, and for a larger disk. Raises Problem: state_conflict, invalid."""
    if origin.state == CheckpointState.FAILED or origin.dropped_at is not None:
        raise Problem("state_conflict", "The checkpoint was not taken.", reason="checkpoint_failed")
    asked, there = dict(wanted or {}), origin.shape
    if asked.get("image", there["image"]) != there["image"]:
        raise Problem("invalid", "Some fields are not valid.", errors={"image": ["It has the checkpoint's image."]})
    if asked.get("disk_gib", there["disk_gib"]) < there["disk_gib"]:
        raise Problem("invalid", "Some fields are not valid.", errors={"disk_gib": ["A disk only grows."]})
    shape = {**there, **{key: asked[key] for key in there if key in asked}}
    same = (shape["cpus"], shape["memory_mib"]) == (there["cpus"], there["memory_mib"])
    return {**shape, "origin_machine": origin.workspace_id, "origin_checkpoint": origin.pk,
            "origin_memory": same and origin.memory, "head_checkpoint": origin.pk}


def note_begun(row: Workspace) -> None:
    """It has a disk of its own and needs nobody's checkpoint any more."""
    row.has_begun = True
    row.save(update_fields=["has_begun"])
    for source in Workspace.objects.filter(pk=row.origin_machine):
        services.ring(source)  # it may have waited to be let go


def note_origin_ready(source_id: str, checkpoint_id: str) -> None:
    rows = Workspace.objects.filter(origin_machine=source_id, origin_checkpoint=checkpoint_id, has_begun=False)
    for waiting in rows:
        services.ring(waiting)


def note_origin_failed(checkpoint_id: str, reason: str, detail: str) -> None:
    """Each of its forks says so; a start tries again, and fails again while there is nothing to begin from."""
    waiting = Workspace.objects.select_for_update().filter(origin_checkpoint=checkpoint_id, has_begun=False)
    for row in waiting.filter(failed_reason="").exclude(intent="deleted"):
        services.note_failure(row, "checkpoint_failed", detail or reason)
        announce(row, gather(row), SYSTEM, detail or reason)
