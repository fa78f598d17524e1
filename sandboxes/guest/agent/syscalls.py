"""System calls that Python has no name for, by ctypes. Every one raises OSError naming what it worked on.

Called by `world`, `clock`, `quiesce`, `poweroff`, `credentials`, `paths`. x86-64 numbers. Decides nothing.
"""

from __future__ import annotations

import ctypes
import os

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 4096, 8192, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_CHILD_SUBREAPER, PR_SET_NAME = 36, 15
_PIVOT_ROOT = 155

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def call(number: int, *args: object) -> int:
    """A raw system call, which (unlike the C library's) acts on the calling thread alone."""
    result = int(_libc.syscall(ctypes.c_long(number), *args))
    if result < 0:
        raise _error(f"system call {number}")
    return result


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), what)


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    if _libc.mount(source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), data.encode()) < 0:
        raise _error(target)


def unmount(target: str, flags: int = 0) -> None:
    if _libc.umount2(target.encode(), flags) < 0:
        raise _error(target)


def pivot_root(new: str, old: str) -> None:
    if _libc.syscall(ctypes.c_long(_PIVOT_ROOT), new.encode(), old.encode()) < 0:
        raise _error(new)


def set_hostname(name: str) -> None:
    raw = name.encode()
    if _libc.sethostname(raw, ctypes.c_size_t(len(raw))) < 0:
        raise _error("hostname")


def reboot(command: int) -> None:
    if _libc.reboot(ctypes.c_int(command)) < 0:
        raise _error("reboot")


def adopt_orphans() -> None:
    """Descendants whose parent ends become ours, so that none escapes upwards."""
    if _libc.prctl(PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0) < 0:
        raise _error("prctl")


def name_process(name: str) -> None:
    _libc.prctl(PR_SET_NAME, name.encode(), 0, 0, 0)

