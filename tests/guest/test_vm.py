"""The agent in a real machine: attach, execs in cgroups, files, names, quiesce, a crash of its own, power off.

The driver's contract suite holds starting and resuming; here is what only the guest's side can show.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sandboxes.drivers import select
from sandboxes.drivers.base import Driver, LiveMachine, MachineHome
from sandboxes.errors import AgentLost, FileError
from sandboxes.guest.image.build import ensure
from sandboxes.guest.link import GuestLink
from sandboxes.spec import ImageSet, MachineSpec
from tests.guest.guest import DEADLINE_S, Guest, b64
from tests.machine_template import lay_into

pytestmark = pytest.mark.vm
MACHINE_ID = "0123456789abcdef" * 2
HOME = "/home/user"


@pytest.fixture(scope="module")
def images(cache: Path) -> ImageSet:
    return ensure(cache, print)


@pytest.fixture(scope="module")
def state(cache: Path, tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("guest-vm")
    lay_into(folder, cache)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def driver(state: Path, images: ImageSet) -> AsyncIterator[Driver]:
    driver = select("qemu", state, images)
    yield driver
    await driver.strays(set())
    await driver.close()


@pytest.fixture
async def body(driver: Driver, state: Path) -> AsyncIterator[LiveMachine]:
    home, spec = MachineHome(state / "machines" / "m1"), MachineSpec("m1", 1, disk_gib=6)
    await driver.create_disk(home, spec)
    live = await driver.launch(home, spec, lambda _stage: None)
    await live.fit_disk(6)
    yield live
    await driver.destroy(home)


@pytest.fixture
async def guest(body: LiveMachine) -> AsyncIterator[Guest]:
    link = await GuestLink.open(body.agent_socket, 1, timeout_s=60)
    assert link.info["state"] == "waiting"
    await link.request("resume", {"epoch": 1, "unix_time_ns": time.time_ns(), "hostname": "box",
                                  "machine_id": MACHINE_ID,
                                  "entropy_b64": base64.b64encode(os.urandom(64)).decode()}, timeout_s=60)
    await link.request("attach", {"hostname": "box", "machine_id": MACHINE_ID, "env": {"WORKSPACE_SAYS": "hello"},
                                  "root": {}}, timeout_s=90)
    yield Guest(body.agent_socket, link)
    await link.close()


async def said(guest: Guest, text: str, **params) -> str:
    ran = await guest.run(text, **params)
    assert ran.outcome == {"kind": "exited", "code": 0}, ran
    return ran.stdout.decode().strip()


async def test_the_users_world_is_whole(guest: Guest):
    asked = "hostname; cat /etc/machine-id; id -un; pwd; sudo -n id -u; echo $WORKSPACE_SAYS; nproc"
    assert await said(guest, asked) == (
        f"box\n{MACHINE_ID}\nuser\n{HOME}\n0\nhello\n1")
    assert await said(guest, "getent hosts box | head -n 1 | cut -d' ' -f1") == "127.0.1.1"
    assert abs(int(await said(guest, "date +%s")) - time.time()) < 60
    assert await said(guest, "stat -f -c %T /; findmnt -n -o FSTYPE /dev/pts; findmnt -n -o FSTYPE /sys/fs/cgroup") == (
        "ext2/ext3\ndevpts\ncgroup2")
    blocks, size = (await said(guest, "stat -f -c '%b %S' /")).split()
    assert int(blocks) * int(size) > 5 << 30, "the file system fills its disk"
    assert await said(guest, "ping -c 1 -W 2 127.0.0.1 > /dev/null && echo up") == "up"
    ran = await guest.run("cut -d: -f3 /proc/self/cgroup")
    assert ran.stdout.decode().strip() == f"/users/{ran.exec_id}"
    for program in ("python3", "pip3", "git", "curl", "nano", "less", "rg", "jq", "tmux"):
        assert await said(guest, f"command -v {program}")
    paths = {await said(guest, "echo $PATH"), await said(guest, "echo $PATH", login=False)}
    assert paths == {(await guest.run("echo $PATH", tty={"cols": 80, "rows": 24})).stdout.decode().strip()}


async def test_a_timeout_ends_what_gave_itself_a_session_and_ignores_term(guest: Guest):
    ran = await guest.run("setsid sh -c 'trap \"\" TERM; sleep 600; touch /tmp/ghost' & (env -i setsid sleep 600 &); "
                          "trap '' TERM; echo begun; sleep 600", timeout_s=3)
    assert ran.outcome == {"kind": "timed_out"} and ran.stdout == b"begun\n"
    assert await said(guest, "pgrep -c sleep || true") == "0"
    assert await said(guest, "ps -eo stat= | grep -c Z || true") == "0"


async def test_execs_are_their_users_own_and_outlive_the_process_that_forked_them(guest: Guest):
    await said(guest, "sudo useradd -m -s /bin/sh -G audio,games eve && sudo chmod 700 /home/eve")
    exec_id = await guest.start("id -un; id -Gn; pwd; echo $HOME $USER $LOGNAME $SHELL; cat /proc/self/oom_score_adj; "
                                "ulimit -n; cat /proc/$PPID/comm; sudo -n true 2> /dev/null; echo $?", user="eve")
    assert (await guest.link.request("exec.start", {"exec_id": exec_id}))["cwd"] == "/home/eve"
    assert (await guest.finish(exec_id)).stdout.decode().splitlines() == [
        "eve", "eve audio games", "/home/eve", "/home/eve eve eve /bin/sh", "0", "1024", "berth-agent", "1"]
    running = await guest.start("read x; echo got-$x; exit 7", stdin=True)
    await said(guest, "sudo pkill -9 -P $PPID -f '[b]erth/agent'")
    assert await said(guest, "echo alive") == "alive"
    await guest.stdin(running, b"it\n")
    ended = await guest.finish(running)
    assert (ended.stdout, ended.outcome) == (b"got-it\n", {"kind": "exited", "code": 7})
    for each in (await guest.link.request("exec.list"))["execs"]:
        await guest.link.request("exec.forget", {"exec_id": each["exec_id"]})
    await said(guest, "until [ $(ls -d /sys/fs/cgroup/users/*/ | wc -l) -le 2 ]; do sleep 0.2; done")


async def test_files_have_the_users_rights_and_come_back_byte_for_byte(guest: Guest):
    data = os.urandom(2_000_000)
    await guest.write(f"{HOME}/data", data)
    assert await guest.read(f"{HOME}/data") == data
    for path in ("/etc/shadow", "/proc/1/environ", "/proc/self/environ", "/run/berth-agent/machine.json"):
        with pytest.raises(FileError) as refused:
            await guest.read(path)
        assert refused.value.code == "permission_denied"
    with pytest.raises(FileError) as refused:
        await guest.read("/dev/vda")
    assert refused.value.code == "not_a_regular_file"
    await said(guest, "setfattr -n user.kept -v yes data 2> /dev/null || python3 -c "
                      "'import os; os.setxattr(\"data\", \"user.kept\", b\"yes\")'; chmod 640 data")
    await guest.write(f"{HOME}/data", b"new")
    assert await said(guest, "python3 -c 'import os; print(os.getxattr(\"data\", \"user.kept\").decode())'; "
                             "stat -c %a data; ls -A | grep -c '^.berth' || true") == "yes\n640\n0"
    await guest.write("/proc/sys/vm/swappiness", b"7\n", user="root")
    assert await guest.read("/proc/sys/vm/swappiness") == b"7\n"


async def test_trees_watches_and_ports_work_on_a_real_disk_and_a_real_network(guest: Guest):
    await said(guest, "mkdir -p tree/a; echo x > tree/a/f; truncate -s 1G tree/hole; ln tree/a/f tree/g")
    watch = await guest.link.stream("file.watch", {"path_b64": b64(f"{HOME}/tree"), "user": "user"})
    assert b'"ready":2' in (await anext(watch))[1]
    archive = await guest.link.stream("file.archive", {"path_b64": b64(f"{HOME}/tree"), "user": "user"})
    data = b"".join([piece async for _, piece in archive])
    assert len(data) < 100_000
    into = await guest.link.stream("file.extract", {"path_b64": b64(f"{HOME}/back"), "user": "user", "parents": True})
    await into.write(data)
    await into.write_eof()
    assert (await into.result())["entries"] == 4
    assert await said(guest, "stat -c '%h %s' back/g; du -k back/hole | cut -f1; echo y > tree/a/new") == "2 2\n0"
    assert b'"created"' in (await anext(watch))[1]
    await watch.cancel()
    server = ("import socket; s = socket.create_server(('127.0.0.1', 4321)); c = s.accept()[0]; "
              "c.sendall(c.recv(9)[::-1]); c.close()")
    await guest.start(argv=["python3", "-c", server])

    async def listening() -> list[int]:
        return [each["port"] for each in (await guest.link.request("port.list"))["ports"] if each["user"] == "user"]
    deadline = time.monotonic() + DEADLINE_S
    while await listening() != [4321]:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)
    stream = await guest.link.stream("port.connect", {"port": 4321})
    assert await stream.head() == {"address": "127.0.0.1"}
    await stream.write(b"abc")
    assert await anext(stream) == (0, b"cba")
    await stream.write_eof()
    assert (await stream.result())["received_bytes"] == 3


async def test_the_guest_needs_nothing_of_its_own_to_be_served(guest: Guest):
    """`apt remove python3` and worse: the agent's interpreter and libraries are on the tools disk."""
    await said(guest, "sudo rm -rf /usr/lib/python3* /usr/bin/python3*")
    assert (await guest.run(argv=["/bin/echo", "alive"])).stdout == b"alive\n"
    await guest.write(f"{HOME}/after", b"x")
    ran = await guest.run("sudo touch /run/berth/x")
    assert b"Read-only" in ran.stderr


