"""The "newc" cpio format that kernels take as initramfs: a dozen entries need no program. Pure; reproducible."""

from __future__ import annotations

import stat
from typing import NamedTuple


class Entry(NamedTuple):
    name: str
    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def folder(name: str, mode: int = 0o755) -> Entry:
    return Entry(name, stat.S_IFDIR | mode)


def file(name: str, data: bytes, mode: int) -> Entry:
    return Entry(name, stat.S_IFREG | mode, data)


def character_device(name: str, major: int, minor: int) -> Entry:
    return Entry(name, stat.S_IFCHR | 0o600, b"", (major, minor))


def archive(entries: list[Entry]) -> bytes:
    """Owned by root, times zero."""
    numbered = [_pack(number, entry) for number, entry in enumerate(entries, 1)]
    return b"".join([*numbered, _pack(0, Entry("TRAILER!!!", 0))])


def _pack(inode: int, entry: Entry) -> bytes:
    name = entry.name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    numbers = (inode, entry.mode, 0, 0, links, 0, len(entry.data), 0, 0, *entry.device, len(name), 0)
    header = b"070701" + b"".join(b"%08x" % number for number in numbers)
    return _padded(header + name) + _padded(entry.data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
