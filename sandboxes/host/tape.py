"""The output of one exec on disk: exact bytes of each stream, and the order in which they came.

Called by execs (append) and by every reader (read); calls the file system only. One writer; readers read the
files, never a queue, so a slow reader costs nothing. Files appear when their first byte does:

    ID.out  ID.err    what the streams wrote, up to `limit_bytes` each; the rest is dropped and flagged
    ID.idx            8-byte little-endian words (position in both streams << 1 | 1 for stderr), one for each change
                      of stream, written before the bytes: it may only ever name a run that is still empty

No fsync: what is in the page cache outlives hostd's death, and the death of the host ends the machine as well.
"""

from __future__ import annotations

import os
import sys
from array import array
from bisect import bisect_right
from pathlib import Path

from sandboxes.host import durable

STDOUT, STDERR = 1, 2
RUNS_KEPT = 1_048_576
NAMES = {STDOUT: "out", STDERR: "err"}


class Tape:
    """`size[tag]` is also the offset from which the guest is asked again. `fresh`: no file is there yet."""

    def __init__(self, folder: Path, exec_id: str, limit_bytes: int, *, fresh: bool = False) -> None:
        self._stem = f"{folder}/{exec_id}"
        self._limit_bytes = limit_bytes
        self._files: dict[str, int] = {}
        self.size = {tag: 0 if fresh else _size_of(f"{self._stem}.{name}") for tag, name in NAMES.items()}
        self.truncated = {STDOUT: False, STDERR: False}
        self._runs = self._read_runs() if self.total else array("Q")
        self._owns = _own_starts(self._runs)

    #: The oldest offset that can still be read: a tape keeps its beginning.
    start = 0

    @property
    def total(self) -> int:
        return self.size[STDOUT] + self.size[STDERR]

    @property
    def size_bytes(self) -> int:
        """On disk, the index included."""
        return self.total + 8 * len(self._runs)

    def append(self, tag: int, data: bytes) -> None:
        """Keeps what fits. Raises DiskFull with nothing kept; the same call may then be repeated."""
        room = self._limit_bytes - self.size[tag]
        if len(data) > room:
            self.truncated[tag] = True
            data = data[:room]
        if not data:
            return
        if not self._begin_run(tag):
            self.truncated[tag] = True
            return
        durable.append_all(self._file(NAMES[tag]), data, self.size[tag], "exec output")
        self.size[tag] += len(data)

    def _begin_run(self, tag: int) -> bool:
        """Notes a change of stream. False when the tape holds no more changes: what follows is cut and flagged."""
        if self._runs and self._runs[-1] >> 1 == self.total:  # nothing came after that change
            self._runs.pop()
            self._owns.pop()
        last = (self._runs[-1] & 1) + 1 if self._runs else STDOUT
        if tag == last:
            return True
        if len(self._runs) >= RUNS_KEPT:
            return False
        word = self.total << 1 | (tag - 1)
        index = self._file("idx")
        os.ftruncate(index, len(self._runs) * 8)
        durable.append_all(index, word.to_bytes(8, "little"), len(self._runs) * 8, "exec output")
        self._runs.append(word)
        self._owns.append(self.size[tag])
        return True

    def read(self, tag: int, offset: int, length: int) -> bytes:
        length = min(length, self.size[tag] - offset)
        if length <= 0:
            return b""
        return os.pread(self._file(NAMES[tag], create=False), length, offset)

    def read_in_order(self, offset: int, length: int) -> tuple[int, bytes]:
        """The piece that came at `offset` of both streams together: its tag and bytes, of one stream only."""
        at = bisect_right(self._runs, offset << 1 | 1)
        end = self._runs[at] >> 1 if at < len(self._runs) else self.total
        piece = min(length, end - offset)
        tag, own = STDOUT, offset
        if at:
            word = self._runs[at - 1]
            tag, own = (word & 1) + 1, self._owns[at - 1] + offset - (word >> 1)
        return tag, self.read(tag, own, piece) if piece > 0 else b""

    def _file(self, name: str, *, create: bool = True) -> int:
        descriptor = self._files.get(name)
        if descriptor is None:
            flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
            with durable.space_matters("exec output"):
                descriptor = os.open(f"{self._stem}.{name}", flags, 0o600)
            self._files[name] = descriptor
        return descriptor

    def _read_runs(self) -> array[int]:
        runs = array("Q")
        try:
            with open(f"{self._stem}.idx", "rb") as file:  # noqa: PTH123 - the stem is text on the hot path
                data = file.read()
        except FileNotFoundError:
            return runs
        runs.frombytes(data[:len(data) // 8 * 8])
        if sys.byteorder == "big":
            runs.byteswap()
        return runs

    def close(self) -> None:
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()


def _size_of(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - as above
    except FileNotFoundError:
        return 0


def _own_starts(runs: array[int]) -> array[int]:
    """For each run the bytes its own stream had before it."""
    size, start, tag = {STDOUT: 0, STDERR: 0}, 0, STDOUT
    owns = array("Q")
    for word in runs:
        size[tag] += (word >> 1) - start
        start, tag = word >> 1, (word & 1) + 1
        owns.append(size[tag])
    return owns
