"""The private pages of a mapping in another process: found by pagemap, read and written through /proc/PID/mem.

Called by `drivers/qemu/snapshot.py`. Knows processes and pages, never machines. A page counts as private when it is
present and not file-backed, or swapped: that is what was written since a file was mapped privately. Blocking: callers
use a thread.

    pages file:  magic, number of runs, then (offset, length) of each run, then the runs' bytes in order
"""

from __future__ import annotations

import array
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE = 4096
PRESENT, SWAPPED, FILE = 1 << 63, 1 << 62, 1 << 61
MAGIC = b"BERTHPG1"
HEADER = struct.Struct("<8sQ")
CHUNK = 1 << 20


@dataclass(frozen=True)
class Mapping:
    """Where a file's private mapping lies in a process."""

    pid: int
    address: int
    size: int


def find_mapping(pid: int, inode: int, size: int) -> Mapping:
    """The mapping of `inode` in the process; the hypervisor maps guest memory exactly once."""
    start = end = 0
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        span, _perms, offset, _device, found, *_ = line.split()
        low, high = (int(part, 16) for part in span.split("-"))
        if int(found) == inode:
            if start and low - start != int(offset, 16):
                raise LookupError(f"inode {inode} is mapped twice in process {pid}")
            start, end = start or low, high
    if end - start != size:
        raise LookupError(f"no mapping of {size} bytes of inode {inode} in process {pid}")
    return Mapping(pid, start, size)


def private_runs(mapping: Mapping) -> list[tuple[int, int]]:
    """Runs (offset, length) of pages that differ from the file, or may."""
    with Path(f"/proc/{mapping.pid}/pagemap").open("rb", buffering=0) as file:
        file.seek(mapping.address // PAGE * 8)
        entries = array.array("Q", _read_exactly(file.fileno(), mapping.size // PAGE * 8))
    runs: list[tuple[int, int]] = []
    start = -1
    for index, entry in enumerate(entries):
        private = entry & SWAPPED or (entry & PRESENT and not entry & FILE)
        if private and start < 0:
            start = index
        elif not private and start >= 0:
            runs.append((start * PAGE, (index - start) * PAGE))
            start = -1
    if start >= 0:
        runs.append((start * PAGE, (len(entries) - start) * PAGE))
    return runs


def _read_exactly(fd: int, size: int) -> bytes:
    parts, left = [], size
    while left:
        part = os.read(fd, left)
        if not part:
            raise OSError(f"{left} of {size} bytes are missing")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def save_pages(mapping: Mapping, into: Path) -> int:
    """Writes every private page into a pages file (not synced); answers the bytes of memory it holds."""
    runs = private_runs(mapping)
    memory = os.open(f"/proc/{mapping.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        with into.open("wb") as file:
            file.write(HEADER.pack(MAGIC, len(runs)))
            file.write(array.array("Q", [figure for run in runs for figure in run]).tobytes())
            for offset, length in runs:
                for at in range(offset, offset + length, CHUNK):
                    file.write(os.pread(memory, min(CHUNK, offset + length - at), mapping.address + at))
    finally:
        os.close(memory)
    return sum(length for _offset, length in runs)


def load_pages(path: Path) -> Iterator[tuple[int, bytes]]:
    """The chunks (offset, bytes) of a pages file. Raises ValueError when it is not complete."""
    with path.open("rb") as file:
        magic, count = HEADER.unpack(file.read(HEADER.size))
        if magic != MAGIC:
            raise ValueError(f"{path.name} is not a pages file")
        figures = array.array("Q")
        figures.frombytes(file.read(count * 16))
        for offset, length in zip(figures[::2], figures[1::2], strict=True):
            for at in range(offset, offset + length, CHUNK):
                size = min(CHUNK, offset + length - at)
                data = file.read(size)
                if len(data) != size:
                    raise ValueError(f"{path.name} ends before its time")
                yield at, data


def write_pages(path: Path, mapping: Mapping) -> None:
    """Writes a pages file into the process's mapping."""
    memory = os.open(f"/proc/{mapping.pid}/mem", os.O_RDWR | os.O_CLOEXEC)
    try:
        for offset, data in load_pages(path):
            _write_exactly(memory, data, mapping.address + offset)
    finally:
        os.close(memory)


def apply_pages(path: Path, fd: int, *, over_zeros: bool = True) -> None:
    """Writes a pages file into a file of the memory's size. Over nothing but zeros, pages of zeros stay holes."""
    for offset, data in load_pages(path):
        for at in range(0, len(data), PAGE):
            page = data[at:at + PAGE]
            if not over_zeros or page.count(0) != len(page):
                _write_exactly(fd, page, offset + at)


def _write_exactly(fd: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, at)
        view, at = view[written:], at + written
