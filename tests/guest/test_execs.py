"""Execs: what a process gets, what comes back, and that one never disturbs another (field cases 024, 077, 111, 115,
120, 121)."""

from __future__ import annotations

import asyncio
import hashlib
import os

import pytest

from sandboxes.errors import Conflict, Invalid, NotFound
from sandboxes.guest.agent import execcalls
from sandboxes.guest.agent.accounts import Account
from tests.guest.guest import DEADLINE_S, Guest

EXITED_0 = {"kind": "exited", "code": 0}


# -- outcomes ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("code", [0, 1, 2, 125, 126, 127, 128, 255])
async def test_exit_codes_are_exact(guest: Guest, code: int):
    assert (await guest.run(f"exit {code}")).outcome == {"kind": "exited", "code": code}


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM", "SIGABRT", "SIGHUP", "SIGPIPE", "SIGRTMIN+3"])
async def test_a_death_by_signal_names_the_signal(guest: Guest, name: str):
    ran = await guest.run(argv=["/bin/bash", "-c", f"kill -{name.removeprefix('SIG')} $$"])
    assert ran.outcome == {"kind": "signaled", "signal": name}


async def test_the_three_streams_are_separate_and_byte_exact(guest: Guest):
    ran = await guest.run(r"printf '\000\377\xe2\x82out'; printf '\xd6\xd0\xff\xfe\n' >&2")
    assert (ran.stdout, ran.stderr) == (b"\x00\xff\xe2\x82out", b"\xd6\xd0\xff\xfe\n")


async def test_a_program_that_is_not_there_ends_as_127_and_says_so(guest: Guest):
    for argv in (["no-such-program"], ["/no/such/program"], ["/etc/passwd/program"]):
        ran = await guest.run(argv=argv)
        assert ran.outcome == {"kind": "exited", "code": 127}
        assert argv[0].encode() in ran.stderr and b"No such file" in ran.stderr


async def test_a_program_that_may_not_be_executed_ends_as_126_and_says_so(guest: Guest):
    await guest.run("echo true > plain; mkdir -p folder; touch only-found; chmod 644 only-found")
    for argv in (["/home/user/plain"], ["/home/user/folder"]):
        ran = await guest.run(argv=argv)
        assert ran.outcome == {"kind": "exited", "code": 126}
        assert argv[0].encode() in ran.stderr and b"Permission denied" in ran.stderr
    ran = await guest.run(argv=["only-found"], env={"PATH": "/nowhere:/home/user"})
    assert ran.outcome == {"kind": "exited", "code": 126}


async def test_a_program_is_found_along_the_execs_own_path(guest: Guest):
    await guest.run("mkdir -p bin; printf '#!/bin/sh\\necho mine\\n' > bin/own; chmod 755 bin/own")
    assert (await guest.run(argv=["own"], env={"PATH": "/nowhere:/home/user/bin"})).stdout == b"mine\n"
    assert (await guest.run(argv=["own"])).outcome == {"kind": "exited", "code": 127}


async def test_a_script_without_an_interpreter_line_runs_in_sh(guest: Guest):
    await guest.run("echo 'echo \"$1\"' > bare; chmod 755 bare")
    assert (await guest.run(argv=["./bare", "said"], cwd="/home/user")).stdout == b"said\n"


async def test_a_missing_folder_or_user_is_invalid_and_named(guest: Guest):
    with pytest.raises(Invalid, match="/does/not/exist"):
        await guest.run("pwd", cwd="/does/not/exist")
    with pytest.raises(Invalid, match="cwd '/etc/passwd'"):
        await guest.run("pwd", cwd="/etc/passwd")
    with pytest.raises(Invalid, match="nobody-here"):
        await guest.run("pwd", user="nobody-here")
    await guest.run("mkdir /tmp/closed && chmod 700 /tmp/closed", user="root")
    with pytest.raises(Invalid, match="/tmp/closed': Permission denied"):
        await guest.run("pwd", cwd="/tmp/closed")


