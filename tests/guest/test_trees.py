"""A cgroup v2 knows every process of an exec, whatever it did to escape. The host's own kernel shows it here."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandboxes.guest.agent import syscalls
from sandboxes.guest.agent.trees import CgroupTree

ESCAPES = "setsid sh -c 'trap \"\" TERM HUP; sleep 600' & (env -i setsid sleep 600 &) ; wait; sleep 600"


@pytest.fixture
def users(tmp_path: Path) -> Iterator[Path]:
    mount = tmp_path / "cgroup"
    mount.mkdir()
    syscalls.mount("cgroup2", str(mount), "cgroup2")
    users = mount / f"berth-test-{os.getpid()}"
    users.mkdir()
    yield users
    (users / "cgroup.kill").write_text("1")
    soon(lambda: "populated 0" in (users / "cgroup.events").read_text())
    for folder, _, _ in os.walk(users, topdown=False):
        Path(folder).rmdir()
    syscalls.unmount(str(mount))


def soon(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "never became true"
        time.sleep(0.01)


def start(tree: CgroupTree, text: str) -> subprocess.Popen[bytes]:
    entry = tree.open_entry()
    process = subprocess.Popen(["/bin/sh", "-c", text], preexec_fn=lambda: os.write(entry, b"0"), close_fds=False)
    os.close(entry)
    return process


def test_kill_ends_all_that_tried_to_escape(users: Path):
    tree = CgroupTree(users, "one")
    process = start(tree, ESCAPES)
    soon(lambda: len(tree.members()) >= 4)
    assert tree.alive()
    tree.kill()
    assert process.wait(60) == -signal.SIGKILL
    soon(lambda: not tree.alive())
    tree.remove()
    assert not (users / "one").exists() and not tree.alive()
    tree.kill()


def test_a_signal_reaches_every_member_also_below(users: Path):
    tree = CgroupTree(users, "two")
    process = start(tree, "setsid sleep 600 & exec sleep 600")
    soon(lambda: len(tree.members()) == 2)
    below = users / "two" / "below"
    below.mkdir()
    (below / "cgroup.procs").write_text(str(next(pid for pid in tree.members() if pid != process.pid)))
    assert len(tree.members()) == 2
    tree.signal(signal.SIGTERM)
    assert process.wait(60) == -signal.SIGTERM
    soon(lambda: not tree.alive())
    tree.remove()
    assert not (users / "two").exists()
