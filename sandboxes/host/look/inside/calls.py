"""The four questions: stat, list, read, diff. Called by `__main__.py` with a request that hostd made.

    {"call", "trees": [{"size", "files": [fd…], "extents": [[start, length, file, offset]…]} | {"folder": fd}], …}

Paths come and go as base64. Whatever a disk says is bounded here: entries by `limit`, the rest by the process's limits.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO

from sandboxes.host.look.inside import ext2fs
from sandboxes.host.look.inside.compare import Change, Comparison
from sandboxes.host.look.inside.device import Device
from sandboxes.host.look.inside.ext4 import Ext4
from sandboxes.host.look.inside.folder import Folder
from sandboxes.host.look.inside.refusal import Refused
from sandboxes.host.look.inside.tree import Node, Tree, find, joined, worth_entering

Json = dict[str, Any]
PIECE_BYTES = 256 * 1024
NAMES_BYTES = 1024 * 1024


def load() -> None:
    """All that must be found by name, while names can still be found."""
    ext2fs.library()


def answer(request: Json, asking: BinaryIO, out: BinaryIO) -> None:
    trees = [_tree(said) for said in request["trees"]]
    if request["call"] == "read":
        _read(trees[0], request, asking, out)
    elif request["call"] == "diff":
        say(out, {"ok": _diff(trees[0], trees[1], request)})
    else:
        say(out, {"ok": _stat(trees[0], request)})


def say(out: BinaryIO, value: Json) -> None:
    out.write(json.dumps(value).encode() + b"\n")
    out.flush()


def _tree(said: Json) -> Tree:
    if "folder" in said:
        return Folder(said["folder"])
    return Ext4(Device(said["size"], said["files"], said["extents"]))


# -- one path ----------------------------------------------------------------------------------------------------------

def _stat(tree: Tree, request: Json) -> Json:
    """A node, and of a folder its entries after `after`, at most `limit`."""
    path = _bytes(request["path"])
    node = find(tree, path, follow=False)
    owners = Owners(tree)
    said: Json = {"condition": tree.condition, "stat": owners.described(tree, path, node)}
    if node.is_folder:
        found = list(islice(_listed(tree, path, node, _bytes(request["after"]), request["recursive"]),
                            request["limit"] + 1))
        said["entries"] = [owners.described(tree, *one) for one in found[:request["limit"]]]
        said["more"] = len(found) > request["limit"]
    return said


def _listed(tree: Tree, path: bytes, folder: Node, after: bytes, recursive: bool,
            entered: frozenset[int] = frozenset()) -> Iterator[tuple[bytes, Node]]:
    """In the order of the paths' bytes. A damaged disk may hold a folder within itself: it is not entered again."""
    known = {entry.name: entry for entry in tree.children(folder)}
    turns = sorted([(name, False) for name in known]
                   + [(name + b"/", True) for name, entry in known.items()
                      if recursive and entry.kind in ("directory", "")])
    for turn, enter in turns:
        name = turn.removesuffix(b"/")
        whole = joined(path, name)
        if enter and worth_entering(whole, after):
            node = tree.child(folder, known[name])
            if node.is_folder and node.number not in entered:
                yield from _listed(tree, whole, node, after, recursive, entered | {folder.number, node.number})
        elif not enter and whole > after:
            yield whole, tree.child(folder, known[name])


class Owners:
    """Names of users and groups as the disk's own /etc has them, as a guest's agent would say them."""

    def __init__(self, tree: Tree) -> None:
        self._users, self._groups = (_names(tree, path) for path in (b"/etc/passwd", b"/etc/group"))

    def described(self, tree: Tree, path: bytes, node: Node) -> Json:
        said: Json = {
            "path_b64": _text(path), "type": node.kind, "size": node.size, "mode": node.mode & 0o7777,
            "owner": self._users.get(node.uid, str(node.uid)), "group": self._groups.get(node.gid, str(node.gid)),
            "mtime_ns": node.mtime_ns, "etag": node.etag}
        if node.kind == "symlink":
            said["target_b64"] = _text(tree.target(node))
        return said


def _names(tree: Tree, path: bytes) -> dict[int, str]:
    names: dict[int, str] = {}
    try:
        node = find(tree, path, follow=True)
        data = b"".join(tree.pieces(node, 0, min(node.size, NAMES_BYTES), PIECE_BYTES)) if node.kind == "file" else b""
    except Refused:
        return names
    for line in data.decode(errors="replace").splitlines():
        fields = line.split(":")
        if len(fields) >= 3 and fields[2].isascii() and fields[2].isdigit():
            names.setdefault(int(fields[2]), fields[0])
    return names


# -- content -----------------------------------------------------------------------------------------------------------

def _read(tree: Tree, request: Json, asking: BinaryIO, out: BinaryIO) -> None:
    """The head with size and etag; then hostd says which part on a line of its own; then exactly that part."""
    node = find(tree, _bytes(request["path"]), follow=True)
    if node.is_folder:
        raise Refused("is_a_directory", "it is a directory")
    if node.kind != "file":
        raise Refused("not_a_regular_file", f"it is a {node.kind}")
    say(out, {"ok": {"size": node.size, "etag": node.etag, "condition": tree.condition}})
    wanted = asking.readline()
    if not wanted:
        return
    start, left = json.loads(wanted)
    for piece in tree.pieces(node, start, left, PIECE_BYTES):
        out.write(piece)
        left -= len(piece)
    out.flush()  # a file that holds less than it says: hostd counts, and breaks its answer off


# -- two trees ---------------------------------------------------------------------------------------------------------

def _diff(before: Tree, after: Tree, request: Json) -> Json:
    limit = request["limit"]
    found = list(islice(Comparison(before, after, _bytes(request["after"])).changes(), limit + 1))
    return {"conditions": [before.condition, after.condition], "more": len(found) > limit,
            "changes": [_change(change) for change in found[:limit]]}


def _change(change: Change) -> Json:
    return {"path_b64": _text(change.path), "change": change.kind, "size_before": _size(change.before),
            "size_after": _size(change.after)}


def _size(node: Node | None) -> int | None:
    return node.size if node is not None and node.kind in ("file", "symlink") else None


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)
