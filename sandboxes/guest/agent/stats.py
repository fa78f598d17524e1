"""What a file is, in the link's words, and its etag. Called by file calls in worker threads.

The etag is made of what the kernel counts for the file (inode, size, times of change to the nanosecond), compared for
equality alone, so nobody's clock matters. Files of /proc and /sys have neither size nor stable times: they are
measured by reading them, bounded, and their etag says only what they are.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from typing import Any

from sandboxes.guest.agent import paths, syscalls
from sandboxes.guest.agent.accounts import names_by_id
from sandboxes.guest.agent.params import base64_of
from sandboxes.guest.agent.refusal import Refusal, shown

MOST_PSEUDO_BYTES = 1024 * 1024
_FSTATFS = 138
#: proc, sysfs, cgroup v2 and v1, debugfs, tracefs, securityfs, configfs, pstore, bpf.
_PSEUDO = frozenset((0x9FA0, 0x62656572, 0x63677270, 0x27E0EB, 0x64626720, 0x74726163, 0x73636673, 0x62656570,
                     0x6165676C, 0xCAFE4A11))
PSEUDO_ETAG = "pseudo"
_TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink", stat.S_IFIFO: "fifo",
          stat.S_IFSOCK: "socket", stat.S_IFBLK: "block_device", stat.S_IFCHR: "character_device"}


def etag_of(found: os.stat_result) -> str:
    return f"{found.st_ino:x}-{found.st_size:x}-{found.st_mtime_ns:x}-{found.st_ctime_ns:x}"


def type_of(found: os.stat_result) -> str:
    return _TYPES.get(stat.S_IFMT(found.st_mode), "unknown")


def require_file(found: os.stat_result, path: bytes) -> None:
    """Raises Refusal for what has no content of its own: a folder, a FIFO, a socket, a device."""
    kind = type_of(found)
    if kind == "directory":
        raise Refusal("is_a_directory", f"{shown(path)}: Is a directory")
    if kind != "file":
        raise Refusal("not_a_regular_file", f"{shown(path)} is a {kind.replace('_', ' ')}")


def is_pseudo(fd: int) -> bool:
    """A file of a file system that makes content up when it is read. Refuses those that never end (/proc/kcore)."""
    data = ctypes.create_string_buffer(120)
    syscalls.call(_FSTATFS, ctypes.c_int(fd), data)
    return int(struct.unpack_from("q", data.raw)[0]) in _PSEUDO


def pseudo_content(fd: int, path: bytes) -> bytes:
    """All of it, at most MOST_PSEUDO_BYTES. `fd` is an O_PATH one."""
    if os.fstat(fd).st_size > MOST_PSEUDO_BYTES:
        raise Refusal("not_a_regular_file", f"{shown(path)} has no end")
    opened = paths.reopen(fd, os.O_RDONLY)
    try:
        parts: list[bytes] = []
        size = 0
        while size < MOST_PSEUDO_BYTES and (data := os.read(opened, MOST_PSEUDO_BYTES - size)):
            parts.append(data)
            size += len(data)
        return b"".join(parts)
    except BlockingIOError as error:
        raise Refusal("not_a_regular_file", f"{shown(path)} has no content now: a reader would wait") from error
    finally:
        os.close(opened)


class Names:
    """Users and groups by number, as they were when the answer began."""

    def __init__(self) -> None:
        self._users, self._groups = names_by_id("/etc/passwd"), names_by_id("/etc/group")

    def user(self, number: int) -> str:
        return self._users.get(number, str(number))

    def group(self, number: int) -> str:
        return self._groups.get(number, str(number))


def describe(path: bytes, found: os.stat_result, target: bytes | None = None, names: Names | None = None
             ) -> dict[str, Any]:
    names = names or Names()
    entry = {
        "path_b64": base64_of(path), "type": type_of(found), "size": found.st_size, "mode": stat.S_IMODE(found.st_mode),
        "owner": names.user(found.st_uid), "group": names.group(found.st_gid),
        "mtime_ns": found.st_mtime_ns, "etag": etag_of(found),
    }
    if target is not None:
        entry["target_b64"] = base64_of(target)
    return entry


def stat_path(path: bytes, follow: bool) -> dict[str, Any]:
    fd = paths.open_path(path, 0 if follow else os.O_NOFOLLOW)
    try:
        found = os.fstat(fd)
        target = os.readlink(b"", dir_fd=fd) if stat.S_ISLNK(found.st_mode) else None
        entry = describe(path, found, target)
        if stat.S_ISREG(found.st_mode) and is_pseudo(fd):
            entry["etag"] = PSEUDO_ETAG
            if follow:
                entry["size"] = len(pseudo_content(fd, path))
        return entry
    finally:
        os.close(fd)
