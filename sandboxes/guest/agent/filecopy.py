"""Copies and removes trees as the calling thread's user, by descriptors, without recursion. Called by `filechanges`.

A copy keeps modes, times, attributes and holes, and owners for who may give files away.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from sandboxes.guest.agent.refusal import Refusal, shown
from sandboxes.guest.agent.workers import Job

COPY_BYTES = 1024 * 1024
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def copy_entry(job: Job, folder: int, name: bytes, to_folder: int, to_name: bytes) -> None:
    """A file, a link, a FIFO, a device (for who may make one) or a whole folder, to a name that is not there. A socket
    cannot be copied: alone it is refused, in a folder left out."""
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISSOCK(found.st_mode):
        raise Refusal("not_a_regular_file", f"{shown(name)} is a socket")
    if stat.S_ISDIR(found.st_mode):
        _copy_folder(job, folder, name, to_folder, to_name)
    else:
        _copy_leaf(job, folder, name, to_folder, to_name)


def _copy_leaf(job: Job, folder: int, name: bytes, to_folder: int, to_name: bytes) -> bool:
    """False when it is a folder."""
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISDIR(found.st_mode):
        return False
    if stat.S_ISREG(found.st_mode):
        _copy_file(job, folder, name, to_folder, to_name, found)
    elif not stat.S_ISSOCK(found.st_mode):
        _copy_special(folder, name, to_folder, to_name, found)
    return True


def _copy_special(folder: int, name: bytes, to_folder: int, to_name: bytes, found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        os.symlink(os.readlink(name, dir_fd=folder), to_name, dir_fd=to_folder)
    else:
        os.mknod(to_name, found.st_mode, found.st_rdev, dir_fd=to_folder)
    _keep_owner(to_folder, to_name, found)


def _copy_file(job: Job, folder: int, name: bytes, to_folder: int, to_name: bytes, found: os.stat_result) -> None:
    source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        target = os.open(to_name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=to_folder)
        try:
            for at, length in data_ranges(source, found.st_size):
                _copy_range(job, source, target, at, length)
            os.ftruncate(target, found.st_size)
            _keep_owner(to_folder, to_name, found)
            os.fchmod(target, stat.S_IMODE(found.st_mode))
            _keep_attributes(source, target)
            os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
        finally:
            os.close(target)
    finally:
        os.close(source)


def _keep_owner(folder: int, name: bytes, found: os.stat_result) -> None:
    """For who may give files away."""
    with contextlib.suppress(PermissionError):
        os.chown(name, found.st_uid, found.st_gid, dir_fd=folder, follow_symlinks=False)


def _keep_attributes(source: int, target: int) -> None:
    """As far as the user and the other file system can."""
    with contextlib.suppress(OSError):
        for name in os.listxattr(source):
            with contextlib.suppress(OSError):
                os.setxattr(target, name, os.getxattr(source, name))


def data_ranges(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """What is not a hole, so that a sparse file stays one."""
    at = 0
    while at < size:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            raise
        at = os.lseek(fd, start, os.SEEK_HOLE)
        yield start, at - start


def _copy_range(job: Job, source: int, target: int, at: int, length: int) -> None:
    end = at + length
    while at < end:
        job.check()
        data = os.pread(source, min(COPY_BYTES, end - at), at)
        if not data:
            return
        written = 0
        while written < len(data):
            written += os.pwrite(target, data[written:], at + written)
        at += len(data)


def _copy_folder(job: Job, folder: int, name: bytes, to_folder: int, to_name: bytes) -> None:
    levels = [_enter_copy(folder, name, to_folder, to_name)]
    copy = os.fstat(levels[0].target)
    try:
        while levels:
            job.check()
            level = levels[-1]
            child = next(level.names, None)
            if child is None:
                _leave_copy(levels.pop())
            elif not _copy_leaf(job, level.source, child, level.target, child) and not _is(level.source, child, copy):
                levels.append(_enter_copy(level.source, child, level.target, child))
    finally:
        for level in levels:
            _close_level(level)


class _Level(NamedTuple):
    source: int
    target: int
    names: Iterator[bytes]
    found: os.stat_result


def _enter_copy(folder: int, name: bytes, to_folder: int, to_name: bytes) -> _Level:
    source = os.open(name, _OPEN_FOLDER, dir_fd=folder)
    try:
        os.mkdir(to_name, 0o700, dir_fd=to_folder)
        target = os.open(to_name, _OPEN_FOLDER, dir_fd=to_folder)
    except BaseException:
        os.close(source)
        raise
    names = iter([os.fsencode(child) for child in os.listdir(source)])  # noqa: PTH208
    return _Level(source, target, names, os.fstat(source))


def _leave_copy(level: _Level) -> None:
    try:
        with contextlib.suppress(PermissionError):
            os.fchown(level.target, level.found.st_uid, level.found.st_gid)
        os.fchmod(level.target, stat.S_IMODE(level.found.st_mode))
        _keep_attributes(level.source, level.target)
        os.utime(level.target, ns=(level.found.st_atime_ns, level.found.st_mtime_ns))
    finally:
        _close_level(level)


def _is(folder: int, name: bytes, other: os.stat_result) -> bool:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return (found.st_dev, found.st_ino) == (other.st_dev, other.st_ino)


def _close_level(level: _Level) -> None:
    os.close(level.source)
    os.close(level.target)


# -- removing ----------------------------------------------------------------------------------------------------------

def remove_entry(job: Job, folder: int, name: bytes, recursive: bool) -> None:
    """The entry itself: of a link the link. Raises what the kernel says of a folder that is not empty."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=folder)
    elif not recursive:
        os.rmdir(name, dir_fd=folder)
    else:
        _remove_folder(job, folder, name)


def _remove_folder(job: Job, folder: int, name: bytes) -> None:
    levels: list[tuple[int, bytes]] = [(os.open(name, _OPEN_FOLDER, dir_fd=folder), name)]
    try:
        while levels:
            job.check()
            here, own_name = levels[-1]
            child = _remove_children(here)
            if child is not None:
                levels.append((os.open(child, _OPEN_FOLDER, dir_fd=here), child))
                continue
            os.close(levels.pop()[0])
            os.rmdir(own_name, dir_fd=levels[-1][0] if levels else folder)
    finally:
        for fd, _ in levels:
            os.close(fd)


def _remove_children(fd: int) -> bytes | None:
    """Removes until a folder is met that is not empty; that one's name, or None when all are gone."""
    with os.scandir(fd) as found:
        for entry in found:
            name = os.fsencode(entry.name)
            if not entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=fd)
                continue
            try:
                os.rmdir(name, dir_fd=fd)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                return name
    return None
