"""Space on the host's disk is reserved before work starts: a full disk refuses clearly and nothing is half made.

Called by the drivers before they create disks, templates and captures. Reservations live in this process: they
cover what is being written now; what is written already is seen by statvfs.
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


def free_bytes(folder: Path) -> int:
    figures = os.statvfs(folder)
    return figures.f_bavail * figures.f_frsize


@contextmanager
def reserved(folder: Path, size_bytes: int, what: str) -> Iterator[None]:
    """Holds `size_bytes` on the file system of `folder` for the block. Raises DiskFull before anything is written."""
    device = folder.stat().st_dev
    left = free_bytes(folder) - _reserved.get(device, 0) - MARGIN_BYTES
    if left < size_bytes:
        raise DiskFull(f"{what} needs {size_bytes >> 20} MiB and the host has {max(left, 0) >> 20} MiB to give")
    _reserved[device] = _reserved.get(device, 0) + size_bytes
    try:
        yield
    finally:
        _reserved[device] -= size_bytes
