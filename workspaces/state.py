"""THE WORKSPACE STATE MACHINE. Pure: asked by services, reconcile and announce; reads no clock, row or host.

    intent ──permit()──▶ accepted | already | refused            (what a command may change)
    facts ──next_plan()──▶ what to do now, or nothing            (what reconcile does)
    facts ──visible()──▶ (state, reason)                         (what people see)

                      ┌────────────── start ───────────────┐
    creating ──▶ running ──stop──▶ stopping ──▶ stopped ──waking┘        any ──delete──▶ deleting ──▶ deleted
                  │ body died, plan gave up
                  └──▶ failed(reason) ──start──▶ waking

Delete wins in every state. A restart is an intent `running` newer than the body that runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sandboxes.lifecycle import Phase

LIVE = frozenset({Phase.STARTING, Phase.RUNNING, Phase.STOPPING})
GONE = frozenset({Phase.ABSENT, Phase.DESTROYED})

#: What a host says of a body that ended with the host itself: nobody's failure, so it starts again.
HOST_WENT_DOWN = frozenset({"host_restarted", "host_rebooted"})
#: The guest switched itself off: the person inside wanted it to stop.
POWERED_OFF = frozenset({"exited", "powered_off"})


class Command(StrEnum):
    START = "start"
    STOP = "stop"
    STANDBY = "standby"
    RESTART = "restart"
    DELETE = "delete"
    UNDELETE = "undelete"
    WAKE = "wake"          # a start that nobody asked for by name: an exec, a file call, a terminal


class Answer(StrEnum):
    ACCEPTED = "accepted"
    ALREADY = "already"
    REFUSED = "refused"


class Next(StrEnum):
    NOTHING = "nothing"
    CREATE = "create"
    START = "start"
    STOP = "stop"
    KILL = "kill"
    PURGE = "purge"
    FORGET = "forget"              # nothing of it is on any host: the row may go
    NOTE_DEATH = "note_death"      # the body ended and nobody had asked
    NOTE_POWER_OFF = "note_power_off"


@dataclass(frozen=True)
class Permit:
    answer: Answer
    reason: str = ""


@dataclass(frozen=True)
class Facts:
    """All that the rules look at. `open_plan` is the unfinished plan run of this generation, if any."""

    intent: str
    generation: int
    phase: Phase = Phase.ABSENT
    booted_generation: int = 0
    failed_reason: str = ""
    end_reason: str = ""
    was_running: bool = False
    has_sandbox: bool = True
    purge_due: bool = False
    open_plan: str = ""
    stage: str = ""
    trouble: str = ""              # why the open plan waits, e.g. "host_unreachable"
    cause: str = ""
    host_open: bool = True         # False while the host puts its machines to rest


ACCEPTED = Permit(Answer.ACCEPTED)
ALREADY = Permit(Answer.ALREADY)


def permit(intent: str, failed_reason: str, command: Command) -> Permit:
    """May this command change the intent? It looks at what is wanted, never at what is under way: a start is
    accepted while stopping, a delete always."""
    if command is Command.STANDBY:
        return Permit(Answer.REFUSED, "not_available")
    if command is Command.DELETE:
        return ALREADY if intent == "deleted" else ACCEPTED
    if command is Command.UNDELETE:
        return ACCEPTED if intent == "deleted" else ALREADY
    if intent == "deleted":
        return Permit(Answer.REFUSED, "deleted")
    return _permit_power(intent, failed_reason, command)


def _permit_power(intent: str, failed_reason: str, command: Command) -> Permit:
    if command is Command.RESTART:
        return ACCEPTED
    if command is Command.STOP:
        return ALREADY if intent == "stopped" else ACCEPTED
    # START and WAKE
    if intent == "running" and not failed_reason:
        return ALREADY
    if command is Command.WAKE and failed_reason not in ("", "machine_died"):
        # A call that comes by a thousand times must not try a broken start each time; a person decides that.
        return Permit(Answer.REFUSED, "failed")
    return ACCEPTED


def next_plan(facts: Facts) -> Next:
    """What reconcile does now. Asked again after each slice, until it says NOTHING."""
    if facts.intent == "deleted":
        return _next_deleted(facts)
    if facts.intent == "stopped" or facts.failed_reason or not facts.host_open:
        return _next_at_rest(facts)
    return _next_running(facts)


def _next_deleted(facts: Facts) -> Next:
    if not facts.purge_due:
        return _next_at_rest(facts)
    return Next.PURGE if facts.has_sandbox else Next.FORGET


def _next_at_rest(facts: Facts) -> Next:
    """A body that should not run is ended: cleanly where somebody's work is in it, at once where not."""
    if facts.phase is Phase.STARTING:
        return Next.KILL
    if facts.phase in (Phase.RUNNING, Phase.STOPPING):
        return Next.KILL if facts.failed_reason and facts.intent == "running" else Next.STOP
    return Next.NOTHING


def _next_running(facts: Facts) -> Next:
    current = facts.booted_generation >= facts.generation
    if facts.phase in GONE:
        return Next.CREATE
    if facts.phase is Phase.STOPPING:
        return Next.STOP
    if facts.phase is Phase.RUNNING:
        return Next.NOTHING if current else Next.STOP
    if facts.phase is Phase.STARTING:
        return _boot(facts) if current else Next.KILL
    if not current or facts.open_plan in (Next.CREATE, Next.START) or facts.end_reason in HOST_WENT_DOWN:
        return _boot(facts)
    if facts.end_reason in POWERED_OFF:
        return Next.NOTE_POWER_OFF
    return Next.NOTE_DEATH if facts.phase is Phase.DEAD else Next.START


def _boot(facts: Facts) -> Next:
    """A create that is under way stays a create (its undo takes the disk away again)."""
    return Next.CREATE if facts.open_plan == Next.CREATE else Next.START


def visible(facts: Facts) -> tuple[str, str]:
    """The state people see and a word on why. Every combination of facts has one."""
    if facts.intent == "deleted":
        busy = facts.phase in LIVE or (facts.purge_due and facts.has_sandbox)
        return ("deleting", facts.trouble) if busy else ("deleted", "")
    if facts.failed_reason:
        return "failed", facts.failed_reason
    if facts.intent == "stopped":
        return ("stopping", facts.trouble) if facts.phase in LIVE else ("stopped", facts.cause)
    if not facts.host_open:
        return ("stopping" if facts.phase in LIVE else "stopped"), "host_draining"
    if facts.phase is Phase.RUNNING and facts.booted_generation >= facts.generation:
        return "running", facts.cause
    changing = "waking" if facts.was_running else "creating"
    return changing, facts.trouble or facts.stage
