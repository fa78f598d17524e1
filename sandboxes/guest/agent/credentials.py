"""Lets one worker thread act with a user's rights and nothing more. Called by `workers.py` alone.

The C library's setuid and friends change every thread of a process; the raw calls here change the calling thread. The
file-system identity is taken (setfsuid, setfsgid, groups) and the effective capabilities are dropped, as a file
server does; the real uid stays root's, so the user can neither signal nor trace the agent through such a thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterator

from sandboxes.guest.agent import syscalls
from sandboxes.guest.agent.accounts import Account

_SETGROUPS, _SETFSUID, _SETFSGID, _CAPGET, _CAPSET = 116, 122, 123, 125, 126
_CAP_HEADER = struct.pack("Ii", 0x20080522, 0)


def _permitted() -> tuple[int, int]:
    data = ctypes.create_string_buffer(24)
    syscalls.call(_CAPGET, _CAP_HEADER, data)
    words = struct.unpack("6I", data.raw)
    return words[1], words[4]


_PERMITTED = _permitted()
_OWN_GROUPS = tuple(os.getgroups())


@contextlib.contextmanager
def acting_as(account: Account) -> Iterator[None]:
    """For the calling thread and the block. A thread that cannot come back ends: RuntimeError, never reuse it."""
    _take(account.uid, account.gid, account.groups)
    try:
        yield
    finally:
        try:
            _set_capabilities(_PERMITTED)
            _take(0, 0, _OWN_GROUPS)
        except OSError as error:
            raise RuntimeError("the thread is stuck in a user's identity") from error


def _take(uid: int, gid: int, groups: tuple[int, ...]) -> None:
    syscalls.call(_SETGROUPS, ctypes.c_size_t(len(groups)), (ctypes.c_uint32 * len(groups))(*groups))
    syscalls.call(_SETFSGID, ctypes.c_uint32(gid))
    syscalls.call(_SETFSUID, ctypes.c_uint32(uid))
    if uid != 0:
        _set_capabilities((0, 0))


def _set_capabilities(effective: tuple[int, int]) -> None:
    """Effective ones; the permitted stay, which is the way back. Inheritable ones nobody here has."""
    words = (effective[0], _PERMITTED[0], 0, effective[1], _PERMITTED[1], 0)
    syscalls.call(_CAPSET, _CAP_HEADER, struct.pack("6I", *words))
