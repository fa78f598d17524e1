"""Memory files that nobody can change or enlarge: shared guest memory, boot files, bounded logs.

Called by the drivers. A base of guest memory is copied into a sealed memfd once per life of hostd and handed to every
body as a descriptor, so all machines of a template share its pages; the file it came from may be unlinked at any time.
Kernel and initramfs travel the same way, so that a body needs no right on any file of the host.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path

from sandboxes.linux.disks import data_extents

#: Not in Python's fcntl module before 3.12.
F_ADD_SEALS, F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE = 1033, 1, 2, 4, 8
COPY_BYTES = 1 << 30


class SealedFiles:
    """Sealed copies by the identity of their source, each made once."""

    def __init__(self) -> None:
        self._by_source: dict[tuple[int, ...], int] = {}
        self._lock = asyncio.Lock()

    async def of(self, path: Path, size: int | None = None) -> int:
        """A descriptor of the sealed copy of `path`; it stays ours to close."""
        status = path.stat()
        key = (status.st_dev, status.st_ino, status.st_mtime_ns, size or status.st_size)
        async with self._lock:
            if key not in self._by_source:
                self._by_source[key] = await asyncio.to_thread(_sealed_copy, path, size or status.st_size)
            return self._by_source[key]

    async def zeros(self, size: int) -> int:
        """What a machine that boots cold maps: nothing but zeros."""
        async with self._lock:
            if (size,) not in self._by_source:
                self._by_source[(size,)] = _sealed(_memory_file("zeros", size))
            return self._by_source[(size,)]

    def close(self) -> None:
        for fd in self._by_source.values():
            os.close(fd)
        self._by_source.clear()


def bounded_file(name: str, size: int) -> int:
    """A writable memory file that cannot grow: who writes too much into it loses the rest, not the host its memory."""
    fd = _memory_file(name, size)
    fcntl.fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
    return fd


def read_bounded(fd: int) -> str:
    size = os.fstat(fd).st_size
    return os.pread(fd, size, 0).rstrip(b"\0").decode("utf-8", "replace")


def _memory_file(name: str, size: int) -> int:
    fd = os.memfd_create(f"berth-{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    return fd


def _sealed(fd: int) -> int:
    fcntl.fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
    return fd


def _sealed_copy(path: Path, size: int) -> int:
    fd = _memory_file(path.name, size)
    try:
        with path.open("rb") as source:
            for start, end in data_extents(source.fileno(), size):
                os.lseek(fd, start, os.SEEK_SET)
                while start < end:
                    start += os.sendfile(fd, source.fileno(), start, min(end - start, COPY_BYTES))
        return _sealed(fd)
    except BaseException:
        os.close(fd)
        raise
