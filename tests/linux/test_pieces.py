"""The small pieces: running programs, groups, user ids, pages, sealed files, files that are complete or absent."""

from __future__ import annotations

import mmap
import os
import random
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from sandboxes.linux import atomic, cgroups, checksums, pages
from sandboxes.linux.cgroups import Groups, Hierarchy, Limits
from sandboxes.linux.processes import ProcessFailed, log_line, run, run_blocking
from sandboxes.linux.sealed import SealedFiles, bounded_file, read_bounded
from sandboxes.linux.uids import Uids

# -- processes ---------------------------------------------------------------------------------------------------------


async def test_a_program_gets_its_arguments_untouched_by_any_shell():
    word = "$(id) `id`; 'x' \"y\" *"
    assert (await run(["printf", "%s", word])).text == word


def test_a_command_is_logged_as_a_line_that_can_be_pasted(caplog):
    with caplog.at_level("INFO"):
        line = log_line(["printf", "%s", "a b'c"])
    assert line in caplog.text
    assert subprocess.check_output(["bash", "-c", line]) == b"a b'c"


async def test_a_failing_program_is_an_error_that_carries_its_last_words():
    with pytest.raises(ProcessFailed) as failed:
        await run(["sh", "-c", "echo because >&2; exit 7"])
    assert failed.value.code == 7 and failed.value.complaint == "because"
    assert (await run(["sh", "-c", "exit 7"], ok=(0, 7))).code == 7
    with pytest.raises(ProcessFailed):
        await run(["/no/such/program"])


async def test_a_program_past_its_deadline_is_killed_with_its_children(tmp_path):
    word = f"{600 + os.getpid() / 1e6:.6f}"
    with pytest.raises(ProcessFailed, match="no end within"):
        await run(["sh", "-c", f"sleep {word} & sleep {word}"], timeout_s=0.3)
    assert subprocess.run(["pgrep", "-f", f"^sleep {word}"], stdout=subprocess.DEVNULL, check=False).returncode == 1


def test_a_program_sees_nothing_of_our_environment(monkeypatch):
    monkeypatch.setenv("BERTH_SECRET", "s3cret")
    assert "s3cret" not in run_blocking(["env"]).text


# -- groups ------------------------------------------------------------------------------------------------------------

LIMITS = Limits(memory_bytes=64 << 20, cpus=1.5, tasks=20)


async def test_this_host_s_groups_hold_a_body_to_its_limits_and_leave_nothing():
    groups = Groups(secrets.token_hex(4))
    procs = groups.create("machine", LIMITS)
    assert (groups.hierarchy.kind == "rlimits") == (procs == [])
    if procs:
        script = ("import sys\nfor path in sys.argv[1:]: open(path, 'w').write('0')\n"
                  "block = bytearray(256 << 20)\nfor at in range(0, len(block), 4096): block[at] = 1\n")
        greedy = subprocess.run([sys.executable, "-c", script, *procs], check=False)
        assert greedy.returncode == -9, "more memory than its limit ends it"
        assert groups.machines() == {"machine"}
    await groups.delete("machine")
    await groups.delete("machine")
    assert groups.machines() == set()
    assert not any(Path(path).exists() for path in procs)


def fake_v2(root: Path, controllers: str) -> Path:
    (root / "cgroup.controllers").write_text(controllers)
    (root / "cgroup.subtree_control").write_text("")
    return root


def test_v2_gets_its_limits_in_v2_words(tmp_path, monkeypatch):
    parent = tmp_path / "berth-x"
    (parent / "machine").mkdir(parents=True)
    for folder in (tmp_path, parent):
        fake_v2(folder, "cpu memory pids")
    (parent / "machine" / "pids.max").write_text("max")
    procs = Groups("x", Hierarchy("v2", {"": tmp_path})).create("machine", LIMITS)
    assert procs == [str(parent / "machine" / "cgroup.procs")]
    assert (parent / "machine" / "cpu.max").read_text() == "150000 100000"
    assert (parent / "machine" / "memory.max").read_text() == str(64 << 20)
    assert (parent / "machine" / "pids.max").read_text() == "20"
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"


def test_a_host_whose_groups_refuse_falls_back_to_rlimits_and_says_why(tmp_path):
    groups = Groups("x", Hierarchy("v1", {"memory": tmp_path / "missing" / "\0bad"}))
    with pytest.raises(ValueError, match="null"):
        groups.create("machine", LIMITS)
    groups = Groups("x", Hierarchy("v1", {"memory": Path("/proc/self")}))
    assert groups.create("machine", LIMITS) == []
    assert groups.hierarchy.kind == "rlimits" and groups.hierarchy.why


@pytest.mark.parametrize(("mounts", "kind"), [
    ([("/", "cgroup2", set())], "v2"),
    ([("/", "cgroup", {"memory"}), ("/", "cgroup", {"cpu"})], "v1"),
    ([("/", "cgroup", {"memory"})], "rlimits"),
    ([], "rlimits"),
])
def test_groups_are_chosen_by_what_is_offered(tmp_path, monkeypatch, mounts, kind):
    fake_v2(tmp_path, "cpu memory" if kind == "v2" else "")
    monkeypatch.setattr(cgroups, "_mounts", lambda: [(tmp_path, *rest) for _, *rest in mounts])
    found = cgroups.detect()
    assert found.kind == kind
    assert found.why or kind != "rlimits"


# -- user ids ----------------------------------------------------------------------------------------------------------


