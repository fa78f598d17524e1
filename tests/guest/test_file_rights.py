"""The file calls can do what the user can, and never more (field cases 012, 032, 124)."""

from __future__ import annotations

import asyncio
import os

import pytest

from sandboxes.errors import FileError, Invalid, SandboxError
from tests.guest.guest import DEADLINE_S, Guest, b64
from tests.guest.test_files import HOME, refused

FORBIDDEN = ["/etc/shadow", "/proc/1/environ", "/proc/1/mem", "/root/secret", "/tmp/roots/inner", "/mnt/agent.sock"]


@pytest.fixture(autouse=True)
async def closed_places(guest: Guest):
    await guest.run("mkdir -p /tmp/roots && echo secret > /tmp/roots/inner && chmod 700 /tmp/roots", user="root")


# -- exactly the user's rights -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("target", FORBIDDEN)
async def test_a_planted_link_opens_nothing_the_user_cannot_open(guest: Guest, target: str):
    await guest.run(f"rm -rf planted; ln -s {target} planted")
    allowed = ("permission_denied", "file_not_found", "not_a_regular_file", "invalid")
    assert (await refused(guest.read(f"{HOME}/planted"))).code in allowed
    assert (await refused(guest.write(f"{HOME}/planted", b"x"))).code in allowed
    assert (await refused(guest.file("chmod", f"{HOME}/planted", mode=0o777))).code in allowed
    assert (await refused(guest.file("list", f"{HOME}/planted"))).code in (*allowed, "not_a_directory")
    await guest.file("remove", f"{HOME}/planted", recursive=True)
    assert (await guest.run("cat /tmp/roots/inner", user="root")).stdout == b"secret\n"


@pytest.mark.parametrize("path", [
    "/proc/self/environ", "/proc/self/mem", "/proc/self/maps", "/proc/self/fd/3", "/proc/self/fd",
    "/proc/thread-self/environ", "/proc/self/root/etc/passwd", "/proc/self/cwd", "/proc/self/exe",
    "/proc/self/task", "/dev/stdin", "/dev/fd/4"])
async def test_nothing_of_the_agents_own_is_readable(guest: Guest, path: str):
    for user in ("user", "root"):
        assert isinstance(await refused(guest.read(path, user=user)), FileError)
        assert isinstance(await refused(guest.file("list", path, user=user)), FileError)
        assert isinstance(await refused(guest.write(path, b"", user=user)), SandboxError)


async def test_the_users_own_processes_stay_readable(guest: Guest):
    exec_id = await guest.start("exec sleep 60", env={"SECRET_OF_MINE": "1"})
    pid = {each["exec_id"]: each["pid"] for each in (await guest.link.request("exec.list"))["execs"]}[exec_id]
    assert b"SECRET_OF_MINE=1" in await guest.read(f"/proc/{pid}/environ")
    await guest.link.request("exec.kill", {"exec_id": exec_id})


async def test_every_call_is_refused_where_the_user_has_no_rights(guest: Guest):
    inner = "/tmp/roots/inner"
    calls = [guest.read(inner), guest.write(inner, b""), guest.write("/tmp/roots/new", b""),
             guest.write("/etc/new", b""), guest.file("stat", inner), guest.file("list", "/tmp/roots"),
             guest.file("mkdir", "/tmp/roots/dir"),
             guest.file("remove", "/tmp/roots", recursive=True), guest.file("move", inner, to=f"{HOME}/stolen"),
             guest.file("copy", inner, to=f"{HOME}/stolen"), guest.file("chmod", "/tmp/roots", mode=0o777),
             guest.file("chmod", "/etc/hostname", mode=0o666), guest.file("move", "/etc/hostname", to="/etc/other")]
    assert [(await refused(call)).code for call in calls] == ["permission_denied"] * len(calls)
    assert (await guest.run("ls /tmp/roots; stat -c %a /tmp/roots", user="root")).stdout == b"inner\n700\n"


async def test_root_may_what_root_may(guest: Guest):
    assert await guest.read("/tmp/roots/inner", user="root") == b"secret\n"
    await guest.write("/tmp/roots/new", b"x", user="root")
    await guest.file("remove", "/tmp/roots/new", user="root")


async def test_the_groups_of_a_user_count(guest: Guest):
    await guest.run("echo grouped > /tmp/grouped; chgrp 1000 /tmp/grouped; chmod 640 /tmp/grouped", user="root")
    assert await guest.read("/tmp/grouped") == b"grouped\n"
    assert (await refused(guest.read("/tmp/grouped", user="nobody"))).code == "permission_denied"


async def test_a_users_files_belong_to_the_user_and_set_id_bits_are_the_kernels_to_drop(guest: Guest):
    await guest.write("/tmp/mine", b"", user="nobody")
    assert (await guest.file("stat", "/tmp/mine"))["owner"] == "nobody"
    assert (await refused(guest.write("/tmp/mine", b"x"))).code == "permission_denied"
    assert (await refused(guest.file("remove", "/tmp/mine"))).code == "permission_denied"  # /tmp is sticky


async def test_a_user_who_is_not_there_is_invalid_and_named(guest: Guest):
    error = await refused(guest.file("stat", HOME, user="nobody-here"))
    assert isinstance(error, Invalid) and "nobody-here" in error.detail


