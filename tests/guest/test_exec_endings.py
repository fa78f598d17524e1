"""How execs end, with their whole tree or without (field cases 001, 036, 052, 121, 122)."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from sandboxes.errors import Conflict, Invalid
from tests.guest.guest import DEADLINE_S, Guest

TIMED_OUT = {"kind": "timed_out"}
EXITED_0 = {"kind": "exited", "code": 0}


async def processes(guest: Guest, mark: str) -> list[int]:
    """Pids whose command line has a word; zombies have none."""
    said = await guest.run(argv=["/bin/sh", "-c", f"pgrep -f {mark[0]}'{mark[1:]}' || true"], user="root")
    return [int(word) for word in said.stdout.split()]


async def until_gone(guest: Guest, mark: str) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while await processes(guest, mark):
            await asyncio.sleep(0.05)


# -- timeouts ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("text", [
    "echo begun; sleep 7771; echo late > /tmp/late",
    "echo begun; (sleep 7771; touch /tmp/late) & wait",
    "echo begun; setsid sh -c 'sleep 7771; touch /tmp/late' & wait",
    "echo begun; trap '' TERM; sleep 7771",
    "echo begun; setsid setsid sh -c 'trap \"\" TERM HUP; sleep 7771; touch /tmp/late' &"
    " trap '' TERM; wait; sleep 7771",
    "echo begun; env -i setsid sh -c 'sleep 7771' & sleep 0.2; wait",
    "echo begun; kill -STOP $$; sleep 7771",
    "echo begun; while :; do sh -c 'sleep 7771' & sleep 0.05; done",
])
async def test_a_timeout_ends_the_whole_tree_and_keeps_what_was_said(guest: Guest, text: str):
    ran = await guest.run(text, timeout_s=2.0)
    assert ran.outcome == TIMED_OUT
    assert ran.stdout.startswith(b"begun\n")
    assert await processes(guest, "7771") == []


async def test_a_timeout_lets_a_process_clean_up_first(guest: Guest):
    ran = await guest.run("trap 'echo cleaned; exit 3' TERM; echo begun; while :; do sleep 0.05; done", timeout_s=2.0)
    assert ran.stdout == b"begun\ncleaned\n" and ran.outcome == TIMED_OUT


async def test_an_exec_that_ends_in_time_is_not_timed_out(guest: Guest):
    assert (await guest.run("exit 6", timeout_s=60)).outcome == {"kind": "exited", "code": 6}


async def test_a_timed_out_exec_nobody_reads_ends_all_the_same(guest: Guest):
    exec_id = await guest.start("yes 7772", timeout_s=1.0)
    await until_gone(guest, "7772")
    assert (await guest.finish(exec_id)).outcome == TIMED_OUT


# -- killing -----------------------------------------------------------------------------------------------------------

async def test_kill_ends_the_whole_tree_and_frees_its_port(guest: Guest):
    """Field case 036."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    exec_id = await guest.start(f"sh -c 'python3 -u -m http.server {port} --bind 127.0.0.1' & wait")
    async with asyncio.timeout(DEADLINE_S):
        while not await processes(guest, f"http.server.{port}"):
            await asyncio.sleep(0.05)
        stream = await guest.output(exec_id)
        while b"Serving" not in (await stream.__anext__())[1]:
            pass
    await guest.link.request("exec.kill", {"exec_id": exec_id})
    assert (await stream.result())["outcome"] == {"kind": "killed"}
    assert await processes(guest, f"http.server.{port}") == []
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", port))


async def test_an_exec_has_not_ended_before_its_process_is_gone(guest: Guest):
    exec_id = await guest.start("trap '' TERM INT HUP; echo 7773; while :; do sleep 0.1; done")
    stream = await guest.output(exec_id)
    await stream.__anext__()
    await guest.link.request("exec.signal", {"exec_id": exec_id, "signal": "SIGTERM", "tree": True})
    listed = {each["exec_id"]: each for each in (await guest.link.request("exec.list"))["execs"]}
    assert listed[exec_id]["outcome"] is None
    await guest.link.request("exec.kill", {"exec_id": exec_id})
    ended = await stream.result()
    assert ended["outcome"] == {"kind": "killed"}
    assert await processes(guest, "7773") == []


async def test_killing_twice_or_after_the_end_changes_no_outcome(guest: Guest):
    ran = await guest.run("exit 3")
    await guest.link.request("exec.kill", {"exec_id": ran.exec_id})
    await guest.link.request("exec.kill", {"exec_id": ran.exec_id})
    assert (await guest.finish(ran.exec_id)).outcome == {"kind": "exited", "code": 3}


