"""The output of a terminal on disk: a bounded tail with absolute offsets. The tape's sibling, with its manners.

Called by execs (append) and readers (read); `timing.py` keeps when what came. Kept in pieces named by the offset of
their first byte; a piece goes when what came after it still holds `tail_bytes`, so at most `tail_bytes` + one piece
is on disk, and besides them the pieces of a recording.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path

from sandboxes.host import durable
from sandboxes.host.tape import STDOUT
from sandboxes.host.timing import Mark, Timing

TAIL_BYTES = 4 * 1024 * 1024
PIECE_BYTES = 512 * 1024
#: From where to where a recording goes; None: it goes on.
Held = tuple[int, int | None]


class Scroll:
    """All terminal output is on one stream, so positions in it and in both streams are the same."""

    def __init__(self, folder: Path, exec_id: str, tail_bytes: int = TAIL_BYTES, held: Held | None = None,
                 now: Callable[[], float] = time.time) -> None:
        self._folder, self._exec_id, self._tail_bytes, self._held, self._now = folder, exec_id, tail_bytes, held, now
        self._starts = sorted(int(path.suffix[1:]) for path in folder.glob(f"{exec_id}.tty.*")) or [0]
        self._files: dict[int, int] = {}
        last = self._path(self._starts[-1])
        self.total = self._starts[-1] + (last.stat().st_size if last.exists() else 0)
        self.truncated = {STDOUT: False, 2: False}
        self._timing = Timing(folder, exec_id)
        self._screen: tuple[int, int] | None = None
        self._screen_read = False

    @property
    def start(self) -> int:
        """The oldest offset from which all that followed can still be read."""
        return next(start for at, start in enumerate(self._starts) if self._is_tail(at))

    @property
    def size(self) -> dict[int, int]:
        return {STDOUT: self.total, 2: 0}

    @property
    def size_bytes(self) -> int:
        """On disk, the marks included."""
        pieces = sum(self._path(start).stat().st_size for start in self._starts if self._path(start).exists())
        return pieces + sum(self._timing.size_bytes(start) for start in self._starts)

    def _end(self, at: int) -> int:
        """Where a piece ends, or later, if those behind it are gone."""
        return self._starts[at + 1] if at + 1 < len(self._starts) else self.total

    def _is_tail(self, at: int) -> bool:
        return at + 1 == len(self._starts) or self.total - self._starts[at + 1] < self._tail_bytes

    # -- writing ------------------------------------------------------------------------------------------------------

    def append(self, tag: int, data: bytes) -> None:
        if not data:
            return
        piece = self._starts[-1]
        if self.total - piece >= PIECE_BYTES:
            self._open(self.total)
            piece = self.total
            self._starts.append(piece)
            if (screen := self.screen()) is not None:
                self._timing.note(piece, Mark(self.total, self._now(), *screen))
        self._timing.note(piece, Mark(self.total, self._now()))
        durable.append_all(self._open(piece), data, self.total - piece, "terminal output")
        self.total += len(data)
        self._drop_old()

    def resized(self, cols: int, rows: int) -> None:
        self._screen, self._screen_read = (cols, rows), True
        self._timing.note(self._starts[-1], Mark(self.total, self._now(), cols, rows))

    def hold(self, held: Held | None) -> None:
        """Keeps these bytes, however much comes after them."""
        self._held = held
        self._drop_old()

    def _drop_old(self) -> None:
        kept = [self._is_tail(at) or self._is_held(at) for at in range(len(self._starts))]
        for start in [start for start, is_kept in zip(self._starts, kept, strict=True) if not is_kept]:
            self._starts.remove(start)
            descriptor = self._files.pop(start, -1)
            if descriptor >= 0:
                os.close(descriptor)
            self._path(start).unlink(missing_ok=True)
            self._timing.drop(start)

    def _is_held(self, at: int) -> bool:
        if self._held is None:
            return False
        first, last = self._held
        return self._end(at) > first and (last is None or self._starts[at] < last)

    # -- reading ------------------------------------------------------------------------------------------------------

    def read_in_order(self, offset: int, length: int) -> tuple[int, bytes]:
        """Bytes from `offset`, which the caller has moved to at least `start`."""
        if offset >= self.total or offset < self._starts[0]:
            return STDOUT, b""
        at = bisect_right(self._starts, offset) - 1
        start = self._starts[at]
        return STDOUT, os.pread(self._open(start), min(length, self._end(at) - offset), offset - start)

    def read(self, tag: int, offset: int, length: int) -> bytes:
        pieces = []
        while tag == STDOUT and length > 0:
            piece = self.read_in_order(offset, length)[1]
            if not piece:
                break
            pieces.append(piece)
            offset, length = offset + len(piece), length - len(piece)
        return b"".join(pieces)

    def marks(self, first: int, last: int) -> Iterator[Mark]:
        """When the bytes from `first` to `last` came: the marks of the pieces that they are in."""
        for at, start in enumerate(self._starts):
            if self._end(at) >= first and start <= last:
                yield from (mark for mark in self._timing.read(start) if mark.offset <= last)

    def screen(self) -> tuple[int, int] | None:
        """Columns and rows as they were last set; None when they never changed."""
        if not self._screen_read:
            self._screen_read = True
            sized = [mark for start in self._starts for mark in self._timing.read(start) if mark.cols]
            self._screen = (sized[-1].cols, sized[-1].rows) if sized else None
        return self._screen

    def _open(self, start: int) -> int:
        descriptor = self._files.get(start)
        if descriptor is None:
            with durable.space_matters("terminal output"):
                descriptor = os.open(self._path(start), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._files[start] = descriptor
        return descriptor

    def _path(self, start: int) -> Path:
        return self._folder / f"{self._exec_id}.tty.{start}"

    def close(self) -> None:
        self._timing.close()
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()
