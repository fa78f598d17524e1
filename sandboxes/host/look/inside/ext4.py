"""A disk with ext4 as a tree of nodes. Called by `calls.py`; calls `ext2fs.py`, and `journal.py` where a body died.

A disk whose last writer did not say farewell holds a journal that a mount would replay first. It is replayed here, in
memory; where that cannot be done the disk is read as it lies, and `condition` says so.
"""

from __future__ import annotations

import stat
import struct
from collections.abc import Iterator

from sandboxes.host.look.inside import journal
from sandboxes.host.look.inside.device import Device, Range
from sandboxes.host.look.inside.ext2fs import ROOT, Filesystem, Superblock
from sandboxes.host.look.inside.tree import Entry, Node, Tree

_EXTENTS, _INLINE = 0x80000, 0x10000000
TARGET_BYTES = 4096
#: EXT2_FT_*: what a folder's entry says of the node.
_KINDS = {1: "file", 2: "directory", 3: "character_device", 4: "block_device", 5: "fifo", 6: "socket", 7: "symlink"}


class Ext4(Tree):
    def __init__(self, device: Device) -> None:
        self._fs = Filesystem(device)
        self.condition = "clean"
        if self._fs.superblock.needs_recovery:
            replayed = journal.replay(self._fs)
            self.condition = "as_is" if replayed is None else "replayed"
            if replayed:
                device.overlay = replayed
                self._fs = Filesystem(device)

    @property
    def device(self) -> Device:
        return self._fs.device

    @property
    def superblock(self) -> Superblock:
        return self._fs.superblock

    def root(self) -> Node:
        return self.node(ROOT)

    def node(self, number: int) -> Node:
        return decoded(number, self._fs.inode(number))

    def children(self, folder: Node) -> list[Entry]:
        return [Entry(name, number, _KINDS.get(kind, "")) for name, number, kind in self._fs.entries(folder.number)]

    def child(self, folder: Node, entry: Entry) -> Node:
        return self.node(entry.handle)

    def pieces(self, file: Node, offset: int, length: int, piece_bytes: int) -> Iterator[bytes]:
        while length > 0:
            data = self._fs.read(file.number, offset, min(length, piece_bytes))
            if not data:
                return
            yield data
            offset, length = offset + len(data), length - len(data)

    def target(self, link: Node) -> bytes:
        raw = self._fs.inode(link.number)
        flags = struct.unpack_from("<I", raw, 32)[0]
        if link.size < 60 and not flags & (_EXTENTS | _INLINE):
            return raw[40:40 + link.size]
        return self._fs.read(link.number, 0, min(link.size, TARGET_BYTES))

    # -- for comparisons ---------------------------------------------------------------------------------------------

    def inode_table(self, group: int) -> Range:
        """(start, end) in bytes."""
        size = self.superblock
        start = self._fs.inode_table(group) * size.block_bytes
        return start, start + size.inodes_per_group * size.inode_bytes


def decoded(number: int, raw: bytes) -> Node:
    mode, uid, size = struct.unpack_from("<HHI", raw, 0)
    gid, = struct.unpack_from("<H", raw, 24)
    uid_high, gid_high = struct.unpack_from("<HH", raw, 120)
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        size |= struct.unpack_from("<I", raw, 108)[0] << 32
    elif not stat.S_ISLNK(mode):
        size = 0
    extra = struct.unpack_from("<H", raw, 128)[0] if len(raw) >= 132 else 0
    attributes = struct.unpack_from("<I", raw, 104)[0] | struct.unpack_from("<H", raw, 118)[0] << 32
    return Node(number=number, mode=mode, size=size, uid=uid | uid_high << 16, gid=gid | gid_high << 16,
                mtime_ns=_time_ns(raw, 16, 136, extra), ctime_ns=_time_ns(raw, 12, 132, extra),
                attributes=(attributes, raw[128 + extra:] if extra else b""))


def _time_ns(raw: bytes, at: int, extra_at: int, extra_bytes: int) -> int:
    """Seconds signed, and in the extra word two more bits of them and the nanoseconds."""
    seconds: int = struct.unpack_from("<i", raw, at)[0]
    if extra_at + 4 > 128 + extra_bytes or extra_at + 4 > len(raw):
        return seconds * 1_000_000_000
    extra: int = struct.unpack_from("<I", raw, extra_at)[0]
    return (seconds + ((extra & 3) << 32)) * 1_000_000_000 + (extra >> 2)
