"""How an exec ended, one class for each way. Read by `model`; pure. An outcome is never invented: none is None.

    match ended.outcome:
        case Exited(0): ...
        case TimedOut() | Killed(): ...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Exited:
    code: int


@dataclass(frozen=True)
class Signaled:
    """`signal` is a name: SIGSEGV."""

    signal: str


@dataclass(frozen=True)
class TimedOut:
    """Its `timeout_s` was over; the whole tree was ended."""


@dataclass(frozen=True)
class Killed:
    by: str


@dataclass(frozen=True)
class Refused:
    """It never began: no such program, no such folder, denied; `code` says which."""

    code: str


@dataclass(frozen=True)
class Lost:
    """Nobody saw its end."""

    reason: str


@dataclass(frozen=True)
class Unknown:
    """A way to end that is newer than this client."""

    kind: str


Outcome = Exited | Signaled | TimedOut | Killed | Refused | Lost | Unknown


def read_outcome(value: dict[str, Any]) -> Outcome:
    match value:
        case {"kind": "exited", "code": int(code)}:
            return Exited(code)
        case {"kind": "signaled", "signal": str(signal)}:
            return Signaled(signal)
        case {"kind": "timed_out"}:
            return TimedOut()
        case {"kind": "killed"}:
            return Killed(str(value.get("by") or "unknown"))
        case {"kind": "refused"}:
            return Refused(str(value.get("code") or "unknown"))
        case {"kind": "lost"}:
            return Lost(str(value.get("reason") or "unknown"))
    return Unknown(str(value.get("kind")))
