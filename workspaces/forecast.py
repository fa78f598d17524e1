"""The dry run: what would go and when, if nothing happened from now on. Called by the API and by `berth_retention`;
asks the same rules that act, over the same counts. Writes nothing.

A workspace is followed down the whole ladder: its second step is counted from its first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q

from workspaces import policies, retention
from workspaces import retention_rule as rule
from workspaces.models import User, Workspace
from workspaces.models_policy import Tally
from workspaces.policies import values
from workspaces.retention_rule import Do

MOST = 1000


@dataclass(frozen=True)
class Forecast:
    kind: str
    id: str
    name: str
    workspace: str
    owner: str
    to: str
    at: datetime
    because: str
    noticed: bool = False


def forecast(book: policies.Book, now: datetime, horizon: timedelta, owner: User | None = None
             ) -> tuple[list[Forecast], bool]:
    """What goes within the horizon, soonest first, and whether that is all."""
    found: list[Forecast] = []
    for one in _everything(book, now, now + horizon, owner):
        found.append(one)
        if len(found) > MOST:
            break
    listed = sorted(found[:MOST], key=lambda one: (one.at, one.id))
    return listed, len(found) <= MOST


def _everything(book: policies.Book, now: datetime, until: datetime, owner: User | None) -> Iterator[Forecast]:
    mine = Q() if owner is None else Q(owner=owner)
    rows = Workspace.objects.select_related("owner").filter(mine).filter(retention.AT_REST | Q(intent="deleted"))
    for batch in _batches(list(rows.order_by("pk"))):
        tallies = Tally.objects.in_bulk([row.pk for row in batch])
        for row in batch:
            terms = values(book.of_workspace(row.owner_id, row.idle))
            yield from (one for one in _ladder(row, tallies.get(row.pk), terms, now) if one.at <= until)
    yield from (one for one in _checkpoints(book, now, until, owner))


def _batches(rows: list[Workspace]) -> Iterator[list[Workspace]]:
    for start in range(0, len(rows), retention.BATCH):
        yield rows[start:start + retention.BATCH]


def _ladder(row: Workspace, tally: Tally | None, terms: Mapping[str, int | None], now: datetime) -> Iterator[Forecast]:
    def said(to: str, at: datetime, because: str, noticed: bool = False) -> Forecast:
        return Forecast("workspace", row.pk, row.name, row.pk, row.owner.get_username(), to, at, because, noticed)

    if row.intent == "deleted":
        if row.purge_at is not None:
            yield said("purged", row.purge_at, "purge_after_s", tally is not None and tally.notice_to == "purged")
        return
    notice = retention.notice_of(tally)
    step = rule.next_step(row.state, retention.looked_at(row, tally, now), terms, now, notice=notice)
    noticed = notice is not None and step is not None and notice.to == step.to
    to, at = row.state, now
    if step is not None:
        yield said(step.to, step.at, step.because, noticed)
        to, at = step.to, step.at
    while step is not None and to in rule.LADDER:
        following, term = rule.LADDER[to]
        seconds = terms.get(term)
        if seconds is None:
            return
        to, at = following, at + timedelta(seconds=seconds)
        yield said(to, at, term)
    seconds = terms.get("purge_after_s")
    if to == rule.TRASH and seconds is not None:
        yield said("purged", at + timedelta(seconds=seconds), "purge_after_s")


def _checkpoints(book: policies.Book, now: datetime, until: datetime, owner: User | None) -> Iterator[Forecast]:
    """Those whose end is known. Which one the next automatic one will push out is no matter of time."""
    for row, end in retention.ends(book, now, owner):
        if end.at is not None and end.at <= until:
            told = end.do is not Do.NOTIFY and bool(row.notice_because)
            yield Forecast("checkpoint", row.pk, row.name, row.workspace_id, row.workspace.owner.get_username(),
                           "deleted", max(end.at, now), end.because, told)
