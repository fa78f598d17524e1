"""Counts as rows: reads and writes Tally, many at a time. Called by idle, retention and outlook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from workspaces.counting import Count, Marks
from workspaces.models import Workspace
from workspaces.models_policy import Tally

NO_NOTICE: Mapping[str, Any] = {"notice_to": "", "notice_at": None, "notice_lag": None, "mailed": True}
COLUMNS = ("stage", "activity", "work", "since", "lag", "observed", "running_execs", "cpu_busy", "notice_to",
           "notice_at", "notice_lag", "mailed")


def count_of(tally: Tally | None) -> Count | None:
    if tally is None:
        return None
    return Count(Marks(tally.stage, tally.activity, tally.work), tally.since, tally.seen_at, tally.lag)


def keep(looked: Iterable[tuple[Workspace, Count, Mapping[str, Any]]], before: Mapping[str, Tally]) -> None:
    """New rows, changed rows, and that the rest was seen: each in one statement. A count that began anew takes back
    a notice that was given."""
    new, changed, seen = [], [], []
    at = None
    for workspace, count, said in looked:
        at = count.seen_at
        row = before.get(workspace.pk)
        values = _values(count) | dict(said)
        if row is None:
            new.append(Tally(workspace_id=workspace.pk, seen_at=at, **values))
            continue
        if row.since != count.since or row.stage != count.marks.stage:
            values |= NO_NOTICE
        seen.append(row.pk)
        if any(getattr(row, name) != value for name, value in values.items()):
            for name, value in values.items():
                setattr(row, name, value)
            changed.append(row)
    Tally.objects.bulk_create(new, ignore_conflicts=True)
    Tally.objects.bulk_update(changed, COLUMNS, batch_size=100)
    if seen:
        Tally.objects.filter(pk__in=seen).update(seen_at=at)


def _values(count: Count) -> dict[str, Any]:
    return {"stage": count.marks.stage, "activity": count.marks.activity, "work": count.marks.work,
            "since": count.since, "lag": count.lag}
