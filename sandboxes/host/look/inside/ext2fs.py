"""libext2fs, the ext4 library of e2fsprogs, over bytes that we give it. Called by `ext4.py` and `journal.py`.

The library reads through an *I/O manager*, a table of C functions; ours ends in `Device.read`. It is never asked to
write. Every call that answers an error becomes Refused `disk_unreadable`. Source: ext2fs/ext2fs.h, ext2_io.h of 1.47;
the layout of the two structures is the library's binary interface (soname 2).
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
from collections.abc import Iterator
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_long, c_uint, c_uint32, c_uint64, c_ulong, c_void_p

from sandboxes.host.look.inside.device import Device
from sandboxes.host.look.inside.refusal import Refused, unreadable

LIBRARY = "libext2fs.so.2"
ROOT = 2
_FLAG_64BITS = 0x20000
_MANAGER_MAGIC, _CHANNEL_MAGIC = 2133571335, 2133571333   # EXT2_ET_MAGIC_IO_MANAGER, …_IO_CHANNEL
_EIO = 5
_DIRENT_ABORT = 2

_Open = CFUNCTYPE(c_long, c_char_p, c_int, POINTER(c_void_p))
_Close = CFUNCTYPE(c_long, c_void_p)
_SetBlock = CFUNCTYPE(c_long, c_void_p, c_int)
_Read = CFUNCTYPE(c_long, c_void_p, c_ulong, c_int, c_void_p)
_Read64 = CFUNCTYPE(c_long, c_void_p, c_uint64, c_int, c_void_p)
_Entry = CFUNCTYPE(c_int, c_uint32, c_int, c_void_p, c_int, c_int, c_void_p, c_void_p)


class _Manager(ctypes.Structure):
    _fields_ = [("magic", c_long), ("name", c_char_p), ("open", _Open), ("close", _Close), ("set_blksize", _SetBlock),
                ("read_blk", _Read), ("write_blk", c_void_p), ("flush", _Close), ("write_byte", c_void_p),
                ("set_option", c_void_p), ("get_stats", c_void_p), ("read_blk64", _Read64), ("write_blk64", c_void_p),
                ("discard", c_void_p), ("cache_readahead", c_void_p), ("zeroout", c_void_p),
                ("reserved", c_long * 14)]


class _Channel(ctypes.Structure):
    _fields_ = [("magic", c_long), ("manager", c_void_p), ("name", c_char_p), ("block_size", c_int),
                ("read_error", c_void_p), ("write_error", c_void_p), ("refcount", c_int), ("flags", c_int),
                ("reserved", c_long * 14), ("private_data", c_void_p), ("app_data", c_void_p), ("align", c_int)]


class _Library:
    """Loaded once, before rights are given up."""

    loaded: ctypes.CDLL | None = None


def library() -> ctypes.CDLL:
    if _Library.loaded is None:
        made = ctypes.CDLL(LIBRARY)
        for name in ("ext2fs_open2", "ext2fs_read_inode_full", "ext2fs_dir_iterate2", "ext2fs_file_open2",
                     "ext2fs_file_llseek", "ext2fs_file_read"):
            getattr(made, name).restype = c_long
        made.ext2fs_open2.argtypes = [c_char_p, c_char_p, c_int, c_int, c_uint, c_void_p, POINTER(c_void_p)]
        made.ext2fs_inode_table_loc.argtypes, made.ext2fs_inode_table_loc.restype = [c_void_p, c_uint], c_uint64
        made.ext2fs_read_inode_full.argtypes = [c_void_p, c_uint32, c_void_p, c_int]
        made.ext2fs_dir_iterate2.argtypes = [c_void_p, c_uint32, c_int, c_void_p, _Entry, c_void_p]
        made.ext2fs_file_open2.argtypes = [c_void_p, c_uint32, c_void_p, c_int, POINTER(c_void_p)]
        made.ext2fs_file_llseek.argtypes = [c_void_p, c_uint64, c_int, c_void_p]
        made.ext2fs_file_read.argtypes = [c_void_p, c_void_p, c_uint, POINTER(c_uint)]
        made.ext2fs_file_close.argtypes = [c_void_p]
        made.ext2fs_crc32c_le.argtypes, made.ext2fs_crc32c_le.restype = [c_uint32, c_char_p, ctypes.c_size_t], c_uint32
        _Library.loaded = made
    return _Library.loaded


def crc32c(seed: int, data: bytes) -> int:
    return int(library().ext2fs_crc32c_le(seed, data, len(data)))


class Superblock:
    """The fields we ask for, from the 1024 bytes at offset 1024."""

    def __init__(self, raw: bytes) -> None:
        if struct.unpack_from("<H", raw, 56)[0] != 0xEF53:
            raise unreadable("there is no ext4 file system on this disk")
        log_block = struct.unpack_from("<I", raw, 24)[0]
        if log_block > 6:
            raise unreadable("the file system's block size is impossible")
        self.block_bytes = 1024 << log_block
        self.inodes: int = struct.unpack_from("<I", raw, 0)[0]
        self.inodes_per_group: int = struct.unpack_from("<I", raw, 40)[0]
        old = struct.unpack_from("<I", raw, 76)[0] == 0
        self.inode_bytes = 128 if old else struct.unpack_from("<H", raw, 88)[0]
        self.needs_recovery = bool(struct.unpack_from("<I", raw, 96)[0] & 4)
        self.journal_inode = struct.unpack_from("<I", raw, 224)[0]
        if not self.inodes or not self.inodes_per_group or not 128 <= self.inode_bytes <= self.block_bytes:
            raise unreadable("the file system's figures are impossible")

    @property
    def groups(self) -> int:
        return -(-self.inodes // self.inodes_per_group)


class Filesystem:
    """One opened file system. Made for one question, and gone with its process: nothing is ever closed."""

    def __init__(self, device: Device) -> None:
        self.device = device
        if device.size < 4096:
            raise unreadable("the disk is too small for a file system")
        self.superblock = Superblock(device.read(1024, 1024))
        device.block_bytes = self.superblock.block_bytes
        self._channel = _Channel(magic=_CHANNEL_MAGIC, name=b"disk", block_size=1024, refcount=1)
        self._manager = _Manager(magic=_MANAGER_MAGIC, name=b"look", open=_Open(self._open), close=_Close(_nothing),
                                 set_blksize=_SetBlock(self._set_block), read_blk=_Read(self._read),
                                 flush=_Close(_nothing), read_blk64=_Read64(self._read))
        self._channel.manager = ctypes.addressof(self._manager)
        self._fs = c_void_p()
        _checked(library().ext2fs_open2(b"disk", None, _FLAG_64BITS, 0, 0, byref(self._manager), byref(self._fs)),
                 "the file system cannot be opened")

    # -- the I/O manager: called by the library ----------------------------------------------------------------------

    def _open(self, _name: bytes, _flags: int, channel: ctypes._Pointer[c_void_p]) -> int:
        channel[0] = c_void_p(ctypes.addressof(self._channel))
        return 0

    def _set_block(self, _channel: int, size: int) -> int:
        self._channel.block_size = size
        return 0

    def _read(self, _channel: int, block: int, count: int, into: int) -> int:
        """`count` blocks, or -count bytes."""
        size = self._channel.block_size
        try:
            data = self.device.read(block * size, -count if count < 0 else count * size)
        except (Refused, OSError, MemoryError, OverflowError):
            return _EIO
        ctypes.memmove(into, data, len(data))
        return 0

    # -- what we ask of the library ----------------------------------------------------------------------------------

    def inode(self, number: int) -> bytes:
        """The raw inode, little-endian as on the disk."""
        if not 0 < number <= self.superblock.inodes:
            raise unreadable("a folder names an inode that cannot be")
        buffer = ctypes.create_string_buffer(self.superblock.inode_bytes)
        _checked(library().ext2fs_read_inode_full(self._fs, number, buffer, len(buffer)), f"inode {number}")
        return buffer.raw

    def entries(self, number: int) -> list[tuple[bytes, int, int]]:
        """(name, inode, type) of a folder, without . and .., in the disk's order."""
        found: list[tuple[bytes, int, int]] = []

        def entry(_folder: int, kind: int, dirent: int, _offset: int, _size: int, _block: int, _private: int) -> int:
            try:
                if kind == 3:  # neither . nor .. nor a checksum
                    inode, _length, name_bytes, said = struct.unpack("<IHBB", ctypes.string_at(dirent, 8))
                    found.append((ctypes.string_at(dirent + 8, name_bytes), inode, said))
            except MemoryError:
                return _DIRENT_ABORT
            return 0
        _checked(library().ext2fs_dir_iterate2(self._fs, number, 0, None, _Entry(entry), None), f"folder {number}")
        return found

    @contextlib.contextmanager
    def opened(self, number: int) -> Iterator[c_void_p]:
        handle = c_void_p()
        _checked(library().ext2fs_file_open2(self._fs, number, None, 0, byref(handle)), f"file {number}")
        try:
            yield handle
        finally:
            library().ext2fs_file_close(handle)

    def read(self, number: int, offset: int, length: int) -> bytes:
        """At most `length` bytes; fewer at the end of the file."""
        with self.opened(number) as handle:
            return read_at(handle, offset, length)

    def inode_table(self, group: int) -> int:
        """Its first block."""
        return int(library().ext2fs_inode_table_loc(self._fs, group))


def read_at(handle: c_void_p, offset: int, length: int) -> bytes:
    buffer, got = ctypes.create_string_buffer(length), c_uint()
    _checked(library().ext2fs_file_llseek(handle, offset, 0, None), "seek")
    parts: list[bytes] = []
    left = length
    while left:
        _checked(library().ext2fs_file_read(handle, buffer, left, byref(got)), "read")
        if not got.value:
            break
        parts.append(buffer.raw[:got.value])
        left -= got.value
    return b"".join(parts)


def _nothing(_channel: int) -> int:
    return 0


def _checked(error: int, what: str) -> None:
    if error:
        raise unreadable(f"{what}: error {error & 0xFFFFFFFF:#x} of libext2fs")
