"""Counts as rows: reads and writes Tally, many at a time. Called by idle, retention and outlook; services and reconcile
say how going to rest went.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db.models import F

from workspaces.counting import NOTHING, Count, Marks
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
    """Four statements for any number: new rows, changed rows, rows that only count anew from this look (all that
    work), and that the rest was seen."""
    new, changed, anew, seen = [], [], [], []
    at = None
    for workspace, count, said in looked:
        at = count.seen_at
        row = before.get(workspace.pk)
        if row is None:
            new.append(Tally(workspace_id=workspace.pk, seen_at=at, **_values(count), **said))
            continue
        names = _changes(row, count, said)
        if names <= {"since", "lag"} and names and count.since == at:
            anew.append(row.pk)
        elif names:
            changed.append(row)
        seen.append(row.pk)
    Tally.objects.bulk_create(new, ignore_conflicts=True)
    Tally.objects.bulk_update(changed, COLUMNS, batch_size=100)
    for pks, values in ((anew, {"since": at, "lag": NOTHING}), (seen, {"seen_at": at})):
        if pks:
            Tally.objects.filter(pk__in=pks).update(**values)


def note_rest_failed(workspace_id: str, reason: str, now: datetime) -> None:
    Tally.objects.filter(pk=workspace_id).update(
        rest_failures=F("rest_failures") + 1, rest_failed_at=now, rest_failed_reason=reason[:60])


def note_rested(workspace_id: str) -> None:
    Tally.objects.filter(pk=workspace_id, rest_failures__gt=0).update(
        rest_failures=0, rest_failed_at=None, rest_failed_reason="")


def _changes(row: Tally, count: Count, said: Mapping[str, Any]) -> set[str]:
    """Sets what is new and names it. A count that began anew takes back a notice that was given."""
    values = _values(count) | dict(said)
    if row.since != count.since or row.stage != count.marks.stage:
        values |= NO_NOTICE
    names = {name for name, value in values.items() if getattr(row, name) != value}
    for name in names:
        setattr(row, name, values[name])
    return names


def _values(count: Count) -> dict[str, Any]:
    return {"stage": count.marks.stage, "activity": count.marks.activity, "work": count.marks.work,
            "since": count.since, "lag": count.lag}
