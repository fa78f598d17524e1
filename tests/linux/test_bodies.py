"""The jail and the bodies in it: what a started process is, what it may, and how its end is learned."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from sandboxes.errors import StepFailed
from sandboxes.linux.bodies import Body
from sandboxes.linux.spawner import JailPlan, Spawner

PYTHON = "/usr/bin/python3"


@pytest.fixture
async def spawner():
    spawner = Spawner()
    yield spawner
    spawner.close()


@pytest.fixture
def null():
    fd = os.open("/dev/null", os.O_RDWR)
    yield {0: fd, 1: fd, 2: fd}
    os.close(fd)


async def lines_of(spawner: Spawner, plan: JailPlan, **more: int) -> str:
    """What the body writes on its standard output until it ends."""
    nothing = os.open("/dev/null", os.O_RDWR)
    reader, writer = os.pipe()
    try:
        body = await spawner.start(plan, {0: nothing, 1: writer, 2: writer})
    finally:
        os.close(writer)
        os.close(nothing)
    with os.fdopen(reader) as stream:
        said = await asyncio.to_thread(stream.read)
    await body.ended()
    body.bury()
    return said


async def test_a_body_is_its_own_session_and_not_our_child(spawner, null):
    body = await spawner.start(JailPlan(argv=["/bin/sleep", "60"]), null)
    assert os.getsid(body.pid) == body.pid != os.getsid(0)
    await body.kill()
    body.bury()


async def test_a_body_goes_on_when_the_server_that_started_it_is_gone(spawner, null):
    body = await spawner.start(JailPlan(argv=["/bin/sleep", "60"]), null)
    spawner.close()
    assert body.alive()
    another = await spawner.start(JailPlan(argv=["/bin/sleep", "60"]), null)
    for each in (body, another):
        await each.kill()
        each.bury()
        assert not each.exists()


@pytest.mark.parametrize(("argv", "reason"), [
    (["/bin/true"], "exited"), (["/bin/false"], "exited"),
    ([PYTHON, "-c", "import os; os.kill(os.getpid(), 11)"], "killed:SIGSEGV"),
])
async def test_how_a_body_ended_is_read_from_its_real_wait_status(spawner, null, argv, reason):
    body = await spawner.start(JailPlan(argv=argv), null)
    assert await body.ended() == reason
    assert body.how_it_ended() == reason, "a second reader learns the same"
    body.bury()


async def test_a_recycled_pid_is_not_mistaken_for_the_body():
    mine = Body.of(os.getpid())
    assert mine is not None and mine.alive()
    earlier = Body(mine.pid, mine.start_ticks - 1)
    assert not earlier.alive()
    earlier.signal(9)
    assert await earlier.ended() == "unknown"


async def test_what_goes_wrong_in_the_jail_is_said_and_leaves_no_process(spawner, null):
    before = set(os.listdir("/proc"))
    with pytest.raises(StepFailed, match="No such file"):
        await spawner.start(JailPlan(argv=["/no/such/program"], namespaces=["pid", "mnt"]), null)
    with pytest.raises(StepFailed, match="mount"):
        await spawner.start(JailPlan(argv=["/bin/true"], namespaces=["mnt"],
                                     mounts=[["bind", "/no/such", "/mnt", "ro"]]), null)
    left = [pid for pid in set(os.listdir("/proc")) - before
            if pid.isdigit() and "/no/such" in Path(f"/proc/{pid}/cmdline").read_text()]
    assert left == []


async def test_a_body_has_no_privilege_and_no_way_back(spawner):
    plan = JailPlan(argv=["/bin/cat", "/proc/self/status"], uid=54321, gid=54321, no_new_privs=True,
                    namespaces=["mnt", "pid", "ipc", "uts"], rlimits={"RLIMIT_CORE": 0})
    facts = dict(line.split(":\t", 1) for line in (await lines_of(spawner, plan)).splitlines() if ":\t" in line)
    assert facts["Uid"].split() == facts["Gid"].split() == ["54321"] * 4
    assert facts["Groups"].strip() == ""
    assert facts["NoNewPrivs"] == "1"
    assert {facts[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert facts["SigIgn"] == "0" * 16


async def test_a_body_inherits_exactly_the_descriptors_it_was_given(spawner):
    listing = "import os; print(sorted(os.listdir('/proc/self/fd')))"
    said = await lines_of(spawner, JailPlan(argv=[PYTHON, "-c", listing]))
    assert said.strip() == "['0', '1', '2', '3']", "3 is the listing's own"


async def test_a_body_gets_a_descriptor_under_the_number_it_was_promised(spawner, null):
    ours, theirs = socket.socketpair()
    plan = JailPlan(argv=[PYTHON, "-c", "import socket; socket.socket(fileno=9).send(b'here')"])
    body = await spawner.start(plan, {**null, 9: theirs.fileno()})
    theirs.close()
    assert ours.recv(10) == b"here"
    await body.ended()
    body.bury()
    ours.close()


async def test_a_body_sees_the_environment_it_was_given_and_nothing_of_ours(spawner, monkeypatch):
    monkeypatch.setenv("BERTH_SECRET", "s3cret")
    said = await lines_of(spawner, JailPlan(argv=["/usr/bin/env"], env={"ONLY": "this"}))
    assert said.split() == ["ONLY=this"]


async def test_a_body_sees_only_the_root_it_was_given(spawner, tmp_path):
    (tmp_path / "root").mkdir()
    root = str(tmp_path / "root")
    plan = JailPlan(argv=["/bin/ls", "/"], namespaces=["mnt", "pid"], root=root, mounts=[
        ("tmpfs", root, "mode=0755,size=64k"), ("bind", "/usr", f"{root}/usr", "ro"),
        *(("symlink", f"usr/{name}", f"{root}/{name}") for name in ("bin", "lib", "lib64")), ("proc", f"{root}/proc")])
    assert (await lines_of(spawner, plan)).split() == ["bin", "lib", "lib64", "proc", "usr"]
    assert not (tmp_path / "root" / "usr").exists(), "the mounts are the body's alone"


async def test_the_first_process_of_a_reaping_body_buries_orphans_and_ends_as_its_child_did(spawner, null):
    orphan_maker = "import os, sys\nif os.fork() == 0: os._exit(0)\nsys.exit(3)"
    plan = JailPlan(argv=[PYTHON, "-c", orphan_maker], namespaces=["pid"], reaper=True)
    body = await spawner.start(plan, null)
    assert await body.ended() == "exited"
    assert os.waitid(os.P_PID, body.pid, os.WEXITED | os.WNOWAIT).si_status == 3
    body.bury()


async def test_killing_the_first_process_ends_every_process_of_the_body(spawner, tmp_path, null):
    script = f"import os, time\nopen({str(tmp_path / 'up')!r}, 'w').close()\nos.fork()\ntime.sleep(60)"
    mark = f"berth-test-{os.getpid()}"
    body = await spawner.start(JailPlan(argv=[PYTHON, "-c", script, mark], namespaces=["pid"], reaper=True), null)
    await until(lambda: len(processes_with(mark)) == 2)
    await body.kill()
    await until(lambda: processes_with(mark) == [])
    body.bury()


def processes_with(word: str) -> list[str]:
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and word.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                found.append(folder.name)
        except OSError:
            continue
    return found


async def until(condition, timeout_s: float = 60) -> None:
    deadline = asyncio.get_running_loop().time() + timeout_s
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "never became true"
        await asyncio.sleep(0.02)
