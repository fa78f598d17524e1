"""What tar archives are made of, shared by `tarwrite` and `tarread`. Pure.

The archive of a stranger is taken at no word: all that a header claims is bounded before anything of it is held.
"""

from __future__ import annotations

from typing import NamedTuple

BLOCK_BYTES = 512
END = bytes(2 * BLOCK_BYTES)
#: Of a long name or a pax header.
MOST_EXTRA_BYTES = 64 * 1024
#: Ranges of data in one file with holes.
MOST_RANGES = 16_384

FILE, HARD_LINK, SYMLINK, CHARACTER, BLOCK, FOLDER, FIFO = b"0", b"1", b"2", b"3", b"4", b"5", b"6"
LONG_NAME, LONG_LINK, SPARSE, PAX, PAX_GLOBAL = b"L", b"K", b"S", b"x", b"g"

#: Where the fields are: (from, to).
NAME, MODE, UID, GID, SIZE, MTIME = (0, 100), (100, 108), (108, 116), (116, 124), (124, 136), (136, 148)
CHECKSUM = (148, 156)
KIND, LINK, MAGIC, USER, GROUP = (156, 157), (157, 257), (257, 265), (265, 297), (297, 329)
MAJOR, MINOR, PREFIX = (329, 337), (337, 345), (345, 500)
MAP, EXTENDED, REAL_SIZE = (386, 482), (482, 483), (483, 495)
NUMBER_BYTES = 12
#: A block of a map that goes on: 21 ranges, then whether another follows.
MORE_MAP, MORE_EXTENDED = (0, 504), (504, 505)
GNU_MAGIC = b"ustar  \0"

Ranges = list[tuple[int, int]]


class BadArchive(ValueError):
    """What is read is no archive, or one that asks for too much. The text says what."""


class Entry(NamedTuple):
    """`size`: of the bytes that follow. `data`: where they belong in a file with holes, which is `real_size` long."""

    kind: bytes
    name: bytes
    size: int
    mode: int = 0o644
    mtime: float = 0.0
    link: bytes = b""
    data: Ranges | None = None
    real_size: int = 0


def padding(size: int) -> int:
    return -size % BLOCK_BYTES


def checksum(block: bytes | bytearray) -> int:
    """With the field itself as spaces."""
    return sum(block[:CHECKSUM[0]]) + 8 * ord(" ") + sum(block[CHECKSUM[1]:BLOCK_BYTES])
