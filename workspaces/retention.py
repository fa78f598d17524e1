"""Carries out retention: what sleeps too long goes one step down, after it was said; automatic checkpoints are taken
and thinned out. Called by tasks; asks `retention_rule`; acts through `services` and `checkpoints`.

    one turn (jobs) ─▶ rows at rest ─▶ count (Tally) ─▶ next_step ─▶ wait | notice | stop | trash
                    ─▶ rows in the trash ─▶ notice           (reconcile purges at purge_at)
                    ─▶ checkpoints ─▶ ends ─▶ notice | delete

Each act looks again under the row's lock; whoever started it meanwhile has it.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Max, Q
from django.utils import timezone

from workspaces import checkpoints, events, facts, jobs, policies, services
from workspaces import retention_rule as rule
from workspaces.actors import SYSTEM
from workspaces.api.errors import Problem
from workspaces.counting import Count, Marks, look
from workspaces.models import Checkpoint, CheckpointState, User, Workspace
from workspaces.models_policy import Tally
from workspaces.policies import values
from workspaces.retention_rule import Do, End, Keeping, Notice, Step
from workspaces.tally import count_of, keep

logger = logging.getLogger(__name__)

EVERY = timedelta(seconds=60)
#: Between two looks at a row no more than this counts.
MOST = timedelta(minutes=10)
BATCH = 500
AT_REST = Q(intent="standby", state="standby") | Q(intent="stopped", state="stopped") | (
    Q(state="failed") & ~Q(intent="deleted"))
UNOBSERVED: Mapping[str, Any] = {"observed": False, "running_execs": 0, "cpu_busy": False}


def run(now: datetime | None = None) -> None:
    """One turn. Nothing when somebody else has it."""
    moment = now or timezone.now()
    turn = jobs.begin("retention", EVERY, moment)
    if turn is None:
        return
    try:
        book = policies.Book()
        _rest(book, turn, moment)
        _trash(book, turn, moment)
        _thin_out(book, turn, moment)
    finally:
        jobs.end(turn)


def _rest(book: policies.Book, turn: jobs.Turn, now: datetime) -> None:
    after = ""
    while batch := resting(after):
        after = batch[-1].pk
        tallies = Tally.objects.in_bulk([row.pk for row in batch])
        looked = [(row, looked_at(row, tallies.get(row.pk), now)) for row in batch]
        keep([(row, count, UNOBSERVED) for row, count in looked], tallies)
        for row, count in looked:
            terms = values(book.of_workspace(row.owner_id, row.idle))
            _judge(row, count, notice_of(tallies.get(row.pk)), terms, turn, now)


def resting(after: str) -> list[Workspace]:
    rows = Workspace.objects.select_related("owner").filter(AT_REST, pk__gt=after)
    return list(rows.order_by("pk")[:BATCH])


def looked_at(row: Workspace, tally: Tally | None, now: datetime) -> Count:
    marks = Marks(f"{row.state}:{row.generation}", row.last_activity_at, None)
    return look(count_of(tally), marks, now, most=MOST)


def notice_of(tally: Tally | None) -> Notice | None:
    if tally is None or not tally.notice_to or tally.notice_at is None:
        return None
    return Notice(tally.notice_to, tally.notice_at, tally.notice_lag or timedelta(0))


def _judge(row: Workspace, count: Count, notice: Notice | None, terms: Mapping[str, int | None], turn: jobs.Turn,
           now: datetime) -> None:
    step = rule.next_step(row.state, count, terms, now, notice=notice)
    if step is None or step.do is Do.WAIT or not turn.has_time():
        return
    with transaction.atomic():
        fresh = Workspace.objects.select_for_update().filter(pk=row.pk).first()
        if fresh is None or not turn.still_ours() or (fresh.generation, fresh.state) != (row.generation, row.state):
            return
        if step.do is Do.NOTIFY:
            give_notice(fresh, step.to, step.at, step.because, count.lag)
        elif not is_referenced(fresh):
            _act(fresh, step, terms)


def is_referenced(row: Workspace) -> bool:
    """Something that is still to be made begins with this one's disk."""
    return Workspace.objects.filter(facts.forks_of(row.pk)).exists()


def give_notice(row: Workspace, to: str, at: datetime, because: str, lag: timedelta = timedelta(0)) -> None:
    """Within the caller's transaction. The event is the notice; e-mail follows where it is set up."""
    events.append(row, events.NOTICE, SYSTEM, {"to": to, "at": at.isoformat(), "because": because},
                  cause="policy")
    Tally.objects.filter(pk=row.pk).update(notice_to=to, notice_at=at, notice_lag=lag, mailed=not settings.EMAIL_HOST)


