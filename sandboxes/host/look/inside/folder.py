"""A folder of the host as a tree: the disk of a driver without disks. Called by `calls.py`.

That driver isolates nothing and says so; this one still follows no link out of the folder: names are opened one by one
from its descriptor, none of them through a link.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from sandboxes.host.look.inside.refusal import Refused
from sandboxes.host.look.inside.tree import Entry, Node, Tree


class Folder(Tree):
    def __init__(self, fd: int) -> None:
        self._fd = fd

    def root(self) -> Node:
        return self._node(b".")

    def _node(self, place: bytes) -> Node:
        try:
            found = os.lstat(place, dir_fd=self._fd)
        except FileNotFoundError as error:
            raise Refused("file_not_found", "no such file in this disk") from error
        return Node(number=found.st_ino, mode=found.st_mode, size=found.st_size, uid=found.st_uid, gid=found.st_gid,
                    mtime_ns=found.st_mtime_ns, ctime_ns=found.st_ctime_ns, place=place,
                    attributes=self._attributes(place) if stat.S_ISREG(found.st_mode) else None)

    def _attributes(self, place: bytes) -> object:
        """Extended attributes of a file. One that may not be opened, and a file system without them, has none."""
        try:
            fd = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._fd)
        except OSError:
            return None
        try:
            return tuple(sorted((name, os.getxattr(fd, name)) for name in os.listxattr(fd)))
        except OSError:
            return None
        finally:
            os.close(fd)

    def children(self, folder: Node) -> list[Entry]:
        fd = os.open(folder.place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self._fd)
        try:
            return [Entry(os.fsencode(name), 0) for name in os.listdir(fd)]  # noqa: PTH208 -- by descriptor
        finally:
            os.close(fd)

    def child(self, folder: Node, entry: Entry) -> Node:
        return self._node(folder.place + b"/" + entry.name)

    def pieces(self, file: Node, offset: int, length: int, piece_bytes: int) -> Iterator[bytes]:
        fd = os.open(file.place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._fd)
        try:
            while length > 0 and (data := os.pread(fd, min(length, piece_bytes), offset)):
                yield data
                offset, length = offset + len(data), length - len(data)
        finally:
            os.close(fd)

    def target(self, link: Node) -> bytes:
        return bytes(os.readlink(link.place, dir_fd=self._fd))
