"""`file.write`: replaces a file's content in one step. Called by `filecalls` in a worker thread.

    bytes ─▶ a file beside, synced ─▶ renamed over the old one ─▶ folder synced

Mode, owner and attributes of an existing file are kept; a symbolic link stays one and its target is written, as an
editor would. Where no file can be made beside, or its owner could not be kept (a file of another owner that the user
may write, a mount, a file of /proc), the bytes are collected first and then copied into the file itself: complete
before the old content goes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from sandboxes.guest.agent import paths, stats
from sandboxes.guest.agent.filebeside import Beside, open_beside
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
        with _old(folder, name, path) as old:
            _require(terms, old, path)
            beside = open_beside(folder, old)
        if beside is None:
            return _write_in_place(job, path, terms)
        try:
            return _write_beside(job, path, folder, name, terms, beside)
        finally:
            beside.close()
    finally:
        os.close(folder)


# -- conditions --------------------------------------------------------------------------------------------------------

@contextlib.contextmanager
def _old(folder: int, name: bytes, path: bytes) -> Iterator[int | None]:
    """The file that is there. Raises Refusal when it is none to be written, or the user may not write it."""
    try:
        stats.require_file(os.stat(name, dir_fd=folder, follow_symlinks=False), path)
        fd = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        yield None
        return
    try:
        stats.require_file(os.fstat(fd), path)
        yield fd
    finally:
        os.close(fd)


def _require(terms: Terms, old: int | None, path: bytes) -> None:
    etag = stats.etag_of(os.fstat(old)) if old is not None else None
    if terms.if_none_match and old is not None:
        raise Refusal("precondition_failed", f"{shown(path)} is there already", etag=etag)
    if terms.if_match is not None and not _matches(terms.if_match, etag):
        raise Refusal("precondition_failed", f"{shown(path)} is not what it was", etag=etag)


def _matches(wanted: str, etag: str | None) -> bool:
    tags = [tag.strip().removeprefix("W/").strip('"') for tag in wanted.split(",")]
    return etag is not None and ("*" in tags or etag in tags)


# -- beside, then renamed ----------------------------------------------------------------------------------------------

def _write_beside(job: Job, path: bytes, folder: int, name: bytes, terms: Terms, beside: Beside) -> dict[str, Any]:
    size = _receive_into(job, beside.fd)
    os.fsync(beside.fd)  # before the lock: whoever waits for it waits for no disk
    with _commit, _old(folder, name, path) as old:
        _require(terms, old, path)
        os.fchmod(beside.fd, _mode(terms, old))
        os.fsync(beside.fd)
        try:
            beside.take(name, replace=not terms.if_none_match)
        except FileExistsError as error:
            raise Refusal("precondition_failed", f"{shown(path)} is there already") from error
        except OSError as error:
            if error.errno != errno.EBUSY:  # something is mounted over the file: it is written itself
                raise
            return _copy_over(beside.fd, size, folder, name, terms)
        etag = stats.etag_of(os.fstat(beside.fd))
    paths.sync_folder(folder)
    return {"size": size, "etag": etag, "created": old is None}


def _mode(terms: Terms, old: int | None) -> int:
    if terms.mode is not None:
        return terms.mode
    return stat.S_IMODE(os.fstat(old).st_mode) if old is not None else NEW_FILE_MODE


def _receive_into(job: Job, fd: int) -> int:
    size = 0
    while (data := job.receive()) is not None:
        write_all(fd, data)
        size += len(data)
    return size


def write_all(fd: int, data: bytes) -> None:
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
            with _commit, _old(folder, name, path) as old:
                _require(terms, old, path)
                return _copy_over(spool, size, folder, name, terms)
        finally:
            os.close(folder)
    finally:
        os.close(spool)


def _copy_over(spool: int, size: int, folder: int, name: bytes, terms: Terms) -> dict[str, Any]:
    fd = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        if stats.is_pseudo(fd):
            return _tell(fd, spool)
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


def _tell(fd: int, spool: int) -> dict[str, Any]:
    """A file of /proc or /sys takes what it is told in one write, or refuses it."""
    data = os.pread(spool, stats.MOST_PSEUDO_BYTES, 0)
    os.write(fd, data)
    return {"size": len(data), "etag": stats.PSEUDO_ETAG, "created": False}


def _reserve(fd: int, size: int) -> None:
    """A full disk refuses before the old content is touched."""
    if size:
        try:
            os.posix_fallocate(fd, 0, size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
