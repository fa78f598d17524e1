"""What tests of retention share: turns of its job, what was said of a workspace, checkpoints of some age."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from workspaces import retention
from workspaces.models import Checkpoint, Event, Workspace

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)


def turns(start: datetime, until: datetime, gap: timedelta = 3 * MINUTE) -> datetime:
    """A turn each few minutes; the instant at which the next would be."""
    now = start
    while now <= until:
        retention.run(now)
        now += gap
    return now


def notices_of(workspace: Workspace) -> list[dict[str, Any]]:
    return list(Event.objects.filter(workspace=workspace, kind="retention.notice").values_list("data", flat=True))


def point(workspace: Workspace, kind: str, age: timedelta, **more: Any) -> Checkpoint:
    row = Checkpoint.objects.create(workspace=workspace, kind=kind, state="ready", actor_type="system",
                                    actor_name="test", **more)
    Checkpoint.objects.filter(pk=row.pk).update(created_at=timezone.now() - age)
    return row
