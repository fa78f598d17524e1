"""The keyboard lease of each terminal: one connection types, the others watch. Called by `terminal.py`; pure but for
calling the watchers' own `told`.

The first who writes holds it; another may take it if its role permits writing; who goes away or releases it leaves
it free. The size of the terminal is the holder's: the last size that the holder (or, while it is free, anyone who
may write) asked for wins, so a mere watcher never reflows what another types.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(eq=False)
class Seat:
    """One connection at a terminal."""

    name: str
    may_write: bool
    told: Callable[[], None]


@dataclass
class Keyboard:
    holder: Seat | None = None
    seats: set[Seat] = field(default_factory=set)

    def join(self, seat: Seat) -> None:
        self.seats.add(seat)

    def leave(self, seat: Seat) -> None:
        self.seats.discard(seat)
        self.release(seat)

    def take(self, seat: Seat, *, force: bool) -> bool:
        """True when the seat holds it afterwards."""
        if self.holder is seat:
            return True
        if not seat.may_write or (self.holder is not None and not force):
            return False
        self._give(seat)
        return True

    def release(self, seat: Seat) -> None:
        if self.holder is seat:
            self._give(None)

    def may_resize(self, seat: Seat) -> bool:
        return seat.may_write and self.holder in (None, seat)

    def seen_by(self, seat: Seat) -> dict[str, object]:
        return {"holder": self.holder.name if self.holder else None, "you": self.holder is seat}

    def _give(self, seat: Seat | None) -> None:
        self.holder = seat
        for other in self.seats:
            other.told()


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

    def held_by_other(self, terminal: tuple[str, str], name: str) -> str | None:
        """Who types there, if it is not `name`: a program must not type into a person's line."""
        keyboard = self._of.get(terminal)
        holder = keyboard.holder if keyboard else None
        return holder.name if holder is not None and holder.name != name else None
