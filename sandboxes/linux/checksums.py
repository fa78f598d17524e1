"""Checksums of files of memory: cheap enough to read with every wake, so that damage is noticed before a machine runs.

Called by `drivers/qemu/snapshot.py` and `pages.py` (which sums what it writes). CRC-32 notices what disks and cut-off
writes do; it is no proof against a forger, who could write these files only as root of the host. Blocking.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path

from sandboxes.linux.disks import data_extents

BLOCK = 1 << 20


class Running:
    """The sum of a file while it is written: block by block, all but the last of them whole."""

    def __init__(self) -> None:
        self._size = self._found = self._number = 0

    def add(self, block: bytes) -> None:
        self._found = _with(self._found, self._number, block)
        self._number, self._size = self._number + 1, self._size + len(block)

    def word(self) -> str:
        return _word(self._size, self._found)


def of_file(path: Path) -> str:
    """Size and checksum of a file, as one word. Holes count as the zeros that they are, without being read."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        found = 0
        for number in _blocks(file.fileno(), size):
            found = _with(found, number, os.pread(file.fileno(), BLOCK, number * BLOCK))
    return _word(size, found)


def _with(found: int, number: int, block: bytes) -> int:
    """Blocks of zeros do not count, so that it is the same whether they are holes."""
    if block[-1:] == b"\0" and block.count(0) == len(block):
        return found
    return zlib.crc32(block, zlib.crc32(number.to_bytes(8, "big"), found))


def _word(size: int, found: int) -> str:
    return f"{size}-{found:08x}"


def _blocks(fd: int, size: int) -> list[int]:
    """Numbers of the blocks that may hold something other than zeros."""
    numbers: dict[int, None] = {}
    for start, end in data_extents(fd, size):
        numbers.update(dict.fromkeys(range(start // BLOCK, (end - 1) // BLOCK + 1)))
    return list(numbers)
