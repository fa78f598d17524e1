"""Disks that nobody runs on, as hostd shows them: real qcow2 chains with real ext4, no machine.

A machine is written into hostd's registry as one that is stopped; what its disk and its checkpoints hold is made by
mke2fs, debugfs and qemu-img. The tools that made a disk also say what is true of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import struct
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes

import pytest
import pytest_asyncio

from sandboxes.host import points
from sandboxes.host.look.inside import compare
from sandboxes.host.look.inside.device import Device
from sandboxes.host.look.inside.ext4 import Ext4
from sandboxes.host.look.mapping import disk as mapped
from sandboxes.host.look.reader import Readers, Source
from sandboxes.host.points import Point
from sandboxes.linux import disks
from tests.host.client import Answer, Hostd, new_folder, new_id, running_hostd
from tests.host.disk_images import MIB, Disk, names_of_any_bytes, sample_tree, write


class Sleeping:
    """A stopped machine of a hostd that is not started yet; its disk and checkpoints are ours to make."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.machine_id = folder, new_id()
        self.home = folder / "state" / "machines" / self.machine_id
        record = folder / "state" / "records" / self.machine_id / "machine.json"
        record.parent.mkdir(parents=True)
        record.write_text(json.dumps({
            "machine_id": self.machine_id, "generation": 1, "phase": "stopped", "operations": [],
            "spec": {"machine_id": self.machine_id, "generation": 1}}))

    def disk(self, tree: Path | None, *options: str, size_mib: int = 64) -> Disk:
        return Disk(self.home / "disk", tree, size_mib, *options)

    def checkpoint(self, disk: Disk, checkpoint_id: str) -> None:
        into = self.home / "checkpoints" / checkpoint_id
        disk.freeze(into)
        points.write(into, Point(checkpoint_id, 1))


class Look:
    """The calls under test."""

    def __init__(self, hostd: Hostd, machine_id: str) -> None:
        self.hostd, self.machine_id = hostd, machine_id

    async def get(self, which: str, what: str, path: bytes | None = None, **query: Any) -> Answer:
        method, headers = query.pop("method", "GET"), query.pop("headers", None)
        pairs = [f"path={quote_from_bytes(path)}"] if path is not None else []
        pairs += [f"{name}={value}" for name, value in query.items()]
        url = f"/v1/machines/{self.machine_id}/checkpoints/{which}/{what}?{'&'.join(pairs)}"
        return await self.hostd.call(method, url, headers=headers)

    async def content(self, which: str, path: bytes, **more: Any) -> Answer:
        return await self.get(which, "files/content", path, **more)

    async def diff(self, before: str, after: str, **query: Any) -> list[dict[str, Any]]:
        answer = await self.get(before, "diff", against=after, **query)
        assert answer.status == 200, answer.body
        return answer.json["results"]

    async def changes(self, before: str, after: str) -> dict[str, str]:
        return {row["path_encoded"]: row["change"] for row in await self.diff(before, after)}


@pytest.fixture
def folder() -> Iterator[Path]:
    made = new_folder()
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def sleeping(folder: Path) -> Sleeping:
    return Sleeping(folder)


@pytest_asyncio.fixture
async def start(folder: Path, sleeping: Sleeping) -> AsyncIterator[Any]:
    """Starts hostd over what the test has made."""
    async with contextlib.AsyncExitStack() as stack:
        async def begin() -> Look:
            hostd = await stack.enter_async_context(running_hostd(folder=folder))
            return Look(hostd, sleeping.machine_id)
        yield begin


def in_thread(work: Any, *given: Any) -> Any:
    """Making disks uses an event loop of its own."""
    return asyncio.to_thread(work, *given)


# -- list and read -----------------------------------------------------------------------------------------------------

async def test_a_sleeping_disk_lists_as_its_guest_would(folder: Path, sleeping: Sleeping, start: Any) -> None:
    tree = sample_tree(folder)
    await in_thread(sleeping.disk, tree)
    look = await start()
    root = (await look.get("head", "files", b"/")).json
    assert root["type"] == "directory" and root["next_cursor"] is None
    kinds = {entry["path"]: entry["type"] for entry in root["entries"]}
    assert kinds == {"/absolute": "symlink", "/empty": "directory", "/etc": "directory", "/fifo": "fifo",
                     "/home": "directory", "/long": "symlink", "/loop": "symlink", "/lost+found": "directory"}
    answer = await look.get("head", "files", b"/home/user/a.txt")
    found, real = answer.json, (tree / "home/user/a.txt").stat()
    assert (found["owner"], found["group"], found["mode"], found["size"]) == ("user", "user", "0640", 6)
    assert found["mtime"].startswith("20") and real.st_nlink == 2
    assert answer.headers["Berth-Disk"] == "clean"
    link = (await look.get("head", "files", b"/home/user/outward")).json
    assert link["type"] == "symlink" and link["target"].endswith("etc/passwd")
    hard = (await look.get("head", "files", b"/home/user/hard")).json
    assert hard["etag"] == found["etag"]


