"""THE IDLE RULE, pure: whether a running workspace goes to rest now, and if not, when and why. Asked by `idle` (which
acts) and by the API (which shows the same answer as `next_transition`).

What counts as work: an exec that runs, terminal input, a file call, a preview request, a hold, a busy processor. An
open tab, a dashboard's polls and health checks reach none of these. A host that says nothing keeps everything: what
was not seen idle is not idle.

    keep ──(nothing counted for standby_after, no hold, the host said so)──▶ standby | stop where hosts keep no memory
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from workspaces.counting import Count


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
