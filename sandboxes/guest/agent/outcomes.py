"""How an exec ended, in the words of the public contract, from nothing but a wait status. Pure."""

from __future__ import annotations

import os
import signal
from typing import Any


def outcome_of(status: int, forced: str | None) -> dict[str, Any]:
    """`forced` is "timed_out" or "killed" when the agent itself ended the process."""
    if forced is not None:
        return {"kind": forced}
    if os.WIFSIGNALED(status):
        return {"kind": "signaled", "signal": signal_name(os.WTERMSIG(status))}
    return {"kind": "exited", "code": os.WEXITSTATUS(status)}


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"


def signal_number(name: str) -> int | None:
    """The number of "SIGINT", "INT" or "SIGRTMIN+3"; None for a word that names no signal."""
    name = name if name.startswith("SIG") else "SIG" + name
    base, plus, offset = name.partition("+")
    if plus and base == "SIGRTMIN" and offset.isdigit() and signal.SIGRTMIN + int(offset) <= signal.SIGRTMAX:
        return signal.SIGRTMIN + int(offset)
    found = signal.Signals.__members__.get(name)
    return int(found) if found is not None else None
