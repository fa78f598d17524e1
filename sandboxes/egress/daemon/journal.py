"""What is told of connections: rows and questions to members, gathered until hostd has taken them. No I/O of its own.

    attempt ──▶ Journal.note ──(repeats of a refusal within 10 s are one row)──▶ kept, bounded ──▶ hostd ──▶ taken

While hostd is away rows are kept up to a bound; what does not fit is counted, per machine.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

REPEATS_S = 10.0
MOST_KEPT, BATCH = 20_000, 500
MOST_REPEATING = 4096


@dataclass(frozen=True)
class Row:
    machine_id: str
    name: str
    address: str
    port: int
    protocol: str
    verdict: str
    rule: str
    reason: str = ""
    bytes_in: int = 0
    bytes_out: int = 0
    ms: int = 0
    count: int = 1
    at: float = 0.0

    @property
    def likeness(self) -> tuple[object, ...]:
        return (self.machine_id, self.name, self.address, self.port, self.protocol, self.verdict, self.reason)

    def as_json(self) -> dict[str, Any]:
        return dict(self.__dict__)


class Journal:
    """`rang` is called when there is something to send."""

    def __init__(self, rang: Callable[[], None] = lambda: None) -> None:
        self.rang = rang
        self._kept: deque[Row] = deque()
        self._sent = 0
        self._repeating: dict[tuple[object, ...], int] = {}
        self.dropped: dict[str, int] = {}

    def note(self, row: Row) -> None:
        row = replace(row, at=time.time())
        if row.verdict == "allowed":
            self._keep(row)
            return
        likeness = row.likeness
        if likeness in self._repeating:
            self._repeating[likeness] += row.count
        elif len(self._repeating) < MOST_REPEATING:
            self._keep(row)
            self._repeating[likeness] = 0
            asyncio.get_running_loop().call_later(REPEATS_S, self._tell_repeats, row)
        else:
            self._drop(row)

    def _tell_repeats(self, row: Row) -> None:
        count = self._repeating.pop(row.likeness, 0)
        if count:
            self._keep(replace(row, count=count, at=time.time()))

    def _keep(self, row: Row) -> None:
        if len(self._kept) >= MOST_KEPT:
            self._drop(row)
            return
        self._kept.append(row)
        self.rang()

    def _drop(self, row: Row) -> None:
        self.dropped[row.machine_id] = self.dropped.get(row.machine_id, 0) + row.count

    def batch(self) -> list[Row]:
        """The eldest rows, when none are on their way."""
        if self._sent:
            return []
        rows = list(islice(self._kept, BATCH))
        self._sent = len(rows)
        return rows

    def taken(self) -> None:
        """What was on its way has arrived."""
        for _ in range(self._sent):
            self._kept.popleft()
        self._sent = 0

    def lost(self) -> None:
        """Nobody says whether it has: it is sent again."""
        self._sent = 0
