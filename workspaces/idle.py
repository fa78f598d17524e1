"""Carries out the idle rule: looks at every running workspace every few seconds and puts to rest what is idle. Called
by tasks; asks each host once, `idle_rule` for the verdict, and `services` for the change.

    one turn (jobs) ─▶ hosts: what works? ─▶ batches of rows ─▶ count (Tally) ─▶ verdict ─▶ standby | stop

Between look and act the world may change, so the act looks again under the row's lock: another generation, another
stamp, a new hold or new work on the host, and it is left alone.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from sandboxes import machines
from sandboxes.errors import SandboxError
from sandboxes.models import Host, Sandbox
from workspaces import events, holds, idle_rule, jobs, policies, services
from workspaces.actors import SYSTEM
from workspaces.api.errors import Problem
from workspaces.counting import Count, Marks, look
from workspaces.idle_rule import Do, Situation, Verdict
from workspaces.models import Workspace
from workspaces.models_policy import Hold, Tally
from workspaces.policy import Effective
from workspaces.tally import count_of, keep

logger = logging.getLogger(__name__)

EVERY = timedelta(seconds=10)
BATCH = 500
AT_ONCE = 16


@dataclass(frozen=True)
class Seen:
    """What a host said of the work in one machine."""

    last_work_at: datetime | None = None
    running_execs: int = 0
    cpu_busy: bool = False
    holds: tuple[Mapping[str, Any], ...] = ()
    keeps_memory: bool = False


def run(now: datetime | None = None) -> int:
    """One turn; how many were put to rest. Nothing when somebody else has the turn."""
    moment = now or timezone.now()
    turn = jobs.begin("idle", EVERY, moment)
    if turn is None:
        return 0
    try:
        holds.expire(moment)
        return _round(turn, moment)
    finally:
        jobs.end(turn)


def _round(turn: jobs.Turn, now: datetime) -> int:
    book, seen, rested, after = policies.Book(), ask_hosts(), 0, ""
    while batch := _batch(after):
        after = batch[-1].pk
        held = _holds_of([row.pk for row in batch], now)
        tallies = Tally.objects.in_bulk([row.pk for row in batch])
        looked = []
        for row in batch:
            terms = book.of_workspace(row.owner_id, row.idle)
            one = _look(row, tallies.get(row.pk), seen.get(row.pk), held[row.pk], terms, now)
            looked.append((row, one, terms))
        keep([(row, one.count, _observed(one)) for row, one, _ in looked if one.count is not None], tallies)
        for row, one, terms in looked:
            rested += _judge(row, one, terms, turn, now)
    return rested


def _batch(after: str) -> list[Workspace]:
    rows = Workspace.objects.select_related("owner").filter(intent="running", state="running", pk__gt=after)
    return list(rows.order_by("pk")[:BATCH])


def _holds_of(ids: list[str], now: datetime) -> dict[str, list[Hold]]:
    found: dict[str, list[Hold]] = defaultdict(list)
    for hold in Hold.objects.filter(workspace_id__in=ids, ended_at=None, expires_at__gt=now):
        found[hold.workspace_id].append(hold)
    return found


def ask_hosts() -> dict[str, Seen]:
    """Each host once, all at once: a silent one delays nobody's turn. Of its machines nothing is known, so that they
    are kept."""
    hosts = machines.hosts()
    if not hosts:
        return {}
    with ThreadPoolExecutor(min(len(hosts), AT_ONCE), thread_name_prefix="idle") as pool:
        return {machine_id: seen for said in pool.map(_ask, hosts) for machine_id, seen in said.items()}


def _ask(host: Host) -> dict[str, Seen]:
    """In a thread of its own; touches no database."""
    try:
        return {str(said["machine_id"]): heard(host, said["work"]) for said in machines.link(host).machines()
                if said.get("work") is not None}
    except SandboxError as error:
        logger.warning("host %s: %s", host.name, error)
        return {}


def heard(host: Host, work: Mapping[str, Any]) -> Seen:
    return Seen(events.moment(work.get("last_work_at")), int(work.get("running_execs") or 0),
                bool(work.get("cpu_busy")), tuple(work.get("holds") or ()),
                bool(host.capabilities.get("memory_images")))


def _look(row: Workspace, tally: Tally | None, seen: Seen | None, held: list[Hold], terms: Mapping[str, Effective],
          now: datetime) -> Situation:
    """The count after this look. What the guest holds is heard here, before it is weighed."""
    if seen is not None and (seen.holds or any(hold.source == "guest" for hold in held)):
        holds.hear_guest(row, seen.holds, terms["max_hold_s"].value, now)
        held = holds.active(row.pk, now)
    before = count_of(tally)
    work = seen.last_work_at if seen is not None else (before.marks.work if before is not None else None)
    situation = situation_of(row, None, held, seen, failed_of(tally))
    marks = Marks(stage_of(row), row.last_activity_at, work)
    # Nobody knows what a silent host's machines do: they count anew from when it is heard again.
    return replace(situation, count=look(before, marks, now, busy=idle_rule.busy(situation) or seen is None))


def failed_of(tally: Tally | None) -> idle_rule.Failed | None:
    if tally is None or not tally.rest_failures or tally.rest_failed_at is None:
        return None
    return idle_rule.Failed(tally.rest_failures, tally.rest_failed_at, tally.rest_failed_reason)


def situation_of(row: Workspace, count: Count | None, held: list[Hold], seen: Seen | None,
                 failed: idle_rule.Failed | None = None) -> Situation:
    known = seen or Seen(keeps_memory=True)
    return Situation(
        count=count, observed=seen is not None, running_execs=known.running_execs, cpu_busy=known.cpu_busy,
        holds=tuple(idle_rule.Hold(hold.reason, hold.expires_at, hold.source) for hold in held),
        owner_active=row.owner.is_active, keeps_memory=known.keeps_memory, last_kind=row.last_activity_kind,
        failed=failed)


def stage_of(row: Workspace) -> str:
    return f"{row.state}:{row.generation}"


def _observed(one: Situation) -> dict[str, Any]:
    return {"observed": one.observed, "running_execs": one.running_execs, "cpu_busy": one.cpu_busy}


def after_of(terms: Mapping[str, Effective], name: str) -> timedelta | None:
    seconds = terms[name].value
    return None if seconds is None else timedelta(seconds=seconds)


def _judge(row: Workspace, one: Situation, terms: Mapping[str, Effective], turn: jobs.Turn, now: datetime) -> int:
    said = idle_rule.verdict(one, after_of(terms, "standby_after_s"), now)
    if said.do is Do.KEEP or not turn.has_time() or (said.because == "idle" and _works_after_all(row, one)):
        return 0
    try:
        return int(_rest(row, said, cause_of(row, said, terms), turn, now))
    except Problem as refused:
        logger.warning("%s does not go to rest: %s", row.pk, refused)
        return 0


def cause_of(row: Workspace, said: Verdict, terms: Mapping[str, Effective]) -> str:
    if said.because != "idle":
        return said.because.replace("_", " ")
    last = f", last: {row.last_activity_kind}" if row.last_activity_kind else ""
    return f"idle for {terms['standby_after_s'].value} s{last}"


def _works_after_all(row: Workspace, one: Situation) -> bool:
    """Asked once more at the last moment: what began since the round did."""
    body = Sandbox.objects.select_related("host").filter(pk=row.pk).first()
    if body is None or body.host is None:
        return True
    try:
        said = machines.link(body.host).observe(row.pk)
    except SandboxError:
        return True
    now = heard(body.host, said.get("work") or {})
    known = one.count.marks.work if one.count is not None else None
    return said.get("work") is None or now.running_execs > 0 or now.cpu_busy or now.last_work_at != known


def _rest(row: Workspace, said: Verdict, cause: str, turn: jobs.Turn, now: datetime) -> bool:
    with transaction.atomic():
        fresh = Workspace.objects.select_for_update().filter(pk=row.pk).first()
        if fresh is None or not turn.still_ours() or not _same(fresh, row):
            return False
        if said.because == "idle" and holds.active(row.pk, now):
            return False
        services.put_to_rest(SYSTEM, fresh, cause=cause, memory=said.do is Do.STANDBY)
    return True


def _same(fresh: Workspace, row: Workspace) -> bool:
    return (fresh.generation, fresh.intent, fresh.state, fresh.last_activity_at) == (
        row.generation, "running", "running", row.last_activity_at)
