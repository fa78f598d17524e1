"""How much one actor may have in flight at once, so that nobody starves the others (field case 004).

Used by `app` around every request and socket. Pure bookkeeping in one event loop; beyond the bound the answer
is 429 with a time to wait, at once, before anything is read or started.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

from workspaces.api.errors import Problem


class Slots:
    def __init__(self, most: int, what: str) -> None:
        self._most, self._what = most, what
        self._held: Counter[str] = Counter()

    def held_by(self, holder: str) -> int:
        return self._held[holder]

    @contextlib.contextmanager
    def one_of(self, holder: str) -> Iterator[None]:
        if self._held[holder] >= self._most:
            raise Problem("rate_limited", f"At most {self._most} {self._what} at once.", retry_after_s=1)
        self._held[holder] += 1
        try:
            yield
        finally:
            self._held[holder] -= 1
            if self._held[holder] <= 0:
                del self._held[holder]
