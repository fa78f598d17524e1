"""RETENTION, pure: what sleeps too long goes one step down, and is told of before. Asked by `retention` (which acts),
by its dry run, and by the API for `next_transition`.

    standby ─stop_after─▶ stopped ─trash_after─▶ trash ─purge_at─▶ purged         failed goes as stopped does

Nothing is removed before its notice was given, nor before the instant that the notice named. What something else
still needs waits. Of checkpoints, none that is referenced goes, and the newest `keep_last` of each kind stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from workspaces.counting import NOTHING, Count

#: state -> (what comes next, the term that says when)
LADDER: Mapping[str, tuple[str, str]] = {
    "standby": ("stopped", "stop_after_s"), "stopped": ("deleted", "trash_after_s"),
    "failed": ("deleted", "trash_after_s"),
}
TRASH = "deleted"


class Do(StrEnum):
    WAIT = "wait"
    NOTIFY = "notify"
    ACT = "act"


@dataclass(frozen=True)
class Notice:
    """That people were told: of what, what instant was named, and how the count lagged then."""

    to: str
    promised_at: datetime
    lag: timedelta = NOTHING


@dataclass(frozen=True)
class Step:
    do: Do
    to: str
    at: datetime
    because: str
    #: Whether `at` stands still until somebody else lets go.
    blocked: bool = False


def next_step(state: str, count: Count, terms: Mapping[str, int | None], now: datetime, *,
              notice: Notice | None = None, referenced: bool = False) -> Step | None:
    """What becomes of a workspace at rest. None: by policy nothing, ever."""
    if state not in LADDER:
        return None
    to, term = LADDER[state]
    seconds = terms.get(term)
    if seconds is None:
        return None
    after = timedelta(seconds=seconds)
    lead = min(timedelta(seconds=terms.get("notice_s") or 0), after)
    at = count.at(after)
    if notice is None or notice.to != to:
        told_by = at - lead
        return Step(Do.NOTIFY, to, max(at, now + lead), term) if now >= told_by else Step(Do.WAIT, to, at, term)
    at = max(at, notice.promised_at + max(NOTHING, count.lag - notice.lag))
    if referenced:
        return Step(Do.WAIT, to, at, term, blocked=True)
    return Step(Do.ACT if now >= at else Do.WAIT, to, at, term)


def purge_notice_due(purge_at: datetime | None, terms: Mapping[str, int | None], notice: Notice | None,
                     now: datetime) -> bool:
    """What is in the trash is purged at the instant it was told when it went there; it is said once more before."""
    if purge_at is None or now >= purge_at or (notice is not None and notice.to == "purged"):
        return False
    return now >= purge_at - timedelta(seconds=terms.get("notice_s") or 0)


@dataclass(frozen=True)
class Point:
    """A checkpoint, as far as keeping it is concerned. `kind`: manual, auto, safety."""

    id: str
    kind: str
    created_at: datetime
    expires_at: datetime | None = None
    ready: bool = True


def surplus(points: Iterable[Point], keep_last: Mapping[str, int | None], expiry_s: int | None, now: datetime,
            referenced: Collection[str] = ()) -> list[tuple[str, str]]:
    """Checkpoints to remove, oldest first, and why (`expired`, `kept_last`). `keep_last` is by kind; a kind that is
    not in it (manual) ends only by an `expires_at` somebody set. The newest safety checkpoint stays while only others
    crowd it: it is what undoes the last restore."""
    listed = sorted((p for p in points if p.ready), key=lambda p: (p.created_at, p.id))
    newest_safety = next((p.id for p in reversed(listed) if p.kind == "safety"), None)
    found = []
    for number, point in enumerate(listed):
        because = _because(point, sum(p.kind == point.kind for p in listed[number + 1:]), keep_last, expiry_s, now)
        spared = point.id in referenced or (point.id == newest_safety and because == "kept_last")
        if because and not spared:
            found.append((point.id, because))
    return found


def _because(point: Point, newer: int, keep_last: Mapping[str, int | None], expiry_s: int | None,
             now: datetime) -> str:
    if point.expires_at is not None:
        if now >= point.expires_at:
            return "expired"
    elif point.kind in keep_last and expiry_s is not None and now >= point.created_at + timedelta(seconds=expiry_s):
        return "expired"
    most = keep_last.get(point.kind)
    return "kept_last" if most is not None and newer >= most else ""
