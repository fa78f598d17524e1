"""`file.write`: replaces a file's content in one step. Called by `filecalls` in a worker thread.

    bytes ─▶ a file beside, synced ─▶ renamed over the old one ─▶ folder synced

Mode and owner of an existing file are kept; a symbolic link stays one and its target is written, as an editor would.
Where no file can be made beside, or its owner could not be kept (a file of another owner that the user may write, a
bind mount), the bytes are collected first and then copied into the file itself: complete before the old content goes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from typing import Any, NamedTuple

from sandboxes.guest.agent import paths, stats
from sandboxes.guest.agent.refusal import Refusal, shown
from sandboxes.guest.agent.workers import Job

NEW_FILE_MODE = 0o644
COPY_BYTES = 256 * 1024
SPOOL = b"/tmp"
#: Conditions are judged and the rename is done under this, so that of two writers with one etag one is refused.
_commit = threading.Lock()


class Terms(NamedTuple):
    """What a write asks for beside the bytes."""

    mode: int | None
    if_match: str | None
    if_none_match: bool


def write_file(job: Job, path: bytes, terms: Terms, parents: bool) -> dict[str, Any]:
    if parents:
        paths.make_parents(path)
    path = paths.target_of(path)
    folder, name = paths.open_parent(path)
    try:
        old = _old(folder, name, path)
        _require(terms, old, path)
        aside = _open_beside(folder, old)
        if aside is None:
            return _write_in_place(job, path, terms)
        return _write_beside(job, path, folder, name, terms, aside)
    finally:
        os.close(folder)


# -- conditions --------------------------------------------------------------------------------------------------------

def _old(folder: int, name: bytes, path: bytes) -> os.stat_result | None:
    """The file that is there. Raises Refusal when it is none to be written, or the user may not write it."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    stats.require_file(found, path)
    os.close(os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder))
    return found


def _require(terms: Terms, old: os.stat_result | None, path: bytes) -> None:
    etag = stats.etag_of(old) if old is not None else None
    if terms.if_none_match and old is not None:
        raise Refusal("precondition_failed", f"{shown(path)} is there already", etag=etag)
    if terms.if_match is not None and not _matches(terms.if_match, etag):
        raise Refusal("precondition_failed", f"{shown(path)} is not what it was", etag=etag)


def _matches(wanted: str, etag: str | None) -> bool:
    tags = [tag.strip().removeprefix("W/").strip('"') for tag in wanted.split(",")]
    return etag is not None and ("*" in tags or etag in tags)


# -- beside, then renamed ----------------------------------------------------------------------------------------------

def _open_beside(folder: int, old: os.stat_result | None) -> tuple[int, bytes] | None:
    """(descriptor, name) of a new file with the old one's owner; None where that cannot be."""
    name = b".berth-" + os.urandom(6).hex().encode()
    try:
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    except PermissionError:
        if old is None:
            raise
        return None
    if old is None or _give(fd, old):
        return fd, name
    os.close(fd)
    os.unlink(name, dir_fd=folder)
    return None


def _give(fd: int, old: os.stat_result) -> bool:
    own = os.fstat(fd)
    if (own.st_uid, own.st_gid) == (old.st_uid, old.st_gid):
        return True
    try:
        os.fchown(fd, old.st_uid, old.st_gid)
    except PermissionError:
        return False
    return True


def _write_beside(job: Job, path: bytes, folder: int, name: bytes, terms: Terms,
                  aside: tuple[int, bytes]) -> dict[str, Any]:
    fd, beside = aside
    try:
        size = _receive_into(job, fd)
        with _commit:
            old = _old(folder, name, path)
            _require(terms, old, path)
            os.fchmod(fd, _mode(terms, old))
            os.fsync(fd)
            try:
                paths.rename(folder, beside, folder, name, replace=not terms.if_none_match)
            except FileExistsError as error:
                raise Refusal("precondition_failed", f"{shown(path)} is there already") from error
            beside = b""
            etag = stats.etag_of(os.fstat(fd))
        paths.sync_folder(folder)
        return {"size": size, "etag": etag, "created": old is None}
    finally:
        os.close(fd)
        if beside:
            with contextlib.suppress(OSError):
                os.unlink(beside, dir_fd=folder)


def _mode(terms: Terms, old: os.stat_result | None) -> int:
    if terms.mode is not None:
        return terms.mode
    return stat.S_IMODE(old.st_mode) if old is not None else NEW_FILE_MODE


def _receive_into(job: Job, fd: int) -> int:
    size = 0
    while (data := job.receive()) is not None:
        _write_all(fd, data)
        size += len(data)
    return size


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view):]


# -- collected, then copied into the file itself -----------------------------------------------------------------------

def _write_in_place(job: Job, path: bytes, terms: Terms) -> dict[str, Any]:
    spool = os.open(SPOOL, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
    try:
        size = _receive_into(job, spool)
        folder, name = paths.open_parent(path)
        try:
            with _commit:
                _require(terms, _old(folder, name, path), path)
                return _copy_over(spool, size, folder, name, terms)
        finally:
            os.close(folder)
    finally:
        os.close(spool)


def _copy_over(spool: int, size: int, folder: int, name: bytes, terms: Terms) -> dict[str, Any]:
    fd = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        _reserve(fd, size)
        at = 0
        while data := os.pread(spool, COPY_BYTES, at):
            os.pwrite(fd, data, at)
            at += len(data)
        os.ftruncate(fd, size)
        if terms.mode is not None:
            os.fchmod(fd, terms.mode)
        os.fsync(fd)
        return {"size": size, "etag": stats.etag_of(os.fstat(fd)), "created": False}
    finally:
        os.close(fd)


def _reserve(fd: int, size: int) -> None:
    """A full disk refuses before the old content is touched."""
    if size:
        try:
            os.posix_fallocate(fd, 0, size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
