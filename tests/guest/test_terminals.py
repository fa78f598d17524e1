"""Terminals: size, owner, keys, many clients, any bytes (field cases 025, 037, 115, 133)."""

from __future__ import annotations

import asyncio
import hashlib

import pytest

from sandboxes.errors import Conflict, Invalid
from sandboxes.guest.linkstream import LinkStream
from tests.guest.guest import DEADLINE_S, Guest

SIZE = {"cols": 132, "rows": 43}


async def read_until(stream: LinkStream, wanted: bytes) -> bytes:
    seen = b""
    async with asyncio.timeout(DEADLINE_S):
        while wanted not in seen:
            seen += (await stream.__anext__())[1]
    return seen


async def test_a_terminal_without_a_command_is_the_users_login_shell(guest: Guest):
    exec_id = await guest.start(tty=SIZE)
    stream = await guest.output(exec_id)
    await guest.stdin(exec_id, b"echo $0 $USER $((40+2)); shopt -q login_shell && echo is-login; exit 5\n", eof=False)
    seen = await read_until(stream, b"is-login\r\n")
    assert b"-bash user 42" in seen
    assert (await stream.result())["outcome"] == {"kind": "exited", "code": 5}


async def test_a_terminal_has_its_size_type_and_owner_from_the_start(guest: Guest):
    ran = await guest.run("stty size; echo $TERM; stat -c '%U %a' $(tty); stty -a | grep -o ' iutf8'", tty=SIZE)
    assert ran.stdout.split() == [b"43", b"132", b"xterm-256color", b"user", b"620", b"iutf8"]


async def test_a_resize_is_seen_at_once_and_wrong_ones_are_invalid(guest: Guest):
    exec_id = await guest.start("trap 'stty size' WINCH; echo up; while :; do sleep 0.05; done", tty=SIZE)
    stream = await guest.output(exec_id)
    await read_until(stream, b"up")
    await guest.link.request("exec.resize", {"exec_id": exec_id, "cols": 90, "rows": 20})
    await read_until(stream, b"20 90\r\n")
    for cols, rows in [(0, 10), (10, 0), (-1, 5), (10_001, 5), ("80", 24), (True, 24), (1.5, 2)]:
        with pytest.raises(Invalid):
            await guest.link.request("exec.resize", {"exec_id": exec_id, "cols": cols, "rows": rows})
    await guest.link.request("exec.kill", {"exec_id": exec_id})
    await stream.result()
    with pytest.raises(Conflict) as refused:
        await guest.link.request("exec.resize", {"exec_id": exec_id, "cols": 90, "rows": 20})
    assert refused.value.code == "exec_ended"
    plain = await guest.start("sleep 20")
    with pytest.raises(Conflict) as refused:
        await guest.link.request("exec.resize", {"exec_id": plain, "cols": 90, "rows": 20})
    assert refused.value.code == "not_a_terminal"
    await guest.link.request("exec.kill", {"exec_id": plain})


async def test_interrupt_by_key_and_by_call_reach_what_runs_in_front(guest: Guest):
    for interrupt in ("key", "call"):
        exec_id = await guest.start(tty=SIZE)
        stream = await guest.output(exec_id)
        await guest.stdin(exec_id, b"PS1=at''-prompt:\n", eof=False)
        await read_until(stream, b"at-prompt:")
        await guest.stdin(exec_id, b"sh -c 'echo in-\"\"front; exec sleep 600'\n", eof=False)
        await read_until(stream, b"in-front")
        if interrupt == "key":
            await guest.stdin(exec_id, b"\x03", eof=False)
        else:
            await guest.link.request("exec.signal", {"exec_id": exec_id, "signal": "SIGINT"})
        await read_until(stream, b"at-prompt:")
        await guest.stdin(exec_id, b"echo ended''-with $?\n", eof=False)
        await read_until(stream, b"ended-with 130")
        await guest.stdin(exec_id, b"exit\n", eof=False)
        assert (await stream.result())["outcome"]["kind"] == "exited"


async def test_end_of_input_is_the_terminals_own_end_of_file(guest: Guest):
    exec_id = await guest.start("cat; echo ended", tty=SIZE)
    await guest.stdin(exec_id, b"line\n", eof=True)
    assert b"ended\r\n" in (await guest.finish(exec_id)).stdout


