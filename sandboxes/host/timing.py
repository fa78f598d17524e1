"""When a terminal's output came, and how large its screen was: marks beside the pieces of its scroll.

Called by `scroll.py`; calls the file system only. What a mark cannot say for lack of space on the disk is left out:
output never waits for it.

    ID.at.START   for the piece that begins at START: 20-byte marks (offset, Unix time, columns, rows), oldest first;
                  columns and rows are 0 where the size did not change
"""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path
from typing import NamedTuple

from sandboxes.errors import DiskFull
from sandboxes.host import durable

_MARK = struct.Struct("<QdHH")
#: Two outputs within this are one moment. A stream of single bytes must not cost more in marks than in bytes.
APART_S = 0.01
DENSE_MARKS = 8192
APART_BYTES = 64


class Mark(NamedTuple):
    offset: int
    at: float
    cols: int = 0
    rows: int = 0


class Timing:
    """The marks of one terminal. One writer; readers read the files."""

    def __init__(self, folder: Path, exec_id: str) -> None:
        self._folder, self._exec_id = folder, exec_id
        self._piece = -1
        self._descriptor = -1
        self._count = 0
        self._last = Mark(0, 0.0)

    def note(self, piece: int, mark: Mark) -> None:
        if piece != self._piece:
            self._open(piece)
        if not mark.cols and self._count and not self._is_apart(mark):
            return
        with contextlib.suppress(DiskFull):
            durable.append_all(self._descriptor, _MARK.pack(*mark), self._count * _MARK.size, "terminal timing")
            self._count, self._last = self._count + 1, mark

    def _is_apart(self, mark: Mark) -> bool:
        if self._count >= DENSE_MARKS and mark.offset - self._last.offset < APART_BYTES:
            return False
        return not 0 <= mark.at - self._last.at < APART_S

    def _open(self, piece: int) -> None:
        self.close()
        with contextlib.suppress(DiskFull), durable.space_matters("terminal timing"):
            self._descriptor = os.open(self._path(piece), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._piece, self._count = piece, os.fstat(self._descriptor).st_size // _MARK.size

    def read(self, piece: int) -> list[Mark]:
        try:
            data = self._path(piece).read_bytes()
        except FileNotFoundError:
            return []
        whole = len(data) // _MARK.size * _MARK.size
        return [Mark(*values) for values in _MARK.iter_unpack(data[:whole])]

    def size_bytes(self, piece: int) -> int:
        try:
            return self._path(piece).stat().st_size
        except FileNotFoundError:
            return 0

    def drop(self, piece: int) -> None:
        self._path(piece).unlink(missing_ok=True)

    def _path(self, piece: int) -> Path:
        return self._folder / f"{self._exec_id}.at.{piece}"

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = self._piece = -1
