"""The private pages of a mapping in another process: found by pagemap, read and written as that process's memory.

Called by `drivers/qemu/snapshot.py`. Knows processes and pages, never machines. A page counts as private when it is
present and not file-backed, or swapped: that is what was written since a file was mapped privately. Blocking: callers
use a thread.

    pages file:  the runs' bytes in order, then (offset, length) of each run, then their number and a magic word

Of files that hold a memory together the newer says more: `save_pages` given the former ones writes only what differs.
"""

from __future__ import annotations

import array
import collections
import contextlib
import ctypes
import os
import re
import struct
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sandboxes.linux import checksums

PAGE = 4096
#: Bits of an entry's highest byte.
PRESENT, SWAPPED, FILE = 1 << 7, 1 << 6, 1 << 5
_IS_PRIVATE = bytes(bool(high & SWAPPED or (high & PRESENT and not high & FILE)) for high in range(256))
_RUN = re.compile(b"\1+")
MAGIC = b"BERTHPG2"
TRAILER = struct.Struct("<Q8s")
CHUNK = 1 << 20
NOWHERE = -1
#: A place among former files: the file's number above, its offset below.
PLACE_BITS = 44
#: What is compared at once (two of it fit a processor's own cache), and then piece by piece where it differs.
COMPARED, BLOCK = 1 << 18, 1 << 15
#: What a thread is handed at once, and how many such wait: what differs in them is held in memory.
BATCH, BATCH_PIECES, BATCHES_WAITING = 1 << 22, 256, 8
COMPARERS = min(4, len(os.sched_getaffinity(0)))
#: Blocks that wait to be summed and written while the next ones are read.
BLOCKS_WAITING = 8
SYNC_FILE_RANGE_WRITE = 2

_libc = ctypes.CDLL(None, use_errno=True)
_libc.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
#: For what takes less time than letting other threads go on meanwhile.
_memcmp_at_once = ctypes.PyDLL(None).memcmp
_memcmp_at_once.argtypes = _libc.memcmp.argtypes
#: (offset, length, place among the former files), and (offset, bytes) of what is not there so.
Piece = tuple[int, int, int]
Changed = tuple[int, bytearray]
_libc.process_vm_readv.restype = _libc.process_vm_writev.restype = ctypes.c_ssize_t


