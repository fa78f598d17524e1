"""A tree of files that is not mounted: nodes, and how a path is found among them. Called by `calls.py`.

Symbolic links are followed inside the tree alone: an absolute one begins at the tree's own root, and `..` never
leaves it. Every name is bytes.
"""

from __future__ import annotations

import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sandboxes.host.look.inside.refusal import Refused

MOST_LINKS = 40
NAME_BYTES, PATH_BYTES = 255, 4095
TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink", stat.S_IFIFO: "fifo",
         stat.S_IFSOCK: "socket", stat.S_IFBLK: "block_device", stat.S_IFCHR: "character_device"}


@dataclass(frozen=True)
class Node:
    """What is there under a name. `attributes`: compared for equality alone."""

    number: int
    mode: int
    size: int
    uid: int
    gid: int
    mtime_ns: int
    ctime_ns: int
    attributes: object = None
    #: What the tree needs beside the number to find it again.
    place: Any = None

    @property
    def kind(self) -> str:
        return TYPES.get(stat.S_IFMT(self.mode), "unknown")

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def etag(self) -> str:
        """As the guest's own agent makes it, so that a file has one tag awake and asleep."""
        return f"{self.number:x}-{self.size:x}-{self.mtime_ns:x}-{self.ctime_ns:x}"


@dataclass(frozen=True)
class Entry:
    """A name in a folder. `kind` as the folder has it, "" where it does not say; the node decides."""

    name: bytes
    handle: int
    kind: str = ""


class Tree(ABC):
    #: "clean"; "replayed": a journal was replayed in memory; "as_is": one could not be.
    condition = "clean"

    @abstractmethod
    def root(self) -> Node: ...

    @abstractmethod
    def children(self, folder: Node) -> list[Entry]:
        """In no order. Reads no child."""

    @abstractmethod
    def child(self, folder: Node, entry: Entry) -> Node: ...

    @abstractmethod
    def pieces(self, file: Node, offset: int, length: int, piece_bytes: int) -> Iterator[bytes]: ...

    @abstractmethod
    def target(self, link: Node) -> bytes: ...


def find(tree: Tree, path: bytes, follow: bool) -> Node:
    """The node at an absolute path; `follow`: also where the last name is a link. Raises Refused."""
    above = [tree.root()]
    names = _names(path)
    links = 0
    while names:
        name = names.pop()
        if name == b"..":
            above = above[:-1] or above
            continue
        node = _step(tree, above[-1], name)
        if node.kind == "symlink" and (follow or names):
            links += 1
            if links > MOST_LINKS:
                raise Refused("too_many_links", "too many symbolic links")
            target = tree.target(node)
            if target.startswith(b"/"):
                above = above[:1]
            names += _names(target)
        else:
            above.append(node)
    return above[-1]


def _names(path: bytes) -> list[bytes]:
    """The last name first."""
    return [name for name in reversed(path.split(b"/")) if name not in (b"", b".")]


def _step(tree: Tree, folder: Node, name: bytes) -> Node:
    if not folder.is_folder:
        raise Refused("not_a_directory", "a name on the way is not a directory")
    if len(name) > NAME_BYTES:
        raise Refused("name_too_long", "a name is longer than 255 bytes")
    for entry in tree.children(folder):
        if entry.name == name:
            return tree.child(folder, entry)
    raise Refused("file_not_found", "no such file in this disk")


def joined(folder: bytes, name: bytes) -> bytes:
    return folder.rstrip(b"/") + b"/" + name


def is_below(path: bytes, folder: bytes) -> bool:
    return path.startswith(folder.rstrip(b"/") + b"/")


def worth_entering(folder: bytes, after: bytes) -> bool:
    """Whether a path below `folder` can come after `after`, in the order of bytes."""
    return folder.rstrip(b"/") + b"/" > after or is_below(after, folder)
