"""THE WORKSPACE STATE MACHINE. Pure: asked by services, reconcile and announce; reads no clock, row or host.

    intent ──permit()──▶ accepted | already | refused            (what a command may change)
    facts ──next_plan()──▶ what to do now, or nothing            (what reconcile does)
    facts ──visible()──▶ (state, reason)                         (what people see)

                      ┌──────── start, or any first call ────────┐
    creating ──▶ running ──standby──▶ parking ──▶ standby ──waking┤       any ──delete──▶ deleting ──▶ deleted
                  │ │ └────stop─────▶ stopping ──▶ stopped ───────┘       any ──restore──▶ restoring ──▶ as it was,
                  │ └ body died, plan gave up                                              over another disk
                  └──▶ failed(reason) ──start──▶ waking

Delete wins in every state. A restart is an intent `running` newer than the body that runs. A checkpoint that was
asked for comes before whatever was asked for after it; a restore is "the wanted head differs from the held one".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sandboxes.lifecycle import Phase

LIVE = frozenset({Phase.STARTING, Phase.RUNNING, Phase.STOPPING})
GONE = frozenset({Phase.ABSENT, Phase.DESTROYED})
OFF = frozenset({Phase.STOPPED, Phase.DEAD})

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
    CHECKPOINT = "checkpoint"
    RESTORE = "restore"
    FORK = "fork"


class Answer(StrEnum):
    ACCEPTED = "accepted"
    ALREADY = "already"
    REFUSED = "refused"


class Next(StrEnum):
    NOTHING = "nothing"
    CREATE = "create"
    CLONE = "clone"
    START = "start"
    PARK = "park"
    STOP = "stop"
    KILL = "kill"
    DISCARD = "discard"
    CAPTURE = "capture"
    ROLLBACK = "rollback"
    DROP = "drop"
    PURGE = "purge"
    FORGET = "forget"              # nothing of it is on any host: the row may go
    AWAIT_ORIGIN = "await_origin"  # a fork whose checkpoint is still being taken
    ABANDON = "abandon"            # moments were asked for of a disk that is not there
    NOTE_DEATH = "note_death"      # the body ended and nobody had asked
    NOTE_POWER_OFF = "note_power_off"
    NOTE_MEMORY_LOST = "note_memory_lost"   # it was to sleep, and there is no memory to sleep with
    NOTE_DISK_LOST = "note_disk_lost"       # its host has no disk of it any more
    NOTE_ORIGIN_LOST = "note_origin_lost"   # a fork whose checkpoint failed or went


#: Things that are noted upstairs and change nothing on a host.
NOTES = frozenset({Next.ABANDON, Next.NOTE_DEATH, Next.NOTE_POWER_OFF, Next.NOTE_MEMORY_LOST, Next.NOTE_DISK_LOST,
                   Next.NOTE_ORIGIN_LOST})
BOOTING = frozenset({"create", "clone", "start"})


@dataclass(frozen=True)
class Permit:
    answer: Answer
    reason: str = ""


@dataclass(frozen=True)
class Facts:
    """All that the rules look at. `open_plan` is the unfinished plan run of this generation, if any."""

    intent: str
    generation: int                # the oldest that a body, or a memory to resume, may be of
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
    host_silent: bool = False      # it may be well, and so may what is there: nothing changes but the reason shown
    condition: str = ""            # what is wrong with a guest whose body lives, e.g. "agent_silent"
    under_way: str = ""            # the operation that the host is at, e.g. "park"
    can_park: bool = True          # its host keeps memory images
    park_failed: bool = False      # it tried while it was being drained, and could not
    capture: str = ""              # the checkpoint that waits to be taken
    restore: str = ""              # the checkpoint that is to become the disk
    origin: str = ""               # of a fork that has not begun: waiting, ready or lost
    disk_lost: bool = False        # it had a disk, and nobody said that it may begin anew
    drop: str = ""                 # a checkpoint that its host is to forget

    @property
    def wants_body(self) -> bool:
        return self.intent in ("running", "standby") and not self.failed_reason and self.host_open


ACCEPTED = Permit(Answer.ACCEPTED)
ALREADY = Permit(Answer.ALREADY)


def permit(intent: str, failed_reason: str, command: Command, *, can_park: bool = True,
           restoring: bool = False) -> Permit:
    """May this command change the intent? It looks at what is wanted, never at what is under way: a start is
    accepted while stopping, a delete always."""
    if command is Command.DELETE:
        return ALREADY if intent == "deleted" else ACCEPTED
    if command is Command.UNDELETE:
        return ACCEPTED if intent == "deleted" else ALREADY
    if intent == "deleted":
        return Permit(Answer.REFUSED, "deleted")
    if command is Command.STANDBY:
        return _permit_standby(intent, failed_reason, can_park)
    if command is Command.RESTORE:
        return Permit(Answer.REFUSED, "restoring") if restoring else ACCEPTED
    if command in (Command.CHECKPOINT, Command.FORK, Command.RESTART):
        return ACCEPTED
    return _permit_power(intent, failed_reason, command)


def _permit_standby(intent: str, failed_reason: str, can_park: bool) -> Permit:
    """There must be a memory to keep, and a host that keeps it."""
    if failed_reason:
        return Permit(Answer.REFUSED, "failed")
    if intent == "stopped":
        return Permit(Answer.REFUSED, "stopped")
    if intent == "standby":
        return ALREADY
    return ACCEPTED if can_park else Permit(Answer.REFUSED, "no_memory_images")


def _permit_power(intent: str, failed_reason: str, command: Command) -> Permit:
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
    wanted = _next(facts)
    if wanted is Next.NOTHING and facts.drop:
        return Next.DROP  # housekeeping delays nobody
    return wanted


def _next(facts: Facts) -> Next:
    if facts.intent == "deleted":
        return _next_deleted(facts)
    if facts.capture or facts.restore:
        moment = _next_moment(facts)
        if moment is not Next.NOTHING:
            return moment
    if facts.intent == "stopped":
        return _next_stopped(facts)
    if facts.failed_reason:
        return _next_failed(facts)
    if not facts.host_open:
        return _next_draining(facts)
    return _next_standby(facts) if facts.intent == "standby" else _next_running(facts)


def _next_deleted(facts: Facts) -> Next:
    if not facts.purge_due:
        return _ending(facts)
    return Next.PURGE if facts.has_sandbox else Next.FORGET


def _next_moment(facts: Facts) -> Next:
    """A checkpoint, then a restore, at the first moment at which the disk stands still or a body runs. NOTHING: what
    is under way comes first."""
    if facts.phase in GONE:
        begins = facts.wants_body and not facts.disk_lost and facts.origin != "lost"
        return Next.NOTHING if begins else Next.ABANDON
    if facts.restore and not facts.capture and facts.open_plan == Next.ROLLBACK:
        return Next.ROLLBACK  # its host ends one body for it and may begin another: that is no state to act upon
    if facts.phase in (Phase.STARTING, Phase.STOPPING):
        return Next.NOTHING
    if facts.phase is Phase.RUNNING and facts.under_way == "park":
        return Next.NOTHING  # a moment later it is the same moment, at rest
    if facts.phase in OFF and facts.wants_body and facts.open_plan in BOOTING:
        return Next.NOTHING  # half a boot has nothing worth keeping that it will not have when it is done
    return Next.CAPTURE if facts.capture else Next.ROLLBACK


def _ending(facts: Facts) -> Next:
    """No body any more: cleanly where somebody's work is in it, at once where not. A memory at rest stays."""
    if facts.phase is Phase.STARTING:
        return Next.KILL
    return Next.STOP if facts.phase in (Phase.RUNNING, Phase.STOPPING) else Next.NOTHING


