"""Which addresses a machine was told for which names, and for how long it may use them. Pure but for the clock.

    learned ── fresh ── its time is over: stale, asked for again before it is refused ── forgotten (bounded)

Where a member is asked about unknown names, a name gets a pretended address first, from a range that nobody has
(198.18.0.0/15): the machine can try to connect, and no question leaves before somebody allowed the name.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from ipaddress import IPv4Address

from sandboxes.egress.daemon.buckets import Clock

#: An address is usable at least this long, whatever its record says: programs keep what they were told.
LEAST_S = 60.0
#: A longer promise is not trusted: the address is asked for again, which costs one question.
LONGEST_S = 3600.0
MOST_PAIRS, MOST_PRETENDED = 8192, 1024
PRETENDED_FIRST = int(IPv4Address("198.18.0.1"))


class Names:
    def __init__(self, clock: Clock, least_s: float = LEAST_S) -> None:
        self._clock, self._least_s = clock, least_s
        #: (address, name) -> until when; the least recently learned first.
        self._until: OrderedDict[tuple[IPv4Address, str], float] = OrderedDict()
        self._of: dict[IPv4Address, set[str]] = {}
        self._pretended: OrderedDict[str, IPv4Address] = OrderedDict()
        self._meant: dict[IPv4Address, str] = {}
        self._next = PRETENDED_FIRST

    def learn(self, name: str, addresses: Iterable[IPv4Address], ttl_s: float) -> None:
        until = self._clock() + min(max(ttl_s, self._least_s), LONGEST_S)
        for address in addresses:
            self._until[address, name] = until
            self._until.move_to_end((address, name))
            self._of.setdefault(address, set()).add(name)
        while len(self._until) > MOST_PAIRS:
            (address, forgotten), _ = self._until.popitem(last=False)
            self._of[address].discard(forgotten)
            if not self._of[address]:
                del self._of[address]

    def fresh(self, address: IPv4Address) -> list[str]:
        """Names that may be used for this address now."""
        now = self._clock()
        return sorted(name for name in self._of.get(address, ()) if self._until[address, name] > now)

    def stale(self, address: IPv4Address) -> list[str]:
        """Names it was once told for, and would have to be told for again."""
        now = self._clock()
        return sorted(name for name in self._of.get(address, ()) if self._until[address, name] <= now)

    def pretend(self, name: str) -> IPv4Address:
        """The address that stands for this name until somebody decides."""
        if name not in self._pretended:
            while self._next_address() in self._meant:
                pass
            address = IPv4Address(self._next)
            self._pretended[name], self._meant[address] = address, name
            if len(self._pretended) > MOST_PRETENDED:
                _, gone = self._pretended.popitem(last=False)
                del self._meant[gone]
        self._pretended.move_to_end(name)
        return self._pretended[name]

    def _next_address(self) -> IPv4Address:
        self._next += 1
        if self._next > PRETENDED_FIRST + 0x1FFF0:
            self._next = PRETENDED_FIRST
        return IPv4Address(self._next)

    def meant(self, address: IPv4Address) -> str | None:
        """The name that this address was pretended for."""
        return self._meant.get(address)
