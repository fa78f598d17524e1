"""Gives up everything that root has, for good. Called once by `__main__`, when the socket is bound.

What is left: a user of its own that owns no file, no capability, no way to gain any. Code that Python would load later
is loaded before, for the user may not be able to read it.
"""

from __future__ import annotations

import ctypes
import os
import resource
import zlib
from pathlib import Path

import dns.rdata

PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP, PR_SET_DUMPABLE = 38, 24, 4
#: Below the users of machines (`linux/uids.py`).
FIRST_UID, RANGE = 0x5FFF0000, 0xFFFF

_libc = ctypes.CDLL(None, use_errno=True)


def drop(socket_path: Path) -> None:
    """A process that is not root has nothing to give up but the right to gain."""
    dns.rdata.load_all_types()  # type: ignore[no-untyped-call]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if os.geteuid() == 0:
        uid = FIRST_UID + zlib.crc32(str(socket_path).encode()) % RANGE
        for capability in range(64):
            if _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
                break
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    if _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")
