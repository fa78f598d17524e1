"""The only writer of checkpoints: asked for, taken, named, forgotten. Called by the API, the gateway (automatic ones),
restores, forks and reconcile; calls events and rings the bell. Never talks to a host.

    capturing ──▶ ready ──delete──▶ (hidden until the host let go of it, then no row)
        └──▶ failed(reason)          the workspace is as it was

Storage is keyed by id, never by name. A delete is never refused: what something under way still needs is kept for
exactly as long, out of sight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from sandboxes import machines
from sandboxes.lifecycle import Phase
from workspaces import events, policies, quota, services
from workspaces.actors import SYSTEM, Actor
from workspaces.api.errors import Problem
from workspaces.models import Checkpoint, CheckpointKind, CheckpointState, Workspace
from workspaces.retention_rule import Do, End, Keeping, Point, Told, ends
from workspaces.state import Command


def create(actor: Actor, workspace: Workspace, fields: Mapping[str, Any]) -> Checkpoint:
    """A checkpoint of now, whatever state that is. Raises Problem: state_conflict (deleted, not_running,
    no_memory_images), name_taken."""
    with transaction.atomic():
        quota.lock(workspace.owner_id)
        row = services.locked(workspace)
        services.permitted(row, Command.CHECKPOINT)
        return begin(row, actor, CheckpointKind.MANUAL, **fields)


def begin(row: Workspace, actor: Actor, kind: str, *, name: str = "", comment: str = "", memory: bool | None = None,
          expires_at: datetime | None = None) -> Checkpoint:
    """Within the caller's transaction, under the workspace's lock. Raises Problem quota_exceeded: a safety copy that
    cannot be kept is no safety."""
    quota.check(quota.lock(row.owner_id), quota.checkpoint())
    checkpoint = Checkpoint(
        workspace=row, name=name, comment=comment, kind=kind, memory=_memory(row, memory), parent=row.head_checkpoint,
        actor_type=actor.type, actor_name=actor.name[:200], expires_at=expires_at, shape=shape_of(row))
    _save_named(checkpoint, force_insert=True)
    events.append(row, "checkpoint.created", actor, {"checkpoint": checkpoint.pk, "name": name, "kind": kind})
    services.ring(row)
    return checkpoint


def shape_of(row: Workspace) -> dict[str, Any]:
    return {"image": row.image, "cpus": row.cpus, "memory_mib": row.memory_mib, "disk_gib": row.disk_gib}


def _memory(row: Workspace, asked: bool | None) -> bool:
    """With memory where there is any, unless the caller says otherwise."""
    body = machines.believed(row.pk, row.generation)
    there = (row.intent in ("running", "standby") and not row.failed_reason) or body.phase is Phase.PARKED
    if asked is None:
        return there and body.can_park
    if asked and not there:
        raise Problem("state_conflict", "There is no memory to keep: it does not run.", reason="not_running")
    if asked and not body.can_park:
        raise Problem("state_conflict", "Its host keeps no memory images.", reason="no_memory_images")
    return asked


def patch(actor: Actor, checkpoint: Checkpoint, fields: Mapping[str, Any]) -> Checkpoint:
    """Name, comment, expiry. Raises Problem name_taken."""
    with transaction.atomic():
        row = services.locked(checkpoint.workspace)
        found = _there(row, checkpoint.pk)
        changed = {key: value for key, value in fields.items() if getattr(found, key) != value}
        for key, value in changed.items():
            setattr(found, key, value)
        if "expires_at" in changed:
            found.notice_because, found.notice_at, found.mailed = "", None, True  # another end, another notice
        if changed:
            _save_named(found, update_fields=[*sorted(changed), "notice_because", "notice_at", "mailed"])
            events.append(row, "checkpoint.changed", actor, {"checkpoint": found.pk, "fields": sorted(changed)})
    return found


def delete(actor: Actor, checkpoint: Checkpoint, because: str = "deleted") -> None:
    """Never refused, and done at once as far as anybody sees. Raises Problem not_found when it is gone already."""
    with transaction.atomic():
        row = services.locked(checkpoint.workspace)
        _hide(row, _there(row, checkpoint.pk), actor, because)
        services.ring(row)


def _there(row: Workspace, checkpoint_id: str) -> Checkpoint:
    found = Checkpoint.objects.select_for_update().filter(pk=checkpoint_id, workspace=row, dropped_at=None).first()
    if found is None:
        raise Problem("not_found", "There is no such checkpoint.")
    return found


def _hide(row: Workspace, checkpoint: Checkpoint, actor: Actor, because: str) -> None:
    """Its children hang on its parent from now on: the tree people see has no holes."""
    checkpoint.dropped_at = timezone.now()
    checkpoint.save(update_fields=["dropped_at"])
    Checkpoint.objects.filter(parent=checkpoint.pk).update(parent=checkpoint.parent)
    Workspace.objects.filter(head_checkpoint=checkpoint.pk).update(head_checkpoint=checkpoint.parent)
    if row.head_checkpoint == checkpoint.pk:
        row.head_checkpoint = checkpoint.parent
    events.append(row, "checkpoint.deleted", actor,
                  {"checkpoint": checkpoint.pk, "name": checkpoint.name, "kind": checkpoint.kind, "because": because})


# -- what reconcile notes, within the plan runner's transaction --------------------------------------------------------


def note_ready(row: Workspace, checkpoint_id: str, result: Mapping[str, Any]) -> None:
    """It was taken: what its host said of it becomes the row, and the disk descends from it."""
    checkpoint = Checkpoint.objects.filter(pk=checkpoint_id, workspace=row).first()
    if checkpoint is None or checkpoint.state != CheckpointState.CAPTURING:
        return
    checkpoint.state, checkpoint.parent = CheckpointState.READY, row.head_checkpoint
    checkpoint.memory = checkpoint.memory_usable = bool(result.get("memory"))
    checkpoint.consistency = str(result.get("consistency") or "clean")[:10]
    checkpoint.disk_bytes, checkpoint.memory_bytes = result.get("disk_bytes"), result.get("memory_bytes")
    checkpoint.pause_ms = result.get("pause_ms")
    checkpoint.save()
    row.head_checkpoint = checkpoint.pk
    Workspace.objects.filter(pk=row.pk).update(head_checkpoint=checkpoint.pk)
    events.append(row, "checkpoint.ready", SYSTEM, {
        "checkpoint": checkpoint.pk, "name": checkpoint.name, "kind": checkpoint.kind, "memory": checkpoint.memory,
        "consistency": checkpoint.consistency, "pause_ms": checkpoint.pause_ms})
    _keep_last(row, checkpoint.kind)


def note_failed(row: Workspace, checkpoint_id: str, reason: str, detail: str) -> None:
    """It was not taken; its name is free again."""
    taken = Checkpoint.objects.filter(pk=checkpoint_id, workspace=row, state=CheckpointState.CAPTURING)
    if taken.update(state=CheckpointState.FAILED, state_reason=reason[:60]):
        events.append(row, "checkpoint.failed", SYSTEM,
                      {"checkpoint": checkpoint_id, "reason": reason, "detail": detail})


def note_dropped(checkpoint_id: str) -> None:
    """Its host has nothing of it any more, so neither have we."""
    Checkpoint.objects.filter(pk=checkpoint_id, dropped_at__isnull=False).delete()


def note_seen(row: Workspace, seen: Iterable[Mapping[str, Any]]) -> None:
    """What its host says now: a memory may have stopped fitting, a layer may be shared by fewer."""
    said = {str(one.get("checkpoint_id")): one for one in seen}
    for checkpoint in Checkpoint.objects.filter(workspace=row, pk__in=list(said), state=CheckpointState.READY):
        one = said[checkpoint.pk]
        now = (bool(one.get("memory_usable", checkpoint.memory_usable)), one.get("disk_bytes", checkpoint.disk_bytes),
               one.get("memory_bytes", checkpoint.memory_bytes))
        if now != (checkpoint.memory_usable, checkpoint.disk_bytes, checkpoint.memory_bytes):
            checkpoint.memory_usable, checkpoint.disk_bytes, checkpoint.memory_bytes = now
            checkpoint.save(update_fields=["memory_usable", "disk_bytes", "memory_bytes"])


def _keep_last(row: Workspace, kind: str) -> None:
    """The window of a kind rolls on: whoever was told goes, and whoever the next one pushes out is told. What is being
    restored, or forked, stays as long as it must."""
    of_kind = {one.pk: one for one in Checkpoint.objects.filter(
        workspace=row, kind=kind, state=CheckpointState.READY, dropped_at=None)}
    terms, now = policies.values(policies.effective(row.owner)), timezone.now()
    for end in ends([point_of(one) for one in of_kind.values()], keeping(terms), now):
        if end.because == "kept_last" and end.do is Do.ACT:
            _hide(row, of_kind[end.id], SYSTEM, "kept_last")
        elif end.because == "kept_last":
            _say_end(row, of_kind[end.id], end, now)


def keeping(terms: Mapping[str, int | None]) -> Keeping:
    """How a person's checkpoints are kept. People's own are kept until they say otherwise."""
    last = {"auto": terms["checkpoint_keep_last"], "safety": settings.SAFETY_CHECKPOINTS_KEPT}
    return Keeping(last, terms["checkpoint_expiry_s"], terms["notice_s"] or 0)


def point_of(row: Checkpoint) -> Point:
    told = Told(row.notice_because, row.notice_at) if row.notice_because and row.notice_at is not None else None
    return Point(row.pk, row.kind, row.created_at, row.expires_at, told=told)


def give_notice(checkpoint: Checkpoint, end: End, now: datetime) -> None:
    """That it goes, and when. Raises Problem not_found when it is gone already."""
    with transaction.atomic():
        row = services.locked(checkpoint.workspace)
        found = _there(row, checkpoint.pk)
        if point_of(found) == point_of(checkpoint):  # nobody said or changed anything meanwhile
            _say_end(row, found, end, now)


def _say_end(row: Workspace, checkpoint: Checkpoint, end: End, now: datetime) -> None:
    """The event is the notice; e-mail follows where it is set up, but not for each turn of a window that rolls."""
    checkpoint.notice_because, checkpoint.notice_at = end.because, end.at or now
    checkpoint.mailed = end.at is None or not settings.EMAIL_HOST
    checkpoint.save(update_fields=["notice_because", "notice_at", "mailed"])
    term = "expires_at" if checkpoint.expires_at is not None else "checkpoint_expiry_s"
    events.append(row, events.NOTICE, SYSTEM, {
        "to": "deleted", "checkpoint": checkpoint.pk, "name": checkpoint.name, "kind": checkpoint.kind,
        "at": end.at.isoformat() if end.at is not None else None,
        "because": term if end.because == "expired" else "checkpoint_keep_last"}, cause="policy")


# -- the clock's ------------------------------------------------------------------------------------------------------


def auto(workspace: Workspace, actor: Actor) -> Checkpoint | None:
    """Before a program's step that follows a quiet time: a point just before it. None where there is none to take:
    switched off, too soon, nothing changed since the last one, or a state that takes none."""
    if actor.type != "token" or not policies.effective(workspace.owner)["auto_checkpoints"].value:
        return None
    return _unasked(workspace, actor, timedelta(seconds=settings.AUTO_CHECKPOINT_EVERY_S),
                    timedelta(seconds=settings.AUTO_CHECKPOINT_QUIET_S))


def is_capturing(checkpoint_id: str) -> bool:
    return Checkpoint.objects.filter(pk=checkpoint_id, state=CheckpointState.CAPTURING).exists()


def scheduled(workspace: Workspace, every: timedelta) -> Checkpoint | None:
    """By the clock: one each `every`, where something changed."""
    return _unasked(workspace, SYSTEM, every, timedelta(0))


def _unasked(workspace: Workspace, actor: Actor, every: timedelta, quiet: timedelta) -> Checkpoint | None:
    now = timezone.now()
    with transaction.atomic():
        quota.lock(workspace.owner_id)
        row = services.locked(workspace)
        last = Checkpoint.objects.filter(workspace=row, state__in=("capturing", "ready")).first()
        if last is not None and (last.created_at > now - every or not _changed_since(row, last.created_at)):
            return None
        if last is None and not _changed_since(row, row.created_at):
            return None  # it is still what its image is
        active = row.last_activity_at or row.created_at
        if active > now - quiet or row.intent == "deleted" or row.failed_reason or row.state == "creating":
            return None
        try:
            return begin(row, actor, CheckpointKind.AUTO)
        except Problem:
            return None  # nobody asked for it, so its owner's quota refuses it in silence


def _changed_since(row: Workspace, moment: datetime) -> bool:
    """Work that came after it. A checkpoint that is asked for by work is older than the work by a stamp's width."""
    return row.last_activity_at is not None and row.last_activity_at > moment and row.last_activity_kind != "create"


def _save_named(checkpoint: Checkpoint, **how: Any) -> None:
    try:
        with transaction.atomic():
            checkpoint.save(**how)
    except IntegrityError as error:
        raise Problem("name_taken", f"It has another checkpoint named {checkpoint.name!r}.") from error
