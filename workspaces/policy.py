"""Quotas as pure rules. Asked by services under the owner's lock and by the API's `/me`; reads no row.

What counts: every workspace that is not deleted counts as one; processors and memory count for those that
should run or still do. A failed one costs nothing but its place.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Amount:
    workspaces: int = 0
    cpus: int = 0
    memory_mib: int = 0

    def plus(self, other: Amount) -> Amount:
        return Amount(self.workspaces + other.workspaces, self.cpus + other.cpus, self.memory_mib + other.memory_mib)

    def to_json(self) -> dict[str, int]:
        return {"workspaces": self.workspaces, "cpus": self.cpus, "memory_mib": self.memory_mib}


@dataclass(frozen=True)
class Excess:
    """Which limit refuses, so that a person can see what to give up."""

    kind: str
    limit: int
    used: int
    wanted: int


def excess(limit: Amount, used: Amount, wanted: Amount) -> Excess | None:
    """The first limit that `wanted` on top of `used` would break. Asking for nothing of a kind never breaks it."""
    for kind in ("workspaces", "cpus", "memory_mib"):
        asks, has, most = getattr(wanted, kind), getattr(used, kind), getattr(limit, kind)
        if asks > 0 and has + asks > most:
            return Excess(kind, most, has, asks)
    return None