class _Span(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


@dataclass(frozen=True)
class Mapping:
    """Where a file's private mapping lies in a process."""

    pid: int
    address: int
    size: int


@dataclass(frozen=True)
class Saved:
    """`bytes` of memory are in the new file, of `private_bytes` that differ from the base; `checksum` is the file's."""

    bytes: int
    private_bytes: int
    checksum: str


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
    """Runs (offset, length) of pages that differ from the file, or may. While the machine stands still: so no loop
    goes over pages.
    """
    with Path(f"/proc/{mapping.pid}/pagemap").open("rb", buffering=0) as file:
        file.seek(mapping.address // PAGE * 8)
        entries = _read_exactly(file.fileno(), mapping.size // PAGE * 8)
    return [(found.start() * PAGE, (found.end() - found.start()) * PAGE)
            for found in _RUN.finditer(entries[7::8].translate(_IS_PRIVATE))]


def _read_exactly(fd: int, size: int) -> bytes:
    parts, left = [], size
    while left:
        part = os.read(fd, left)
        if not part:
            raise OSError(f"{left} of {size} bytes are missing")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


# -- memory of another process -----------------------------------------------------------------------------------------

def _transfer(call: ctypes._NamedFuncPointer, pid: int, buffer: bytearray, size: int, address: int) -> None:
    """The whole of it, or OSError. The kernel stops early where a page is not there."""
    local = (ctypes.c_char * size).from_buffer(buffer)
    done = 0
    while done < size:
        ours, theirs = _Span(ctypes.addressof(local) + done, size - done), _Span(address + done, size - done)
        moved = call(pid, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0)
        if moved <= 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), f"memory of process {pid}")
        done += moved


def _read_memory(mapping: Mapping, into: bytearray, at: int, size: int) -> None:
    _transfer(_libc.process_vm_readv, mapping.pid, into, size, mapping.address + at)


# -- saving ------------------------------------------------------------------------------------------------------------

class _Former:
    """Where the latest bytes of each page lie among files that hold a memory together, the eldest first."""

    def __init__(self, paths: Sequence[Path], size: int) -> None:
        self._files: list[BinaryIO] = []
        self._where = array.array("q", [NOWHERE]) * (size // PAGE)
        #: 1 where a page does not follow, in its file, the one before it.
        self._begins = bytearray(size // PAGE + 1)
        try:
            for path in paths:
                self._add(path)
        except BaseException:
            self.close()
            raise

    def _add(self, path: Path) -> None:
        self._files.append(path.open("rb"))
        at = len(self._files) - 1 << PLACE_BITS
        for offset, length in _runs_of(self._files[-1]):
            first, end = offset // PAGE, (offset + length) // PAGE
            self._where[first:end] = array.array("q", range(at, at + length, PAGE))
            self._begins[first:end + 1] = b"\1" + bytes(end - first - 1) + b"\1"
            at += length

    def pieces(self, offset: int, length: int) -> Iterator[Piece]:
        """What lies together, no longer than is compared at once."""
        first, end = offset // PAGE, (offset + length) // PAGE
        while first < end:
            longest = min(end, first + COMPARED // PAGE)
            last = self._begins.find(1, first + 1, longest)
            last = longest if last < 0 else last
            yield first * PAGE, (last - first) * PAGE, self._where[first]
            first = last

    def read(self, place: int, into: memoryview) -> None:
        """Raises OSError when the file ends before its time."""
        file = self._files[place >> PLACE_BITS]
        if os.preadv(file.fileno(), [into], place & ((1 << PLACE_BITS) - 1)) != len(into):
            raise OSError(f"{file.name} ends before its time")

    def close(self) -> None:
        for file in self._files:
            file.close()


class _Comparer:
    """Says what of some pieces is not in the former files. Its two buffers stay in the processor's cache."""

    def __init__(self, mapping: Mapping, former: _Former) -> None:
        self._mapping, self._former = mapping, former
        self._now, self._before = bytearray(COMPARED), bytearray(COMPARED)
        self._now_at, self._before_at = (ctypes.addressof((ctypes.c_char * COMPARED).from_buffer(buffer))
                                         for buffer in (self._now, self._before))

    def differing(self, pieces: Sequence[Piece]) -> list[Changed]:
        return [changed for piece in pieces for changed in self._of(*piece)]

    def _of(self, offset: int, length: int, place: int) -> Iterator[Changed]:
        _read_memory(self._mapping, self._now, offset, length)
        spans = [(0, length)]
        if place != NOWHERE:
            self._former.read(place, memoryview(self._before)[:length])
            spans = self._spans(length)
        for start, end in spans:
            yield offset + start, self._now[start:end]

    def _spans(self, length: int) -> list[tuple[int, int]]:
        """(start, end) of the pages in which the buffers differ: first all at once, then ever smaller."""
        if _libc.memcmp(self._now_at, self._before_at, length) == 0:
            return []
        spans: list[tuple[int, int]] = []
        for block in range(0, length, BLOCK):
            if self._differ(block, min(BLOCK, length - block)):
                for at in range(block, min(block + BLOCK, length), PAGE):
                    if self._differ(at, PAGE):
                        begins = spans.pop()[0] if spans and spans[-1][1] == at else at
                        spans.append((begins, at + PAGE))
        return spans

    def _differ(self, at: int, length: int) -> bool:
        return bool(_memcmp_at_once(self._now_at + at, self._before_at + at, length))


class _Comparison:
    """All pieces of a memory in order, compared by as many threads as there are processors for it."""

    def __init__(self, mapping: Mapping, former: _Former) -> None:
        self._mapping, self._former = mapping, former
        self._threads = ThreadPoolExecutor(COMPARERS, thread_name_prefix="compare")
        self._own = threading.local()

    def differing(self, runs: Sequence[tuple[int, int]]) -> Iterator[Changed]:
        waiting: collections.deque[Future[list[Changed]]] = collections.deque()
        for batch in self._batches(runs):
            if len(waiting) >= BATCHES_WAITING:
                yield from waiting.popleft().result()
            waiting.append(self._threads.submit(self._compare, batch))
        while waiting:
            yield from waiting.popleft().result()

    def _batches(self, runs: Sequence[tuple[int, int]]) -> Iterator[list[Piece]]:
        batch: list[Piece] = []
        held = 0
        for run in runs:
            for piece in self._former.pieces(*run):
                batch.append(piece)
                held += piece[1]
                if held >= BATCH or len(batch) >= BATCH_PIECES:
                    yield batch
                    batch, held = [], 0
        if batch:
            yield batch

    def _compare(self, batch: list[Piece]) -> list[Changed]:
        if not hasattr(self._own, "comparer"):
            self._own.comparer = _Comparer(self._mapping, self._former)
        comparer: _Comparer = self._own.comparer
        return comparer.differing(batch)

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)


class _Writer:
    """Bytes in order into a file, summed and written by a thread of its own while the caller reads on."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb", buffering=0)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pages")
        self._waiting: list[Future[None]] = []
        self._block = bytearray()
        self._sum = checksums.Running()
        self._written = 0

    def add(self, data: bytes | bytearray) -> None:
        self._block += data
        while len(self._block) >= checksums.BLOCK:
            self._send(bytes(self._block[:checksums.BLOCK]))
            del self._block[:checksums.BLOCK]

    def _send(self, block: bytes) -> None:
        if len(self._waiting) >= BLOCKS_WAITING:
            self._waiting.pop(0).result()
        self._waiting.append(self._thread.submit(self._write, block))

    def _write(self, block: bytes) -> None:
        """The disk begins at once, so that little is left to wait for at the sync."""
        view = memoryview(block)
        while view:
            view = view[self._file.write(view):]
        _libc.sync_file_range(self._file.fileno(), ctypes.c_int64(self._written), ctypes.c_int64(len(block)),
                              SYNC_FILE_RANGE_WRITE)
        self._written += len(block)
        self._sum.add(block)

    def finish(self) -> str:
        """The file's checksum, once all is written (not synced)."""
        if self._block:
            self._send(bytes(self._block))
        for each in self._waiting:
            each.result()
        return self._sum.word()

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._file.close()


def save_pages(mapping: Mapping, into: Path, former: Sequence[Path] = ()) -> Saved:
    """Writes private pages into a new pages file (not synced): all of them, or those that former files do not hold."""
    private = private_runs(mapping)
    runs: list[list[int]] = []
    with contextlib.closing(_Former(former, mapping.size)) as known, \
            contextlib.closing(_Comparison(mapping, known)) as comparison, contextlib.closing(_Writer(into)) as writer:
        for offset, data in comparison.differing(private):
            writer.add(data)
            if runs and sum(runs[-1]) == offset:
                runs[-1][1] += len(data)
            else:
                runs.append([offset, len(data)])
        writer.add(array.array("Q", [figure for run in runs for figure in run]).tobytes())
        writer.add(TRAILER.pack(len(runs), MAGIC))
        checksum = writer.finish()
    return Saved(sum(length for _, length in runs), sum(length for _, length in private), checksum)


# -- loading -----------------------------------------------------------------------------------------------------------

def _runs_of(file: BinaryIO) -> list[tuple[int, int]]:
    """Raises ValueError when the file is not complete."""
    size = os.fstat(file.fileno()).st_size
    trailer = os.pread(file.fileno(), TRAILER.size, max(0, size - TRAILER.size))
    count, magic = TRAILER.unpack(trailer) if len(trailer) == TRAILER.size else (0, b"")
    table_at = size - TRAILER.size - count * 16
    if magic != MAGIC or table_at < 0:
        raise ValueError(f"{file.name} is not a pages file, or ends before its time")
    figures = array.array("Q")
    figures.frombytes(os.pread(file.fileno(), count * 16, table_at))
    runs = list(zip(figures[::2], figures[1::2], strict=True))
    if sum(length for _, length in runs) != table_at:
        raise ValueError(f"{file.name} does not hold what it says")
    return runs


def load_pages(path: Path) -> Iterator[tuple[int, bytearray]]:
    """The chunks (offset, bytes) of a pages file. Raises ValueError when it is not complete."""
    with path.open("rb", buffering=0) as file:
        for offset, length in _runs_of(file):
            for at in range(offset, offset + length, CHUNK):
                data = bytearray(min(CHUNK, offset + length - at))
                if file.readinto(data) != len(data):
                    raise ValueError(f"{path.name} ends before its time")
                yield at, data


def write_pages(path: Path, mapping: Mapping) -> None:
    """Writes a pages file into the process's mapping."""
    for offset, data in load_pages(path):
        _transfer(_libc.process_vm_writev, mapping.pid, data, len(data), mapping.address + offset)


def apply_pages(path: Path, fd: int) -> None:
    """Writes a pages file into a file of zeros of the memory's size; pages of zeros stay holes."""
    for offset, data in load_pages(path):
        for at in range(0, len(data), PAGE):
            page = data[at:at + PAGE]
            if page.count(0) != len(page):
                _write_exactly(fd, page, offset + at)


def _write_exactly(fd: int, data: bytearray, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, at)
        view, at = view[written:], at + written