async def test_quiesce_freezes_writers_and_disk_and_thaw_lets_them_go_on(guest: Guest):
    exec_id = await guest.start("while :; do echo x >> log; done")
    await said(guest, "until [ -s log ]; do sleep 0.1; done")
    await guest.link.request("quiesce", timeout_s=60)
    await guest.link.request("quiesce", timeout_s=60)
    await guest.link.drain()
    assert await guest.link.request("ping") == {}
    await guest.link.request("thaw", timeout_s=60)
    size = int(await said(guest, "stat -c %s log"))
    await said(guest, f"until [ $(stat -c %s log) -gt {size} ]; do sleep 0.1; done")
    await guest.link.request("exec.kill", {"exec_id": exec_id})


async def test_an_agent_that_dies_is_started_again_and_what_it_ran_is_ended_not_invented(guest: Guest):
    exec_id = await guest.start("sleep 600")
    boot_id = guest.link.info["boot_id"]
    stream = await guest.output(exec_id)
    await stream.head()
    await guest.start("sleep 1; pkill -9 -f berth/agent", user="root")
    async with asyncio.timeout(60):
        await guest.link.closed
    with pytest.raises(AgentLost):
        await stream.result()
    async with guest.another_link() as again:
        assert again.link.info["boot_id"] != boot_id
        assert again.link.info["state"] == "attached" and again.link.info["execs"] == []
        assert await said(again, "pgrep -c sleep || true") == "0"
        assert await said(again, "echo $WORKSPACE_SAYS") == "hello"


