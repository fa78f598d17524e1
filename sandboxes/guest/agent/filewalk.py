"""Goes through a folder, or a tree, in the order of the names' bytes, from a cursor on, with a bounded amount held.

Called by `filelist`, `filesearch` and `archiveout` in worker threads. Depth first, without recursion (a tree may be
deeper than any stack); links are not followed and the folder's file system is not left. Of each level the next
BLOCK_NAMES names are held, never a folder's all: a larger folder is read again for the next ones.
"""

from __future__ import annotations

import errno
import heapq
import os
import stat
from collections.abc import Callable, Iterator
from typing import NamedTuple

from sandboxes.guest.agent import paths
from sandboxes.guest.agent.workers import Job

BLOCK_NAMES = 65_536
#: A folder that vanished, or may not be read, below the one that was asked for is an entry without entries.
PASSED_OVER = (errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.ELOOP)
_OPEN_BELOW = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Found(NamedTuple):
    """An entry: `folder` is the open folder it is in, valid until the next one is asked for."""

    folder: int
    name: bytes
    path: bytes
    stat: os.stat_result


class _Level(NamedTuple):
    folder: int
    path: bytes
    names: Iterator[bytes]


Enter = Callable[[Found], bool]


def open_folder(path: bytes) -> int:
    """For reading, with the thread's rights."""
    named = paths.open_path(path, os.O_DIRECTORY)
    try:
        return paths.reopen(named, os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(named)


def below(base: bytes, path: bytes | None) -> list[bytes]:
    """A cursor (a whole path, or one below the folder) as names below the folder."""
    if not path:
        return []
    return [name for name in path.removeprefix(base + b"/").split(b"/") if name]


def flat(job: Job, folder: int, base: bytes, cursor: list[bytes], block: int) -> Iterator[Found]:
    """The folder's own entries behind the cursor."""
    for name in _names_from(folder, cursor[0] if cursor else b"", included=False, block=block):
        job.check()
        found = _found(folder, base, name)
        if found is not None:
            yield found


def deep(job: Job, folder: int, base: bytes, cursor: list[bytes], enter: Enter = lambda _found: True
         ) -> Iterator[Found]:
    """Everything below behind the cursor; a folder comes before what is in it. `enter` may refuse a folder's inside."""
    device = os.fstat(folder).st_dev
    levels = [_Level(os.dup(folder), base, _level_names(folder, cursor[:1]))]
    try:
        while levels:
            job.check()
            level = levels[-1]
            name = next(level.names, None)
            if name is None:
                os.close(levels.pop().folder)
                continue
            found = _found(level.folder, level.path, name)
            if found is None:
                continue
            passed = cursor[len(levels) - 1:len(levels)] == [name] and _on_cursor(base, level.path, cursor)
            if not passed:
                yield found
            if stat.S_ISDIR(found.stat.st_mode) and enter(found):
                _descend(levels, found, cursor[len(levels):len(levels) + 1] if passed else [], device)
    finally:
        for level in levels:
            os.close(level.folder)


def _on_cursor(base: bytes, folder: bytes, cursor: list[bytes]) -> bool:
    names = [name for name in folder.removeprefix(base).split(b"/") if name]
    return cursor[:len(names)] == names


def _descend(levels: list[_Level], found: Found, cursor: list[bytes], device: int) -> None:
    try:
        fd = os.open(found.name, _OPEN_BELOW, dir_fd=found.folder)
    except OSError as error:
        if error.errno not in PASSED_OVER:
            raise
        return
    if os.fstat(fd).st_dev != device:
        os.close(fd)
        return
    levels.append(_Level(fd, found.path, _level_names(fd, cursor)))


def _level_names(folder: int, cursor: list[bytes]) -> Iterator[bytes]:
    """From the cursor's name on, that one included: it may be a folder whose rest is still to come."""
    return _names_from(folder, cursor[0] if cursor else b"", included=True, block=BLOCK_NAMES)


def _names_from(folder: int, first: bytes, *, included: bool, block: int) -> Iterator[bytes]:
    while True:
        behind = (name for name in _names(folder) if name > first or (included and name == first))
        names = heapq.nsmallest(block, behind)
        yield from names
        if len(names) < block:
            return
        first, included = names[-1], False


def _names(folder: int) -> Iterator[bytes]:
    with os.scandir(folder) as entries:
        for entry in entries:
            yield os.fsencode(entry.name)


def _found(folder: int, base: bytes, name: bytes) -> Found | None:
    try:
        return Found(folder, name, base + b"/" + name, os.stat(name, dir_fd=folder, follow_symlinks=False))
    except OSError as error:
        if error.errno not in PASSED_OVER:
            raise
        return None