async def test_a_process_that_ends_by_itself_after_a_signal_says_how(guest: Guest):
    exec_id = await guest.start("trap 'exit 9' INT; echo ready; while :; do sleep 0.05; done")
    stream = await guest.output(exec_id)
    await stream.__anext__()
    await guest.link.request("exec.signal", {"exec_id": exec_id, "signal": "INT"})
    assert (await stream.result())["outcome"] == {"kind": "exited", "code": 9}


async def test_a_signal_reaches_the_process_group_or_the_whole_tree(guest: Guest):
    inner = "trap \"echo inner; exit\" USR1; echo up; while :; do sleep 0.05; done"
    text = f"trap : USR1; setsid sh -c '{inner}' & wait; wait"  # before the inner one can say that it is up
    exec_id = await guest.start(text)
    stream = await guest.output(exec_id)
    await stream.__anext__()
    await guest.link.request("exec.signal", {"exec_id": exec_id, "signal": "SIGUSR1", "tree": True})
    assert await stream.__anext__() == (1, b"inner\n")
    assert (await stream.result())["outcome"]["kind"] == "exited"


async def test_a_signal_nobody_knows_or_for_nobody_is_refused(guest: Guest):
    ran = await guest.run("true")
    with pytest.raises(Invalid, match="SIGNOPE"):
        await guest.link.request("exec.signal", {"exec_id": ran.exec_id, "signal": "SIGNOPE"})
    with pytest.raises(Conflict) as refused:
        await guest.link.request("exec.signal", {"exec_id": ran.exec_id, "signal": "SIGINT"})
    assert refused.value.code == "exec_ended"


# -- what is left over -------------------------------------------------------------------------------------------------

async def test_a_child_that_holds_the_pipe_does_not_hold_the_exec(guest: Guest):
    """The wait status ends it. The child lives on: people expect that of `server &`."""
    started = time.monotonic()
    ran = await guest.run("echo before; sleep 7774 & echo after")
    assert ran.outcome == EXITED_0 and ran.stdout == b"before\nafter\n"
    assert time.monotonic() - started < DEADLINE_S
    assert await processes(guest, "7774")
    await guest.link.request("exec.kill", {"exec_id": ran.exec_id})
    await until_gone(guest, "7774")


async def test_a_child_left_over_may_go_on_writing_and_is_not_hurt(guest: Guest):
    ran = await guest.run("(while [ ! -e stop ]; do echo x || exit; done; touch survived) &")
    assert ran.outcome == EXITED_0
    await guest.link.request("exec.forget", {"exec_id": ran.exec_id})
    await guest.run("sleep 0.3; touch stop")
    async with asyncio.timeout(DEADLINE_S):
        while (await guest.run("ls survived")).outcome != EXITED_0:
            await asyncio.sleep(0.05)


async def test_all_of_the_last_output_is_there_when_the_process_has_ended(guest: Guest):
    for size in (1, 65_536, 200_000):
        ran = await guest.run(f"sleep 7775 & head -c {size} /dev/zero; head -c {size} /dev/zero >&2")
        assert (len(ran.stdout), len(ran.stderr)) == (size, size)
        await guest.link.request("exec.kill", {"exec_id": ran.exec_id})


# -- no zombies --------------------------------------------------------------------------------------------------------

async def test_nothing_stays_a_zombie(guest: Guest):
    """Field case 122: short execs, orphans of all kinds, a parent that never waits."""
    for _ in range(10):
        await asyncio.gather(*(guest.run(argv=["/bin/true"]) for _ in range(20)))
    await guest.run("for i in $(seq 50); do (setsid sh -c 'sleep 0.01' &) & done; wait")
    exec_id = await guest.start(argv=["/bin/sh", "-c", "sleep 0.2 & exec sleep 7776"])
    await guest.link.request("exec.kill", {"exec_id": exec_id})
    assert (await guest.finish(exec_id)).outcome == {"kind": "killed"}
    async with asyncio.timeout(DEADLINE_S):
        while (await guest.run("ps -eo stat= | grep -c Z")).stdout != b"0\n":
            await asyncio.sleep(0.05)
    assert not [each for each in (await guest.link.request("exec.list"))["execs"]
                if each["outcome"] is None and each["exec_id"] != exec_id and each["pid"] == 0]


async def test_descriptors_and_processes_of_ended_execs_are_given_back(guest: Guest):
    async def held() -> int:
        return int((await guest.run("ls /proc/$PPID/fd | wc -l", user="root")).stdout)
    await guest.run("true")
    before = await held()
    await asyncio.gather(*(guest.run("true", stdin=number % 2 == 0) for number in range(40)))
    await asyncio.gather(*(guest.run("true", tty={"cols": 80, "rows": 24}) for _ in range(10)))
    assert await held() <= before + 2
