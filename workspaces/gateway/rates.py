"""How often one token, one person and one address may ask (field case 004). Used by `gate` before anything is read.

Token buckets in this process: the gateway is the only way in, to Daphne's JSON too, so one place is enough; of several
gateways each counts for itself. Beyond the bound the answer is 429 with the time to wait. `slots` bounds how much is
in flight at once; this bounds how often.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from workspaces.actors import Actor
from workspaces.api.errors import Problem
from workspaces.gateway.config import Limits

MOST_KEPT = 50_000
#: All the tokens and browsers of one person together, beside one of them.
PERSON = 2


class Buckets:
    """A bucket for each key: `burst` at once, `per_s` in the long run. `per_s` of 0 is no bound."""

    def __init__(self, per_s: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s, self._burst, self._clock = per_s, max(1.0, burst), clock
        self._kept: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> None:
        """Raises Problem rate_limited, and takes nothing then."""
        if self._per_s <= 0:
            return
        left, now = self._left(key), self._clock()
        if left < 1:
            raise Problem("rate_limited", "Too many requests. Wait, then go on.",
                          retry_after_s=max(1.0, round((1 - left) / self._per_s, 1)))
        self._kept[key] = (left - 1, now)
        self._kept.move_to_end(key)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)  # the longest unheard of has a full bucket by now

    def check(self, key: str) -> None:
        """As `take`, without taking."""
        if self._per_s > 0 and self._left(key) < 1:
            raise Problem("rate_limited", "Too many requests from here. Wait, then go on.",
                          retry_after_s=max(1.0, round(1 / self._per_s, 1)))

    def _left(self, key: str) -> float:
        left, at = self._kept.get(key, (self._burst, 0.0))
        return min(self._burst, left + (self._clock() - at) * self._per_s)


class Rates:
    """Who is known is counted by credential and by person; who is not, by address."""

    def __init__(self, limits: Limits) -> None:
        per_s, burst = limits.rate_per_token_s, limits.rate_burst_per_token
        self._credentials = Buckets(per_s, burst)
        self._people = Buckets(PERSON * per_s, PERSON * burst)
        self._strangers = Buckets(limits.rate_per_address_s, limits.rate_burst_per_address)

    def known(self, actor: Actor) -> None:
        self._credentials.take(actor.token_id or f"session of {actor.user_id}")
        self._people.take(str(actor.user_id))

    def stranger(self, address: str) -> None:
        self._strangers.take(address)

    def may_be_stranger(self, address: str) -> None:
        """Before a credential is looked up that nobody has shown lately: guessing is not to cost the database."""
        self._strangers.check(address)
