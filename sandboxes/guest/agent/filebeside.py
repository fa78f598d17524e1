"""A file that is being written beside the one it will be, and takes its name in one step. Called by `filewrite` and
`archivein` in worker threads.

    nameless (O_TMPFILE) ─▶ bytes, synced ─▶ given the name, or a name beside and renamed over the old one

A nameless file is gone by itself whatever ends the machine in the middle. Where a file system has none, a name that
begins with `.berth-` is used and removed again. Owner and attributes of what is replaced are kept; who cannot keep
them is told so (None) and writes into the file itself. A name among several (a hard link) comes to mean the new file;
the others keep the old one.
"""

from __future__ import annotations

import contextlib
import errno
import os

from sandboxes.guest.agent import paths

_HOW = os.O_RDWR | os.O_CLOEXEC
#: What says that here are no nameless files.
_NO_NAMELESS = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)
#: What says that no file can be made here, though one that is there may be written: /proc, another's folder.
_NOTHING_NEW = (errno.EACCES, errno.EPERM, errno.ENOENT)
#: The kernel's own to give: a new content does not inherit a capability.
_NOT_KEPT = ("security.", "trusted.")


class Beside:
    """Close it whatever happens; what has not taken its name leaves nothing."""

    def __init__(self, folder: int, fd: int, name: bytes) -> None:
        self.fd = fd
        self._folder, self._name = folder, name

    def take(self, name: bytes, *, replace: bool) -> None:
        """Raises FileExistsError where it may not replace. Durable once the folder is synced, if the file was."""
        if not self._name and self._given(name):
            return
        if not self._name:
            beside = _aside()
            os.link(self._link, beside, dst_dir_fd=self._folder, follow_symlinks=True)
            self._name = beside
        paths.rename(self._folder, self._name, self._folder, name, replace)
        self._name = b""

    def _given(self, name: bytes) -> bool:
        """Whether it took a name that was free."""
        try:
            os.link(self._link, name, dst_dir_fd=self._folder, follow_symlinks=True)
        except FileExistsError:
            return False
        return True

    @property
    def _link(self) -> bytes:
        return b"/proc/self/fd/%d" % self.fd

    def close(self) -> None:
        os.close(self.fd)
        if self._name:
            with contextlib.suppress(OSError):
                os.unlink(self._name, dir_fd=self._folder)


def open_beside(folder: int, old: int | None) -> Beside | None:
    """For the file open as `old`, or for a new one; None where none can be made that has the old one's owner and
    attributes."""
    try:
        beside = _open(folder)
    except OSError as error:
        if old is None or error.errno not in _NOTHING_NEW:
            raise
        return None
    if old is None or (_give(beside.fd, old) and _describe(beside.fd, old)):
        return beside
    beside.close()
    return None


def _open(folder: int) -> Beside:
    try:
        return Beside(folder, os.open(b".", _HOW | os.O_TMPFILE, 0o600, dir_fd=folder), b"")
    except OSError as error:
        if error.errno not in _NO_NAMELESS:
            raise
    name = _aside()
    return Beside(folder, os.open(name, _HOW | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder), name)


def _aside() -> bytes:
    return b".berth-" + os.urandom(6).hex().encode()


def _give(fd: int, old: int) -> bool:
    own, wanted = os.fstat(fd), os.fstat(old)
    if (own.st_uid, own.st_gid) == (wanted.st_uid, wanted.st_gid):
        return True
    try:
        os.fchown(fd, wanted.st_uid, wanted.st_gid)
    except PermissionError:
        return False
    return True


def _describe(fd: int, old: int) -> bool:
    """Extended attributes, access lists among them."""
    try:
        for name in os.listxattr(old):
            if not name.startswith(_NOT_KEPT):
                os.setxattr(fd, name, os.getxattr(old, name))
    except OSError as error:
        return error.errno == errno.EOPNOTSUPP
    return True