@pytest.mark.parametrize("params", [
    {"argv": []}, {"argv": "true"}, {"argv": [1]}, {"argv": ["a\0b"]}, {"shell": "a\0b"}, {"shell": 5}, {},
    {"shell": "true", "env": {"A=B": "c"}}, {"shell": "true", "env": {"A": 1}}, {"shell": "true", "env": []},
    {"shell": "true", "timeout_s": 0}, {"shell": "true", "timeout_s": "5"}, {"shell": "true", "cwd": 7},
    {"shell": "true", "tty": {"cols": 0, "rows": 1}}, {"shell": "true", "tty": {"cols": 80, "rows": 100_000}},
    {"shell": "true", "tty": 1}, {"shell": "true", "max_output_bytes": -1}, {"shell": "true", "exec_id": "../x"},
    {"shell": "true", "user": 0}, {"shell": "true", "stdin": "yes"}, {"argv": ["\ud800"]},
])
async def test_wrong_parameters_are_invalid_and_start_nothing(guest: Guest, params: dict):
    before = len((await guest.link.request("exec.list"))["execs"])
    with pytest.raises(Invalid):
        await guest.start(**params)
    assert len((await guest.link.request("exec.list"))["execs"]) == before


async def test_a_command_line_or_environment_too_long_is_invalid_not_a_failure(guest: Guest):
    with pytest.raises(Invalid, match="too long"):
        await guest.start(argv=["/bin/echo", "x" * 200_000])
    with pytest.raises(Invalid, match="too long"):
        await guest.start("true", env={f"V{n}": "x" * 10_000 for n in range(500)})
    assert (await guest.run(argv=["/bin/echo", "-n", "x" * 90_000])).stdout == b"x" * 90_000
    text = "x" * 100_000
    assert (await guest.run(f"echo {text} | wc -c")).stdout.strip() == b"100001"


async def test_starting_a_known_exec_again_gives_the_same_and_starts_nothing(guest: Guest):
    body = {"exec_id": "twice", "shell": "echo $$ >> pids; sleep 0.2", "user": "user", "env": {}, "stdin": False}
    first = await guest.link.request("exec.start", body)
    assert await guest.link.request("exec.start", body) == first
    await guest.finish("twice")
    assert await guest.link.request("exec.start", body) == first
    assert len((await guest.run("cat pids")).stdout.split()) == 1


# -- what a process gets -----------------------------------------------------------------------------------------------

async def test_argv_shell_and_terminal_get_the_same_environment(guest: Guest):
    """Field case 115."""
    names = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "PATH", "WORKSPACE_SAYS", "MINE")
    show = "import os,sys\nfor n in sys.argv[1:]: print(n, os.environ.get(n))\nprint(oct(os.umask(0)), os.getcwd())"
    await guest.write("/home/user/show.py", show.encode())
    argv = ["python3", "show.py", *names]
    env = {"MINE": "own"}
    direct = (await guest.run(argv=argv, env=env)).stdout
    assert b"HOME /home/user\nUSER user\nLOGNAME user\nSHELL /bin/bash\nLANG C.UTF-8" in direct
    assert b"WORKSPACE_SAYS hello\nMINE own\n0o22 /home/user" in direct
    login_free = (await guest.run(" ".join(argv), env=env, login=False)).stdout
    terminal = (await guest.run(argv=argv, env=env, tty={"cols": 80, "rows": 24})).stdout
    assert direct == login_free == terminal.replace(b"\r\n", b"\n")


async def test_the_execs_own_environment_wins_over_the_workspaces(guest: Guest):
    assert (await guest.run("echo $WORKSPACE_SAYS", env={"WORKSPACE_SAYS": "other"})).stdout == b"other\n"


