"""How an exec ended, in the words of the public contract, from nothing but a wait status. Pure."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

_FROM_AN_END = re.compile(r"(RTMIN|RTMAX)([+-][0-9]{1,2})")
_DIGITS = re.compile(r"[0-9]{1,2}")


def outcome_of(status: int, forced: str | None) -> dict[str, Any]:
    """`forced` is "timed_out" or "killed" when the agent itself ended the process."""
    if forced is not None:
        return {"kind": forced}
    if os.WIFSIGNALED(status):
        return {"kind": "signaled", "signal": signal_name(os.WTERMSIG(status))}
    return {"kind": "exited", "code": os.WEXITSTATUS(status)}


def signal_name(number: int) -> str:
    """Those below SIGRTMIN that Python does not know (the C library keeps two for itself) are named by number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        offset = number - signal.SIGRTMIN
        return f"SIGRTMIN+{offset}" if offset > 0 else f"SIG{number}"


def signal_number(name: str) -> int | None:
    """The number of "SIGINT", "INT", "9", "SIG9", "SIGRTMIN+3" or "SIGRTMAX-2"; None for a word that names none."""
    word = name.removeprefix("SIG")
    if found := _FROM_AN_END.fullmatch(word):
        end = int(signal.Signals["SIG" + found[1]])
        number = end + int(found[2])
        return number if signal.SIGRTMIN <= number <= signal.SIGRTMAX else None
    if _DIGITS.fullmatch(word):
        return int(word) if 1 <= int(word) <= signal.SIGRTMAX else None
    known = signal.Signals.__members__.get("SIG" + word)
    return None if known is None else int(known)
