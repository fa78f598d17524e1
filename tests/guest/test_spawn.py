"""How a process begins: what the kernel refuses has a name, and the process that forks may die without harm."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess

import pytest

from sandboxes.errors import Busy, Invalid
from sandboxes.guest.agent.beginning import Beginning
from sandboxes.guest.agent.loop import Loop
from sandboxes.guest.agent.outcomes import signal_name, signal_number
from sandboxes.guest.agent.refusal import Refusal
from tests.guest.guest import DEADLINE_S, Guest

SIGNALS = """
import os, signal, sys
told = []
def tell(number, frame):
    os.write(1, b"%d\\n" % number)
for number in range(1, signal.SIGRTMAX + 1):
    try:
        signal.signal(number, tell)
    except (OSError, ValueError, TypeError):
        pass
os.write(1, b"ready\\n")
while True:
    signal.pause()
"""


async def zygote(guest: Guest) -> int:
    """As the guest numbers it: like every exec it is a child of the agent."""
    agent = int((await guest.run("echo $PPID", login=False)).stdout)
    children = (await guest.run(argv=["cat", f"/proc/{agent}/task/{agent}/children"], user="root")).stdout.split()
    found = []
    for pid in map(int, children):
        line = (await guest.run(argv=["cat", f"/proc/{pid}/cmdline"], user="root")).stdout
        if b"sandboxes.guest.agent" in line:
            found.append(pid)
    assert len(found) == 1, found
    return found[0]


async def is_there(guest: Guest, pid: int) -> bool:
    with contextlib.suppress(Busy):  # it was asked while it died: said so, and nothing was run
        return bool((await guest.run(argv=["test", "-e", f"/proc/{pid}"])).outcome["code"] == 0)
    return True


async def test_the_death_of_the_process_that_forks_harms_no_exec(guest: Guest):
    running = await guest.start("read x; echo got-$x; exit 7", stdin=True)
    for _ in range(2):
        before = await zygote(guest)
        assert (await guest.run(f"kill -KILL {before}", user="root")).outcome == {"kind": "exited", "code": 0}
        async with asyncio.timeout(DEADLINE_S):
            while await is_there(guest, before):
                await asyncio.sleep(0.02)
        assert (await guest.run("echo alive")).stdout == b"alive\n"
        assert await zygote(guest) != before
    await guest.stdin(running, b"it\n")
    ended = await guest.finish(running)
    assert (ended.stdout, ended.outcome) == (b"got-it\n", {"kind": "exited", "code": 7})
    assert (await guest.run("ps -eo stat= | grep -c Z || true")).stdout == b"0\n"


async def test_every_signal_arrives_by_its_name_and_by_its_number(guest: Guest):
    await guest.write("/home/user/signals.py", SIGNALS.encode())
    exec_id = await guest.start(argv=["python3", "signals.py"])
    stream = await guest.output(exec_id)
    heard = b""

    async def hear(line: bytes) -> None:
        nonlocal heard
        async with asyncio.timeout(DEADLINE_S):
            while line not in heard:
                heard += (await stream.__anext__())[1]
        heard = heard.replace(line, b"")
    await hear(b"ready\n")
    deadly = {signal.SIGKILL, signal.SIGSTOP}
    for number in [*range(1, 32), *range(signal.SIGRTMIN, signal.SIGRTMAX + 1)]:
        if number in deadly:
            continue
        name = signal_name(number)
        for word in (name, name.removeprefix("SIG"), str(number)):
            await guest.link.request("exec.signal", {"exec_id": exec_id, "signal": word})
            await hear(b"%d\n" % number)
    await guest.link.request("exec.signal", {"exec_id": exec_id, "signal": "SIGKILL"})
    assert (await stream.result())["outcome"] == {"kind": "signaled", "signal": "SIGKILL"}


def test_names_of_signals_are_numbers_and_back():
    assert {signal_number(signal_name(number)) for number in range(1, 65)} == set(range(1, 65))
    assert signal_number("SIGRTMAX-2") == 62 and signal_number("RTMIN+0") == 34 and signal_number("SIG9") == 9
    for word in ("", "SIG", "0", "65", "SIGRTMIN+31", "SIGRTMIN-1", "SIGRTMAX+1", "9 ", "nope", "-9", "\u0669"):
        assert signal_number(word) is None, word


async def test_what_is_no_program_ends_as_126_or_127_and_says_why(guest: Guest):
    await guest.write("/home/user/binary", b"\x7fELF" + bytes(200))
    await guest.write("/home/user/lost", b"#!/no/such/interpreter\ntrue\n")
    await guest.write("/home/user/bare", b"echo $0 $1; exit 4\n")
    await guest.run("chmod 755 binary lost bare; ln -sf loop loop")
    for argv, code, why in ((["./binary"], 126, b"Exec format error"), (["./lost"], 127, b"interpreter is not there"),
                            (["./loop"], 126, b"symbolic links"), (["./" + "n" * 300], 126, b"too long"),
                            (["/etc"], 126, b"ermission denied")):
        ran = await guest.run(argv=argv)
        assert ran.outcome == {"kind": "exited", "code": code} and why in ran.stderr, (argv, ran)
    ran = await guest.run(argv=["./bare", "one"])
    assert (ran.stdout, ran.outcome) == (b"./bare one\n", {"kind": "exited", "code": 4})


async def test_what_is_too_long_for_the_kernel_names_the_command(guest: Guest):
    with pytest.raises(Invalid, match="too long") as refused:
        await guest.start(argv=["/bin/echo", "x" * 200_000])
    assert list(refused.value.extra["errors"]) == ["command"]
    assert (await guest.run(argv=["/bin/sh", "-c", "echo $#", "x", *["a" * 1000] * 1500])).stdout == b"1500\n"


async def test_a_guest_that_can_start_no_process_says_so_and_goes_on_later(guest: Guest):
    """By the agent's own limit of descriptors: what runs out is the same word, and nothing is left of the attempt."""
    loose = guest.root / "tmp/loose"
    exec_id = await guest.start("before=$(prlimit --pid $PPID --nofile -o SOFT --noheadings); "
                                "prlimit --pid $PPID --nofile=3: && echo tight; until [ -e /tmp/loose ]; do "
                                "sleep 0.05; done; prlimit --pid $PPID --nofile=${before##* }:", user="root")
    stream = await guest.output(exec_id)
    assert await stream.__anext__() == (1, b"tight\n")
    before = await guest.link.request("exec.list")
    with pytest.raises(Busy) as refused:
        await guest.start("true")
    assert refused.value.code == "busy" and refused.value.retry_after_s
    assert await guest.link.request("exec.list") == before
    loose.touch()
    assert (await stream.result())["outcome"] == {"kind": "exited", "code": 0}
    assert (await guest.run("echo again")).stdout == b"again\n"


def test_a_start_that_hangs_holds_up_nobody_and_ends(monkeypatch: pytest.MonkeyPatch):
    """Its working directory may be on a file system that does not answer: the loop goes on, the start is refused."""
    monkeypatch.setattr("sandboxes.guest.agent.beginning.BEGIN_S", 0.2)
    loop, said = Loop(), []
    report, held = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    stuck = subprocess.Popen(["sleep", "600"])

    class Spawner:
        def clone(self, _command: object) -> tuple[int, int]:
            return stuck.pid, report

    def refused(refusal: Refusal) -> None:
        said.append(refusal)
        loop.stop()
    beginning = Beginning(loop, Spawner(), None, True, said.append, lambda: said.append("begun"), refused)
    beginning.go()
    loop.after(0.05, lambda: said.append("others are served"))
    loop.run()
    assert said[:2] == [stuck.pid, "others are served"] and said[2].code == "busy" and len(said) == 3
    assert stuck.wait(DEADLINE_S) == -signal.SIGKILL
    beginning.process_ended(stuck.pid)
    os.close(held)
    assert len(said) == 3
