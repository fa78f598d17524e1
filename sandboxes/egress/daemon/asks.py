"""Questions to members about destinations that the policy does not know. One question for a destination, however many
connections wait for its answer. Made by `machine`; awaited by `judging`.

    asked ──▶ told to hostd ──▶ allowed by a new document │ denied │ forgotten after ten minutes
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from sandboxes.egress.daemon.buckets import Clock

MOST_OPEN = 16
WAIT_S, FORGOTTEN_S, DENIED_S = 60.0, 600.0, 60.0
ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"

#: A name where one is known, else an address; and the port.
Key = tuple[str, str, int]


@dataclass
class Ask:
    ask_id: str
    name: str
    address: IPv4Address | None
    port: int
    asked_at: float
    answered: asyncio.Future[bool] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Denied(Exception):
    """`reason` is a word of the log."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Asks:
    """`tell` sends a new question upwards."""

    def __init__(self, clock: Clock, tell: Callable[[Ask], None], wait_s: float = WAIT_S) -> None:
        self._clock, self._tell, self._wait_s = clock, tell, wait_s
        self._open: dict[Key, Ask] = {}
        self._denied: dict[Key, float] = {}

    async def wait(self, name: str, address: IPv4Address | None, port: int) -> None:
        """Returns when the destination is allowed. Raises Denied."""
        key = (name, "" if name else str(address), port)
        self._forget_old()
        if key in self._denied:
            raise Denied("asked_denied")
        ask = self._open.get(key)
        if ask is None:
            if len(self._open) >= MOST_OPEN:
                raise Denied("no_rule")
            ask = Ask("".join(secrets.choice(ALPHABET) for _ in range(20)), name, address, port, self._clock())
            self._open[key] = ask
            self._tell(ask)
        await asyncio.wait({ask.answered}, timeout=self._wait_s)
        if not ask.answered.done():
            raise Denied("asked_timeout")
        if not ask.answered.result():
            raise Denied("asked_denied")

    def deny(self, ask_id: str) -> None:
        for key, ask in list(self._open.items()):
            if ask.ask_id == ask_id:
                self._denied[key] = self._clock() + DENIED_S
                self._end(key, False)

    def look_again(self, allowed: Callable[[Ask], bool]) -> None:
        """Under a new document."""
        self._denied.clear()
        for key, ask in list(self._open.items()):
            if allowed(ask):
                self._end(key, True)

    def tell_again(self) -> None:
        """Who was told is another now."""
        for ask in self._open.values():
            self._tell(ask)

    def close(self) -> None:
        for key in list(self._open):
            self._end(key, False)

    def _end(self, key: Key, answer: bool) -> None:
        ask = self._open.pop(key)
        if not ask.answered.done():
            ask.answered.set_result(answer)

    def _forget_old(self) -> None:
        now = self._clock()
        self._denied = {key: until for key, until in self._denied.items() if until > now}
        for key, ask in list(self._open.items()):
            if ask.asked_at + FORGOTTEN_S < now:
                self._end(key, False)
