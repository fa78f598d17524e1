"""The dry run: what would go and when, if nothing happened from now on. Called by the API and by `berth_retention`;
asks the same rules that act, over the same counts. Writes nothing.

A workspace is followed down the whole ladder: its second step is counted from its first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q

from sandboxes import machines
from workspaces import outlook, policies, retention
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


def forecast(book: policies.Book, now: datetime, horizon: timedelta, owner: User | None = None, *,
             running: bool = False) -> tuple[list[Forecast], bool]:
    """What goes within the horizon, soonest first, and whether that is all. `running`: with those that run now and
    would go to rest."""
    found: list[Forecast] = []
    for one in _everything(book, now, now + horizon, owner, running):
        found.append(one)
        if len(found) > MOST:
            break
    listed = sorted(found[:MOST], key=lambda one: (one.at, one.id))
    return listed, len(found) <= MOST


def _everything(book: policies.Book, now: datetime, until: datetime, owner: User | None, running: bool
                ) -> Iterator[Forecast]:
    mine = Q() if owner is None else Q(owner=owner)
    rows = Workspace.objects.select_related("owner").filter(mine).filter(retention.AT_REST | Q(intent="deleted"))
    for batch in _batches(list(rows.order_by("pk"))):
        tallies = Tally.objects.in_bulk([row.pk for row in batch])
        for row in batch:
            terms = values(book.of_workspace(row.owner_id, row.idle))
            yield from (one for one in _ladder(row, tallies.get(row.pk), terms, now) if one.at <= until)
    yield from (one for one in _checkpoints(book, now, until, owner))
    if running:
        yield from (one for one in _running(book, now, mine) if one.at <= until)


def _running(book: policies.Book, now: datetime, mine: Q) -> Iterator[Forecast]:
    """Those that nothing keeps awake: to rest when they have been idle for long enough, and down the ladder then."""
    rows = Workspace.objects.select_related("owner").filter(mine, intent="running", state="running").order_by("pk")
    for batch in _batches(list(rows)):
        coming = outlook.of(batch, machines.bodies([row.pk for row in batch]), now, book)
        for row in batch:
            next_one = coming[row.pk]
            if next_one.to is not None and next_one.at is not None:
                at = max(next_one.at, now)
                yield _said(row, next_one.to, at, next_one.because)
                yield from _following(row, next_one.to, at, values(book.of_workspace(row.owner_id, row.idle)))


def _batches(rows: list[Workspace]) -> Iterator[list[Workspace]]:
    for start in range(0, len(rows), retention.BATCH):
        yield rows[start:start + retention.BATCH]


def _ladder(row: Workspace, tally: Tally | None, terms: Mapping[str, int | None], now: datetime) -> Iterator[Forecast]:
    if row.intent == "deleted":
        if row.purge_at is not None:
            yield _said(row, "purged", row.purge_at, "purge_after_s", tally is not None and tally.notice_to == "purged")
        return
    notice = retention.notice_of(tally)
    step = rule.next_step(row.state, retention.looked_at(row, tally, now), terms, now, notice=notice)
    noticed = notice is not None and step is not None and notice.to == step.to
    if step is not None:
        yield _said(row, step.to, step.at, step.because, noticed)
        yield from _following(row, step.to, step.at, terms)


def _following(row: Workspace, to: str, at: datetime, terms: Mapping[str, int | None]) -> Iterator[Forecast]:
    """What comes after that step, each counted from the one before."""
    while to in rule.LADDER:
        to, term = rule.LADDER[to]
        seconds = terms.get(term)
        if seconds is None:
            return
        at += timedelta(seconds=seconds)
        yield _said(row, to, at, term)
    seconds = terms.get("purge_after_s")
    if to == rule.TRASH and seconds is not None:
        yield _said(row, "purged", at + timedelta(seconds=seconds), "purge_after_s")


def _said(row: Workspace, to: str, at: datetime, because: str, noticed: bool = False) -> Forecast:
    return Forecast("workspace", row.pk, row.name, row.pk, row.owner.get_username(), to, at, because, noticed)


def _checkpoints(book: policies.Book, now: datetime, until: datetime, owner: User | None) -> Iterator[Forecast]:
    """Those whose end is known. Which one the next automatic one will push out is no matter of time."""
    for row, end in retention.ends(book, now, owner):
        if end.at is not None and end.at <= until:
            told = end.do is not Do.NOTIFY and bool(row.notice_because)
            yield Forecast("checkpoint", row.pk, row.name, row.workspace_id, row.workspace.owner.get_username(),
                           "deleted", max(end.at, now), end.because, told)