async def test_names_of_any_bytes_come_back_exact_and_are_read_by_them(folder: Path, sleeping: Sleeping,
                                                                       start: Any) -> None:
    await in_thread(sleeping.disk, sample_tree(folder))
    look = await start()
    entries = (await look.get("head", "files", b"/home/user/odd")).json["entries"]
    wanted = sorted(b"/home/user/odd/" + name for name in names_of_any_bytes())
    assert [entry["path_encoded"] for entry in entries] == [quote_from_bytes(path) for path in wanted]
    for name in names_of_any_bytes():
        assert (await look.content("head", b"/home/user/odd/" + name)).body == name


async def test_contents_are_whole_in_parts_and_never_a_page(folder: Path, sleeping: Sleeping, start: Any) -> None:
    tree = sample_tree(folder)
    await in_thread(sleeping.disk, tree)
    look = await start()
    big = (tree / "home/user/deep/er/big").read_bytes()
    answer = await look.content("head", b"/home/user/deep/er/big")
    assert answer.body == big
    assert answer.headers["Content-Disposition"] == "attachment"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    etag = answer.headers["ETag"]
    middle = await look.content("head", b"/home/user/deep/er/big", headers={"Range": "bytes=1000000-2000000"})
    assert middle.status == 206 and middle.body == big[1_000_000:2_000_001]
    assert middle.headers["Content-Range"] == f"bytes 1000000-2000000/{len(big)}"
    last = await look.content("head", b"/home/user/deep/er/big", headers={"Range": "bytes=-17"})
    assert last.body == big[-17:]
    beyond = await look.content("head", b"/home/user/deep/er/big", headers={"Range": f"bytes={len(big)}-"})
    assert beyond.status == 416 and beyond.headers["Content-Range"] == f"bytes */{len(big)}"
    assert (await look.content("head", b"/home/user/deep/er/big", headers={"If-None-Match": etag})).status == 304
    head = await look.content("head", b"/home/user/deep/er/big", method="HEAD")
    assert (head.headers["Content-Length"], head.headers["ETag"]) == (str(len(big)), etag)
    sparse = (await look.content("head", b"/home/user/sparse")).body
    assert sparse == bytes(10 * MIB) + b"island" + bytes(10 * MIB - 6)


async def test_links_lead_inside_the_disk_alone_and_what_is_no_file_is_refused_by_name(
        folder: Path, sleeping: Sleeping, start: Any) -> None:
    tree = sample_tree(folder)
    await in_thread(sleeping.disk, tree)
    look = await start()
    assert (await look.content("head", b"/absolute")).body == b"hello\n"
    assert (await look.content("head", b"/home/user/outward")).body == (tree / "etc/passwd").read_bytes()
    assert (await look.content("head", b"/../../etc/group")).body == (tree / "etc/group").read_bytes()
    refused = {b"/loop": "too_many_links", b"/fifo": "not_a_regular_file", b"/etc": "is_a_directory",
               b"/long": "file_not_found", b"/etc/passwd/x": "not_a_directory", b"/no": "file_not_found",
               b"/" + b"n" * 256: "name_too_long", b"etc": "invalid"}
    for path, code in refused.items():
        assert (await look.content("head", path)).json["code"] == code, path


async def test_a_folder_is_paged_and_walked_without_gap_or_repeat(folder: Path, sleeping: Sleeping,
                                                                   start: Any) -> None:
    tree = folder / "tree"
    for name in ("a", "a-b", "a/b", "a/b/c", "a.d"):
        (tree / name).mkdir(parents=True)
        for n in range(3):
            write(tree / name / f"f{n}", b"x")
    await in_thread(sleeping.disk, tree)
    look = await start()
    whole = (await look.get("head", "files", b"/", recursive="true")).json["entries"]
    paths = [entry["path"] for entry in whole]
    assert paths == sorted(paths, key=os.fsencode) and len(paths) == 5 + 15 + 1
    paged: list[str] = []
    cursor = ""
    for _ in range(len(paths)):
        page = (await look.get("head", "files", b"/", recursive="true", limit=4,
                               **({"cursor": cursor} if cursor else {}))).json
        paged += [entry["path"] for entry in page["entries"]]
        cursor = page["next_cursor"]
        if not cursor:
            break
    assert paged == paths


