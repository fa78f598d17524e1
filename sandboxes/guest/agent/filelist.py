"""`file.list`: the entries of a folder in the order of their bytes, from a cursor on, bounded. Called by `filecalls`.

Recursive lists go depth first, do not follow links and do not leave the folder's file system. A listing holds the
names of one folder per level in memory, never a tree's.
"""

from __future__ import annotations

import errno
import heapq
import os
import stat
from collections.abc import Iterator
from typing import Any

from sandboxes.guest.agent import paths
from sandboxes.guest.agent.stats import describe
from sandboxes.guest.agent.workers import Job

MOST_ENTRIES = 10_000
#: A folder that vanished, or may not be read, below the one that was asked for is an entry without entries.
_PASSED_OVER = (errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.ELOOP)


def list_folder(job: Job, path: bytes, limit: int, after: bytes | None, recursive: bool) -> dict[str, Any]:
    base = path.rstrip(b"/")
    cursor = _components(base, after)
    fd = _open(paths.open_path(path, os.O_DIRECTORY))
    entries: list[dict[str, Any]] = []
    try:
        device = os.fstat(fd).st_dev
        found = _walk(job, fd, base, cursor, device) if recursive else _flat(fd, base, cursor, limit + 1)
        for entry in found:
            if len(entries) == limit:
                return {"entries": entries, "more": True}
            entries.append(entry)
    finally:
        os.close(fd)
    return {"entries": entries, "more": False}


def _components(base: bytes, after: bytes | None) -> list[bytes]:
    """The cursor (a whole path, or one below the folder) as names below the folder."""
    if not after:
        return []
    return [name for name in after.removeprefix(base + b"/").split(b"/") if name]


def _open(o_path_fd: int) -> int:
    try:
        return paths.reopen(o_path_fd, os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(o_path_fd)


def _names(fd: int) -> Iterator[bytes]:
    with os.scandir(fd) as found:
        for entry in found:
            yield os.fsencode(entry.name)


def _flat(fd: int, base: bytes, cursor: list[bytes], most: int) -> Iterator[dict[str, Any]]:
    last = cursor[0] if cursor else b""
    for name in heapq.nsmallest(most, (name for name in _names(fd) if name > last)):
        entry = _entry(fd, base, name)
        if entry is not None:
            yield entry


def _walk(job: Job, fd: int, base: bytes, cursor: list[bytes], device: int) -> Iterator[dict[str, Any]]:
    """Without recursion: a tree may be deeper than any stack. Levels are (descriptor, path, names still to come)."""
    levels: list[tuple[int, bytes, Iterator[bytes]]] = [(os.dup(fd), base, _from(fd, cursor[:1]))]
    try:
        while levels:
            job.check()
            here, folder, names = levels[-1]
            name = next(names, None)
            if name is None:
                os.close(levels.pop()[0])
                continue
            entered = cursor[len(levels) - 1:len(levels)] == [name] and _on_cursor(base, folder, cursor)
            entry = _entry(here, folder, name)
            if entry is None:
                continue
            if not entered:
                yield entry
            if entry["type"] == "directory":
                below = cursor[len(levels):len(levels) + 1] if entered else []
                _descend(levels, here, folder + b"/" + name, name, below, device)
    finally:
        for level in levels:
            os.close(level[0])


def _on_cursor(base: bytes, folder: bytes, cursor: list[bytes]) -> bool:
    below = [name for name in folder.removeprefix(base).split(b"/") if name]
    return cursor[:len(below)] == below


def _descend(levels: list[tuple[int, bytes, Iterator[bytes]]], here: int, path: bytes, name: bytes,
             cursor: list[bytes], device: int) -> None:
    try:
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=here)
    except OSError as error:
        if error.errno not in _PASSED_OVER:
            raise
        return
    if os.fstat(fd).st_dev != device:
        os.close(fd)
        return
    levels.append((fd, path, _from(fd, cursor)))


def _from(fd: int, cursor: list[bytes]) -> Iterator[bytes]:
    """The names from the cursor's on, that one included: it may be a folder whose rest is still to come."""
    return iter(sorted(name for name in _names(fd) if not cursor or name >= cursor[0]))


def _entry(fd: int, folder: bytes, name: bytes) -> dict[str, Any] | None:
    try:
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        target = os.readlink(name, dir_fd=fd) if stat.S_ISLNK(found.st_mode) else None
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno not in _PASSED_OVER:
            raise
        return None
    return describe(folder + b"/" + name, found, target)
