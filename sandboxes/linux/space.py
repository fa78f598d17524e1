"""Space on the host's disk is reserved before work starts: a full disk refuses clearly and nothing is half made.

Called by the drivers before they create disks, templates and captures. Reservations live in this process: they
cover what is being written now; what is written already is seen by statvfs. Promises do, too: room that is kept for
what one machine will have to write some day (its memory, when it is put to rest), and that nobody else's work gets.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sandboxes.errors import DiskFull

#: Never handed out: room for state files, logs and the writes of machines that run already.
MARGIN_BYTES = 64 * 1024 * 1024

_reserved: dict[int, int] = {}
#: By the home that it was promised to: the file system, and how much of it.
_promised: dict[Path, tuple[int, int]] = {}


def free_bytes(folder: Path) -> int:
    figures = os.statvfs(folder)
    return figures.f_bavail * figures.f_frsize


def promise(home: Path, size_bytes: int) -> None:
    """So much of the file system of `home` (a folder that is there) is kept for it until `forgo`."""
    _promised[home] = home.stat().st_dev, size_bytes


def forgo(home: Path) -> None:
    _promised.pop(home, None)


def promised_bytes(folder: Path, but: Path | None = None) -> int:
    """What is kept on the file system of `folder` for others than `but`."""
    device = folder.stat().st_dev
    return sum(size for home, (there, size) in _promised.items() if there == device and home != but)


@contextmanager
def reserved(folder: Path, size_bytes: int, what: str, promised_to: Path | None = None) -> Iterator[None]:
    """Holds `size_bytes` on the file system of `folder` for the block. Raises DiskFull before anything is written.
    `promised_to`: whose promise is kept by this."""
    device = folder.stat().st_dev
    left = free_bytes(folder) - _reserved.get(device, 0) - MARGIN_BYTES - promised_bytes(folder, promised_to)
    if left < size_bytes:
        raise DiskFull(f"{what} needs {size_bytes >> 20} MiB and the host has {max(left, 0) >> 20} MiB to give")
    _reserved[device] = _reserved.get(device, 0) + size_bytes
    try:
        yield
    finally:
        _reserved[device] -= size_bytes