async def test_characters_cut_anywhere_arrive_as_they_were_written(guest: Guest):
    """Field case 025: the agent never looks at characters, keys may even come byte by byte."""
    ran = await guest.run(r"stty -opost; printf 'LINE2 \xe2'; sleep 0.3; printf '\x94\x80 LINE3\n'", tty=SIZE)
    assert ran.stdout == "LINE2 ─ LINE3\n".encode()
    exec_id = await guest.start("stty -echo; echo ready; head -c 16 | sha256sum", tty=SIZE)
    stream = await guest.output(exec_id)
    await read_until(stream, b"ready")
    typed = "🙂漢字é\n".encode() + b"..\n"
    assert len(typed) == 16
    for byte in typed:
        await guest.stdin(exec_id, bytes([byte]), eof=False)
    assert hashlib.sha256(typed).hexdigest().encode() in await read_until(stream, b"-")


async def test_wide_characters_are_typed_once_and_erased_whole(guest: Guest):
    """Field case 150, the guest's half: UTF-8 by default, and the line discipline knows where a character ends."""
    exec_id = await guest.start("locale charmap; echo ready; while read -r line; do printf '<%s>\\n' \"$line\"; done",
                                tty=SIZE)
    stream = await guest.output(exec_id)
    assert b"UTF-8\r\n" in await read_until(stream, b"ready")
    for typed, kept in (("日本語", "日本語"), ("한국어\x7f", "한국"), ("✅⏳\x7f", "✅"), ("é\x7f\x7fok", "ok"),
                        ("👩\u200d👧", "👩\u200d👧")):
        await guest.stdin(exec_id, typed.encode() + b"\n", eof=False)
        seen = await read_until(stream, f"<{kept}>".encode())
        assert seen.count(f"<{kept}>".encode()) == 1
    await guest.stdin(exec_id, b"", eof=True)
    assert (await stream.result())["outcome"]["kind"] == "exited"


async def test_bytes_that_are_no_characters_pass_and_the_terminal_lives_on(guest: Guest):
    """Field case 037."""
    exec_id = await guest.start(tty=SIZE)
    stream = await guest.output(exec_id)
    await guest.stdin(exec_id, b"PS1=; stty -opost; printf '\\xd6\\xd0\\xff\\xfe\\n'; "
                      b"head -c 200000 /dev/urandom; cat /bin/ls\n", eof=False)
    await guest.stdin(exec_id, b"echo ali''ve; exit\n", eof=False)
    seen = await read_until(stream, b"alive\n")
    assert b"\xd6\xd0\xff\xfe\n" in seen and len(seen) > 300_000


async def test_all_of_a_large_output_is_there_though_the_shell_has_ended(guest: Guest):
    ran = await guest.run("stty -opost; seq 1 300000", tty=SIZE)
    assert ran.stdout == b"".join(b"%d\n" % number for number in range(1, 300_001))
    assert ran.outcome == {"kind": "exited", "code": 0}


async def test_a_terminal_whose_background_child_holds_it_ends_with_its_shell(guest: Guest):
    ran = await guest.run("trap '' HUP; (trap '' HUP; exec sleep 7781) & echo done", tty=SIZE)
    assert ran.stdout == b"done\r\n" and ran.outcome == {"kind": "exited", "code": 0}
    await guest.link.request("exec.kill", {"exec_id": ran.exec_id})


async def test_two_hands_may_type_into_one_terminal(guest: Guest):
    exec_id = await guest.start("stty -echo; echo ready; read a; read b; echo $a+$b", tty=SIZE)
    stream = await guest.output(exec_id)
    await read_until(stream, b"ready")
    first = await guest.link.stream("exec.stdin", {"exec_id": exec_id, "eof": False})
    second = await guest.link.stream("exec.stdin", {"exec_id": exec_id, "eof": False})
    await first.write(b"one\n")
    await guest.link.request("ping")
    await second.write(b"two\n")
    await read_until(stream, b"one+two")
    assert (await stream.result())["outcome"]["kind"] == "exited"


async def test_the_whole_tree_of_a_terminal_ends_when_it_is_killed(guest: Guest):
    exec_id = await guest.start(tty=SIZE)
    stream = await guest.output(exec_id)
    await guest.stdin(exec_id, b"setsid -f sleep 7782; sleep 7782 & echo st''arted\n", eof=False)
    await read_until(stream, b"started")
    await guest.link.request("exec.kill", {"exec_id": exec_id})
    assert (await stream.result())["outcome"] == {"kind": "killed"}
    assert (await guest.run("pgrep -c -f 778'2'", login=False)).stdout == b"0\n"
