"""Grows a mounted ext4 to its device, by the kernel's own ioctl: no program, no disk of tools. Called by `world.py`."""

from __future__ import annotations

import fcntl
import os
import struct

BLKGETSIZE64 = 0x80081272
EXT4_IOC_RESIZE_FS = 0x40086610
_SUPERBLOCK_AT, _SUPERBLOCK_BYTES = 1024, 1024
_MAGIC = 0xEF53
_GROUP_LEAST_BLOCKS = 2048


def grow_to_device(device_fd: int, mounted_at: str) -> bool:
    """True when it grew. A disk that is no ext4, or fills its device already, is left alone."""
    block_bytes, blocks = _geometry(device_fd)
    if not blocks:
        return False
    room = device_bytes(device_fd) // block_bytes
    if room < blocks + _GROUP_LEAST_BLOCKS:
        return False
    folder = os.open(mounted_at, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(folder, EXT4_IOC_RESIZE_FS, struct.pack("Q", room))
    finally:
        os.close(folder)
    return True


def device_bytes(device_fd: int) -> int:
    return int(struct.unpack("Q", fcntl.ioctl(device_fd, BLKGETSIZE64, bytes(8)))[0])


def _geometry(device_fd: int) -> tuple[int, int]:
    """(bytes in a block, blocks) as the superblock says; no blocks when it is not one."""
    raw = os.pread(device_fd, _SUPERBLOCK_BYTES, _SUPERBLOCK_AT)
    if len(raw) < _SUPERBLOCK_BYTES or struct.unpack_from("<H", raw, 0x38)[0] != _MAGIC:
        return 4096, 0
    low, = struct.unpack_from("<I", raw, 0x4)
    high, = struct.unpack_from("<I", raw, 0x150)
    log_size, = struct.unpack_from("<I", raw, 0x18)
    wide = struct.unpack_from("<I", raw, 0x60)[0] & 0x80
    return 1024 << log_size, low | (high << 32 if wide else 0)
