"""How paths are resolved, against the kernel itself as the oracle: forests of links, dots, odd bytes, in any order.

Links of a forest lead out of it, too. What only looks may follow them; what changes something is first asked, name by
name, whether it would stay in the forest (`stays`), because outside is the machine that runs the tests.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxes.guest.agent import filechanges, paths
from sandboxes.guest.agent.archivein import _parts
from sandboxes.guest.agent.refusal import Refusal

NAMES = (b"a", b"b", b"c", b"\xff\x80", b"new\nline", b" ", b"n" * 255)
name = st.sampled_from(NAMES)
#: What paths are made of; absolute ones begin in the forest.
step = st.one_of(name, name, st.sampled_from([b".", b"..", b"", b"missing", b"x" * 256]))
steps = st.lists(step, min_size=1, max_size=7).map(b"/".join)
#: Where a link leads: below, up, absolute within the forest, absolute out of it, to itself.
target = st.one_of(steps, steps.map(lambda path: b"../" + path), steps.map(lambda path: b"//ROOT/" + path),
                   st.sampled_from([b"/etc", b"/etc/hostname", b"..", b".", b"/", b"/proc/self/fd"]))
forest = st.lists(st.tuples(st.sampled_from(["folder", "file", "link"]), st.lists(name, min_size=1, max_size=4),
                            target), max_size=14)


@contextlib.contextmanager
def grown(plan: list[tuple[str, list[bytes], bytes]]) -> Iterator[bytes]:
    root = os.path.realpath(tempfile.mkdtemp(prefix="berth-forest-")).encode()
    try:
        for kind, where, leads in plan:
            path = root + b"/" + b"/".join(where)
            with contextlib.suppress(OSError):
                if not stays(root, b"/".join(where[:-1])):
                    continue
                os.makedirs(os.path.dirname(path), exist_ok=True)
                if kind == "folder":
                    os.mkdir(path)
                elif kind == "file":
                    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                else:
                    os.symlink(leads.replace(b"//ROOT", root), path)
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def stays(root: bytes, path: bytes) -> bool:
    """Whether no name on the way, as links and dots lead now, is outside."""
    at = root
    for part in path.split(b"/"):
        at = at + b"/" + part
        real = os.path.realpath(at)
        if real != root and not real.startswith(root + b"/"):
            return False
    return True


def outcome(act) -> object:
    """What came of it: a value, or the number of the error."""
    try:
        return act()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0)
    except Refusal as refusal:
        return refusal.code


def opened(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    os.close(fd)
    return found.st_dev, found.st_ino


@settings(max_examples=150, deadline=None)
@given(forest, steps)
def test_a_path_opens_what_the_kernel_opens(plan, path: bytes):
    with grown(plan) as root:
        whole = root + b"/" + path
        expected = outcome(lambda: opened(os.open(whole, os.O_PATH)))
        got = outcome(lambda: opened(paths.open_path(whole)))
        own = os.path.realpath(whole).startswith(b"/proc/%d" % os.getpid())
        assert got == expected or (own and got in ("EACCES", "ELOOP"))


@settings(max_examples=150, deadline=None)
@given(forest, steps)
def test_nothing_opened_beneath_is_anywhere_else(plan, path: bytes):
    with grown(plan) as root:
        inside = os.open(root, os.O_PATH)
        try:
            fd = paths.open_beneath(inside, path)
        except OSError:
            return
        finally:
            os.close(inside)
        real = paths.real_path(fd)
        assert real == root or real.startswith(root + b"/")
        assert opened(fd) == opened(os.open(root + b"/" + path, os.O_PATH))


@settings(max_examples=150, deadline=None)
@given(forest, steps)
def test_writing_goes_where_the_kernel_would_make_the_file(plan, path: bytes):
    """`target_of` follows the last name's links by itself: then a file made there is the one the kernel makes."""
    with grown(plan) as root:
        whole = root + b"/" + path

        def ours() -> bytes:
            where = paths.target_of(whole)
            folder, last = paths.open_parent(where)
            try:
                return os.path.join(paths.real_path(folder), last)
            finally:
                os.close(folder)
        got = outcome(ours)
        if not isinstance(got, bytes) or not got.startswith(root):
            return
        if not stays(root, path):
            return
        there = os.path.lexists(got)
        made = outcome(lambda: os.close(os.open(whole, os.O_CREAT | os.O_WRONLY | os.O_NONBLOCK)))
        if made is None:
            assert os.path.realpath(whole) == got and (there or os.path.isfile(got))
        else:
            assert made in ("EISDIR", "ENAMETOOLONG") or whole.endswith((b"/", b"/.", b"/..")), (made, got)


@settings(max_examples=150, deadline=None)
@given(forest, steps)
def test_the_folders_above_are_made_as_mkdir_makes_them(plan, path: bytes):
    with grown(plan) as root, grown(plan) as other:
        folder = path.rstrip(b"/").rpartition(b"/")[0]
        if not stays(root, folder):
            return
        expected = outcome(lambda: _made(other + b"/" + folder))
        got = outcome(lambda: paths.make_parents(root + b"/" + path))
        assert (got is None) == (expected is None), (got, expected)
        assert _tree(root) == _tree(other) or got is not None


def _made(path: bytes) -> None:
    """mkdir -p, one name after the other, as a shell's user would."""
    at = b""
    for part in path.split(b"/")[1:]:
        if part:
            at += b"/" + part
            with contextlib.suppress(FileExistsError):
                os.mkdir(at)
            os.close(os.open(at, os.O_PATH | os.O_DIRECTORY))


def _tree(root: bytes) -> set[bytes]:
    return {os.path.join(folder, each).removeprefix(root)
            for folder, folders, files in os.walk(root) for each in (*folders, *files)}


@settings(max_examples=150, deadline=None)
@given(forest, steps)
def test_removing_removes_the_name_and_never_what_a_link_leads_to(plan, path: bytes):
    class Nobody:
        def check(self) -> None: ...
    with grown(plan) as root, tempfile.TemporaryDirectory() as beside:
        Path(beside, "precious").touch()
        os.symlink(beside, root + b"/out")
        if path.strip(b"/.") == b"" or not stays(root, path.rstrip(b"/").rpartition(b"/")[0]):
            return
        before = _tree(root)
        got = outcome(lambda: filechanges.remove(Nobody(), root + b"/" + path, True))
        assert Path(beside, "precious").exists() and Path("/etc/hostname").exists()
        assert got == {} or _tree(root) == before


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=40))
def test_the_names_of_an_archive_stay_below_or_are_refused(entry: bytes):
    try:
        parts = _parts(entry)
    except Refusal:
        return
    assert all(part not in (b"", b".", b"..") and b"/" not in part and b"\0" not in part for part in parts)


def test_an_absolute_path_without_nul_is_all_that_is_taken():
    for bad in (b"", b"a", b"./a", b"/a\0"):
        with pytest.raises(Refusal):
            paths.checked(bad)
