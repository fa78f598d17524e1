"""How much may flow: a bucket that fills evenly. Pure but for the clock it is given.

One for the bytes of a machine, one for its questions. It may go into debt: what has flowed has flowed, and who owes
waits until the debt is paid.
"""

from __future__ import annotations

from collections.abc import Callable

Clock = Callable[[], float]


class Bucket:
    """`rate_per_s` 0: no limit. It holds what comes in `burst_s` seconds."""

    def __init__(self, rate_per_s: float, clock: Clock, burst_s: float = 1.0) -> None:
        self._clock, self._burst_s = clock, burst_s
        self.rate_per_s = rate_per_s
        self._held, self._at = rate_per_s * burst_s, clock()

    def change(self, rate_per_s: float) -> None:
        """A new rate; a full bucket stays full."""
        self._fill()
        if rate_per_s != self.rate_per_s:
            was_full = self._held >= self.rate_per_s * self._burst_s
            self.rate_per_s = rate_per_s
            most = rate_per_s * self._burst_s
            self._held = most if was_full else min(self._held, most)

    def _fill(self) -> None:
        now = self._clock()
        self._held = min(self.rate_per_s * self._burst_s, self._held + (now - self._at) * self.rate_per_s)
        self._at = now

    def spend(self, amount: float) -> float:
        """Takes it and answers for how many seconds nothing more may be taken."""
        if not self.rate_per_s:
            return 0.0
        self._fill()
        self._held -= amount
        return max(0.0, -self._held / self.rate_per_s)

    def try_spend(self, amount: float) -> bool:
        """Takes it if it is there."""
        if not self.rate_per_s:
            return True
        self._fill()
        if self._held < amount:
            return False
        self._held -= amount
        return True