async def test_calls_of_two_users_at_once_never_mix_their_rights(guest: Guest):
    async def as_user() -> None:
        for _ in range(40):
            assert (await refused(guest.read("/tmp/roots/inner"))).code == "permission_denied"

    async def as_root() -> None:
        for _ in range(40):
            assert await guest.read("/tmp/roots/inner", user="root") == b"secret\n"
    await asyncio.gather(as_user(), as_root(), as_user(), as_root())


async def test_swapping_a_link_while_calls_run_never_wins(guest: Guest):
    """Field case 012: the rights are the thread's, so there is no moment to hit."""
    swap = ("import os\nwhile True:\n"
            " for t in ('/tmp/roots/inner', '/home/user/fair'):\n"
            "  os.symlink(t, 'new'); os.rename('new', 'swapped')\n")
    await guest.write(f"{HOME}/fair", b"fair")
    exec_id = await guest.start(argv=["python3", "-c", swap])
    seen: set[bytes | str] = set()
    for _ in range(150):
        try:
            seen.add(await guest.read(f"{HOME}/swapped"))
        except FileError as error:
            seen.add(error.code)
        try:
            await guest.write(f"{HOME}/swapped", b"fair")
        except FileError as error:
            seen.add(error.code)
    await guest.link.request("exec.kill", {"exec_id": exec_id})
    # A link that was put there between two looks is a link, not a file, and is left alone under that name.
    assert seen <= {b"fair", "permission_denied", "file_not_found", "not_a_regular_file"}
    assert (await guest.run("cat /tmp/roots/inner", user="root")).stdout == b"secret\n"


async def test_the_user_cannot_signal_or_trace_the_agent_while_it_acts_for_him(guest: Guest):
    await guest.write(f"{HOME}/held", os.urandom(2_000_000))
    stream = await guest.link.stream("file.read", {"path_b64": b64(f"{HOME}/held"), "user": "user", "offset": 0})
    await stream.head()
    ran = await guest.run("for t in /proc/$PPID/task/*; do kill -9 ${t##*/} && echo killed; "
                          "cat $t/environ && echo read; done")
    assert b"killed" not in ran.stdout and b"read" not in ran.stdout and b"not permitted" in ran.stderr
    await stream.cancel()


# -- conflicts ---------------------------------------------------------------------------------------------------------

async def test_the_second_writer_with_the_same_etag_is_refused_with_the_new_one(guest: Guest):
    first = await guest.write(f"{HOME}/edited", b"base")
    second = await guest.write(f"{HOME}/edited", b"one", if_match=first["etag"])
    error = await refused(guest.write(f"{HOME}/edited", b"two", if_match=first["etag"]))
    assert error.code == "precondition_failed" and error.extra["etag"] == second["etag"]
    assert await guest.read(f"{HOME}/edited") == b"one"


async def test_of_many_writers_at_once_with_one_etag_exactly_one_wins(guest: Guest):
    etag = (await guest.write(f"{HOME}/raced", b"base"))["etag"]

    async def write(number: int) -> bool:
        try:
            await guest.write(f"{HOME}/raced", b"%d" % number, if_match=etag)
        except FileError as error:
            assert error.code == "precondition_failed"
            return False
        return True
    async with asyncio.timeout(DEADLINE_S):
        won = await asyncio.gather(*(write(number) for number in range(12)))
    assert won.count(True) == 1
    assert await guest.read(f"{HOME}/raced") == b"%d" % won.index(True)


async def test_of_many_creators_at_once_exactly_one_wins(guest: Guest):
    async def create() -> bool:
        try:
            await guest.write(f"{HOME}/only-once", b"", if_none_match="*")
        except FileError as error:
            assert error.code == "precondition_failed"
            return False
        return True
    assert (await asyncio.gather(*(create() for _ in range(12)))).count(True) == 1


@pytest.mark.parametrize("change", [
    "echo other > watched", "printf X | dd of=watched conv=notrunc status=none", "mv watched w2; cp -p w2 watched",
    "touch -d '2001-01-01' watched", "chmod 600 watched"])
async def test_any_change_in_the_guest_changes_the_etag(guest: Guest, change: str):
    etag = (await guest.write(f"{HOME}/watched", b"12345\n"))["etag"]
    assert (await guest.file("stat", f"{HOME}/watched"))["etag"] == etag
    await guest.run(f"sleep 0.02; {change}")
    assert (await refused(guest.write(f"{HOME}/watched", b"", if_match=etag))).code == "precondition_failed"


async def test_an_etag_is_stable_while_nothing_changes(guest: Guest):
    """Field case 124: no tolerance, no clock; saving a large file over and over is never a conflict."""
    etag = (await guest.write(f"{HOME}/steady", bytes(7_000_000)))["etag"]
    for number in range(5):
        await guest.read(f"{HOME}/steady")
        etag = (await guest.write(f"{HOME}/steady", bytes([number]) * 7_000_000, if_match=etag))["etag"]


async def test_a_precondition_on_what_is_not_there_is_refused(guest: Guest):
    assert (await refused(guest.write(f"{HOME}/missing", b"", if_match="*"))).code == "precondition_failed"
    await guest.write(f"{HOME}/missing", b"", if_none_match="*")
    await guest.write(f"{HOME}/missing", b"1", if_match="*")
    etag = (await guest.file("stat", f"{HOME}/missing"))["etag"]
    await guest.write(f"{HOME}/missing", b"2", if_match=f'"other", "{etag}"')