async def test_an_exec_is_its_user_with_all_its_groups_and_nobody_else(guest: Guest):
    assert (await guest.run("id -u; id -g; id -un; pwd")).stdout.split() == [b"1000", b"1000", b"user", b"/home/user"]
    assert (await guest.run("id -u; pwd", user="root")).stdout.split() == [b"0", b"/root"]
    assert (await guest.run("id -un", user="1000")).stdout == b"user\n"
    identity = (await guest.run("grep -E '^(Uid|Gid|Groups|CapEff|SigIgn|SigBlk):' /proc/self/status")).stdout
    assert [line.split()[1:] for line in identity.splitlines()] == [
        [b"1000"] * 4, [b"1000"] * 4, [b"1000"], [b"0000000000000000"], [b"0000000000000000"], [b"0000000000000000"]]


async def test_an_exec_inherits_no_descriptor_of_the_agent(guest: Guest):
    ran = await guest.run(argv=["/bin/ls", "/proc/self/fd"])
    assert ran.stdout.split() == [b"0", b"1", b"2", b"3"]  # 3 is the listing's own
    assert (await guest.run("ulimit -n")).stdout == b"1024\n"


async def test_each_exec_leads_a_session_of_its_own(guest: Guest):
    assert (await guest.run(argv=["/bin/sh", "-c", "read -r p _ _ _ g s _ < /proc/self/stat; test $p = $g -a $p = $s"]
                            )).outcome == EXITED_0


def test_a_shell_that_is_gone_locks_nobody_out():
    account = Account("user", 1000, 1000, (1000,), "/gone", "/bin/gone")
    assert execcalls._cwd({"cwd": "/elsewhere"}, account) == b"/elsewhere"
    assert execcalls._program({}, account, True) == (b"/bin/bash", [b"-bash"])


# -- standard input ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("command", ["cat; echo rc=$?", "read x; echo got:$x", "python3"])
async def test_without_input_a_reader_sees_the_end_at_once(guest: Guest, command: str):
    ran = await guest.run(command, timeout_s=20)
    assert ran.outcome == EXITED_0


async def test_input_arrives_exactly_and_ends(guest: Guest):
    data = os.urandom(1_000_000)
    exec_id = await guest.start("sha256sum; wc -c < /dev/null", stdin=True)
    assert await guest.stdin(exec_id, data) == {"accepted_bytes": len(data)}
    assert (await guest.finish(exec_id)).stdout.startswith(hashlib.sha256(data).hexdigest().encode())


async def test_input_may_come_in_several_calls_until_one_says_it_ends(guest: Guest):
    exec_id = await guest.start("cat", stdin=True)
    for part in (b"one ", b"", b"two "):
        await guest.stdin(exec_id, part, eof=False)
    await guest.stdin(exec_id, b"three")
    assert (await guest.finish(exec_id)).stdout == b"one two three"


async def test_input_to_what_does_not_read_any_more_is_refused_by_name(guest: Guest):
    exec_id = await guest.start("exec <&-; echo closed; sleep 20", stdin=True)
    stream = await guest.output(exec_id)
    await stream.__anext__()
    with pytest.raises(Conflict) as refused:
        await guest.stdin(exec_id, b"x")
    assert refused.value.code == "stdin_closed"
    await guest.link.request("exec.kill", {"exec_id": exec_id})
    await stream.result()
    with pytest.raises(Conflict):
        await guest.stdin(exec_id, b"x")

    ended = await guest.run("true", stdin=True)
    with pytest.raises(Conflict) as refused:
        await guest.stdin(ended.exec_id, b"x")
    assert refused.value.code == "exec_ended"
    without = await guest.start("sleep 20")
    with pytest.raises(Conflict) as refused:
        await guest.stdin(without, b"x")
    assert refused.value.code == "stdin_closed"
    await guest.link.request("exec.kill", {"exec_id": without})


async def test_there_is_no_controlling_terminal_without_one_asked_for(guest: Guest):
    ran = await guest.run("sh -c 'exec < /dev/tty'", timeout_s=20)
    assert ran.outcome["code"] != 0 and b"/dev/tty" in ran.stderr