def _next_stopped(facts: Facts) -> Next:
    return Next.DISCARD if facts.phase is Phase.PARKED else _ending(facts)


def _next_failed(facts: Facts) -> Next:
    """A wake that failed keeps the memory it would have gone on with."""
    return Next.KILL if facts.phase in LIVE else Next.NOTHING


def _next_draining(facts: Facts) -> Next:
    """To rest with memory where that can be; what is wanted stays wanted."""
    if facts.phase is Phase.STARTING and facts.was_running:
        return Next.START  # half a resume is carried to its end rather than thrown away
    if facts.phase is Phase.RUNNING and facts.can_park and not facts.park_failed:
        return Next.PARK
    return _ending(facts)


def _next_standby(facts: Facts) -> Next:
    if facts.phase in GONE:
        return _next_beginning(facts)
    if facts.phase is Phase.STARTING:
        return _boot(facts)
    if facts.phase is Phase.RUNNING:
        return Next.PARK if facts.can_park else Next.STOP
    if facts.phase is Phase.STOPPING:
        return Next.STOP
    return Next.NOTHING if facts.phase is Phase.PARKED else Next.NOTE_MEMORY_LOST


def _next_beginning(facts: Facts) -> Next:
    """There is no disk: a first one is made, of an image or of a checkpoint; a lost one is never made silently."""
    if facts.disk_lost:
        return Next.NOTE_DISK_LOST
    return {"waiting": Next.AWAIT_ORIGIN, "ready": Next.CLONE, "lost": Next.NOTE_ORIGIN_LOST}.get(
        facts.origin, Next.CREATE)


