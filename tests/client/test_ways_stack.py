"""Ways into a workspace and trees out of it: ports, tunnels, forward, archives, search, watch; the product whole."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from berth_client import AsyncBerth, NoSuchFile, OneWorkspace, Problem
from tests.client.conftest import Cli
from tests.stack import free_port, until

pytestmark = pytest.mark.stack
HOME = "/home/user"
#: Reads until the other side ends, then says how much that was: only half-closing lets it answer.
COUNTER = """
import socket, sys
listening = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    one, _ = listening.accept()
    count = 0
    while data := one.recv(65536):
        count += len(data)
    one.sendall(b"counted %d" % count)
    one.close()
"""


@pytest.fixture(scope="module")
def port(one: OneWorkspace) -> int:
    """Something that listens in the workspace."""
    chosen = free_port()
    one.files.write(f"{HOME}/counter.py", COUNTER)
    one.execs.start(["python3", f"{HOME}/counter.py", str(chosen)])
    until(lambda: chosen in [listening.port for listening in one.ports.list()], "it listens", 60)
    return chosen


async def test_a_tunnel_is_a_connection_with_two_ends(async_berth: AsyncBerth, one: OneWorkspace, port: int) -> None:
    here = async_berth.workspace(one.id)
    data = os.urandom(3_000_000)
    async with here.tunnel(port) as tunnel:
        await tunnel.write(data)
        await tunnel.write_eof()
        said = b""
        while piece := await tunnel.read():
            said += piece
        assert said == b"counted 3000000" and await tunnel.read() == b""
    with pytest.raises(Problem) as refused:
        async with here.tunnel(free_port()):
            pass
    assert refused.value.code == "preview_not_listening"


def test_a_local_port_is_forwarded_for_many_at_once(cli: Cli, one: OneWorkspace, port: int) -> None:
    assert port in [listening["port"] for listening in cli.json("ports", "shared")]
    assert str(port) in cli.good("ports", "shared")
    running = cli.start("forward", "shared", f"0:{port}", f"0:{free_port()}", "--json", stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE)
    try:
        assert running.stdout
        there, nowhere = (json.loads(running.stdout.readline())["local"].split(":") for _ in range(2))
        with contextlib.ExitStack() as stack:
            several = [stack.enter_context(socket.create_connection((there[0], int(there[1])), 30)) for _ in range(5)]
            for number, connection in enumerate(several):
                connection.sendall(b"x" * (number + 1))
                connection.shutdown(socket.SHUT_WR)
            said = [b"".join(iter(lambda c=connection: c.recv(100), b"")) for connection in several]
            assert said == [b"counted %d" % (number + 1) for number in range(5)]
        with socket.create_connection((nowhere[0], int(nowhere[1])), 30) as connection:
            assert connection.recv(10) == b""
    finally:
        running.send_signal(signal.SIGINT)
        _, said_of = running.communicate(timeout=60)
    assert running.returncode == 0 and b"[preview_not_listening]" in said_of


def test_trees_go_both_ways_as_they_are(cli: Cli, one: OneWorkspace, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "deep" / "er").mkdir(parents=True)
    (tree / "deep" / "tool").write_bytes(os.urandom(700_000))
    (tree / "deep" / "tool").chmod(0o750)
    (tree / "deep" / "er" / "ü").write_text("text")
    (tree / "link").symlink_to("deep/tool")
    assert b"-r" in cli.run("cp", str(tree), f"shared:{HOME}/tree").stderr
    cli.good("cp", "-r", str(tree), f"shared:{HOME}/tree")
    cli.good("cp", "-r", str(tree), f"shared:{HOME}/tree")  # it is there now: into it
    assert one.files.read_text(f"{HOME}/tree/tree/deep/er/ü") == "text"
    seen = one.run(f"cd {HOME}/tree; stat -c %a deep/tool; readlink link; sha256sum < deep/tool").stdout.split()
    assert seen[:2] == ["750", "deep/tool"]
    one.files.delete(f"{HOME}/tree/tree", recursive=True)
    cli.good("cp", "-r", f"shared:{HOME}/tree", str(tmp_path / "back"))
    for path in sorted(tree.rglob("*")):
        twin = tmp_path / "back" / path.relative_to(tree)
        assert twin.is_symlink() == path.is_symlink() and twin.is_dir() == path.is_dir()
        if path.is_file() and not path.is_symlink():
            assert twin.read_bytes() == path.read_bytes() and twin.stat().st_mode == path.stat().st_mode
    with tarfile.open(fileobj=BytesIO(b"".join(one.files.archive(f"{HOME}/tree")))) as tar:
        assert {"deep", "deep/tool", "deep/er/ü", "link"} <= {name.rstrip("/") for name in tar.getnames()}
    with pytest.raises(NoSuchFile):
        list(one.files.archive(f"{HOME}/none"))


def test_a_search_finds_names_and_lines(one: OneWorkspace) -> None:
    one.files.write(f"{HOME}/hunt/a.py", "first\nneedle here\n", parents=True)
    one.files.write(f"{HOME}/hunt/b.txt", "needle\n")
    found = list(one.files.search(f"{HOME}/hunt", pattern="*.py", content="needle"))
    assert [(one.path, [(m.line, m.text.strip()) for m in one.matches]) for one in found] == [
        (f"{HOME}/hunt/a.py", [(2, "needle here")])]
    names = sorted(one.path for one in one.files.search(f"{HOME}/hunt", pattern="*", limit=1))
    assert names == [f"{HOME}/hunt/a.py", f"{HOME}/hunt/b.txt"]


async def test_a_watch_tells_of_changes_until_the_folder_goes(async_berth: AsyncBerth, one: OneWorkspace) -> None:
    files = async_berth.workspace(one.id).files
    await files.mkdir(f"{HOME}/watched")
    told: list[str] = []
    async with asyncio.timeout(60):
        async for said in files.watch(f"{HOME}/watched"):
            told += [said["type"], *(change["path"] for change in said.get("changes", ()))]
            if said["type"] == "ready":
                await files.write(f"{HOME}/watched/new", "x")
            elif f"{HOME}/watched/new" in told and await files.exists(f"{HOME}/watched"):
                await files.delete(f"{HOME}/watched", recursive=True)
    assert told[0] == "ready" and told[-1] == "gone" and f"{HOME}/watched/new" in told
    assert not re.search("overflow", " ".join(told))