# -- compare -----------------------------------------------------------------------------------------------------------

async def test_a_comparison_names_what_was_added_changed_and_removed_and_nothing_else(
        folder: Path, sleeping: Sleeping, start: Any) -> None:
    tree = sample_tree(folder)
    new = folder / "new"
    write(new, b"longer than before\n")

    def make() -> None:
        disk = sleeping.disk(tree)
        sleeping.checkpoint(disk, "one")
        disk.debugfs("rm /home/user/odd/-rf", f"write {new} /home/user/added", "rm /home/user/a.txt",
                     f"write {new} /home/user/a.txt", "mkdir /fresh", f"write {new} /fresh/inside",
                     "rm /fifo", "mkdir /fifo", "sif /etc/group mode 0100600",
                     "kill_file /etc/passwd", "rm /etc/passwd")
        sleeping.checkpoint(disk, "two")
    await in_thread(make)
    look = await start()
    assert await look.changes("one", "two") == {
        "/etc/group": "modified", "/etc/passwd": "removed", "/fifo": "type", "/fresh": "added",
        "/fresh/inside": "added", "/home/user/a.txt": "modified", "/home/user/added": "added",
        "/home/user/odd/-rf": "removed"}
    backwards = await look.changes("two", "one")
    assert backwards["/fresh/inside"] == "removed" and backwards["/etc/passwd"] == "added"
    rows = {row["path"]: row for row in await look.diff("one", "two")}
    assert (rows["/home/user/a.txt"]["size_before"], rows["/home/user/a.txt"]["size_after"]) == (6, 19)
    assert (rows["/fresh"]["size_before"], rows["/fresh"]["size_after"]) == (None, None)
    assert await look.changes("two", "head") == {}
    assert await look.changes("one", "head") == await look.changes("one", "two")


async def test_a_file_written_over_in_place_is_modified_and_one_only_touched_is_not(
        folder: Path, sleeping: Sleeping, start: Any) -> None:
    tree = sample_tree(folder)

    def make() -> None:
        disk = sleeping.disk(tree)
        sleeping.checkpoint(disk, "one")
        block = int(subprocess.run(["debugfs", "-R", "bmap /home/user/deep/er/big 700", str(disk.flat)], check=True,
                                   capture_output=True, text=True).stdout)
        with disk.flat.open("r+b") as flat:
            flat.seek(block * 4096)
            flat.write(b"changed in the middle")
        disk.debugfs("sif /home/user/deep/er/big mtime 1700000000", "sif /home/user/sparse mtime 1700000000")
    await in_thread(make)
    look = await start()
    assert await look.changes("one", "head") == {"/home/user/deep/er/big": "modified"}


async def test_pages_of_a_comparison_join_into_the_whole(folder: Path, sleeping: Sleeping, start: Any) -> None:
    tree = sample_tree(folder)
    new = folder / "new"
    write(new, b"x")

    def make() -> None:
        disk = sleeping.disk(tree)
        sleeping.checkpoint(disk, "one")
        disk.debugfs(*(line for n in range(8) for line in (
            f"mkdir /d{n}", f"cd /d{n}", f"write {new} f", "cd /", f"write {new} d{n}-x", f"write {new} d{n}!")))
    await in_thread(make)
    look = await start()
    whole = [row["path"] for row in await look.diff("one", "head")]
    assert whole == sorted(whole) and len(whole) == 32
    paged: list[str] = []
    answer = (await look.get("one", "diff", against="head", limit=5)).json
    while True:
        paged += [row["path"] for row in answer["results"]]
        if answer["next_cursor"] is None:
            break
        answer = (await look.get("one", "diff", against="head", limit=5, cursor=answer["next_cursor"])).json
    assert paged == whole


async def test_what_is_equal_is_not_read(folder: Path, sleeping: Sleeping, start: Any) -> None:
    """The content of the one file that changed, and names: of a large disk's other bytes, none."""
    tree = folder / "tree"
    tree.mkdir()
    for n in range(300):
        write(tree / f"f{n}", os.urandom(100_000))
    new = folder / "new"
    write(new, b"x")

    def make() -> None:
        disk = sleeping.disk(tree)
        sleeping.checkpoint(disk, "one")
        disk.debugfs(f"write {new} added")
    await in_thread(make)
    read = 0

    class Counting(Device):
        def read(self, offset: int, length: int) -> bytes:
            nonlocal read
            read += length
            return super().read(offset, length)
    folders = [sleeping.home / "checkpoints" / "one", sleeping.home / "disk"]
    async with mapped(folders[0], disks.read_chain(folders[0])) as one, \
            mapped(folders[1], disks.read_chain(folders[1])) as two:
        trees = [Ext4(Counting(m.request["size"], m.request["files"], m.request["extents"])) for m in (one, two)]
        read = 0
        found = list(compare.Comparison(*trees, b"").changes())
    assert [(change.path, change.kind) for change in found] == [(b"/added", "added")]
    assert read < 2 * MIB, read


