"""Events: appended with a gap-free number per workspace, read since N, nudged on commit.

Called by services, announce and the courier; calls `nudges` after commit. The table is the truth: a lost nudge
costs a reader nothing but time.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from workspaces import nudges
from workspaces.actors import SYSTEM, Actor
from workspaces.models import Event, Workspace

#: Said before anything is removed by policy: {to, at, because, checkpoint?, name?, kind?}.
NOTICE = "retention.notice"


def append(workspace: Workspace, kind: str, actor: Actor = SYSTEM, data: Mapping[str, Any] | None = None,
           cause: str = "", at: datetime | None = None) -> Event:
    """Writes the next event under the workspace's row lock, in the caller's transaction or one of its own.

    Raises Workspace.DoesNotExist when the workspace is gone.
    """
    with transaction.atomic():
        locked = Workspace.objects.select_for_update().only("id", "event_seq", "owner_id").get(pk=workspace.pk)
        seq = locked.event_seq + 1
        Workspace.objects.filter(pk=locked.pk).update(event_seq=seq)
        workspace.event_seq = seq
        event = Event.objects.create(
            workspace_id=locked.pk, seq=seq, at=at or timezone.now(), kind=kind, actor_type=actor.type,
            actor_name=actor.name[:200], cause=cause[:200], data=dict(data or {}))
        nudges.workspace_changed(locked.pk, seq, locked.owner_id)
    return event


def since(workspace: Workspace, after: int = 0, limit: int = 200) -> list[Event]:
    """Events with a number above `after`, oldest first."""
    return list(Event.objects.filter(workspace_id=workspace.pk, seq__gt=after).order_by("seq")[:limit])


def before(workspace: Workspace, number: int, limit: int = 200) -> list[Event]:
    """The newest events with a number below `number`, oldest of them first."""
    newest_first = Event.objects.filter(workspace_id=workspace.pk, seq__lt=number).order_by("-seq")[:limit]
    return list(newest_first)[::-1]


#: Whose data is content: commands, file names, and where a guest wanted to go. Admins who are no members see metadata.
CONTENT = ("exec.", "file.", "approval.", "network.refused")


def to_json(event: Event, *, content: bool = True) -> dict[str, Any]:
    """An event as REST and WebSockets show it."""
    data = event.data if content or not event.kind.startswith(CONTENT) else {}
    shown: dict[str, Any] = {
        "seq": event.seq, "at": event.at.isoformat().replace("+00:00", "Z"), "kind": event.kind,
        "actor": {"type": event.actor_type, "name": event.actor_name}, "data": data,
    }
    if event.cause:
        shown["cause"] = event.cause
    return shown


def moment(said: Any) -> datetime | None:
    """An instant as hosts say it: RFC 3339 text, or Unix seconds. None for anything else."""
    try:
        if isinstance(said, int | float) and not isinstance(said, bool):
            return datetime.fromtimestamp(said, UTC)
        found = parse_datetime(said) if isinstance(said, str) else None
    except (ValueError, OverflowError, OSError):
        return None
    return found if found is not None and found.tzinfo is not None else None
