"""What `exec` and `shell` share: what is to be run, and what its end means. Called by `runs` and `screen`; pure."""

from __future__ import annotations

import argparse
import signal

from berth_client.cli import say
from berth_client.outcome import Exited, Killed, Lost, Outcome, Refused, Signaled, TimedOut

LOST, REFUSED, TIMED_OUT, KILLED = 255, 126, 124, 137


def command_of(asked: argparse.Namespace) -> str | list[str]:
    """One word is text for a shell; several are executed as they are."""
    words = asked.command[1:] if asked.command[:1] == ["--"] else asked.command
    if not words:
        asked.refuse("a command is missing")
    return words[0] if len(words) == 1 else list(words)


def waits_for_a_member(name: str) -> str:
    return f"berth-cli: it waits for a member's approval: berth-cli approvals {name}"


def exit_status(outcome: Outcome | None) -> int:
    match outcome:
        case Exited(code):
            return code
        case Signaled(name):
            return 128 + getattr(signal, name, signal.SIGKILL)
        case TimedOut():
            return TIMED_OUT
        case Killed():
            return KILLED
        case Refused():
            return REFUSED
    return LOST


def sentence(outcome: Outcome | None) -> str:
    match outcome:
        case Signaled(name):
            return f"ended by {name}"
        case TimedOut():
            return "its time was over; all of it was ended"
        case Killed(by):
            return f"killed by {say.shown(by)}"
        case Refused(code):
            return f"it never began: {code}"
        case Lost(reason):
            return f"nobody saw its end: {reason}"
    return f"it ended: {outcome}"
