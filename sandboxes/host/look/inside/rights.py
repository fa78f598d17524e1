"""Giving up every right, once, before the first byte of a guest's disk is looked at. Called by `__main__.py`.

Afterwards the process has a user of its own that nobody else has, a deleted empty folder as its root, no network, no
way to start a process or to write a file, and bounds on memory and processor time. What it keeps are its descriptors.
"""

from __future__ import annotations

import ctypes
import os
import resource
import tempfile

MEMORY_BYTES = 768 << 20
CPU_S = 120
#: Below the ranges of the machines (`linux/uids.py`) and above everybody's; one per process id.
FIRST_UID = 0x50000000
_NEW_NETWORK, _NEW_IPC = 0x40000000, 0x08000000
_SET_DUMPABLE, _SET_NO_NEW_PRIVS = 4, 38


def give_up() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    _checked(libc.unshare(_NEW_NETWORK | _NEW_IPC), "unshare")
    _enter_nowhere()
    for limit, value in ((resource.RLIMIT_AS, MEMORY_BYTES), (resource.RLIMIT_CPU, CPU_S),
                         (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_NPROC, 0), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(limit, (value, value))
    uid = FIRST_UID + os.getpid()
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    _checked(libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    _checked(libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0), "dumpable")


def _enter_nowhere() -> None:
    """A root without names, in which none can be made: the folder is removed while we stand in it."""
    nowhere = tempfile.mkdtemp(prefix="berth-look-")
    parent = os.open(os.path.dirname(nowhere), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # noqa: PTH120
    os.chroot(nowhere)
    os.chdir("/")
    os.rmdir(os.path.basename(nowhere), dir_fd=parent)  # noqa: PTH119 -- by descriptor
    os.close(parent)


def _checked(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
