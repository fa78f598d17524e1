"""RETENTION, pure: what sleeps too long goes one step down, and is told of before. Asked by `retention` (which acts),
by its dry run, and by the API for `next_transition`.

    standby ─stop_after─▶ stopped ─trash_after─▶ trash ─purge_at─▶ purged         failed goes as stopped does

Nothing is removed before its notice was given, nor before the instant that the notice named. What something else
still needs waits. Of checkpoints, none that is referenced goes, and the newest `keep_last` of each kind stay; the one
that the next will push out is told so while it is still there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from workspaces.counting import NOTHING, Count

#: state -> (what comes next, the term that says when)
LADDER: Mapping[str, tuple[str, str]] = {
    "standby": ("stopped", "stop_after_s"), "stopped": ("deleted", "trash_after_s"),
    "failed": ("deleted", "trash_after_s"),
}
TRASH = "deleted"
FAR = datetime.max.replace(tzinfo=UTC)


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
class Told:
    """That people were told of a checkpoint's end: why, and what instant was named."""

    because: str
    at: datetime


@dataclass(frozen=True)
class Point:
    """A checkpoint, as far as keeping it is concerned. `kind`: manual, auto, safety."""

    id: str
    kind: str
    created_at: datetime
    expires_at: datetime | None = None
    ready: bool = True
    told: Told | None = None


@dataclass(frozen=True)
class Keeping:
    """How checkpoints are kept. `last` is by kind; a kind that is not in it (manual) ends only by an `expires_at`
    somebody set."""

    last: Mapping[str, int | None]
    expiry_s: int | None = None
    notice_s: int = 0


@dataclass(frozen=True)
class End:
    """What to do about a checkpoint now: wait until `at`, say that it goes then (None: with the next of its kind), or
    let it go."""

    do: Do
    id: str
    because: str
    at: datetime | None


def ends(points: Iterable[Point], keeping: Keeping, now: datetime, referenced: Collection[str] = ()) -> list[End]:
    """Of one workspace's checkpoints, oldest first: whose end is known, is to be said now, or is now (`expired`,
    `kept_last`). None goes that was not told of, none that is referenced. The newest safety checkpoint stays while
    only others crowd it: it is what undoes the last restore."""
    listed = sorted((p for p in points if p.ready), key=lambda p: (p.created_at, p.id))
    newest_safety = next((p.id for p in reversed(listed) if p.kind == "safety"), None)
    newer: Counter[str] = Counter()
    found = []
    for point in reversed(listed):
        end = _first(_by_time(point, keeping, now),
                     None if point.id == newest_safety else _by_number(point, newer[point.kind], keeping, now))
        newer[point.kind] += 1
        if end is not None and not (end.do is Do.ACT and point.id in referenced):
            found.append(end)
    return found[::-1]


def end_by_time(point: Point, keeping: Keeping) -> datetime | None:
    """When it goes, whatever else there is."""
    if point.expires_at is not None or point.kind not in keeping.last or keeping.expiry_s is None:
        return point.expires_at
    return point.created_at + timedelta(seconds=keeping.expiry_s)


def _first(by_time: End | None, by_number: End | None) -> End | None:
    """What is to be done now comes before what is waited for."""
    found = [end for end in (by_time, by_number) if end is not None]
    now = (end for end in found if end.do is not Do.WAIT)
    return next(now, min(found, key=lambda end: end.at or FAR, default=None))


def _by_time(point: Point, keeping: Keeping, now: datetime) -> End | None:
    at = end_by_time(point, keeping)
    if at is None:
        return None
    lead = min(timedelta(seconds=keeping.notice_s), max(NOTHING, at - point.created_at))
    told = point.told
    if told is None or told.because != "expired" or told.at < at:
        if now < at - lead:
            return End(Do.WAIT, point.id, "expired", at)
        return End(Do.NOTIFY, point.id, "expired", at if now < at else now + lead)
    return End(Do.ACT if now >= told.at else Do.WAIT, point.id, "expired", told.at)


def _by_number(point: Point, newer: int, keeping: Keeping, now: datetime) -> End | None:
    """Those of a kind are a window that rolls on: the last in it is told that the next one pushes it out."""
    most = keeping.last.get(point.kind)
    if most is None or newer < most - 1:
        return None
    if newer < most:
        return End(Do.NOTIFY, point.id, "kept_last", None) if point.told is None else None
    if point.told is None:
        return End(Do.NOTIFY, point.id, "kept_last", now + timedelta(seconds=keeping.notice_s))
    return End(Do.ACT if now >= point.told.at else Do.WAIT, point.id, "kept_last", point.told.at)
