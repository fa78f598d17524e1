"""Disk chains: complete or absent, frozen layers never written, refused before anything is half made."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from sandboxes.errors import DiskFull, StepFailed
from sandboxes.linux import disks, qcow2, space
from sandboxes.linux.disks import GIB


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "root.img"
    with path.open("wb") as file:
        file.write(b"B" * 65536)
        file.truncate(1 << 20)
    return path


@pytest.fixture
def tiny(tmp_path: Path):
    """A file system of a few megabytes."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=80m", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


def facts_of(path: Path) -> dict:
    return json.loads(subprocess.check_output(["qemu-img", "info", "--output=json", path]))


async def test_a_disk_is_a_head_of_its_own_over_a_shared_base(tmp_path, base):
    chain = await disks.create(tmp_path / "disk", base, 10)
    assert chain == disks.read_chain(tmp_path / "disk")
    assert (tmp_path / "disk" / "base.img").samefile(base)
    head = facts_of(tmp_path / "disk" / chain.head)
    assert head["virtual-size"] == 10 * GIB
    assert head["format-specific"]["data"]["lazy-refcounts"] is False
    assert disks.used_bytes((tmp_path / "disk").glob("*.qcow2")) < 1 << 20


async def test_creating_again_keeps_the_disk_that_is_there(tmp_path, base):
    chain = await disks.create(tmp_path / "disk", base, 10)
    before = (tmp_path / "disk" / chain.head).stat()
    assert await disks.create(tmp_path / "disk", base, 20) == chain
    assert (tmp_path / "disk" / chain.head).stat().st_ino == before.st_ino


async def test_a_full_host_refuses_a_disk_and_keeps_nothing_of_it(tiny, base):
    (tiny / "filler").write_bytes(b"x" * (4 << 20))
    with pytest.raises(DiskFull) as refused:
        await disks.create(tiny / "disk", base, 10)
    assert refused.value.retry_after_s
    assert list((tiny / "disk").iterdir()) == []


async def test_what_is_being_written_counts_as_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(space, "free_bytes", lambda folder: space.MARGIN_BYTES + 100)
    with space.reserved(tmp_path, 80, "one"):
        with pytest.raises(DiskFull), space.reserved(tmp_path, 30, "another"):
            pass
        with space.reserved(tmp_path, 20, "a third"):
            pass
    with space.reserved(tmp_path, 100, "all of it"):
        pass


async def test_what_is_promised_to_one_is_given_to_no_other(tmp_path, monkeypatch):
    monkeypatch.setattr(space, "free_bytes", lambda folder: space.MARGIN_BYTES + 100)
    space.promise(tmp_path, 80)
    try:
        with pytest.raises(DiskFull), space.reserved(tmp_path, 30, "another's"):
            pass
        with space.reserved(tmp_path, 20, "another's"), space.reserved(tmp_path, 80, "its own", tmp_path):
            pass
        assert space.promised_bytes(Path("/proc")) == 0, "another file system is another matter"
    finally:
        space.forgo(tmp_path)
    with space.reserved(tmp_path, 100, "all of it"):
        pass


async def test_a_head_that_could_not_be_finished_has_no_name(tmp_path, base, monkeypatch):
    chain = await disks.create(tmp_path / "disk", base, 10)

    def fail(aside: Path, *_: object) -> None:
        aside.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disks.qcow2, "write_empty", fail)
    with pytest.raises(DiskFull):
        await disks.create_head(tmp_path / "disk", chain.frozen(disks.fresh_head(tmp_path / "disk")))
    there = {path.name for path in (tmp_path / "disk").iterdir()}
    assert there == {"base.img", "head-1.qcow2", "chain.json", disks.COPY}


async def test_a_capture_s_disk_is_adopted_under_names_that_cannot_clash(tmp_path, base):
    chain = await disks.create(tmp_path / "one", base, 10)
    await disks.create(tmp_path / "two", base, 10)
    adopted = await disks.adopt(tmp_path / "two", tmp_path / "one")
    assert len(adopted.layers) == 1 and adopted.head == "head-2.qcow2"
    assert (tmp_path / "two" / adopted.layers[0]).samefile(tmp_path / "one" / chain.head)
    assert {p.name for p in (tmp_path / "two").glob("*.qcow2")} == {adopted.head, *adopted.layers}
    assert disks.read_chain(tmp_path / "one") == chain


@pytest.mark.parametrize("size_bytes", [(1 << 30) + 512, 10 * GIB, 6 << 40])
@pytest.mark.parametrize("backing", ["", "base.img"])
def test_an_empty_head_is_what_qemu_s_own_tools_call_whole(tmp_path, size_bytes, backing):
    (tmp_path / "base.img").write_bytes(b"B" * 65536)
    head = tmp_path / "head.qcow2"
    qcow2.write_empty(head, size_bytes, backing, "raw" if backing else "")
    assert subprocess.run(["qemu-img", "check", "-q", head], check=False).returncode == 0
    facts = facts_of(head)
    assert (facts["virtual-size"], facts["format-specific"]["data"]["compat"]) == (size_bytes, "1.1")
    assert (facts.get("backing-filename"), facts.get("backing-filename-format")) == (
        ("base.img", "raw") if backing else (None, None))
    assert qcow2.is_empty(head)
    subprocess.run(["qemu-io", "-f", "qcow2", "-c", "write -P 7 0 4k", head], check=True, stdout=subprocess.DEVNULL)
    assert not qcow2.is_empty(head)
    assert subprocess.run(["qemu-img", "check", "-q", head], check=False).returncode == 0