def test_a_user_id_is_one_machine_s_until_it_is_freed_and_survives_us(tmp_path):
    uids = Uids(tmp_path, "0000abcd")
    one, two = uids.take("one"), uids.take("two")
    assert one != two
    assert Uids(tmp_path, "0000abcd").take("one") == one
    uids.free("one")
    uids.free("one")
    assert uids.take("three") == one and uids.take("two") == two
    assert set(range(one, one + 10)).isdisjoint({Uids(tmp_path / "b", "0000abce").take("x")})


# -- pages -------------------------------------------------------------------------------------------------------------


def test_private_pages_are_found_saved_and_written_into_another_mapping(tmp_path):
    size = 64 * mmap.PAGESIZE
    base = os.memfd_create("base")
    os.write(base, b"b" * size)
    source, target = (mmap.mmap(base, size, flags=mmap.MAP_PRIVATE) for _ in range(2))
    for page in (3, 4, 9):
        source[page * mmap.PAGESIZE:page * mmap.PAGESIZE + 5] = b"wrote"
    source[20 * mmap.PAGESIZE:21 * mmap.PAGESIZE] = bytes(mmap.PAGESIZE)
    inode = os.fstat(base).st_ino
    with pytest.raises(LookupError, match="twice"):
        pages.find_mapping(os.getpid(), inode, size)
    first = pages.Mapping(os.getpid(), address_of(source), size)
    assert pages.private_runs(first) == [(3 * 4096, 2 * 4096), (9 * 4096, 4096), (20 * 4096, 4096)]
    saved = pages.save_pages(first, tmp_path / "pages")
    assert saved == pages.Saved(4 * 4096, 4 * 4096, checksums.of_file(tmp_path / "pages"))
    pages.write_pages(tmp_path / "pages", pages.Mapping(os.getpid(), address_of(target), size))
    assert target[:] == source[:], "a page of zeros over a base that is not zero counts, too"
    assert os.pread(base, size, 0) == b"b" * size, "the base is untouched"


def test_only_what_former_files_do_not_hold_is_saved_and_all_of_them_make_the_memory(tmp_path):
    size = 2048 * mmap.PAGESIZE
    base = os.memfd_create("base")
    os.ftruncate(base, size)
    source, target = (mmap.mmap(base, size, flags=mmap.MAP_PRIVATE) for _ in range(2))
    mapping, other = (pages.Mapping(os.getpid(), address_of(memory), size) for memory in (source, target))
    rng = random.Random(7)
    files: list[Path] = []
    for generation in range(4):
        for page in {rng.randrange(2048) for _ in range(600)} | {0, 2047}:
            at = page * mmap.PAGESIZE + rng.randrange(4000)
            source[at:at + 8] = rng.randbytes(8)
        files.append(tmp_path / f"pages-{generation}")
        saved = pages.save_pages(mapping, files[-1], files[:-1])
        assert saved.checksum == checksums.of_file(files[-1])
        assert saved.bytes < saved.private_bytes or generation == 0
    assert pages.save_pages(mapping, tmp_path / "nothing", files).bytes == 0
    for path in files:
        pages.write_pages(path, other)
    assert target[:] == source[:]


def test_a_pages_file_that_lost_its_end_is_refused(tmp_path):
    size = 16 * mmap.PAGESIZE
    base = os.memfd_create("base")
    os.ftruncate(base, size)
    memory = mmap.mmap(base, size, flags=mmap.MAP_PRIVATE)
    memory[:] = b"x" * size
    pages.save_pages(pages.find_mapping(os.getpid(), os.fstat(base).st_ino, size), tmp_path / "pages")
    os.truncate(tmp_path / "pages", (tmp_path / "pages").stat().st_size - 1)
    with pytest.raises(ValueError, match="ends before"):
        list(pages.load_pages(tmp_path / "pages"))


def address_of(memory: mmap.mmap) -> int:
    import ctypes
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


# -- sealed and complete files -----------------------------------------------------------------------------------------


async def test_a_shared_base_cannot_be_written_by_whoever_maps_it(tmp_path):
    (tmp_path / "base").write_bytes(b"x" * 8192)
    sealed = SealedFiles()
    fd = await sealed.of(tmp_path / "base", 16384)
    assert fd == await sealed.of(tmp_path / "base", 16384), "copied once"
    (tmp_path / "base").unlink()
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
    for attempt in (lambda: os.pwrite(again, b"y", 0), lambda: os.ftruncate(again, 0),
                    lambda: os.ftruncate(again, 1 << 20), lambda: mmap.mmap(again, 4096)):
        with pytest.raises(OSError, match="not permitted"):
            attempt()
    private = mmap.mmap(again, 16384, flags=mmap.MAP_PRIVATE)
    private[0:1] = b"y"
    assert os.pread(fd, 2, 0) == b"xx" and private[:2] == b"yx"
    os.close(again)
    private.close()
    sealed.close()


def test_a_bounded_file_takes_no_more_than_its_size():
    fd = bounded_file("log", 4096)
    with os.fdopen(os.dup(fd), "wb", 0) as file:
        assert file.write(b"a" * 8192) == 4096
        with pytest.raises(OSError, match="not permitted"):
            file.write(b"b")
    assert read_bounded(fd) == "a" * 4096
    os.close(fd)


def test_a_published_file_is_whole_or_the_one_before(tmp_path, monkeypatch):
    atomic.write_json(tmp_path / "state.json", {"n": 1})
    monkeypatch.setattr(atomic.os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(5, "io")))
    with pytest.raises(OSError, match="io"):
        atomic.write_json(tmp_path / "state.json", {"n": 2})
    assert atomic.read_json(tmp_path / "state.json") == {"n": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]
    assert atomic.read_json(tmp_path / "none.json") is None
