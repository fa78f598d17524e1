"""`cp`: files and folders between here and a workspace, of any size, in flat memory. Called by `main`.

    cp here ws:/there     cp ws:/there here     cp -r dir ws:/there     cp - ws:/there     cp ws:/there -

A folder that is there already is copied *into*; a name that is not there yet becomes the copy, as with any cp. What
comes from a guest is a stranger's: `tars` lets nothing of it out of the folder it is unpacked in.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from berth_client import OneWorkspace
from berth_client.cli import say, tars
from berth_client.cli.asked import server, workspace
from berth_client.problems import BadConfig, NoSuchFile

STREAM = "-"


@dataclass(frozen=True)
class There:
    """A path in a workspace; one that does not begin with a slash is below its user's home."""

    workspace: str
    path: str

    def absolute(self, user: str | None) -> str:
        home = "/root" if user == "root" else f"/home/{user or 'user'}"
        return str(PurePosixPath(home, self.path or "."))


def side(said: str) -> There | str:
    name, colon, path = said.partition(":")
    if not colon or not name or said.startswith(("/", ".", "~")):
        return said
    return There(name, path)


def copy(asked: argparse.Namespace) -> int:
    source, target = side(asked.source), side(asked.target)
    if isinstance(source, There) == isinstance(target, There):
        raise BadConfig("One side is here and one is WORKSPACE:PATH.")
    with server(asked) as berth:
        if isinstance(target, There):
            assert isinstance(source, str)
            moved = up(asked, workspace(berth, target.workspace), source, target)
        else:
            assert isinstance(source, There)
            moved = down(asked, workspace(berth, source.workspace), source, target)
    if asked.json:
        say.document(moved)
    return 0


def up(asked: argparse.Namespace, one: OneWorkspace, source: str, target: There) -> dict[str, object]:
    path = target.absolute(asked.user)
    if source == STREAM:
        return one.files.upload(sys.stdin.buffer, path, user=asked.user, parents=asked.parents).raw
    here = Path(source)
    into = is_folder(one, path, asked.user)
    if target.path.endswith("/") or into:
        path = str(PurePosixPath(path, here.resolve().name))
    if here.is_dir():
        must_be_recursive(asked, source)
        return one.files.unpack_pieces(tars.packed(here), path, parents=True, user=asked.user).raw
    mode = f"{here.stat().st_mode & 0o777:04o}"
    return one.files.upload(here, path, mode=mode, parents=asked.parents, user=asked.user).raw


def down(asked: argparse.Namespace, one: OneWorkspace, source: There, target: str) -> dict[str, object]:
    path = source.absolute(asked.user)
    if target == STREAM:
        size = 0
        for data in one.files.stream(path, user=asked.user):
            size += sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return {"path": path, "size": size}
    here = Path(target)
    if here.is_dir():
        here = here / PurePosixPath(path).name
    if is_folder(one, path, asked.user):
        must_be_recursive(asked, asked.source)
        left_out = tars.unpack(one.files.archive(path, user=asked.user), here)
        for said in left_out:
            say.note(f"left out: {say.shown(said)}")
        return {"path": str(here), "left_out": left_out}
    return {"path": str(here), "size": one.files.download(path, here, user=asked.user)}


def is_folder(one: OneWorkspace, path: str, user: str | None) -> bool:
    try:
        return one.files.stat(path, user=user).is_folder
    except NoSuchFile:
        return False


def must_be_recursive(asked: argparse.Namespace, what: str) -> None:
    if not asked.recursive:
        raise BadConfig(f"{what} is a folder; copy it with -r.")
