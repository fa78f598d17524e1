"""The one qcow2 file that is made so often that starting a program for it is felt: an empty head over a backing file.

Called by `disks.py`. Writes version 3 (`compat=1.1`, clusters of 64 KiB, counts of 16 bits), which is what `qemu-img
create` writes; everything else about qcow2 is left to QEMU and its tools. The format: QEMU's docs/interop/qcow2.rst.

    cluster 0: header, backing format, backing name   1: where counts are   2: counts   3…: L1, all zeros: no data
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

CLUSTER = 1 << 16
#: What one entry of L1 speaks of: a cluster full of 8-byte entries, each for one cluster.
L1_SPAN = CLUSTER // 8 * CLUSTER
HEADER = struct.Struct(">4sIQIIQIIQQIIQQQQII")
MAGIC, VERSION, COUNT_ORDER = b"QFI\xfb", 3, 4
BACKING_FORMAT = 0xE2792ACA


def write_empty(path: Path, size_bytes: int, backing: str = "", backing_format: str = "") -> None:
    """A new file, on the disk when this returns: `size_bytes` that read as the backing file, or as zeros."""
    l1_entries = -(-size_bytes // L1_SPAN)
    l1_clusters = max(1, -(-l1_entries * 8 // CLUSTER))
    first = _header(size_bytes, l1_entries, backing, backing_format)
    counts = struct.pack(">H", 1) * (3 + l1_clusters)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(fd, (3 + l1_clusters) * CLUSTER)
        for number, data in enumerate((first, struct.pack(">Q", 2 * CLUSTER), counts)):
            os.pwrite(fd, data, number * CLUSTER)
        os.fsync(fd)
    finally:
        os.close(fd)


def _header(size_bytes: int, l1_entries: int, backing: str, backing_format: str) -> bytes:
    extensions = struct.pack(">II", 0, 0)
    if backing:
        word = backing_format.encode()
        extensions = struct.pack(">II", BACKING_FORMAT, len(word)) + word + bytes(-len(word) % 8) + extensions
    name = backing.encode()
    name_at = HEADER.size + len(extensions) if backing else 0
    header = HEADER.pack(MAGIC, VERSION, name_at, len(name), CLUSTER.bit_length() - 1, size_bytes, 0, l1_entries,
                         3 * CLUSTER, CLUSTER, 1, 0, 0, 0, 0, 0, COUNT_ORDER, HEADER.size)
    return header + extensions + name


def is_empty(path: Path) -> bool:
    """Whether every read of this file goes to what it stands on: no entry of its L1 names anything."""
    try:
        with path.open("rb") as file:
            fields = HEADER.unpack(file.read(HEADER.size))
            entries, at, snapshots, incompatible = fields[7], fields[8], fields[11], fields[13]
            if fields[:2] != (MAGIC, VERSION) or snapshots or incompatible:
                return False
            file.seek(at)
            table = file.read(entries * 8)
    except (OSError, struct.error):
        return False
    return len(table) == entries * 8 and not any(table)