def _act(row: Workspace, step: Step, terms: Mapping[str, int | None]) -> None:
    seconds = terms[step.because] or 0
    cause = f"{row.state} for {_spoken(seconds)}, by policy"
    try:
        if step.to == "stopped":
            services.stop(SYSTEM, row, cause=cause)
        else:
            services.delete(SYSTEM, row, cause=cause)
    except Problem as refused:
        logger.warning("%s does not go to %s: %s", row.pk, step.to, refused)


def _spoken(seconds: int) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _trash(book: policies.Book, turn: jobs.Turn, now: datetime) -> None:
    """Said once more before the end. What its owner ended at once needs no notice."""
    rows = Workspace.objects.filter(intent="deleted", purge_at__gt=now).exclude(tally__notice_to="purged")
    for row in rows.order_by("purge_at")[:BATCH]:
        if not rule.purge_notice_due(row.purge_at, values(book.of(row.owner_id)), None, now):
            continue
        if not turn.has_time():
            return
        with transaction.atomic():
            fresh = Workspace.objects.select_for_update().filter(pk=row.pk, intent="deleted", purge_at__gt=now).first()
            if fresh is not None and fresh.purge_at is not None:
                _tally_for(fresh, now)
                give_notice(fresh, "purged", fresh.purge_at, "purge_after_s")


def _tally_for(row: Workspace, now: datetime) -> None:
    count = Count(Marks(f"{row.state}:{row.generation}", row.last_activity_at), now, now)
    keep([(row, count, UNOBSERVED)], Tally.objects.in_bulk([row.pk]))


# -- checkpoints ---------------------------------------------------------------------------------------------------


def _thin_out(book: policies.Book, turn: jobs.Turn, now: datetime) -> None:
    """Their ends are said, and what was said and is due goes."""
    for checkpoint, end in ends(book, now):
        if end.do is Do.WAIT:
            continue
        if not turn.has_time() or not turn.still_ours():
            return
        try:
            if end.do is Do.NOTIFY:
                checkpoints.give_notice(checkpoint, end, now)
            else:
                checkpoints.delete(SYSTEM, checkpoint, end.because)
        except Problem:
            continue  # somebody was faster


def ends(book: policies.Book, now: datetime, owner: User | None = None) -> Iterable[tuple[Checkpoint, End]]:
    """Whose end is known, is to be said now, or is now. What something under way needs is kept out of sight by
    `checkpoints` itself; here it is not even asked for."""
    mine = Q() if owner is None else Q(workspace__owner=owner)
    rows = Checkpoint.objects.select_related("workspace__owner").filter(
        mine, Q(expires_at__isnull=False) | ~Q(kind="manual"), state=CheckpointState.READY, dropped_at=None)
    by_workspace: dict[str, list[Checkpoint]] = defaultdict(list)
    for row in rows.exclude(workspace__intent="deleted").iterator(chunk_size=1000):
        by_workspace[row.workspace_id].append(row)
    for found in by_workspace.values():
        yield from _ends_of(found, checkpoints.keeping(values(book.of(found[0].workspace.owner_id))), now)


def _ends_of(found: list[Checkpoint], keeping: Keeping, now: datetime) -> Iterable[tuple[Checkpoint, End]]:
    points = [checkpoints.point_of(row) for row in found]
    due = rule.ends(points, keeping, now)
    if any(end.do is Do.ACT for end in due):
        due = rule.ends(points, keeping, now, facts.needed(found[0].workspace))
    by_id = {row.pk: row for row in found}
    for end in due:
        yield by_id[end.id], end


def take_automatic(now: datetime | None = None) -> int:
    """The schedule's checkpoints: of what runs and was worked in since the last one. How many were begun."""
    moment = now or timezone.now()
    turn = jobs.begin("checkpoints", EVERY, moment)
    if turn is None:
        return 0
    try:
        return sum(_take(row, every) for row, every in _due(policies.Book(), moment)
                   if turn.has_time() and turn.still_ours())
    finally:
        jobs.end(turn)


def _due(book: policies.Book, now: datetime) -> Iterable[tuple[Workspace, timedelta]]:
    rows = Workspace.objects.filter(intent="running", state="running", last_activity_at__isnull=False)
    rows = rows.annotate(last_point=Max("checkpoints__created_at", filter=~Q(checkpoints__state="failed")))
    for row in rows:
        terms = values(book.of(row.owner_id))
        seconds = terms["auto_checkpoint_interval_s"]
        if not terms["auto_checkpoints"] or seconds is None:
            continue
        since, active = row.last_point or row.created_at, row.last_activity_at
        if active is not None and active > since and now - since >= timedelta(seconds=seconds):
            yield row, timedelta(seconds=seconds)


def _take(row: Workspace, every: timedelta) -> bool:
    try:
        return checkpoints.scheduled(row, every) is not None
    except Problem as refused:
        logger.info("no automatic checkpoint of %s: %s", row.pk, refused)
        return False
