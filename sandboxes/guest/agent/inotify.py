"""The kernel's notices of changes in folders, by its own calls. Called by `filewatch`; decides nothing."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

from sandboxes.guest.agent import syscalls

_INIT1, _ADD_WATCH, _RM_WATCH = 294, 254, 255
_HEAD = struct.Struct("iIII")
READ_BYTES = 64 * 1024

MODIFY, ATTRIB, CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x2, 0x4, 0x8, 0x40, 0x80, 0x100, 0x200
DELETE_SELF, MOVE_SELF, UNMOUNT, OVERFLOW, IGNORED, ONLY_DIR, IS_DIR = (
    0x400, 0x800, 0x2000, 0x4000, 0x8000, 0x1000000, 0x40000000)
#: What is asked for of each folder.
WANTED = MODIFY | ATTRIB | CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF


class Notice(NamedTuple):
    watch: int
    mask: int
    name: bytes


def open_queue() -> int:
    return syscalls.call(_INIT1, ctypes.c_int(os.O_NONBLOCK | os.O_CLOEXEC))


def add(queue: int, folder: int) -> int:
    """Watches an open folder; the number that its notices carry. Needs the right to read it."""
    return syscalls.call(_ADD_WATCH, ctypes.c_int(queue), b"/proc/self/fd/%d" % folder,
                         ctypes.c_uint32(WANTED | ONLY_DIR))


def remove(queue: int, watch: int) -> None:
    with contextlib.suppress(OSError):  # the folder went, and its watch with it
        syscalls.call(_RM_WATCH, ctypes.c_int(queue), ctypes.c_int(watch))


def notices(queue: int) -> Iterator[Notice]:
    """All that wait now."""
    while True:
        try:
            data = os.read(queue, READ_BYTES)
        except BlockingIOError:
            return
        at = 0
        while at < len(data):
            watch, mask, _cookie, length = _HEAD.unpack_from(data, at)
            at += _HEAD.size
            yield Notice(watch, mask, data[at:at + length].rstrip(b"\0"))
            at += length