# -- disks whose machine did not say farewell --------------------------------------------------------------------------

def journalled(disk: Disk, folder: Path) -> bytes:
    """A transaction that is committed to the journal and not yet at its place, as after a kill. Answers what a replay
    puts into the block of /etc/passwd.
    """
    block = int(subprocess.run(["debugfs", "-R", "bmap /etc/passwd 0", str(disk.flat)], check=True,
                               capture_output=True, text=True).stdout)
    data = b"root:x:0:0:replayed:/root:/bin/sh\n".ljust(4096, b"\0")
    write(folder / "block", data)
    subprocess.run(["debugfs", "-w", "-f", "-", str(disk.flat)], check=True, capture_output=True, text=True,
                   input=f"journal_open -c -v 3\njournal_write -b {block} {folder / 'block'}\njournal_close\n")
    disk.into_head()
    return data


async def test_a_journal_is_replayed_in_memory_as_e2fsck_would_on_disk(folder: Path, sleeping: Sleeping,
                                                                       start: Any) -> None:
    tree = sample_tree(folder)

    def make() -> bytes:
        disk = sleeping.disk(tree)
        sleeping.checkpoint(disk, "one")
        data = journalled(disk, folder)
        subprocess.run(["e2fsck", "-p", "-E", "journal_only", str(disk.flat)], check=True, capture_output=True)
        truth = subprocess.run(["debugfs", "-R", "cat /etc/passwd", str(disk.flat)], check=True, capture_output=True)
        size = (tree / "etc/passwd").stat().st_size
        assert truth.stdout == data[:size]
        return truth.stdout
    truth = await in_thread(make)
    look = await start()
    before = [path.read_bytes() for path in sorted((sleeping.home / "disk").glob("*.qcow2"))]
    answer = await look.content("head", b"/etc/passwd")
    assert answer.body == truth and answer.headers["Berth-Disk"] == "replayed"
    assert (await look.content("one", b"/etc/passwd")).body == (tree / "etc/passwd").read_bytes()
    assert before == [path.read_bytes() for path in sorted((sleeping.home / "disk").glob("*.qcow2"))]


# -- hostile disks -----------------------------------------------------------------------------------------------------

def garbage(disk: Disk) -> None:
    with disk.flat.open("r+b") as flat:
        flat.write(os.urandom(8 * MIB))


def nothing_at_all(disk: Disk) -> None:
    with disk.flat.open("r+b") as flat:
        flat.write(bytes(8 * MIB))


def noise_behind_a_sound_superblock(disk: Disk) -> None:
    with disk.flat.open("r+b") as flat:
        flat.seek(4096)
        flat.write(os.urandom(6 * MIB))


def impossible_superblock(disk: Disk) -> None:
    with disk.flat.open("r+b") as flat:
        flat.seek(1024 + 24)
        flat.write(struct.pack("<I", 40))


@pytest.mark.parametrize("spoil", [garbage, nothing_at_all, noise_behind_a_sound_superblock, impossible_superblock])
async def test_a_disk_that_holds_no_file_system_is_an_answer_and_no_accident(folder: Path, sleeping: Sleeping,
                                                                            start: Any, spoil: Any) -> None:
    def make() -> None:
        disk = sleeping.disk(sample_tree(folder))
        sleeping.checkpoint(disk, "good")
        spoil(disk)
        disk.into_head()
    await in_thread(make)
    look = await start()
    for answer in (await look.get("head", "files", b"/"), await look.content("head", b"/etc/passwd"),
                   await look.get("good", "diff", against="head")):
        assert answer.status == 409 and answer.json["code"] == "disk_unreadable", answer.body
    assert (await look.get("good", "files", b"/")).status == 200


async def test_a_folder_within_itself_ends(folder: Path, sleeping: Sleeping, start: Any) -> None:
    def make() -> None:
        disk = sleeping.disk(sample_tree(folder))
        sleeping.checkpoint(disk, "one")
        disk.debugfs("ln /home /home/user/again", "ln / /empty/root")
    await in_thread(make)
    look = await start()
    listed = await look.get("head", "files", b"/", recursive="true", limit=10_000)
    assert listed.status == 200 and listed.json["next_cursor"] is None
    changed = await look.get("one", "diff", against="head")
    assert changed.status == 200 and "/home/user/again" in {row["path"] for row in changed.json["results"]}


