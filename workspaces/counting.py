"""How long nothing has happened, told by a clock that may jump and by looks that may be late. Pure. Asked by the idle
rule and by retention, once per look; what it returns is kept in a `Tally` row.

A look is made every few seconds. Between two looks at most `MOST` counts, whatever the clock says: a clock set
forward, a control plane that was off, a worker that was frozen make a count *longer* by the wall clock, never
shorter. A clock set back counts nothing and takes nothing away.

    since ───────────────┐ lag: wall time that did not count      at(after) = since + lag + after
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

#: Between two looks no more than this counts.
MOST = timedelta(seconds=60)
NOTHING = timedelta(0)


@dataclass(frozen=True)
class Marks:
    """What would differ if something had happened. Instants are compared for being other, never for being later: the
    clock that made them may have been set back."""

    stage: str = ""
    activity: datetime | None = None
    work: datetime | None = None


@dataclass(frozen=True)
class Count:
    marks: Marks
    since: datetime
    seen_at: datetime
    lag: timedelta = NOTHING

    def passed(self, now: datetime) -> timedelta:
        return max(NOTHING, now - self.since - self.lag)

    def at(self, after: timedelta) -> datetime:
        """When `after` will have passed, if nothing happens."""
        return self.since + self.lag + after


def counted(gap: timedelta, most: timedelta = MOST) -> timedelta:
    return min(max(gap, NOTHING), most)


def look(before: Count | None, marks: Marks, now: datetime, *, busy: bool = False, most: timedelta = MOST) -> Count:
    """The count after one more look. It begins anew with another stage, while busy, and by any mark that is new; a
    new mark cannot be older than the look that did not see it."""
    if before is None or busy or before.marks.stage != marks.stage:
        return Count(marks, since=now, seen_at=now)
    gap = now - before.seen_at
    went_on = replace(before, marks=marks, seen_at=now, lag=before.lag + gap - counted(gap, most))
    fresh = [new for new, old in ((marks.activity, before.marks.activity), (marks.work, before.marks.work))
             if new is not None and new != old]
    if not fresh:
        return went_on
    since = min(now, max(*fresh, now - counted(gap, most)))
    return Count(marks, since, seen_at=now) if now - since < went_on.passed(now) else went_on
