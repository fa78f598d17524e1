"""What differs between two trees, path by path in the order of bytes. Called by `calls.py`.

Two disks of one chain share most of their bytes, and which ones is known without reading (`device.differing`). Of the
rest only the inode tables are compared; a file whose inode is the same on both disks is the same file, because whoever
writes to a file changes its inode's times. What remains to be read: the names of the tree, and the content of
files whose size is the same and whose times are not.

    nothing differs ─▶ nothing is read        inodes differ ─▶ names walked, only those nodes looked at
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sandboxes.host.look.inside.device import Range, differing
from sandboxes.host.look.inside.ext4 import Ext4
from sandboxes.host.look.inside.tree import Entry, Node, Tree, joined, worth_entering

PIECE_BYTES = 1 << 20
#: A file that is larger counts as modified when its times say so; smaller ones are read and compared.
READ_BYTES = 64 << 20


@dataclass(frozen=True)
class Change:
    path: bytes
    kind: str            # added, removed, modified, type
    before: Node | None
    after: Node | None


@dataclass(frozen=True)
class Pair:
    """One name, as each side has it."""

    old: Entry | None
    new: Entry | None

    @property
    def may_be_folder(self) -> bool:
        return any(entry is not None and entry.kind in ("directory", "") for entry in (self.old, self.new))


class Suspects:
    """Which inode numbers may differ between two disks; `numbers` None: all. False where no byte differs at all."""

    def __init__(self, numbers: set[int] | None, groups: set[int], per_group: int, *, any_byte: bool = True) -> None:
        self._numbers, self._groups, self._per_group, self._any_byte = numbers, groups, per_group, any_byte

    def __contains__(self, number: int) -> bool:
        return self._numbers is None or number in self._numbers or (number - 1) // self._per_group in self._groups

    def __bool__(self) -> bool:
        return self._any_byte


EVERYTHING = Suspects(None, set(), 1)


def suspects(before: Tree, after: Tree) -> Suspects:
    if not isinstance(before, Ext4) or not isinstance(after, Ext4):
        return EVERYTHING
    ranges = differing(before.device, after.device)
    left, right = before.superblock, after.superblock
    if not ranges:
        return Suspects(set(), set(), 1, any_byte=False)
    if (left.inode_bytes, left.inodes_per_group) != (right.inode_bytes, right.inodes_per_group):
        return EVERYTHING
    numbers: set[int] = set()
    groups: set[int] = set(range(min(left.groups, right.groups), max(left.groups, right.groups)))
    for group in range(min(left.groups, right.groups)):
        table = before.inode_table(group)
        if table != after.inode_table(group):
            groups.add(group)
            continue
        first = group * left.inodes_per_group + 1
        for start, end in _shared(ranges, table):
            numbers |= _unequal(before, after, table[0], first, (start, end))
    return Suspects(numbers, groups, left.inodes_per_group)


def _shared(ranges: list[Range], table: Range) -> Iterator[Range]:
    for start, end in ranges:
        if start < table[1] and end > table[0]:
            yield max(start, table[0]), min(end, table[1])


def _unequal(before: Ext4, after: Ext4, table: int, first: int, where: Range) -> set[int]:
    """The numbers of the inodes in that part of the table whose bytes differ."""
    size = before.superblock.inode_bytes
    start = table + (where[0] - table) // size * size
    found: set[int] = set()
    for at in range(start, where[1], PIECE_BYTES):
        count = min(PIECE_BYTES, -(-(where[1] - at) // size) * size)
        left, right = before.device.read(at, count), after.device.read(at, count)
        if left != right:
            found |= {first + (at + n - table) // size for n in range(0, count, size)
                      if left[n:n + size] != right[n:n + size]}
    return found


class Comparison:
    def __init__(self, before: Tree, after: Tree, from_path: bytes) -> None:
        self._before, self._after, self._from = before, after, from_path
        self._suspects = suspects(before, after)
        self._entered: set[tuple[int, int]] = set()

    def changes(self) -> Iterator[Change]:
        """All that come after the path it begins at."""
        if not self._suspects:
            return
        root = self._before.root(), self._after.root()
        if self._from < b"/" and self._modified(*root):
            yield Change(b"/", "modified", *root)
        yield from self._below(b"/", *root)

    def _below(self, path: bytes, before: Node | None, after: Node | None) -> Iterator[Change]:
        """A folder that is on one side or on both. A damaged disk may name it twice: it is entered once."""
        key = (before.number if before else 0, after.number if after else 0)
        if key in self._entered:
            return
        self._entered.add(key)
        pairs = self._pairs(before, after)
        # a name's own change sorts by the name, what is below it by the name and a slash
        turns = sorted([(name, name) for name in pairs]
                       + [(name + b"/", name) for name, pair in pairs.items() if pair.may_be_folder])
        for turn, name in turns:
            whole = joined(path, name)
            enter = turn is not name
            if not (worth_entering(whole, self._from) if enter else whole > self._from):
                continue
            old, new = self._nodes(pairs[name], before, after)
            yield from self._enter(whole, old, new) if enter else self._own(whole, old, new)

    def _pairs(self, before: Node | None, after: Node | None) -> dict[bytes, Pair]:
        """By name. A child that cannot differ and is no folder is left out unread."""
        left = {entry.name: entry for entry in self._before.children(before)} if before is not None else {}
        right = {entry.name: entry for entry in self._after.children(after)} if after is not None else {}
        pairs = {name: Pair(left.get(name), right.get(name)) for name in {*left, *right}}
        return {name: pair for name, pair in pairs.items() if pair.may_be_folder or not self._is_same(pair)}

    def _same(self, old: int, new: int) -> bool:
        return old == new and old not in self._suspects

    def _is_same(self, pair: Pair) -> bool:
        return pair.old is not None and pair.new is not None and pair.old.handle == pair.new.handle \
            and self._same(pair.old.handle, pair.new.handle)

    def _nodes(self, pair: Pair, before: Node | None, after: Node | None) -> tuple[Node | None, Node | None]:
        old = self._before.child(before, pair.old) if before is not None and pair.old is not None else None
        if self._is_same(pair):
            return old, old
        return old, self._after.child(after, pair.new) if after is not None and pair.new is not None else None

    def _enter(self, path: bytes, old: Node | None, new: Node | None) -> Iterator[Change]:
        folders = [node if node is not None and node.is_folder else None for node in (old, new)]
        if any(folders):
            yield from self._below(path, *folders)

    def _own(self, path: bytes, old: Node | None, new: Node | None) -> Iterator[Change]:
        if old is None or new is None:
            yield Change(path, "added" if old is None else "removed", old, new)
        elif old.kind != new.kind:
            yield Change(path, "type", old, new)
        elif self._modified(old, new):
            yield Change(path, "modified", old, new)

    def _modified(self, old: Node, new: Node) -> bool:
        """Content, mode, owner or attributes. A folder's times change with its names, which are told by themselves."""
        if old.number == new.number and old.number not in self._suspects:
            return False
        if (old.mode, old.uid, old.gid, old.attributes) != (new.mode, new.uid, new.gid, new.attributes):
            return True
        if old.kind == "symlink":
            return self._before.target(old) != self._after.target(new)
        if old.kind != "file":
            return False
        return old.size != new.size or self._content_differs(old, new)

    def _content_differs(self, old: Node, new: Node) -> bool:
        if old.size > READ_BYTES:
            return (old.number, old.mtime_ns, old.ctime_ns) != (new.number, new.mtime_ns, new.ctime_ns)
        pairs = zip(self._before.pieces(old, 0, old.size, PIECE_BYTES),
                    self._after.pieces(new, 0, new.size, PIECE_BYTES), strict=False)
        return any(left != right for left, right in pairs)
