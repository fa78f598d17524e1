"""Which refused connections become facts on the feed, and when: at most one a second a machine, and of the same
destination and reason one in a minute, with how many there were. Pure; `wayout.py` gives it a clock.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

APART_S, SAME_S = 1.0, 60.0
MOST_WAITING = 256


class Key(NamedTuple):
    name: str
    address: str
    port: int
    protocol: str
    reason: str


class Refusals:
    """Of one machine."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[Key, int] = OrderedDict()
        self._told_at: dict[Key, float] = {}
        self._last_at = -APART_S

    def add(self, row: dict[str, Any]) -> None:
        key = Key(row["name"], row["address"], row["port"], row["protocol"], row["reason"])
        if key in self._waiting or len(self._waiting) < MOST_WAITING:
            self._waiting[key] = self._waiting.get(key, 0) + row["count"]

    def due(self, now: float) -> dict[str, Any] | None:
        """The fact that may be told now, if any."""
        if not self._waiting or now - self._last_at < APART_S:
            return None
        self._told_at = {key: at for key, at in self._told_at.items() if now - at < SAME_S}
        key = next((key for key in self._waiting if key not in self._told_at), None)
        if key is None:
            return None
        self._told_at[key] = self._last_at = now
        return {**key._asdict(), "count": self._waiting.pop(key)}