async def test_a_layer_that_was_cut_off_or_points_elsewhere_is_refused(folder: Path, sleeping: Sleeping,
                                                                       start: Any) -> None:
    """A compromised QEMU may write what it likes into its head: no other file of the host is opened for it."""
    def make() -> None:
        disk = sleeping.disk(sample_tree(folder))
        sleeping.checkpoint(disk, "cut")
        sleeping.checkpoint(disk, "elsewhere")
        sleeping.checkpoint(disk, "swapped")
        names = {name: sleeping.home / "checkpoints" / name for name in ("cut", "elsewhere", "swapped")}
        heads = {name: json.loads((path / "chain.json").read_text())["head"] for name, path in names.items()}
        for name, at, value, kept in (("elsewhere", 72, struct.pack(">Q", 4), None), ("cut", 0, b"", 1000),
                                      ("swapped", 8, struct.pack(">QI", 520, 11), None)):
            path = names[name] / heads[name]
            raw = bytearray(path.read_bytes())
            raw[at:at + len(value)] = value
            raw[520:531] = b"/etc/shadow"
            path.unlink()  # a name of its own: others share what was there
            path.write_bytes(raw[:kept])
    await in_thread(make)
    look = await start()
    for which in ("cut", "elsewhere"):
        answer = await look.get(which, "files", b"/")
        assert answer.json["code"] == "disk_unreadable", answer.body
    swapped = await look.content("swapped", b"/etc/passwd")
    assert swapped.status == 200 and b"user:x:1000" in swapped.body


async def test_the_reader_has_no_rights_when_it_looks(folder: Path, sleeping: Sleeping, start: Any) -> None:
    """Seen from outside while it waits to be told which part of a file is wanted."""
    await in_thread(sleeping.disk, sample_tree(folder))
    readers, source = Readers(), Source(sleeping.home / "disk", "m")
    async with readers.asked("read", [source], path="L2V0Yy9wYXNzd2Q=") as (_said, process):
        pid = process.process.pid
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        assert {int(word) for word in status["Uid"].split()} == {0x50000000 + pid}
        assert int(status["CapEff"], 16) == 0 and status["NoNewPrivs"] == "1" and status["Groups"].strip() == ""
        assert os.listdir(f"/proc/{pid}/root") == []
        assert os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
        limits = Path(f"/proc/{pid}/limits").read_text()
        assert [line.split()[2] for line in limits.splitlines() if line.startswith("Max processes")] == ["0"]
    assert not Path(f"/proc/{pid}").exists()


# -- when it may be looked at ------------------------------------------------------------------------------------------

async def test_the_head_of_a_running_machine_is_refused_and_compared_at_this_moment(hostd: Hostd) -> None:
    machine_id = await hostd.machine()
    look = Look(hostd, machine_id)
    await hostd.exec(machine_id, "echo one > kept; echo two > going; echo four > tagged; echo five > same")
    taken = await hostd.operate(machine_id, "capture", checkpoint_id="then", memory=False)
    assert taken["state"] == "done", taken
    await hostd.exec(machine_id, "rm going; echo three > coming; echo longer >> kept")
    tag = "import os; os.setxattr('tagged', 'user.tag', b'x')"
    assert (await hostd.exec(machine_id, ["python3", "-c", tag]))["outcome"] == {"kind": "exited", "code": 0}
    for answer in (await look.get("head", "files", b"/"), await look.content("head", b"/home/user/kept")):
        assert answer.status == 409 and answer.json["code"] == "workspace_running"
    assert await look.changes("then", "head") == {
        "/home/user/coming": "added", "/home/user/going": "removed", "/home/user/kept": "modified",
        "/home/user/tagged": "modified"}
    assert (await look.content("then", b"/home/user/going")).body == b"two\n"
    observed = await hostd.observe(machine_id)
    assert [one["checkpoint_id"] for one in observed["checkpoints"]] == ["then"]
    assert observed["phase"] == "running"
    for which in ("none", "..", "a%2Fb"):
        assert (await look.get(which, "files", b"/")).status in (400, 404)


async def test_a_stopped_machine_is_looked_at_and_stays_stopped(hostd: Hostd) -> None:
    machine_id = await hostd.machine()
    look = Look(hostd, machine_id)
    await hostd.exec(machine_id, "echo kept > note")
    await hostd.operate(machine_id, "shutdown")
    assert (await look.content("head", b"/home/user/note")).body == b"kept\n"
    assert (await hostd.observe(machine_id))["phase"] == "stopped"
