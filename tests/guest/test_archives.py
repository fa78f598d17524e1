"""Tar out of a guest and into one: what other tars make of it, and what hostile archives come to (field case 015)."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import subprocess
import tarfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxes.errors import FileError, Invalid, SandboxError
from sandboxes.guest.agent import tarread
from sandboxes.guest.agent.tarheaders import BadArchive
from tests.guest.guest import DEADLINE_S, Guest, b64

HOME = "/home/user"


async def archived(guest: Guest, path: str, user: str = "user") -> tuple[bytes, dict]:
    stream = await guest.link.stream("file.archive", {"path_b64": b64(path), "user": user})
    async with asyncio.timeout(DEADLINE_S):
        await stream.head()
        data = b"".join([data async for _tag, data in stream])
        return data, await stream.result()


async def extracted(guest: Guest, path: str, data: bytes, **params) -> dict:
    stream = await guest.link.stream("file.extract", {"path_b64": b64(path), "user": "user", **params}, reads=False)
    async with asyncio.timeout(DEADLINE_S):
        try:
            await stream.write(data)
            await stream.write_eof()
        except SandboxError:
            pass  # refused before its end: the result says why
        return await stream.result()


async def refused(guest: Guest, path: str, data: bytes, **params) -> SandboxError:
    with pytest.raises(SandboxError) as caught:
        await extracted(guest, path, data, **params)
    return caught.value


def tar_of(*entries: tuple[str, dict], form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form, encoding="utf-8", errors="surrogateescape") as archive:
        for name, fields in entries:
            data = fields.pop("data", b"")
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for field, value in fields.items():
                setattr(info, field, value)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


MAKE = r"""
rm -rf tree; mkdir -p tree/deep/er tree/empty; cd tree
echo hello > deep/er/file; chmod 750 deep; chmod 640 deep/er/file; touch -d '2001-02-03 04:05:06' deep/er/file
ln deep/er/file second-name; ln -s ../nowhere dangling; ln -s /etc/passwd outside; mkfifo pipe
python3 -c 'import socket; socket.socket(1).bind("sock")'
touch "$(printf 'new\nline')" "$(printf 'bytes\377\200')" "$(printf '%0255d' 0)"
mkdir -p "$(printf '%0200d' 1)/$(printf '%0200d' 2)"; echo long > "$(printf '%0200d' 1)/$(printf '%0200d' 2)/f"
truncate -s 300M sparse; printf mid | dd of=sparse bs=1 seek=150000000 conv=notrunc status=none
truncate -s 100M hollow
python3 -c 'f = open("holes", "wb")
for at in range(60): f.seek(at * 131072); f.write(b"data %d" % at)
f.truncate(60 * 131072)'
"""


async def test_a_tree_goes_out_as_every_tar_reads_it_and_comes_back_the_same(guest: Guest, tmp_path: Path):
    ran = await guest.run(MAKE)
    assert ran.outcome == {"kind": "exited", "code": 0}, ran.stderr
    data, result = await archived(guest, f"{HOME}/tree")
    assert len(data) < 3_000_000 and result["left_out"] == 0
    (tmp_path / "a.tar").write_bytes(data)
    (tmp_path / "gnu").mkdir()
    unpacked = subprocess.run(["tar", "-xf", "../a.tar"], cwd=tmp_path / "gnu", capture_output=True)
    assert (unpacked.returncode, unpacked.stderr) == (0, b"")
    say = "find . ! -name . -printf '%P|%y|%m|%l|%n|%s|%Ts\\n' | grep -av sock | sort"
    there = (await guest.run(f"cd tree; {say}")).stdout
    made = subprocess.run(["sh", "-c", say], cwd=tmp_path / "gnu", check=True, capture_output=True).stdout
    folders = [line for line in there.splitlines() if b"|d|" in line]
    assert len(folders) >= 4 and b"second-name|f|640||2|6|" in made
    keep = lambda lines: [line for line in lines.splitlines() if b"|l|" not in line]  # noqa: E731 - a link's time
    assert [line.rpartition(b"|")[0] if b"|d|" in line else line for line in keep(made)] == [
        line.rpartition(b"|")[0] if b"|d|" in line else line for line in keep(there)]
    sparse = tmp_path / "gnu" / "sparse"
    assert sparse.stat().st_blocks * 512 < 1_000_000 and sparse.stat().st_size == 300 * 1024**2
    with sparse.open("rb") as file:
        file.seek(150_000_000)
        assert file.read(5) == b"mid\0\0"
    with tarfile.open(tmp_path / "a.tar", encoding="utf-8", errors="surrogateescape") as archive:
        assert os.fsdecode(b"bytes\xff\x80") in archive.getnames()
        assert archive.extractfile("holes").read(131080)[131072:] == b"data 1\0\0"
    await extracted(guest, f"{HOME}/tree-back", data, parents=True)
    differs = await guest.run("rm tree/sock; tar -C tree -cf - . | (cd tree-back && tar -df -) && "
                              "du -k tree-back/sparse")
    assert differs.outcome == {"kind": "exited", "code": 0}, differs.stdout + differs.stderr
    assert int(differs.stdout.split()[0]) < 1000
    kept = await guest.run("stat -c %h tree-back/second-name; readlink tree-back/outside")
    assert kept.stdout == b"2\n/etc/passwd\n"


@pytest.mark.parametrize("how", [["--format=gnu", "--sparse"], ["--format=posix", "--sparse"], ["--format=ustar"],
                                 ["--format=v7"], ["--format=posix", "--sparse", "--sparse-version=0.1"]])
async def test_archives_of_every_form_are_taken(guest: Guest, tmp_path: Path, how: list[str]):
    tree = tmp_path / "t"
    tree.mkdir()
    (tree / "a").write_bytes(os.urandom(70_000))
    (tree / "l").symlink_to("a")
    (tree / "n").mkdir()
    (tree / "n" / ("x" * 90)).write_bytes(b"long")
    if "--sparse" in how:
        with (tree / "s").open("wb") as file:
            for at in range(30):
                file.seek(at * 1_000_000)
                file.write(b"x%d" % at)
            file.truncate(50_000_000)
    data = subprocess.run(["tar", "-cf", "-", *how, "."], cwd=tree, check=True, capture_output=True).stdout
    await guest.run("rm -rf /home/user/forms", user="root")
    await extracted(guest, f"{HOME}/forms", data, parents=True)
    sums = "find . -type f -exec sha256sum {} + | sort"
    expected = subprocess.run(["sh", "-c", sums], cwd=tree, check=True, capture_output=True).stdout
    assert (await guest.run(f"cd forms; {sums}")).stdout == expected
    assert (await guest.run("readlink forms/l; stat -c %U forms/a")).stdout == b"a\nuser\n"


HOSTILE = [
    ("absolute", [("/tmp/out", {"data": b"x"})], "leads out"),
    ("above", [("a/../../out", {"data": b"x"})], "leads out"),
    ("through a link", [("l", {"type": tarfile.SYMTYPE, "linkname": "/tmp"}), ("l/out", {"data": b"x"})], "leads out"),
    ("through a link above", [("l", {"type": tarfile.SYMTYPE, "linkname": ".."}), ("l/out", {"data": b"x"})],
     "leads out"),
    ("hard link out", [("h", {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"})], "leads out"),
    ("hard link above", [("h", {"type": tarfile.LNKTYPE, "linkname": "../../../etc/passwd"})], "leads out"),
    ("hard link through a link", [("l", {"type": tarfile.SYMTYPE, "linkname": "/etc"}),
                                  ("h", {"type": tarfile.LNKTYPE, "linkname": "l/passwd"})], "leads out"),
    ("device", [("zero", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 5})], "device"),
    ("block device", [("disk", {"type": tarfile.BLKTYPE})], "device"),
    ("kind of nobody", [("odd", {"type": b"Z"})], "not taken"),
]


@pytest.mark.parametrize(("entries", "said"), [each[1:] for each in HOSTILE], ids=[each[0] for each in HOSTILE])
async def test_what_a_hostile_archive_asks_for_is_refused_by_name(guest: Guest, entries: list, said: str):
    await guest.run("rm -rf /tmp/out /home/user/out hostile; mkdir hostile")
    entries = [(name, dict(fields)) for name, fields in entries]
    error = await refused(guest, f"{HOME}/hostile", tar_of(("before", {"data": b"1"}), *entries))
    assert isinstance(error, Invalid) and said in error.detail and "entries" in error.detail, error.detail
    left = await guest.run("ls /tmp/out /home/user/out; cat hostile/before; ls -A hostile | grep -a berth")
    assert left.stdout == b"1"


async def test_a_link_to_outside_is_kept_and_what_is_there_is_replaced_never_followed(guest: Guest):
    await guest.run("rm -rf kept; mkdir kept; echo precious > precious; ln -s ../precious kept/f; ln precious kept/h")
    data = tar_of(("f", {"data": b"new"}), ("h", {"data": b"new"}),
                  ("to", {"type": tarfile.SYMTYPE, "linkname": "/etc"}), ("su", {"data": b"x", "mode": 0o6755}),
                  ("d", {"type": tarfile.DIRTYPE, "mode": 0o500}),
                  ("d/in", {"data": b"in"}))
    assert await extracted(guest, f"{HOME}/kept", data) == {"entries": 6, "bytes": 9}
    said = await guest.run("cat precious kept/f kept/h kept/d/in; echo; stat -c '%F %a' kept/f kept/su kept/d; "
                           "chmod 700 kept/d")
    assert said.stdout == b"precious\nnewnewin\nregular file 644\nregular file 755\ndirectory 500\n"


@pytest.mark.parametrize(("data", "said"), [
    (b"", "without its end"), (b"x" * 2000, "no tar"), (b"\x1f\x8b" + bytes(600), "compressed"),
    (tar_of(("a", {"data": b"x" * 5000}))[:3000], "in the middle"),
    (tar_of(("a", {"data": b"x"}))[:1024], "without its end")])
async def test_what_is_no_whole_archive_is_refused(guest: Guest, data: bytes, said: str):
    error = await refused(guest, HOME, data)
    assert isinstance(error, Invalid) and said in error.detail, error.detail


async def test_a_header_that_claims_gigabytes_is_refused_before_they_come(guest: Guest):
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 4 * 1024**3
    error = await refused(guest, HOME, info.tobuf(tarfile.GNU_FORMAT) + b"a" * 500_000)
    assert "a header of" in error.detail


async def test_rights_and_a_full_disk_have_their_names_here_too(guest: Guest):
    assert (await refused(guest, "/root", tar_of(("a", {})))).code == "permission_denied"
    assert (await refused(guest, "/etc", tar_of(("a", {})))).code == "permission_denied"
    assert (await refused(guest, f"{HOME}/not-there", tar_of(("a", {})))).code == "file_not_found"
    await guest.run("mkdir -p /tmp/small && mount -t tmpfs -o size=64k,mode=1777 small /tmp/small", user="root")
    error = await refused(guest, "/tmp/small", tar_of(("a", {"data": b"1"}), ("b", {"data": bytes(200_000)})))
    assert error.code == "guest_disk_full" and "after 1 entries" in error.detail
    assert (await guest.run("ls -A /tmp/small; umount /tmp/small", user="root")).stdout == b"a\n"
    with pytest.raises(FileError):
        await archived(guest, "/root")
    with pytest.raises(FileError):
        await archived(guest, "/dev/zero")


async def test_what_cannot_be_read_is_left_out_and_counted(guest: Guest):
    await guest.run("rm -rf mixed; mkdir -p mixed/shut; echo 1 > mixed/mine; echo 2 > mixed/theirs; "
                    "echo 3 > mixed/shut/in; chmod 600 mixed/theirs; chown root mixed/theirs mixed/shut; "
                    "chmod 700 mixed/shut",
                    user="root", cwd=HOME)
    data, result = await archived(guest, f"{HOME}/mixed")
    assert result["left_out"] == 2 and b"left out, because it could not be read: 2" in data
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        assert archive.getnames() == ["mine", "shut"]
    assert subprocess.run(["tar", "-tf", "-"], input=data, capture_output=True).stderr == b""


async def test_one_file_is_an_archive_of_one_and_an_empty_folder_of_none(guest: Guest):
    await guest.run("rm -rf none; mkdir none; echo x > one; ln -sf one to-one")
    with tarfile.open(fileobj=io.BytesIO((await archived(guest, f"{HOME}/to-one"))[0])) as archive:
        assert archive.getnames() == ["to-one"] and archive.extractfile("to-one").read() == b"x\n"
    assert await archived(guest, f"{HOME}/none") == (bytes(1024), {"entries": 0, "left_out": 0})


async def test_links_swapped_while_an_archive_comes_in_never_lead_out(guest: Guest):
    """The kernel resolves beneath the folder: there is no moment to hit."""
    await guest.run("rm -rf race /tmp/race-out; mkdir -p race/d /tmp/race-out")
    swap = ("import os, shutil\ndef tried(act, *names):\n try: act(*names)\n except OSError: pass\n"
            "while True:\n tried(os.rename, 'race/d', 'race/e'); tried(os.symlink, '/tmp/race-out', 'race/d')\n"
            " tried(os.unlink, 'race/d'); tried(shutil.rmtree, 'race/d'); tried(os.rename, 'race/e', 'race/d')\n")
    exec_id = await guest.start(argv=["python3", "-c", swap])
    data = tar_of(*((f"d/{number}", {"data": b"x"}) for number in range(30)))
    codes: set[str] = set()
    until = time.monotonic() + DEADLINE_S
    while "invalid" not in codes and time.monotonic() < until:  # until a link was met where a folder should have been
        try:
            await extracted(guest, f"{HOME}/race", data)
        except SandboxError as error:
            assert error.code in ("invalid", "file_not_found", "not_a_directory", "too_many_links", "permission_denied")
            codes.add(error.code)
    await guest.link.request("exec.kill", {"exec_id": exec_id})
    assert (await guest.run("ls -A /tmp/race-out")).stdout == b"" and "invalid" in codes


# -- the reader alone --------------------------------------------------------------------------------------------------

def _all(data: bytes) -> int:
    """Entries of an archive, as `archivein` goes through it."""
    source, count = io.BytesIO(data), 0
    while (entry := tarread.next_entry(source.read)) is not None:
        assert entry.size >= 0 and len(entry.name) <= 64 * 1024
        source.seek(entry.size + (-entry.size % 512), io.SEEK_CUR)
        count += 1
    return count


SOUND = tar_of(("a" * 150, {"data": b"x" * 700}), ("l", {"type": tarfile.SYMTYPE, "linkname": "b" * 200}),
               ("d", {"type": tarfile.DIRTYPE}), form=tarfile.PAX_FORMAT)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(SOUND) - 1), st.integers(0, 255)), max_size=12), st.booleans())
def test_a_damaged_archive_is_read_or_refused_and_nothing_else(damage: list[tuple[int, int]], resealed: bool):
    data = bytearray(SOUND)
    for at, value in damage:
        data[at] = value
    if resealed:
        for at in range(0, len(data), 512):
            if any(data[at:at + 512]) and data[at + 257:at + 262] == b"ustar":
                total = sum(data[at:at + 148]) + 256 + sum(data[at + 156:at + 512])
                data[at + 148:at + 156] = b"%06o\0 " % total
    with contextlib.suppress(BadArchive):
        _all(bytes(data))


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.text(min_size=1, max_size=20).filter(lambda key: "=" not in key and "\0" not in key),
                       st.text(max_size=60), max_size=6), st.integers(0, 2**40))
def test_pax_headers_of_anybody_are_read_or_refused(records: dict[str, str], size: int):
    info = tarfile.TarInfo("name")
    info.size, info.pax_headers = 0, {**records, "GNU.sparse.size": str(size)}
    with contextlib.suppress(BadArchive, UnicodeEncodeError):
        _all(info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogatepass") + bytes(1024))