def _next_running(facts: Facts) -> Next:
    current = facts.booted_generation >= facts.generation
    if facts.phase in GONE:
        return _next_beginning(facts)
    if facts.phase is Phase.STOPPING:
        return Next.STOP
    if facts.phase is Phase.RUNNING:
        if facts.under_way == "park":
            return Next.PARK  # it came too late to be called off; it wakes again from what is kept
        return Next.NOTHING if current else Next.STOP
    if facts.phase is Phase.STARTING:
        return _boot(facts) if current else Next.KILL
    if facts.phase is Phase.PARKED:
        return _boot(facts) if current else Next.DISCARD
    return _next_off(facts, current)


def _next_off(facts: Facts, current: bool) -> Next:
    if not current or facts.open_plan in BOOTING or facts.end_reason in HOST_WENT_DOWN:
        return _boot(facts)
    if facts.end_reason in POWERED_OFF:
        return Next.NOTE_POWER_OFF
    return Next.NOTE_DEATH if facts.phase is Phase.DEAD else Next.START


def _boot(facts: Facts) -> Next:
    """A create or clone that is under way stays one (its undo takes the disk away again)."""
    return {"create": Next.CREATE, "clone": Next.CLONE}.get(facts.open_plan, Next.START)


def visible(facts: Facts) -> tuple[str, str]:
    """The state people see and a word on why. Every combination of facts has one."""
    if facts.intent == "deleted":
        busy = facts.phase in LIVE or (facts.purge_due and facts.has_sandbox)
        return ("deleting", facts.trouble) if busy else ("deleted", "")
    if facts.restore:
        return "restoring", facts.trouble or facts.stage or facts.cause
    if facts.failed_reason:
        return "failed", facts.failed_reason
    if facts.intent == "stopped":
        ending = facts.phase in LIVE or facts.phase is Phase.PARKED
        return ("stopping", facts.trouble) if ending else ("stopped", _why(facts))
    if not facts.host_open:
        return _visible_drained(facts), "host_draining"
    if facts.intent == "standby":
        return _visible_standby(facts)
    running = facts.phase is Phase.RUNNING and facts.booted_generation >= facts.generation
    if running and facts.under_way != "park":
        return "running", _why(facts)
    changing = "waking" if facts.was_running else "creating"
    return changing, facts.trouble or facts.stage


def _why(facts: Facts) -> str:
    """Of a state at rest: what caused it, unless nobody can say now whether it is still so, or not all is well."""
    return "host_unreachable" if facts.host_silent else facts.condition or facts.cause


def _visible_drained(facts: Facts) -> str:
    if facts.phase is Phase.PARKED:
        return "standby"
    if facts.phase not in LIVE:
        return "stopped"
    return "parking" if facts.can_park and not facts.park_failed else "stopping"


def _visible_standby(facts: Facts) -> tuple[str, str]:
    if facts.phase is Phase.PARKED:
        return "standby", _why(facts)
    if facts.phase in GONE and not facts.was_running:
        return "creating", facts.trouble or facts.stage
    return "parking", facts.trouble or facts.stage
