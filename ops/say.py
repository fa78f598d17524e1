"""What the machine room tells a person: to stderr, one line a step, with a sign of life in long ones.

stdout belongs to what a command is asked for (a URL, a token, JSON).
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

SIGN_OF_LIFE_S = 15.0


class SetupFailed(Exception):
    """A step failed; the text is for the person who ran the command, with what to do."""


def line(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


class Step:
    """One step of set-up: its name, its time, and the last thing it said if it takes long."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.last = ""
        self._done = threading.Event()
        self._started = time.monotonic()

    def note(self, text: str) -> None:
        self.last = text.strip()[:120]

    def __enter__(self) -> Step:
        threading.Thread(target=self._signs_of_life, daemon=True).start()
        return self

    def _signs_of_life(self) -> None:
        while not self._done.wait(SIGN_OF_LIFE_S):
            line(f"  … {self.name}, {self.seconds:.0f} s so far{': ' + self.last if self.last else ''}")

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._done.set()
        line(f"  {'✓' if kind is None else '✗'} {self.name}  {self.seconds:.1f} s")


@contextmanager
def quick(name: str) -> Iterator[Callable[[str], None]]:
    """A step by its `note` alone."""
    with Step(name) as step:
        yield step.note