async def test_shutdown_lets_processes_clean_up_writes_everything_and_powers_off(body: LiveMachine, guest: Guest):
    await guest.start("trap 'echo saved > saved; exit' TERM; echo x > started; while :; do sleep 0.1; done")
    await said(guest, "until [ -s started ]; do sleep 0.1; done")
    await guest.link.request("shutdown", timeout_s=DEADLINE_S)
    async with asyncio.timeout(60):
        assert await body.wait_end() == "exited"


async def test_two_machines_of_one_template_part_ways(driver: Driver, state: Path):
    """The same template, so the same kernel state: only what the host gives at resume makes them differ."""
    drawn = []
    for number in (2, 3):
        home, spec = MachineHome(state / "machines" / f"m{number}"), MachineSpec(f"m{number}", 1, disk_gib=4)
        await driver.create_disk(home, spec)
        live = await driver.launch(home, spec, lambda _stage: None)
        link = await GuestLink.open(live.agent_socket, 1, timeout_s=60)
        entropy = base64.b64encode(os.urandom(64)).decode()
        await link.request("resume", {"epoch": 1, "unix_time_ns": time.time_ns(), "entropy_b64": entropy}, timeout_s=60)
        await link.request("attach", {"hostname": f"box{number}", "machine_id": "", "env": {}, "root": {}},
                           timeout_s=90)
        drawn.append(await said(Guest(live.agent_socket, link), "head -c 16 /dev/urandom | sha256sum; hostname"))
        await link.close()
        await driver.destroy(home)
    assert drawn[0].split()[0] != drawn[1].split()[0]
    assert [each.split()[-1] for each in drawn] == ["box2", "box3"]
