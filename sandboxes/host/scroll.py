"""The output of a terminal on disk: a bounded tail with absolute offsets. The tape's sibling, with its manners.

Called by execs (append) and readers (read). Kept in pieces named by the offset of their first byte; the oldest
piece goes when the rest still holds `tail_bytes`, so at most `tail_bytes` + one piece is on disk.
"""

from __future__ import annotations

import os
from pathlib import Path

from sandboxes.host import durable
from sandboxes.host.tape import STDOUT

TAIL_BYTES = 4 * 1024 * 1024
PIECE_BYTES = 512 * 1024


class Scroll:
    """All terminal output is on one stream, so positions in it and in both streams are the same."""

    def __init__(self, folder: Path, exec_id: str, tail_bytes: int = TAIL_BYTES) -> None:
        self._folder, self._exec_id, self._tail_bytes = folder, exec_id, tail_bytes
        found = sorted(int(path.suffix[1:]) for path in folder.glob(f"{exec_id}.tty.*"))
        self._starts = found or [0]
        self._files: dict[int, int] = {}
        last = self._path(self._starts[-1])
        self.total = self._starts[-1] + (last.stat().st_size if last.exists() else 0)
        self.truncated = {STDOUT: False, 2: False}

    @property
    def start(self) -> int:
        """The oldest offset that can still be read."""
        return self._starts[0]

    @property
    def size(self) -> dict[int, int]:
        return {STDOUT: self.total, 2: 0}

    @property
    def size_bytes(self) -> int:
        """On disk."""
        return self.total - self.start

    def append(self, tag: int, data: bytes) -> None:
        if not data:
            return
        piece = self._starts[-1]
        if self.total - piece >= PIECE_BYTES:
            self._open(self.total)
            piece = self.total
            self._starts.append(piece)
        durable.append_all(self._open(piece), data, self.total - piece, "terminal output")
        self.total += len(data)
        while len(self._starts) > 1 and self.total - self._starts[1] >= self._tail_bytes:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        oldest = self._starts.pop(0)
        descriptor = self._files.pop(oldest, -1)
        if descriptor >= 0:
            os.close(descriptor)
        self._path(oldest).unlink(missing_ok=True)

    def read_in_order(self, offset: int, length: int) -> tuple[int, bytes]:
        """Bytes from `offset`, which the caller has moved to at least `start`."""
        if offset >= self.total or offset < self.start:
            return STDOUT, b""
        at = max(start for start in self._starts if start <= offset)
        later = [start for start in self._starts if start > offset]
        end = later[0] if later else self.total
        return STDOUT, os.pread(self._open(at), min(length, end - offset), offset - at)

    def read(self, tag: int, offset: int, length: int) -> bytes:
        pieces = []
        while tag == STDOUT and length > 0:
            piece = self.read_in_order(offset, length)[1]
            if not piece:
                break
            pieces.append(piece)
            offset, length = offset + len(piece), length - len(piece)
        return b"".join(pieces)

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
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()
