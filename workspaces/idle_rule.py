"""THE IDLE RULE, pure: whether a running workspace goes to rest now, and if not, when and why. Asked by `idle` (which
acts) and by the API (which shows the same answer as `next_transition`).

What counts as work: an exec that runs, terminal input, a file call, a preview request, a hold, a busy processor. An
open tab, a dashboard's polls and health checks reach none of these. A host that says nothing keeps everything: what
was not seen idle is not idle.

    keep ──(nothing counted for standby_after, no hold, the host said so)──▶ standby | stop where hosts keep no memory
      ▲                                                                         │
      └── it could not be kept asleep: again after 5, 10, 20 … 240 minutes ─────┘
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from workspaces.counting import Count

#: How long the rule waits after a standby that failed, doubled each time in a row, at most AGAIN_MOST.
AGAIN_FIRST, AGAIN_MOST = timedelta(minutes=5), timedelta(hours=4)


class Do(StrEnum):
    KEEP = "keep"
    STANDBY = "standby"
    STOP = "stop"


@dataclass(frozen=True)
class Hold:
    reason: str
    until: datetime
    source: str = "api"


@dataclass(frozen=True)
class Failed:
    """Going to standby failed so often in a row, last at that instant."""

    times: int
    at: datetime
    reason: str = ""

    @property
    def again_at(self) -> datetime:
        return self.at + min(AGAIN_MOST, AGAIN_FIRST * (1 << min(self.times - 1, 16)))


@dataclass(frozen=True)
class Situation:
    """One running workspace, as it was last seen."""

    count: Count | None
    observed: bool = True
    running_execs: int = 0
    cpu_busy: bool = False
    holds: tuple[Hold, ...] = ()
    owner_active: bool = True
    keeps_memory: bool = True
    last_kind: str = ""
    failed: Failed | None = None


@dataclass(frozen=True)
class Awake:
    """One thing that keeps it awake."""

    kind: str
    detail: str = ""
    until: datetime | None = None


@dataclass(frozen=True)
class Verdict:
    """`do` is what to do now; `to` and `at` what comes next when nothing happens (`at` None: nobody can say yet)."""

    do: Do
    to: str
    at: datetime | None
    because: str
    awake: tuple[Awake, ...] = ()


def busy(situation: Situation) -> bool:
    return situation.running_execs > 0 or situation.cpu_busy


def verdict(situation: Situation, standby_after: timedelta | None, now: datetime) -> Verdict:
    rest, to = (Do.STANDBY, "standby") if situation.keeps_memory else (Do.STOP, "stopped")
    if not situation.owner_active:
        # Nobody may go on working in it because its memory cannot be kept: its disk is.
        rest, to = (rest, to) if situation.failed is None else (Do.STOP, "stopped")
        return Verdict(rest, to, now, "owner_suspended")
    awake = _awake(situation, now)
    if standby_after is None:
        return Verdict(Do.KEEP, "", None, "never", (*awake, Awake("policy", "It never goes to rest by itself.")))
    if not situation.observed or situation.count is None:
        return Verdict(Do.KEEP, to, None, "not_seen", (*awake, Awake("host", "Its host has not answered yet.")))
    if busy(situation):
        return Verdict(Do.KEEP, to, None, awake[0].kind, awake)
    due = situation.count.at(standby_after)
    held_until = max((one.until for one in awake if one.until is not None), default=due)
    if held_until > due:
        return Verdict(Do.KEEP, to, held_until, "hold", awake)
    failed = situation.failed
    if failed is not None and failed.at <= now < (again_at := max(due, failed.again_at)) and rest is Do.STANDBY:
        said = f"It could not go to standby {failed.times} times in a row: {failed.reason or 'no reason was given'}."
        return Verdict(Do.KEEP, to, again_at, "standby_failed", (*awake, Awake("standby_failed", said, again_at)))
    if now < due:
        return Verdict(Do.KEEP, to, due, "idle", (*awake, Awake("activity", situation.last_kind, due)))
    return Verdict(rest, to, due, "idle")


def _awake(situation: Situation, now: datetime) -> tuple[Awake, ...]:
    found = []
    if situation.running_execs:
        found.append(Awake("exec", f"{situation.running_execs} running"))
    if situation.cpu_busy:
        found.append(Awake("cpu", "Its processors are busy."))
    found += [Awake("hold", hold.reason, hold.until) for hold in situation.holds if hold.until > now]
    return tuple(found)
