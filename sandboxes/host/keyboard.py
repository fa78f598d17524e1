"""The keyboard lease of each terminal: one connection types, the others watch. Called by `terminal.py` and
`execs_http.py`; pure but for the clock it is given and for calling the watchers' own `told`.

The first who writes holds it; who goes away or gives it back leaves it free. Who does not hold it may

    ask     the holder sees it, and gives or declines
    take    from a program: whoever may write. From a person: that same person elsewhere, an owner, and who has asked
            and had no answer for `ANSWER_S`. A program takes from no person unless that person did not answer

The size of the terminal is the holder's: the last size that the holder (or, while it is free, anyone who may write)
asked for wins, so a mere watcher never reflows what another types.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

WRITERS = {"operator", "owner"}
PERSON = "user"
#: A question that nobody answers so long is as good as a yes: a person may have left without a word.
ANSWER_S = 30.0
#: Names of who is there, as far as they are told.
NAMES_TOLD = 20


@dataclass(eq=False)
class Seat:
    """One connection at a terminal."""

    name: str
    kind: str  # of actor: user, token, system
    role: str
    told: Callable[[], None]
    #: Who said no to its last question; empty when nobody did.
    declined_by: str = ""

    @property
    def may_write(self) -> bool:
        return self.role in WRITERS

    def is_same(self, other: Seat) -> bool:
        return (self.name, self.kind) == (other.name, other.kind)


@dataclass
class Keyboard:
    now: Callable[[], float] = time.monotonic
    holder: Seat | None = None
    #: In the order in which they came.
    seats: dict[Seat, None] = field(default_factory=dict)
    #: Who asks, and since when.
    asks: dict[Seat, float] = field(default_factory=dict)

    def join(self, seat: Seat) -> None:
        self.seats[seat] = None
        self.tell()

    def leave(self, seat: Seat) -> None:
        self.seats.pop(seat, None)
        self.asks.pop(seat, None)
        self.release(seat)
        self.tell()

    def take(self, seat: Seat, *, force: bool) -> bool:
        """True when the seat holds it afterwards."""
        if self.holder is seat:
            return True
        if (self.holder is not None and not force) or not self.may_take(seat):
            return False
        self._give(seat)
        return True

    def may_take(self, seat: Seat) -> bool:
        if not seat.may_write:
            return False
        holder = self.holder
        if holder is None or holder.kind != PERSON or holder.is_same(seat):
            return True
        if seat.kind == PERSON and seat.role == "owner":
            return True
        return seat in self.asks and self.now() - self.asks[seat] >= ANSWER_S

    def release(self, seat: Seat) -> None:
        if self.holder is seat:
            self._give(None)

    def ask(self, seat: Seat) -> None:
        """Asking again before an answer is the same question."""
        if not seat.may_write or self.holder in (None, seat):
            return
        seat.declined_by = ""
        self.asks.setdefault(seat, self.now())
        self.tell()

    def give(self, seat: Seat, name: str) -> None:
        """From the holder to who asks under that name, else to who is there under it and may write."""
        named = [other for other in (*self.asks, *self.seats) if other.name == name and other.may_write]
        if self.holder is seat and named and named[0] is not seat:
            self._give(named[0])

    def decline(self, seat: Seat, name: str) -> None:
        if self.holder is not seat:
            return
        for other in [asking for asking in self.asks if asking.name == name]:
            del self.asks[other]
            other.declined_by = seat.name
        self.tell()

    def may_resize(self, seat: Seat) -> bool:
        return seat.may_write and self.holder in (None, seat)

    def seen_by(self, seat: Seat) -> dict[str, object]:
        return {"holder": self.holder.name if self.holder else None,
                "holder_type": self.holder.kind if self.holder else None,
                "you": self.holder is seat, "may_take": self.may_take(seat),
                "asks": list(dict.fromkeys(other.name for other in self.asks)),
                "asked": seat in self.asks, "declined_by": seat.declined_by or None,
                "present": list(dict.fromkeys(other.name for other in self.seats))[:NAMES_TOLD]}

    def tell(self) -> None:
        for seat in self.seats:
            seat.told()

    def _give(self, seat: Seat | None) -> None:
        """Questions to the former holder are now the next one's to answer; a free keyboard needs none."""
        self.holder = seat
        now = self.now()
        self.asks = {other: now for other in self.asks if seat is not None and other is not seat}
        if seat is not None:
            seat.declined_by = ""
        self.tell()


class Keyboards:
    """One per terminal (machine, exec) for as long as somebody sits there."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str], Keyboard] = {}

    def join(self, terminal: tuple[str, str], seat: Seat) -> Keyboard:
        keyboard = self._of.setdefault(terminal, Keyboard())
        keyboard.join(seat)
        return keyboard

    def leave(self, terminal: tuple[str, str], seat: Seat) -> None:
        keyboard = self._of[terminal]
        keyboard.leave(seat)
        if not keyboard.seats:
            del self._of[terminal]

    def tell(self, terminal: tuple[str, str]) -> None:
        """Something else about the terminal changed: its size, its recording."""
        if keyboard := self._of.get(terminal):
            keyboard.tell()

    def held_by_other(self, terminal: tuple[str, str], name: str) -> str | None:
        """Who types there, if it is not `name`: a program must not type into a person's line."""
        keyboard = self._of.get(terminal)
        holder = keyboard.holder if keyboard else None
        return holder.name if holder is not None and holder.name != name else None
