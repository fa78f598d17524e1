"""A disk's bytes, put together from the files of its chain. Called by `ext2fs.py` and `compare.py`.

`extents` come from qemu-img (`look/mapping.py`): sorted (start, length, file, offset), file -1 for zeros. Blocks that a
journal's replay would have written lie over them, in memory alone: no file is ever changed.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from sandboxes.host.look.inside.refusal import unreadable

Extent = tuple[int, int, int, int]
Range = tuple[int, int]
ZEROS = -1


class Device:
    def __init__(self, size: int, fds: Sequence[int], extents: Sequence[Sequence[int]]) -> None:
        self.size, self._fds = size, list(fds)
        self.extents: list[Extent] = [(e[0], e[1], e[2], e[3]) for e in extents]
        self._starts = [extent[0] for extent in self.extents]
        self.block_bytes = 4096
        self.overlay: dict[int, bytes] = {}

    def identity(self, file: int) -> tuple[int, int]:
        """Two disks share a file when they share its inode, whatever its names are."""
        status = os.fstat(self._fds[file])
        return status.st_dev, status.st_ino

    def read(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes. Raises Refused outside of the disk."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise unreadable("the file system points outside of its disk")
        data = b"".join(self._pieces(offset, length))
        return self._overlaid(offset, data) if self.overlay else data

    def _pieces(self, offset: int, length: int) -> Iterator[bytes]:
        at, end = offset, offset + length
        index = max(0, bisect_right(self._starts, at) - 1)
        while at < end:
            start, size, file, where = self.extents[index] if index < len(self.extents) else (at, end - at, ZEROS, 0)
            if start + size <= at:
                index += 1
                continue
            if start > at:  # nothing known of it: zeros
                size, file, start = min(start, end) - at, ZEROS, at
            count = min(end, start + size) - at
            yield bytes(count) if file == ZEROS else self._from_file(file, where + at - start, count)
            at += count

    def _from_file(self, file: int, offset: int, count: int) -> bytes:
        """A file that ends early (a raw base smaller than the disk) goes on with zeros."""
        parts, got = [], 0
        while got < count and (part := os.pread(self._fds[file], count - got, offset + got)):
            parts.append(part)
            got += len(part)
        return b"".join((*parts, bytes(count - got)))

    def _overlaid(self, offset: int, data: bytes) -> bytes:
        size = self.block_bytes
        first, last = offset // size, (offset + len(data) - 1) // size
        wanted = [block for block in range(first, last + 1) if block in self.overlay]
        if not wanted:
            return data
        changed = bytearray(data)
        for block in wanted:
            begin = max(offset, block * size)
            end = min(offset + len(data), (block + 1) * size)
            changed[begin - offset:end - offset] = self.overlay[block][begin - block * size:end - block * size]
        return bytes(changed)


def differing(before: Device, after: Device) -> list[Range]:
    """(start, end) of what does not lie in the same place of the same file: everything else is equal, unread."""
    edges = sorted({edge for device in (before, after) for start, length, *_ in device.extents
                    for edge in (start, start + length)} | {0, before.size, after.size})
    ranges: list[Range] = []
    left, right = _Places(before), _Places(after)
    for start, end in pairwise(edges):
        if left.of(start) != right.of(start):
            _append(ranges, start, end)
    for device in (before, after):
        for block in sorted(device.overlay):
            ranges.append((block * device.block_bytes, (block + 1) * device.block_bytes))
    return _merged(ranges)


class _Places:
    """Where a disk's bytes lie, asked in rising order."""

    def __init__(self, device: Device) -> None:
        self._device, self._index = device, 0
        self._names = {file: device.identity(file) for file in {extent[2] for extent in device.extents} - {ZEROS}}

    def of(self, at: int) -> object:
        extents = self._device.extents
        while self._index < len(extents) and extents[self._index][0] + extents[self._index][1] <= at:
            self._index += 1
        if at >= self._device.size:
            return "outside"
        if self._index == len(extents) or extents[self._index][0] > at or extents[self._index][2] == ZEROS:
            return None
        start, _length, file, where = extents[self._index]
        return self._names[file], where + at - start


def _append(ranges: list[Range], start: int, end: int) -> None:
    if ranges and ranges[-1][1] == start:
        ranges[-1] = (ranges[-1][0], end)
    else:
        ranges.append((start, end))


def _merged(ranges: list[Range]) -> list[Range]:
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