# -- one never disturbs another ----------------------------------------------------------------------------------------

@pytest.mark.parametrize("bad", [
    "echo 'unbalanced", "exit 3", "set -e; false", "exec 1>&-", "stty raw", "kill -9 $$", "ulimit -v 1; true",
    "cat <<EOF\none\ntwo\nthree\nEOF", "exec 0<&- 1>&- 2>&-; sleep 0.1"])
async def test_a_bad_command_does_not_poison_the_next(guest: Guest, bad: str):
    await guest.run(bad, timeout_s=20)
    assert (await guest.run("echo ok")).stdout == b"ok\n"


async def test_a_heredoc_writes_what_it_says(guest: Guest):
    await guest.run("cat > three <<EOF\none\ntwo\nthree\nEOF")
    assert (await guest.run("cat three")).stdout == b"one\ntwo\nthree\n"


async def test_a_syntax_error_is_a_failure_with_words(guest: Guest):
    ran = await guest.run("if then fi")
    assert ran.outcome["code"] != 0 and b"syntax error" in ran.stderr


async def test_execs_run_side_by_side(guest: Guest):
    slow = await guest.start("read x; echo A$x", stdin=True)
    assert (await guest.run("echo B")).stdout == b"B\n"
    await guest.stdin(slow, b"1\n")
    assert (await guest.finish(slow)).stdout == b"A1\n"


async def test_a_broken_profile_does_not_touch_an_argv_exec_nor_a_shell_without_profile(guest: Guest):
    """Field case 133."""
    for broken in ("exit 1", "exec false", "sleep 1000", "while :; do :; done", "if (", "yes | head -c 10000000"):
        await guest.write("/home/user/.profile", broken.encode())
        assert (await guest.run(argv=["/bin/echo", "alive"])).stdout == b"alive\n"
        assert (await guest.run("echo alive", login=False)).stdout == b"alive\n"
        assert await guest.read("/home/user/.profile") == broken.encode()
    await guest.file("remove", "/home/user/.profile")


# -- the list of execs -------------------------------------------------------------------------------------------------

async def test_an_ended_exec_is_kept_until_it_is_forgotten(guest: Guest):
    ran = await guest.run("echo kept; exit 4")
    again = await guest.finish(ran.exec_id)
    assert again.outcome == {"kind": "exited", "code": 4}
    await guest.link.request("exec.forget", {"exec_id": ran.exec_id})
    await guest.link.request("exec.forget", {"exec_id": ran.exec_id})
    with pytest.raises(NotFound):
        await guest.finish(ran.exec_id)
    assert ran.exec_id not in [each["exec_id"] for each in (await guest.link.request("exec.list"))["execs"]]


async def test_a_running_exec_is_not_forgotten(guest: Guest):
    exec_id = await guest.start("sleep 30")
    with pytest.raises(Conflict):
        await guest.link.request("exec.forget", {"exec_id": exec_id})
    listed = {each["exec_id"]: each for each in (await guest.link.request("exec.list"))["execs"]}
    assert listed[exec_id]["state"] == "running" and listed[exec_id]["outcome"] is None
    await guest.link.request("exec.kill", {"exec_id": exec_id})
    assert (await guest.finish(exec_id)).outcome == {"kind": "killed"}


async def test_calls_about_an_unknown_exec_are_not_found(guest: Guest):
    for method, params in [("exec.kill", {}), ("exec.signal", {"signal": "SIGINT"}), ("exec.output", {}),
                           ("exec.resize", {"cols": 1, "rows": 1}), ("exec.stdin", {})]:
        with pytest.raises(NotFound):
            await guest.link.request(method, {"exec_id": "unknown", **params})


# -- output ------------------------------------------------------------------------------------------------------------

