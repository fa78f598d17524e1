"""Users in the guest: an exec is exactly who it names, in that user's own place (field cases 115, 120, 129, 133)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sandboxes.errors import Invalid
from tests.guest.guest import Guest

HOME = "/tmp/eve"
NEW = f"eve:x:1555:1555:Eve:{HOME}:/bin/sh"
LOST = "lost:x:1556:1555::/nowhere:/bin/gone"
GROUPS = ("eve:x:1555:", "ops:x:1600:someone,eve", "audio-like:x:1601:eve")
SHOW = "import os\nprint(*(os.environ.get(n) for n in ('HOME','USER','LOGNAME','SHELL','PATH')), os.getcwd(), sep='|')"


@pytest.fixture
async def eve(guest: Guest) -> AsyncIterator[str]:
    """A user who came after the agent started, with groups, a home and a shell of her own."""
    tables = {guest.root / "etc" / name: lines for name, lines in (("passwd", (NEW, LOST)), ("group", GROUPS))}
    kept = {path: path.read_text() for path in tables}
    for path, lines in tables.items():
        path.write_text(kept[path] + "".join(f"{line}\n" for line in lines))
    made = await guest.run(f"mkdir {HOME} && chown 1555:1555 {HOME} && chmod 700 {HOME}", user="root")
    assert made.outcome == {"kind": "exited", "code": 0}, made.stderr
    yield "eve"
    for path, text in kept.items():
        path.write_text(text)
    await guest.run(f"rm -rf {HOME}", user="root")


@pytest.mark.parametrize("by", ["eve", "1555"])
async def test_a_user_by_name_or_number_gets_her_own_home_shell_path_and_groups(guest: Guest, eve: str, by: str):
    ran = await guest.run(argv=["python3", "-c", SHOW], user=by)
    home, user, logname, shell, path, cwd = ran.stdout.decode().strip().split("|")
    assert (home, user, logname, shell, cwd) == (HOME, "eve", "eve", "/bin/sh", HOME)
    assert path.split(":")[0] == f"{HOME}/.local/bin" and "/usr/bin" in path.split(":")
    assert (await guest.run("id -G; id -u; umask", user=by)).stdout.split() == [b"1555", b"1600", b"1601", b"1555",
                                                                              b"0022"]
    terminal = await guest.run(user=by, tty={"cols": 80, "rows": 24}, argv=["python3", "-c", SHOW])
    assert terminal.stdout.replace(b"\r\n", b"\n") == ran.stdout


async def test_a_user_may_what_the_user_may_and_no_more(guest: Guest, eve: str):
    await guest.run(f"umask 077; echo secret > {HOME}/own; mkdir {HOME}/inner", user=eve)
    for command in (f"cat {HOME}/own", f"ls {HOME}", "kill -0 1", "cat /proc/1/environ"):
        refused = await guest.run(command, user="user")
        assert refused.outcome != {"kind": "exited", "code": 0} and b"ermi" in refused.stderr, command
    assert (await guest.run(f"cat {HOME}/own", user="root")).stdout == b"secret\n"
    await guest.run(f"chgrp 1600 {HOME} {HOME}/own; chmod 750 {HOME}; chmod 640 {HOME}/own", user="root")
    assert (await guest.run(f"cat {HOME}/own", user=eve)).stdout == b"secret\n"
    with pytest.raises(Invalid, match=f"{HOME}/inner': Permission denied") as refused_cwd:
        await guest.run("pwd", user="user", cwd=f"{HOME}/inner")
    assert list(refused_cwd.value.extra["errors"]) == ["cwd"]


@pytest.mark.parametrize("nobody", ["eva", "4242", "", "ro:ot", "user\n", "-1", "../root"])
async def test_a_user_who_is_not_there_is_named_and_nothing_is_run(guest: Guest, nobody: str):
    with pytest.raises(Invalid) as refused:
        await guest.run("touch /tmp/was-run", user=nobody)
    assert list(refused.value.extra["errors"]) == ["user"] and repr(nobody)[1:-1] in refused.value.detail
    assert (await guest.run("ls /tmp/was-run")).outcome["code"] != 0


async def test_the_answer_says_where_the_process_began(guest: Guest):
    async def began(**params: object) -> tuple[str, str]:
        exec_id = await guest.start("pwd", **params)
        said = await guest.link.request("exec.start", {"exec_id": exec_id})
        return said["cwd"], (await guest.finish(exec_id)).stdout.decode().strip()
    assert await began() == ("/home/user", "/home/user")
    assert await began(user="root") == ("/root", "/root")
    assert await began(cwd="/tmp") == ("/tmp", "/tmp")
    await guest.run("mkdir -p below/it")
    assert await began(cwd="below/it") == ("/home/user/below/it", "/home/user/below/it")


async def test_a_home_that_is_gone_or_closed_locks_nobody_out(guest: Guest, eve: str):
    """A folder that was asked for by name is refused by name; a home that nobody asked for is not."""
    for user, home, break_it in (("lost", "/nowhere", "true"), (eve, HOME, f"chmod 000 {HOME}"),
                                 (eve, HOME, f"rm -r {HOME}; touch {HOME}")):
        await guest.run(break_it, user="root")
        exec_id = await guest.start(argv=["/bin/pwd"], user=user)
        assert (await guest.link.request("exec.start", {"exec_id": exec_id}))["cwd"] == "/"
        assert (await guest.finish(exec_id)).stdout == b"/\n"
        with pytest.raises(Invalid, match=f"cwd '{home}'"):
            await guest.start(argv=["/bin/pwd"], cwd=home, user=user)


async def test_a_shell_whose_folder_was_deleted_lives_on(guest: Guest):
    await guest.run("mkdir -p open/inner")
    exec_id = await guest.start(argv=["/bin/sh"], cwd="open/inner", stdin=True)
    await guest.run("rm -r open")
    await guest.stdin(exec_id, b"echo alive; cd; pwd\n")
    assert (await guest.finish(exec_id)).stdout == b"alive\n/home/user\n"
    with pytest.raises(Invalid, match="open/inner': No such file"):
        await guest.start("pwd", cwd="open/inner")
