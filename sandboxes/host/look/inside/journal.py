"""A journal replayed in memory: the blocks that a mount would have written first. Called by `ext4.py`.

A disk whose machine was killed, or that was captured without its guest's agreement, is whole only together with its
journal. e2fsck would replay it into the file; a checkpoint's file is shared and never written, so the same three passes
are made here and their result lies over the disk for one question. Source: the kernel's jbd2 (recovery.c, jbd2.h).

    scan: which transactions were committed ─▶ revoke: which blocks must not be replayed ─▶ replay: the last of each
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from ctypes import c_void_p
from dataclasses import dataclass

from sandboxes.host.look.inside.ext2fs import Filesystem, crc32c, read_at

MAGIC = 0xC03B3998
DESCRIPTOR, COMMIT, REVOKE = 1, 2, 5
_REVOKES, _64BIT, _ASYNC, _CSUM_V2, _CSUM_V3 = 1, 2, 4, 8, 16
_ESCAPED, _SAME_UUID, _LAST = 1, 2, 8
#: A replay that is larger than this is left alone: a journal of ours holds 32 MiB.
MOST_BLOCKS = 65_536


@dataclass(frozen=True)
class Head:
    """The journal's superblock."""

    block_bytes: int
    length: int
    first: int
    sequence: int
    start: int
    features: int
    uuid: bytes

    @property
    def summed(self) -> bool:
        return bool(self.features & (_CSUM_V2 | _CSUM_V3))

    @property
    def seed(self) -> int:
        return crc32c(0xFFFFFFFF, self.uuid)

    @property
    def tag_bytes(self) -> int:
        if self.features & _CSUM_V3:
            return 16
        return 8 + (4 if self.features & _64BIT else 0) + (2 if self.features & _CSUM_V2 else 0)


@dataclass(frozen=True)
class Tag:
    block: int
    flags: int
    checksum: int


class Torn(Exception):
    """A block that should be whole is not what its checksum says."""


class Log:
    def __init__(self, handle: c_void_p, head: Head) -> None:
        self._handle, self.head = handle, head

    def block(self, number: int) -> bytes:
        size = self.head.block_bytes
        data = read_at(self._handle, number * size, size)
        return data + bytes(size - len(data))

    def after(self, number: int, steps: int = 1) -> int:
        usable = self.head.length - self.head.first
        return self.head.first + (number - self.head.first + steps) % usable

    def transactions(self) -> Iterator[tuple[int, list[tuple[int, int, bytes]]]]:
        """(sequence, [(kind, where, block)]) of each committed one, the commit itself left out."""
        at, sequence, read = self.head.start, self.head.sequence, 0
        pending: list[tuple[int, int, bytes]] = []
        while read < min(self.head.length, MOST_BLOCKS):
            raw = self.block(at)
            magic, kind, said = struct.unpack_from(">III", raw)
            if magic != MAGIC or said != sequence or not self._whole(kind, raw):
                return
            steps = 1
            if kind == COMMIT:
                yield sequence, pending
                pending, sequence = [], (sequence + 1) & 0xFFFFFFFF
            elif kind in (DESCRIPTOR, REVOKE):
                pending.append((kind, at, raw))
                steps += len(list(self.tags(raw))) if kind == DESCRIPTOR else 0
            else:
                return
            at, read = self.after(at, steps), read + steps

    def _whole(self, kind: int, raw: bytes) -> bool:
        if not self.head.summed:
            return True
        at = 16 if kind == COMMIT else len(raw) - 4
        said: int = struct.unpack_from(">I", raw, at)[0]
        return crc32c(self.head.seed, raw[:at] + bytes(4) + raw[at + 4:]) == said

    def tags(self, raw: bytes) -> Iterator[Tag]:
        at, end = 12, len(raw) - (4 if self.head.summed else 0)
        while at + self.head.tag_bytes <= end:
            tag = self._tag(raw, at)
            yield tag
            at += self.head.tag_bytes + (0 if tag.flags & _SAME_UUID else 16)
            if tag.flags & _LAST:
                return

    def _tag(self, raw: bytes, at: int) -> Tag:
        if self.head.features & _CSUM_V3:
            low, flags, high, checksum = struct.unpack_from(">IIII", raw, at)
        else:
            low, checksum, flags = struct.unpack_from(">IHH", raw, at)
            high = struct.unpack_from(">I", raw, at + 8)[0] if self.head.features & _64BIT else 0
        return Tag(low | (high << 32 if self.head.features & _64BIT else 0), flags, checksum)

    def revoked(self, raw: bytes) -> Iterator[int]:
        used, = struct.unpack_from(">I", raw, 12)
        size, form = (8, ">Q") if self.head.features & _64BIT else (4, ">I")
        for at in range(16, min(used, len(raw)) - size + 1, size):
            yield struct.unpack_from(form, raw, at)[0]

    def data(self, tag: Tag, where: int, sequence: int) -> bytes:
        raw = self.block(where)
        if self.head.summed:
            found = crc32c(crc32c(self.head.seed, struct.pack(">I", sequence)), raw)
            if (found if self.head.features & _CSUM_V3 else found & 0xFFFF) != tag.checksum:
                raise Torn
        return struct.pack(">I", MAGIC) + raw[4:] if tag.flags & _ESCAPED else raw


def replay(fs: Filesystem) -> dict[int, bytes] | None:
    """Block number → content; empty when nothing waits. None: this journal cannot be replayed here."""
    if not fs.superblock.journal_inode:
        return None
    with fs.opened(fs.superblock.journal_inode) as handle:
        head = _head(read_at(handle, 0, 1024), fs.superblock.block_bytes)
        if head is None:
            return None
        if not head.start:
            return {}
        log = Log(handle, head)
        try:
            return _replayed(log, list(log.transactions()))
        except Torn:
            return None


def _head(raw: bytes, block_bytes: int) -> Head | None:
    if len(raw) < 1024:
        return None
    magic, kind = struct.unpack_from(">II", raw)
    size, length, first, sequence, start, error = struct.unpack_from(">IIIIII", raw, 12)
    features = struct.unpack_from(">I", raw, 40)[0] if kind == 4 else 0
    understood = _REVOKES | _64BIT | _ASYNC | _CSUM_V2 | _CSUM_V3
    sound = magic == MAGIC and kind in (3, 4) and size == block_bytes and 0 < first < length and start < length
    if not sound or features & ~understood or error or (features & _CSUM_V2 and features & _CSUM_V3):
        return None
    return Head(size, length, first, sequence, start, features, raw[48:64])


def _replayed(log: Log, transactions: list[tuple[int, list[tuple[int, int, bytes]]]]) -> dict[int, bytes]:
    revoked: dict[int, int] = {}
    for order, (_sequence, blocks) in enumerate(transactions):
        for kind, _where, raw in blocks:
            if kind == REVOKE:
                revoked.update(dict.fromkeys(log.revoked(raw), order))
    result: dict[int, bytes] = {}
    for order, (sequence, blocks) in enumerate(transactions):
        for kind, where, raw in blocks:
            if kind != DESCRIPTOR:
                continue
            for index, tag in enumerate(log.tags(raw)):
                if revoked.get(tag.block, -1) < order:
                    result[tag.block] = log.data(tag, log.after(where, index + 1), sequence)
    return result