async def test_output_beyond_the_limit_is_dropped_flagged_and_does_not_hold_the_process_back(guest: Guest):
    ran = await guest.run("seq 1 1000000; echo end >&2; touch finished; exit 5", max_output_bytes=1000)
    assert ran.stdout == b"".join(b"%d\n" % n for n in range(1, 400))[:1000]
    assert ran.stderr == b"end\n"
    assert ran.outcome == {"kind": "exited", "code": 5}
    assert (ran.result["stdout_truncated"], ran.result["stderr_truncated"]) == (True, False)
    assert (await guest.run("ls finished")).outcome == EXITED_0


async def test_output_of_exactly_the_limit_is_not_truncated(guest: Guest):
    ran = await guest.run("printf 12345", max_output_bytes=5)
    assert ran.stdout == b"12345" and not ran.result["stdout_truncated"]
    ran = await guest.run("printf 123456", max_output_bytes=5)
    assert ran.stdout == b"12345" and ran.result["stdout_truncated"]
    assert (await guest.run("echo x", max_output_bytes=0)).result["stdout_truncated"]


async def test_what_was_acknowledged_is_gone_and_the_head_says_where_output_begins(guest: Guest):
    exec_id = await guest.start("printf 0123456789")
    async with asyncio.timeout(DEADLINE_S):
        while [each["state"] for each in (await guest.link.request("exec.list", {}))["execs"]
               if each["exec_id"] == exec_id] != ["ended"]:
            await asyncio.sleep(0.01)
    for asked in (4, 0):  # what is consumed is acknowledged too, so nothing is consumed in between
        stream = await guest.output(exec_id, stdout=asked)
        assert (await stream.head())["offsets"] == {"stdout": 4, "stderr": 0}
        await stream.cancel()
    stream = await guest.output(exec_id, stdout=0)
    assert [chunk async for chunk in stream] == [(1, b"456789")]


async def test_two_readers_of_one_exec_both_get_everything_that_is_kept(guest: Guest):
    exec_id = await guest.start("read x; echo said; read x", stdin=True)
    first, second = await guest.output(exec_id), await guest.output(exec_id)
    await first.head()
    await second.head()
    await guest.stdin(exec_id, b"go\nend\n")
    parts = await asyncio.gather(first.__anext__(), second.__anext__())
    assert parts == [(1, b"said\n"), (1, b"said\n")]
    assert (await first.result())["outcome"] == (await second.result())["outcome"] == EXITED_0


async def test_five_megabytes_of_any_script_come_back_byte_for_byte(guest: Guest):
    """Field case 025: nothing between the pipe and the reader looks at characters."""
    text = ("─│┌ 漢字かな 🙂👩‍👩‍👧 é̂ " * 120_000).encode()[:5_000_001]
    await guest.write("/home/user/text", text)
    ran = await guest.run("cat text")
    assert hashlib.sha256(ran.stdout).digest() == hashlib.sha256(text).digest()


async def test_input_that_was_taken_is_accepted_though_its_process_ends_at_once(guest: Guest):
    for number in range(15):
        exec_id = await guest.start("read line; exit $line", stdin=True)
        stream = await guest.link.stream("exec.stdin", {"exec_id": exec_id, "eof": True})
        await stream.write(b"%d\n" % number)
        assert (await guest.finish(exec_id)).outcome == {"kind": "exited", "code": number}
        await stream.write_eof()
        assert await stream.result() == {"accepted_bytes": len(b"%d\n" % number)}


async def test_a_byte_after_the_end_is_refused_on_a_stream_that_was_open_before(guest: Guest):
    exec_id = await guest.start("read line", stdin=True)
    stream = await guest.link.stream("exec.stdin", {"exec_id": exec_id, "eof": False})
    await stream.write(b"1\n")
    await guest.finish(exec_id)
    await stream.write(b"2\n")
    with pytest.raises(Conflict) as refused:
        await stream.result()
    assert refused.value.code == "exec_ended" and refused.value.extra["accepted_bytes"] == 2
