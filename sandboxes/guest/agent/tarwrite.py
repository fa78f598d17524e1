"""Headers of the archives that are given out, in GNU's form: names are bytes there, sizes and holes have no bound, and
every tar in use reads it. Called by `archiveout`; pure.
"""

from __future__ import annotations

import os
import stat

from sandboxes.guest.agent import tarheaders as tar
from sandboxes.guest.agent.tarheaders import Ranges

#: The kinds of what has a place in an archive. A socket has none.
KINDS = {stat.S_IFREG: tar.FILE, stat.S_IFDIR: tar.FOLDER, stat.S_IFLNK: tar.SYMLINK, stat.S_IFIFO: tar.FIFO,
         stat.S_IFCHR: tar.CHARACTER, stat.S_IFBLK: tar.BLOCK}
_LONG = b"././@LongLink"
_IN_HEADER, _IN_BLOCK = 4, 21


def header(kind: bytes, name: bytes, found: os.stat_result, *, size: int = 0, link: bytes = b"", user: str = "",
           group: str = "") -> bytes:
    """All that comes before an entry's `size` bytes."""
    return _long(tar.LONG_NAME, name, tar.NAME) + _long(tar.LONG_LINK, link, tar.LINK) + _sealed(
        _block(kind, name, found, size, link, user, group))


def sparse_header(name: bytes, found: os.stat_result, data: Ranges, *, user: str = "", group: str = "") -> bytes:
    """The same for a file of which only the ranges follow, one after the other."""
    block = _block(tar.SPARSE, name, found, sum(length for _, length in data), b"", user, group)
    _put(block, tar.MAP, b"".join(map(_range, data[:_IN_HEADER])))
    _put(block, tar.EXTENDED, b"\1" if len(data) > _IN_HEADER else b"\0")
    _put(block, tar.REAL_SIZE, _number(found.st_size, tar.NUMBER_BYTES))
    more = [_map_block(data[at:at + _IN_BLOCK], at + _IN_BLOCK < len(data))
            for at in range(_IN_HEADER, len(data), _IN_BLOCK)]
    return _long(tar.LONG_NAME, name, tar.NAME) + _sealed(block) + b"".join(more)


def remark(text: str) -> bytes:
    """Text behind the archive's end, where every reader has stopped reading."""
    said = text.encode()[:tar.BLOCK_BYTES - 1] + b"\n"
    return said + bytes(tar.padding(len(said)))


def _long(kind: bytes, text: bytes, field: tuple[int, int]) -> bytes:
    """An entry of its own before the one whose name does not fit."""
    if len(text) <= field[1] - field[0]:
        return b""
    block = bytearray(tar.BLOCK_BYTES)
    _put(block, tar.NAME, _LONG)
    for where in (tar.MODE, tar.UID, tar.GID, tar.MTIME):
        _put(block, where, _number(0, where[1] - where[0]))
    _put(block, tar.SIZE, _number(len(text) + 1, tar.NUMBER_BYTES))
    _put(block, tar.KIND, kind)
    _put(block, tar.MAGIC, tar.GNU_MAGIC)
    return _sealed(block) + text + bytes(1 + tar.padding(len(text) + 1))


def _block(kind: bytes, name: bytes, found: os.stat_result, size: int, link: bytes, user: str, group: str
           ) -> bytearray:
    block = bytearray(tar.BLOCK_BYTES)
    _put(block, tar.NAME, name[:100])
    _put(block, tar.LINK, link[:100])
    for field, value in ((tar.MODE, stat.S_IMODE(found.st_mode)), (tar.UID, found.st_uid), (tar.GID, found.st_gid),
                         (tar.SIZE, size), (tar.MTIME, int(found.st_mtime))):
        _put(block, field, _number(value, field[1] - field[0]))
    _put(block, tar.KIND, kind)
    _put(block, tar.MAGIC, tar.GNU_MAGIC)
    _put(block, tar.USER, user.encode("utf-8", "surrogateescape")[:31])
    _put(block, tar.GROUP, group.encode("utf-8", "surrogateescape")[:31])
    if kind in (tar.CHARACTER, tar.BLOCK):
        _put(block, tar.MAJOR, _number(os.major(found.st_rdev), 8))
        _put(block, tar.MINOR, _number(os.minor(found.st_rdev), 8))
    return block


def _map_block(data: Ranges, goes_on: bool) -> bytes:
    block = bytearray(tar.BLOCK_BYTES)
    _put(block, tar.MORE_MAP, b"".join(map(_range, data)))
    _put(block, tar.MORE_EXTENDED, b"\1" if goes_on else b"\0")
    return bytes(block)


def _range(each: tuple[int, int]) -> bytes:
    return _number(each[0], tar.NUMBER_BYTES) + _number(each[1], tar.NUMBER_BYTES)


def _number(value: int, width: int) -> bytes:
    """Octal where it fits, else binary as GNU writes it."""
    if 0 <= value < 8 ** (width - 1):
        return b"%0*o\0" % (width - 1, value)
    number = bytearray(value.to_bytes(width, "big", signed=True))
    number[0] |= 0x80
    return bytes(number)


def _put(block: bytearray, field: tuple[int, int], data: bytes) -> None:
    block[field[0]:field[0] + len(data)] = data


def _sealed(block: bytearray) -> bytes:
    _put(block, tar.CHECKSUM, b"%06o\0 " % tar.checksum(block))
    return bytes(block)