async def test_a_disk_that_stands_untouched_over_a_capture_is_not_made_again(tmp_path, base):
    await disks.create(tmp_path / "disk", base, 10)
    await disks.freeze(tmp_path / "disk", tmp_path / "capture")
    chain = await disks.adopt(tmp_path / "disk", tmp_path / "capture")
    assert await disks.adopt(tmp_path / "disk", tmp_path / "capture") == chain
    head = tmp_path / "disk" / chain.head
    subprocess.run(["qemu-io", "-f", "qcow2", "-c", "write 0 4k", head], check=True, stdout=subprocess.DEVNULL)
    again = await disks.adopt(tmp_path / "disk", tmp_path / "capture")
    assert again.head != chain.head and qcow2.is_empty(tmp_path / "disk" / again.head), "what a wake wrote is not kept"


async def test_leaked_clusters_are_given_back_and_corruption_is_refused(tmp_path, base):
    chain = await disks.create(tmp_path / "disk", base, 1)
    head = tmp_path / "disk" / chain.head
    with head.open("r+b") as file:
        file.seek(0, 2)
        file.truncate(file.tell() + (1 << 20))
    await disks.repair(head)
    assert subprocess.run(["qemu-img", "check", "-q", head], check=False).returncode == 0
    with head.open("r+b") as file:  # the first L1 entry names a cluster that nobody counts
        file.seek(int.from_bytes(head.read_bytes()[40:48], "big"))
        file.write((0x8000000000000000 | (64 << 16)).to_bytes(8, "big"))
    with pytest.raises(StepFailed):
        await disks.repair(head)


async def test_a_disk_grows_and_never_shrinks(tmp_path, base):
    chain = await disks.create(tmp_path / "disk", base, 2)
    assert (await disks.grow(tmp_path / "disk", chain, 1)) == chain
    grown = await disks.grow(tmp_path / "disk", chain, 3)
    assert grown == replace(chain, size_bytes=3 * GIB) == disks.read_chain(tmp_path / "disk")
    assert facts_of(tmp_path / "disk" / chain.head)["virtual-size"] == 3 * GIB


def test_a_sparse_copy_is_equal_and_stays_sparse(tmp_path):
    source = tmp_path / "source"
    with source.open("wb") as file:
        file.seek(5 << 20)
        file.write(b"data")
        file.truncate(64 << 20)
    disks.copy_sparse(source, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == source.read_bytes()
    assert (tmp_path / "copy").stat().st_blocks * 512 < 1 << 20


async def test_a_chain_file_cut_short_by_a_foreign_hand_never_makes_an_empty_disk(base: Path, tmp_path: Path):
    folder = tmp_path / "disk"
    chain = await disks.create(folder, base, 4)
    frozen = await disks.freeze(folder, tmp_path / "capture")
    for damage in (b"", b'{"base": "base.i'):
        (folder / "chain.json").write_bytes(damage)
        assert disks.read_chain(folder) == frozen != chain
    (folder / disks.COPY).write_bytes(b"{")
    for call in (disks.create(folder, base, 4), disks.freeze(folder, tmp_path / "other")):
        with pytest.raises(StepFailed) as refused:
            await call
        assert refused.value.code == "disk_unreadable"
    assert (folder / frozen.head).exists()


@pytest.mark.parametrize("cut_off_in", ["copy_sparse", "publish"])
async def test_a_shortening_that_is_cut_off_leaves_no_file_and_nobody_who_still_writes(tmp_path, base, monkeypatch,
                                                                                       cut_off_in):
    chain = await disks.create(tmp_path / "disk", base, 1)
    for name in ("a", "b"):
        chain = await disks.freeze(tmp_path / "disk", tmp_path / name)
    names = sorted(path.name for path in (tmp_path / "disk").iterdir())
    module = disks if cut_off_in == "copy_sparse" else disks.atomic
    really, begun, may_go_on = getattr(module, cut_off_in), threading.Event(), threading.Event()
    over: list[str] = []

    def slowly(source: Path, target: Path) -> None:
        begun.set()
        may_go_on.wait(30)
        really(source, target)
        over.append(target.name)

    monkeypatch.setattr(module, cut_off_in, slowly)
    shortening = asyncio.create_task(disks.flatten(tmp_path / "disk", chain))
    assert await asyncio.to_thread(begun.wait, 30)
    shortening.cancel()
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await shortening
    assert len(over) == 1, "it was waited for"
    assert sorted(path.name for path in (tmp_path / "disk").iterdir()) == names
    monkeypatch.undo()
    assert (tmp_path / "disk" / await disks.flatten(tmp_path / "disk", chain)).exists()
