"""What comes next for a workspace, when and why, and what keeps it awake: the answer to "why is it (not) stopping?".
Called by shapes and by retention's dry run. Asks the same pure rules that act, over the same counts. Writes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sandboxes.models import Sandbox
from workspaces import idle, idle_rule, policies, retention
from workspaces import retention_rule as rule
from workspaces.counting import Marks, look
from workspaces.idle_rule import Awake
from workspaces.models import Workspace
from workspaces.models_policy import Hold, Tally
from workspaces.policies import values
from workspaces.policy import Effective
from workspaces.tally import count_of


@dataclass(frozen=True)
class Outlook:
    """`to` and `at` are None when nothing comes by itself, or nobody can say when."""

    to: str | None = None
    at: datetime | None = None
    because: str = ""
    awake: tuple[Awake, ...] = ()


def of(rows: Sequence[Workspace], bodies: Mapping[str, Sandbox], now: datetime, book: policies.Book | None = None
       ) -> dict[str, Outlook]:
    """Many at the price of a few queries."""
    terms_of = book or policies.Book()
    ids = [row.pk for row in rows]
    tallies = Tally.objects.in_bulk(ids)
    held: dict[str, list[Hold]] = defaultdict(list)
    for hold in Hold.objects.filter(workspace_id__in=ids, ended_at=None, expires_at__gt=now):
        held[hold.workspace_id].append(hold)
    return {row.pk: one(row, tallies.get(row.pk), held[row.pk], bodies.get(row.pk),
                        terms_of.of_workspace(row.owner_id, row.idle), now) for row in rows}


def one(row: Workspace, tally: Tally | None, held: list[Hold], body: Sandbox | None, terms: Mapping[str, Effective],
        now: datetime) -> Outlook:
    if row.intent == "deleted":
        return Outlook("purged" if row.purge_at else None, row.purge_at, "trash")
    if row.intent == "running" and row.state == "running":
        return _running(row, tally, held, body, terms, now)
    step = rule.next_step(row.state, retention.looked_at(row, tally, now), values(terms), now,
                          notice=retention.notice_of(tally))
    return Outlook() if step is None else Outlook(step.to, step.at, step.because.removesuffix("_s"))


def _running(row: Workspace, tally: Tally | None, held: list[Hold], body: Sandbox | None,
             terms: Mapping[str, Effective], now: datetime) -> Outlook:
    before = count_of(tally)
    fits = before is not None and before.marks.stage == idle.stage_of(row)
    marks = Marks(idle.stage_of(row), row.last_activity_at, before.marks.work if before is not None else None)
    host = body.host if body is not None else None
    seen = idle.Seen(
        marks.work, tally.running_execs if tally is not None else 0, tally is not None and tally.cpu_busy,
        keeps_memory=host is None or bool(host.capabilities.get("memory_images"))
    ) if tally is not None and tally.observed and fits else None
    situation = idle.situation_of(row, look(before, marks, now), held, seen, idle.failed_of(tally))
    said = idle_rule.verdict(situation, idle.after_of(terms, "standby_after_s"), now)
    return Outlook(said.to or None, said.at, said.because, said.awake)


def shown(found: Outlook, instant: Any) -> dict[str, Any]:
    """The two fields of the contract. Without an instant there is no next transition, only what keeps it awake."""
    coming = None if found.to is None or found.at is None else {
        "to": found.to, "at": instant(found.at), "because": found.because}
    return {"next_transition": coming, "awake_because": [
        {"kind": why.kind, "detail": why.detail, "until": instant(why.until)} for why in found.awake]}
