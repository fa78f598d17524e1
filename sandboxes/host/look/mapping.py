"""Where a chain's bytes lie: every file of it opened once, and qemu-img asked for the map. Called by `reader.py`.

The files are opened here and handed on as descriptors: whatever is unlinked, dropped or shortened meanwhile, what was
opened stays what it was. qemu-img is told each file of the chain; no name inside a file is followed.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandboxes.errors import FileError
from sandboxes.linux import disks
from sandboxes.linux.processes import ProcessFailed, run

MAP_S = 60.0
_MAGIC = b"QFI\xfb"
#: Incompatible features of qcow2 that put data elsewhere: an external file is somebody else's file.
_EXTERNAL_DATA = 4
#: More pieces than this are no disk that grew by use: 64 KiB each, they would be 256 GiB.
MOST_EXTENTS = 4_000_000


@dataclass(frozen=True)
class Mapped:
    """One tree for the reader: its request fields, and the descriptors it speaks of (closed by who opened them)."""

    request: dict[str, Any]
    fds: tuple[int, ...]


@contextlib.contextmanager
def opened(paths: list[Path]) -> Iterator[list[int]]:
    fds: list[int] = []
    try:
        for path in paths:
            fds.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW))
        yield fds
    finally:
        for fd in fds:
            os.close(fd)


@contextlib.asynccontextmanager
async def disk(folder: Path, chain: disks.Chain) -> AsyncIterator[Mapped]:
    """A chain in a folder, mapped and open."""
    names = [*chain.below_head(), chain.head]
    with opened([folder / name for name in names]) as fds:
        for fd in fds[1 if chain.base else 0:]:
            _refuse_unsound(fd)
        extents = await _extents(chain, fds)
        size = max((start + length for start, length, *_ in extents), default=0)
        yield Mapped({"size": size, "files": fds, "extents": extents}, tuple(fds))


@contextlib.contextmanager
def folder(path: Path) -> Iterator[Mapped]:
    """The disk of a driver without disks."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        yield Mapped({"folder": fd}, (fd,))
    finally:
        os.close(fd)


def _refuse_unsound(fd: int) -> None:
    """A layer whose data is in another file, or whose table is not all there (QEMU would read zeros)."""
    head = os.pread(fd, 104, 0)
    if head[:4] != _MAGIC or len(head) < 80:
        raise FileError("a layer of this disk is not one", code="disk_unreadable")
    rows, table = struct.unpack_from(">IQ", head, 36)
    features, = struct.unpack_from(">Q", head, 72)
    if features & _EXTERNAL_DATA or table + 8 * rows > os.fstat(fd).st_size:
        raise FileError("a layer of this disk is not whole", code="disk_unreadable")


async def _extents(chain: disks.Chain, fds: list[int]) -> list[list[int]]:
    """[start, length, file, offset], file -1 where it reads as zeros. depth 0 is the head, as the last file is."""
    above: dict[str, Any] | None = None
    for number, fd in enumerate(fds):
        file = {"driver": "file", "filename": f"/proc/self/fd/{fd}"}
        raw = number == 0 and bool(chain.base)
        above = {"driver": "raw", "file": file} if raw else {"driver": "qcow2", "file": file, "backing": above}
    argv = ["qemu-img", "map", "--force-share", "--output=json", f"json:{json.dumps(above)}"]
    try:
        done = await run(argv, timeout_s=MAP_S, pass_fds=fds)
        found = json.loads(done.stdout)
    except (ProcessFailed, ValueError) as error:
        raise FileError(f"the disk cannot be mapped: {error}", code="disk_unreadable") from error
    if len(found) > MOST_EXTENTS:
        raise FileError("the disk is in too many pieces", code="disk_unreadable")
    sizes = [os.fstat(fd).st_size for fd in fds]
    extents = [_extent(piece, len(fds) - 1) for piece in found]
    if any(file >= 0 and offset >= sizes[file] for _start, _length, file, offset in extents):
        raise FileError("a layer of this disk is cut off", code="disk_unreadable")
    return extents


def _extent(piece: dict[str, Any], head: int) -> list[int]:
    if not piece["data"] or piece["zero"] or "offset" not in piece:
        return [piece["start"], piece["length"], -1, 0]
    return [piece["start"], piece["length"], head - piece["depth"], piece["offset"]]
