"""Opens paths step by step as the calling thread's user, never through the kernel's magic links. Called by file calls.

A path from the API means what it means to the user's own processes, with one exception: /proc/self and its like would
be the *agent* here, so they are refused, and so is whatever leads through its descriptors.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from sandboxes.guest.agent import syscalls
from sandboxes.guest.agent.refusal import Refusal, shown

_OPENAT2, _RENAMEAT2 = 437, 316
_RESOLVE_NO_MAGICLINKS, _RESOLVE_BENEATH = 0x02, 0x08
_AT_FDCWD = -100
RENAME_NOREPLACE = 1
MOST_LINKS = 40
MOST_RETRIES = 100


def checked(path: bytes) -> bytes:
    """An absolute path without NUL. Raises Refusal."""
    if b"\0" in path:
        raise Refusal("invalid", "a path must not contain NUL")
    if not path.startswith(b"/"):
        raise Refusal("invalid", f"a path must be absolute: {shown(path)}")
    return path


def open_path(path: bytes, flags: int = 0) -> int:
    """An O_PATH descriptor: it names the file, opens nothing, and so blocks on no FIFO and disturbs no device."""
    how = struct.pack("QQQ", os.O_PATH | os.O_CLOEXEC | flags, 0, _RESOLVE_NO_MAGICLINKS)
    fd = syscalls.call(_OPENAT2, ctypes.c_int(_AT_FDCWD), path, how, ctypes.c_size_t(len(how)))
    if _is_agents_own(fd):
        os.close(fd)
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), path)
    return fd


def open_beneath(folder: int, path: bytes, flags: int = 0) -> int:
    """The same below an open folder; what leads out of it (by "..", by an absolute name, by any link) is EXDEV."""
    how = struct.pack("QQQ", os.O_PATH | os.O_CLOEXEC | flags, 0, _RESOLVE_NO_MAGICLINKS | _RESOLVE_BENEATH)
    for _ in range(MOST_RETRIES):
        try:
            return syscalls.call(_OPENAT2, ctypes.c_int(folder), path, how, ctypes.c_size_t(len(how)))
        except BlockingIOError:  # something was renamed meanwhile, and the kernel could not be sure
            continue
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)


def _is_agents_own(fd: int) -> bool:
    real = real_path(fd)
    own = b"/proc/%d" % os.getpid()
    return real == own or real.startswith(own + b"/")


def real_path(fd: int) -> bytes:
    """Where a descriptor's file is now."""
    return os.readlink(b"/proc/self/fd/%d" % fd)  # noqa: PTH115 - bytes


def reopen(fd: int, flags: int) -> int:
    """Opens for real what an O_PATH descriptor names, with the thread's rights. Never waits for anybody."""
    return os.open(b"/proc/self/fd/%d" % fd, flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)


def open_parent(path: bytes) -> tuple[int, bytes]:
    """(the folder's descriptor, the name in it): the name itself is not followed."""
    folder, _, name = path.rstrip(b"/").rpartition(b"/")
    if name in (b"", b".", b".."):
        raise Refusal("invalid", f"that names no entry of a folder: {shown(path)}")
    return open_path(folder or b"/", os.O_DIRECTORY), name


def make_parents(path: bytes) -> None:
    """The folders above a path, each made as the user."""
    folder = path.rstrip(b"/").rpartition(b"/")[0].rstrip(b"/")
    missing: list[bytes] = []
    while folder:
        try:
            os.close(open_path(folder, os.O_DIRECTORY))
            break
        except FileNotFoundError:
            folder, _, name = folder.rpartition(b"/")
            folder = folder.rstrip(b"/")
            missing.append(name)
    fd = open_path(folder or b"/", os.O_DIRECTORY)
    for name in reversed(missing):
        try:
            os.mkdir(name, 0o755, dir_fd=fd)
        except FileExistsError:
            pass
        finally:
            below = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
            os.close(fd)
            fd = below
    os.close(fd)


def target_of(path: bytes) -> bytes:
    """Where writing to a path really writes: the last name's symbolic links followed, also to what is not there yet."""
    for _ in range(MOST_LINKS):
        folder, name = open_parent(path)
        try:
            link = os.readlink(name, dir_fd=folder)
            path = link if link.startswith(b"/") else real_path(folder) + b"/" + link
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return path
            raise
        finally:
            os.close(folder)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def rename(folder: int, name: bytes, to_folder: int, to_name: bytes, replace: bool) -> None:
    """Raises FileExistsError instead of replacing when not told to."""
    if replace:
        os.rename(name, to_name, src_dir_fd=folder, dst_dir_fd=to_folder)
    else:
        syscalls.call(_RENAMEAT2, ctypes.c_int(folder), name, ctypes.c_int(to_folder), to_name,
                      ctypes.c_uint(RENAME_NOREPLACE))


def sync_folder(folder: int) -> None:
    """So that the names in it outlive a crash. A folder the user may not read is left to the kernel's own pace."""
    try:
        fd = reopen(folder, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
