"""Files through the agent: content both ways, lists, the small changes, special files (field cases 015, 033, 111)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import struct
import zlib

import pytest

from sandboxes.errors import FileError, Invalid, SandboxError
from tests.guest.guest import DEADLINE_S, Guest, b64, unb64

HOME = "/home/user"


async def refused(awaitable) -> SandboxError:
    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(SandboxError) as caught:
            await awaitable
    return caught.value


def png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")) + chunk(b"IEND", b""))


# -- content -----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("data", [
    png(), os.urandom(1_000_000), bytes(range(256)), b"", b"a\r\nb\r\n", "\ufeffbom".encode(),
    "utf-16".encode("utf-16"), "Latin ß".encode("latin-1"), b"no newline at the end", b"x" * (16 * 1024),
    b"x" * (256 * 1024 + 1)],
    ids=["png", "random", "all-bytes", "empty", "crlf", "bom", "utf-16", "latin-1", "no-newline", "a-frame", "window"])
async def test_any_content_comes_back_byte_for_byte(guest: Guest, data: bytes):
    written = await guest.write(f"{HOME}/content", data)
    assert written["size"] == len(data)
    assert await guest.read(f"{HOME}/content") == data
    assert (await guest.run("sha256sum content")).stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


async def test_a_hundred_megabytes_go_in_and_out(guest: Guest):
    block = os.urandom(1_000_000)
    stream = await guest.link.stream("file.write", {"path_b64": b64(f"{HOME}/large"), "user": "user"})
    for _ in range(100):
        await stream.write(block)
    await stream.write_eof()
    assert (await stream.result())["size"] == 100_000_000
    digest = hashlib.sha256()
    reading = await guest.link.stream("file.read", {"path_b64": b64(f"{HOME}/large"), "user": "user", "offset": 0})
    async for _tag, data in reading:
        digest.update(data)
    assert digest.digest() == hashlib.sha256(block * 100).digest()
    await guest.file("remove", f"{HOME}/large")


async def test_a_range_is_exactly_that_and_never_more_than_there_is(guest: Guest):
    await guest.write(f"{HOME}/ranged", bytes(range(256)) * 1000)
    assert await guest.read(f"{HOME}/ranged", offset=255, length=3) == b"\xff\0\1"
    assert await guest.read(f"{HOME}/ranged", offset=255_990, length=1000) == bytes(range(246, 256))
    assert await guest.read(f"{HOME}/ranged", offset=999_999) == b""
    assert await guest.read(f"{HOME}/ranged", length=0) == b""


async def test_the_head_comes_before_the_bytes_and_names_size_and_etag(guest: Guest):
    etag = (await guest.write(f"{HOME}/headed", b"12345"))["etag"]
    stream = await guest.link.stream("file.read", {"path_b64": b64(f"{HOME}/headed"), "user": "user", "offset": 2})
    assert await stream.head() == {"size": 5, "etag": etag}
    assert [chunk async for chunk in stream] == [(0, b"345")]
    assert await stream.result() == {"sent_bytes": 3}


async def test_a_huge_sparse_file_is_read_by_range_with_flat_memory(guest: Guest):
    await guest.run("truncate -s 500G sparse; "
                    "printf end | dd of=sparse bs=1 seek=536870911997 conv=notrunc status=none")
    assert (await guest.file("stat", f"{HOME}/sparse"))["size"] == 536_870_912_000
    assert await guest.read(f"{HOME}/sparse", offset=536_870_911_990) == b"\0" * 7 + b"end"
    assert len(await guest.read(f"{HOME}/sparse", length=5_000_000)) == 5_000_000
    await guest.file("copy", f"{HOME}/sparse", to=f"{HOME}/sparse-copy")
    assert int((await guest.run("stat -c %b sparse-copy")).stdout) < 100
    assert await guest.read(f"{HOME}/sparse-copy", offset=536_870_911_997) == b"end"


@pytest.mark.parametrize(("make", "path"), [
    ("mkfifo fifo", f"{HOME}/fifo"), ("true", "/dev/zero"), ("true", "/dev/random"), ("true", "/dev/tty"),
    ("python3 -c 'import socket; socket.socket(1).bind(\"sock\")'", f"{HOME}/sock"),
    ("ln -s fifo to-fifo; mkfifo fifo", f"{HOME}/to-fifo")])
async def test_what_has_no_content_is_refused_quickly(guest: Guest, make: str, path: str):
    await guest.run(make)
    assert (await refused(guest.read(path))).code == "not_a_regular_file"
    if path.startswith(HOME):
        assert (await refused(guest.write(path, b"x"))).code == "not_a_regular_file"
        assert (await guest.file("stat", path, follow=True))["type"] in ("fifo", "socket")


async def test_files_of_proc_have_a_size_and_are_read_whole(guest: Guest):
    said = await guest.file("stat", "/proc/version", follow=True)
    content = await guest.read("/proc/version")
    assert content.startswith(b"Linux version") and said["size"] == len(content)
    assert (await refused(guest.read("/proc/kmsg"))).code == "permission_denied"


async def test_reading_what_is_not_there_or_a_folder_is_named(guest: Guest):
    assert (await refused(guest.read(f"{HOME}/nothing"))).code == "file_not_found"
    assert (await refused(guest.read(HOME))).code == "is_a_directory"
    assert (await refused(guest.read(f"{HOME}/content/below"))).code == "not_a_directory"


@pytest.mark.parametrize("path", [b"relative", b"", b"/home/user/nul\0name"])
async def test_a_path_must_be_absolute_without_nul(guest: Guest, path: bytes):
    for method in ("stat", "list", "mkdir", "remove"):
        assert isinstance(await refused(guest.file(method, path)), Invalid)
    assert isinstance(await refused(guest.link.request("file.stat", {"path_b64": "***", "user": "user"})), Invalid)
    assert isinstance(await refused(guest.link.request("file.stat", {"user": "user"})), Invalid)


@pytest.mark.parametrize("name", [
    "漢字 ファイル".encode(), "🙂".encode(), b"\xff\xfe not utf-8 \x80", b"new\nline", b" leading and trailing ",
    b"-rf", b"quote'\"$(x)`y`", b"a" * 255])
async def test_names_of_any_bytes_work_in_every_call(guest: Guest, name: bytes):
    path, moved = b"/home/user/names/" + name, b"/home/user/names/m"
    await guest.write(path, b"content", parents=True)
    assert unb64((await guest.file("stat", path))["path_b64"]) == path
    assert await guest.names("/home/user/names") == [path]
    await guest.file("move", path, to=moved)
    await guest.file("copy", moved, to=path)
    assert await guest.read(path) == b"content"
    await guest.file("remove", "/home/user/names", recursive=True)


async def test_a_name_that_is_too_long_is_named_so(guest: Guest):
    assert (await refused(guest.write(f"{HOME}/{'a' * 256}", b""))).code == "name_too_long"
    assert (await refused(guest.file("stat", "/" + "a/" * 3000))).code == "name_too_long"


# -- writing -----------------------------------------------------------------------------------------------------------

async def test_a_new_file_says_that_it_was_created_and_an_old_one_that_it_was_not(guest: Guest):
    assert (await guest.write(f"{HOME}/fresh", b"1"))["created"] is True
    assert (await guest.write(f"{HOME}/fresh", b"2"))["created"] is False
    assert (await guest.run("stat -c '%a %U %G' fresh")).stdout == b"644 user user\n"


async def test_mode_of_an_existing_file_is_kept_and_may_be_given(guest: Guest):
    await guest.run("echo '#!/bin/sh' > script; chmod 751 script")
    await guest.write(f"{HOME}/script", b"#!/bin/sh\necho hi\n")
    assert (await guest.run("stat -c %a script; ./script")).stdout == b"751\nhi\n"
    await guest.write(f"{HOME}/script", b"", mode=0o600)
    assert (await guest.run("stat -c %a script")).stdout == b"600\n"


async def test_owner_of_an_existing_file_is_kept_when_root_writes(guest: Guest):
    await guest.run("echo mine > owned")
    await guest.write(f"{HOME}/owned", b"by root", user="root")
    assert (await guest.run("stat -c %U owned; cat owned")).stdout == b"user\nby root"


async def test_a_file_of_another_owner_that_one_may_write_keeps_owner_and_inode(guest: Guest):
    await guest.run("mkdir -p /tmp/shared; chmod 755 /tmp/shared; echo old > /tmp/shared/file; "
                    "chmod 666 /tmp/shared/file; ln -f /tmp/shared/file /tmp/shared/other-name", user="root")
    result = await guest.write("/tmp/shared/file", b"new, and longer")
    assert result["created"] is False and result["size"] == 15
    assert (await guest.run("stat -c '%U %a' /tmp/shared/file; cat /tmp/shared/other-name")
            ).stdout == b"root 666\nnew, and longer"
    await guest.write("/tmp/shared/file", b"short")
    assert await guest.read("/tmp/shared/file") == b"short"


async def test_a_read_only_file_is_not_replaced_behind_its_owners_back(guest: Guest):
    await guest.run("echo root > rootfile; chmod 644 rootfile; chown root rootfile; true", user="root", cwd=HOME)
    assert (await refused(guest.write(f"{HOME}/rootfile", b"x"))).code == "permission_denied"
    assert await guest.read(f"{HOME}/rootfile") == b"root\n"


async def test_writing_through_a_link_writes_its_target_and_keeps_the_link(guest: Guest):
    await guest.run("mkdir -p real; echo old > real/target; ln -sf real/target link; ln -sf link second; "
                    "ln -sf real/new dangling")
    await guest.write(f"{HOME}/second", b"through two links")
    await guest.write(f"{HOME}/dangling", b"made")
    assert (await guest.run("readlink link second dangling; cat real/target; echo; cat real/new")).stdout == (
        b"real/target\nlink\nreal/new\nthrough two links\nmade")
    await guest.run("ln -sf loop loop")
    assert (await refused(guest.write(f"{HOME}/loop", b""))).code == "too_many_links"


async def test_folders_above_are_made_only_when_asked_for(guest: Guest):
    assert (await refused(guest.write(f"{HOME}/no/such/folder", b""))).code == "file_not_found"
    await guest.write(f"{HOME}/now/there/is", b"x", parents=True)
    assert await guest.read(f"{HOME}/now/there/is") == b"x"
    assert (await refused(guest.write(f"{HOME}/now/there/is/below", b"", parents=True))).code == "not_a_directory"


async def test_a_cancelled_write_leaves_the_old_file_and_nothing_beside(guest: Guest):
    await guest.write(f"{HOME}/whole/file", b"old", parents=True)
    stream = await guest.link.stream("file.write", {"path_b64": b64(f"{HOME}/whole/file"), "user": "user"})
    await stream.write(os.urandom(300_000))
    await stream.cancel()
    async with asyncio.timeout(DEADLINE_S):
        while len(await guest.names(f"{HOME}/whole")) > 1:
            await asyncio.sleep(0.02)
    assert await guest.read(f"{HOME}/whole/file") == b"old"


async def test_a_full_disk_is_named_and_the_old_file_stays(guest: Guest):
    await guest.run("mkdir -p /tmp/tiny && mount -t tmpfs -o size=64k,mode=1777 tiny /tmp/tiny", user="root")
    await guest.write("/tmp/tiny/file", b"old")
    assert (await refused(guest.write("/tmp/tiny/file", bytes(200_000)))).code == "guest_disk_full"
    assert await guest.read("/tmp/tiny/file") == b"old"
    assert await guest.names("/tmp/tiny") == [b"/tmp/tiny/file"]
    await guest.run("umount /tmp/tiny", user="root")


async def test_a_read_only_file_system_is_named(guest: Guest):
    await guest.run("mkdir -p /tmp/fixed && mount -t tmpfs -o ro fixed /tmp/fixed", user="root")
    assert (await refused(guest.write("/tmp/fixed/file", b"", user="root"))).code == "read_only"
    await guest.run("umount /tmp/fixed", user="root")


# -- lists -------------------------------------------------------------------------------------------------------------

async def test_a_list_is_in_the_order_of_bytes_and_goes_on_from_any_name(guest: Guest):
    await guest.run("mkdir listed; cd listed; touch b B a é Z 10 9; mkdir dir; ln -s nowhere dangling")
    whole = await guest.names(f"{HOME}/listed")
    assert whole == sorted(whole) and len(whole) == 9
    pages, after = [], None
    while True:
        page = await guest.file("list", f"{HOME}/listed", limit=2, **({"after_b64": b64(after)} if after else {}))
        pages += [unb64(entry["path_b64"]) for entry in page["entries"]]
        if not page["more"]:
            break
        after = pages[-1]
    assert pages == whole


async def test_entries_say_what_they_are(guest: Guest):
    await guest.run("mkdir kinds; cd kinds; echo 12345 > file; mkdir dir; ln -s /nowhere link; mkfifo fifo; "
                    "chmod 4711 file")
    entries = {unb64(entry["path_b64"]).rpartition(b"/")[2]: entry
               for entry in (await guest.file("list", f"{HOME}/kinds", limit=10))["entries"]}
    assert {name: entry["type"] for name, entry in entries.items()} == {
        b"file": "file", b"dir": "directory", b"link": "symlink", b"fifo": "fifo"}
    file = entries[b"file"]
    assert (file["size"], file["mode"], file["owner"], file["group"]) == (6, 0o4711, "user", "user")
    assert unb64(entries[b"link"]["target_b64"]) == b"/nowhere"
    assert file == await guest.file("stat", f"{HOME}/kinds/file")


async def test_a_recursive_list_goes_depth_first_follows_no_link_and_pages(guest: Guest):
    await guest.run("mkdir -p tree/a/deep tree/b; touch tree/a/1 tree/a/deep/x tree/a-file tree/b/2 tree/c; "
                    "ln -s . tree/b/loop")
    whole = await guest.names(f"{HOME}/tree", recursive=True)
    short = [path.removeprefix(b"/home/user/tree/") for path in whole]
    assert short == [b"a", b"a/1", b"a/deep", b"a/deep/x", b"a-file", b"b", b"b/2", b"b/loop", b"c"]
    for limit in (1, 2, 3, 5, 100):
        pages: list[bytes] = []
        while True:
            more = {"after_b64": b64(pages[-1])} if pages else {}
            page = await guest.file("list", f"{HOME}/tree", limit=limit, recursive=True, **more)
            pages += [unb64(entry["path_b64"]) for entry in page["entries"]]
            if not page["more"]:
                break
        assert pages == whole


async def test_a_list_of_what_is_no_folder_is_named(guest: Guest):
    await guest.write(f"{HOME}/plain", b"")
    assert (await refused(guest.file("list", f"{HOME}/plain"))).code == "not_a_directory"
    for limit in (0, 10_001, "5", True):
        assert isinstance(await refused(guest.file("list", HOME, limit=limit)), Invalid)


async def test_a_stat_of_a_link_is_the_link_or_its_target(guest: Guest):
    await guest.run("echo 123 > pointed; ln -sf pointed pointer; ln -sf nowhere lost")
    assert (await guest.file("stat", f"{HOME}/pointer"))["type"] == "symlink"
    assert (await guest.file("stat", f"{HOME}/pointer", follow=True))["size"] == 4
    assert (await guest.file("stat", f"{HOME}/lost"))["type"] == "symlink"
    assert (await refused(guest.file("stat", f"{HOME}/lost", follow=True))).code == "file_not_found"
    assert (await guest.file("stat", "/"))["type"] == "directory"


# -- small changes -----------------------------------------------------------------------------------------------------

async def test_folders_are_made_once_or_with_all_above(guest: Guest):
    await guest.file("mkdir", f"{HOME}/made", mode=0o750)
    assert (await guest.file("stat", f"{HOME}/made"))["mode"] == 0o750
    assert (await refused(guest.file("mkdir", f"{HOME}/made"))).code == "file_exists"
    assert (await refused(guest.file("mkdir", f"{HOME}/x/y"))).code == "file_not_found"
    await guest.file("mkdir", f"{HOME}/x/y", parents=True)
    await guest.file("mkdir", f"{HOME}/x/y", parents=True)
    await guest.write(f"{HOME}/x/file", b"")
    assert (await refused(guest.file("mkdir", f"{HOME}/x/file", parents=True))).code == "not_a_directory"


async def test_a_move_replaces_only_when_told_to(guest: Guest):
    await guest.write(f"{HOME}/from", b"from")
    await guest.write(f"{HOME}/to", b"to")
    assert (await refused(guest.file("move", f"{HOME}/from", to=f"{HOME}/to"))).code == "file_exists"
    assert await guest.read(f"{HOME}/to") == b"to"
    await guest.file("move", f"{HOME}/from", to=f"{HOME}/to", overwrite=True)
    assert await guest.read(f"{HOME}/to") == b"from"
    assert (await refused(guest.file("move", f"{HOME}/from", to=f"{HOME}/to"))).code == "file_not_found"


async def test_a_move_to_another_file_system_arrives_whole(guest: Guest):
    await guest.run("mkdir -p /tmp/other && mount -t tmpfs -o mode=1777 other /tmp/other", user="root")
    await guest.run("mkdir -p moving/deep; echo 1 > moving/deep/file; ln -s deep/file moving/link")
    await guest.file("move", f"{HOME}/moving", to="/tmp/other/moved")
    assert (await guest.run("cat /tmp/other/moved/link; ls -d moving")).stdout == b"1\n"
    await guest.run("umount /tmp/other", user="root")


async def test_a_copy_keeps_modes_links_and_content(guest: Guest):
    await guest.run("mkdir -p source/deep; echo 1 > source/deep/file; chmod 640 source/deep/file; "
                    "ln -s deep/file source/link; chmod 750 source/deep")
    await guest.file("copy", f"{HOME}/source", to=f"{HOME}/copied")
    said = await guest.run("cd copied; stat -c '%a %F' deep deep/file link; readlink link; cat deep/file")
    assert said.stdout == b"750 directory\n640 regular file\n777 symbolic link\ndeep/file\n1\n"
    assert (await refused(guest.file("copy", f"{HOME}/source", to=f"{HOME}/copied"))).code == "file_exists"
    assert isinstance(await refused(guest.file("copy", f"{HOME}/source", to=f"{HOME}/source/deep/in")), Invalid)
    await guest.run("mkfifo source/fifo; ln -s source/deep to-deep; "
                    "python3 -c 'import socket; socket.socket(1).bind(\"source/sock\")'")
    await guest.file("copy", f"{HOME}/source", to=f"{HOME}/again")
    assert (await guest.run("ls again; stat -c %F again/fifo")).stdout == b"deep\nfifo\nlink\nfifo\n"
    assert (await refused(guest.file("copy", f"{HOME}/source/sock", to=f"{HOME}/sock"))).code == "not_a_regular_file"
    assert isinstance(await refused(guest.file("copy", f"{HOME}/source", to=f"{HOME}/to-deep/in")), Invalid)


async def test_removing_a_link_leaves_its_target(guest: Guest):
    await guest.run("mkdir -p kept; touch kept/file; ln -s kept to-kept; ln -s kept/file to-file")
    await guest.file("remove", f"{HOME}/to-kept", recursive=True)
    await guest.file("remove", f"{HOME}/to-file")
    assert (await guest.run("ls kept")).stdout == b"file\n"


async def test_a_folder_is_removed_empty_or_with_all_below(guest: Guest):
    await guest.run("mkdir -p full/a/b/c full/d; touch full/a/b/c/file full/x; ln -s /etc full/etc")
    assert (await refused(guest.file("remove", f"{HOME}/full"))).code == "directory_not_empty"
    await guest.file("remove", f"{HOME}/full", recursive=True)
    assert f"{HOME}/full".encode() not in await guest.names(HOME)
    assert (await guest.run("ls /etc/passwd")).outcome == {"kind": "exited", "code": 0}
    assert (await refused(guest.file("remove", f"{HOME}/full"))).code == "file_not_found"
    for path in ("/", "/home/user/.", "/home/user/.."):
        assert (await refused(guest.file("remove", path, recursive=True))).code == "invalid"


async def test_a_tree_deeper_than_any_path_is_listed_copied_and_removed(guest: Guest):
    script = ("import os\nos.mkdir('abyss'); os.chdir('abyss')\n"
              "for _ in range(500): os.mkdir('d' * 10); os.chdir('d' * 10)")
    assert (await guest.run(argv=["python3", "-c", script])).outcome == {"kind": "exited", "code": 0}
    assert len((await guest.file("list", f"{HOME}/abyss", limit=1000, recursive=True))["entries"]) == 500
    await guest.file("copy", f"{HOME}/abyss", to=f"{HOME}/abyss-copy")
    await guest.file("remove", f"{HOME}/abyss", recursive=True)
    await guest.file("remove", f"{HOME}/abyss-copy", recursive=True)
    assert not [name for name in await guest.names(HOME) if b"abyss" in name]


async def test_a_mode_is_changed_through_a_link_and_wrong_ones_are_invalid(guest: Guest):
    await guest.run("touch moded; ln -sf moded to-moded")
    await guest.file("chmod", f"{HOME}/to-moded", mode=0o400)
    assert (await guest.file("stat", f"{HOME}/moded"))["mode"] == 0o400
    for mode in (-1, 0o10000, "644", None):
        assert isinstance(await refused(guest.file("chmod", f"{HOME}/moded", mode=mode)), Invalid)


async def test_more_streams_than_there_is_room_for_are_told_to_come_back(guest: Guest):
    await guest.write(f"{HOME}/slow", os.urandom(2_000_000))
    params = {"path_b64": b64(f"{HOME}/slow"), "user": "user", "offset": 0}
    streams = [await guest.link.stream("file.read", params) for _ in range(33)]
    with pytest.raises(SandboxError) as busy:
        await streams[-1].result()
    assert busy.value.code == "busy"
    assert (await guest.file("stat", f"{HOME}/slow"))["size"] == 2_000_000
    for stream in streams:
        await stream.cancel()
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                assert len(await guest.read(f"{HOME}/slow")) == 2_000_000
                break
            except SandboxError as error:
                assert error.code == "busy" and not isinstance(error, FileError)
