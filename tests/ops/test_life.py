"""A whole instance through the command line, with the fake driver: up, faults, down, and nothing left.

One instance serves all tests here, in the order of its life; another lives beside it for a moment.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ops import hostside, pids, probes
from ops.bench.stage import free_port
from ops.instance import Instance

pytestmark = pytest.mark.stack
ROOT = Path(__file__).resolve().parents[2]


class Running:
    """An instance by its commands, as a person has it."""

    def __init__(self, folder: Path) -> None:
        self.instance = Instance(folder / "data", Path(os.environ["BERTH_CACHE"]), port=free_port(), driver="fake")
        self.env = self.instance.environment()

    def berth(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "ops", *arguments], cwd=ROOT, env=self.env, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=300)

    def up(self) -> subprocess.CompletedProcess[str]:
        return self.berth("up", "--detach", "--port", str(self.instance.port))

    def rest(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        return probes.request((self.instance.host, self.instance.port), method, f"/api/v1{path}", body,
                              headers={"Authorization": f"Bearer {self.token}"}, timeout_s=120)

    def process(self, name: str) -> pids.Process | None:
        return pids.read(self.instance.run / f"{name}.pid")

    token = ""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    made = Running(tmp_path_factory.mktemp("life"))
    started = made.up()
    assert started.returncode == 0, started.stderr
    assert f"http://localhost:{made.instance.port}" in started.stdout
    made.token = made.berth("token", "ann").stdout.strip()
    yield made
    made.berth("down")
    assert hostside.left(made.instance) == []


def test_up_says_how_the_first_admin_signs_in_and_no_log_has_the_code(running: Running) -> None:
    asked = running.up()
    code = next(line.strip() for line in asked.stdout.splitlines() if line.startswith("    "))
    assert "Sign in as admin" in asked.stdout
    assert not [log for log in running.instance.log.iterdir() if code in log.read_text(errors="replace")]


def test_status_shows_every_process_and_the_host(running: Running) -> None:
    done = running.berth("status", "--json")
    facts = json.loads(done.stdout)
    assert done.returncode == 0
    assert all(process["pid"] and process["memory_mib"] for process in facts["processes"])
    assert [host["driver"] for host in facts["hosts"]] == ["fake"]


def test_a_second_instance_runs_beside_the_first(running: Running, tmp_path: Path) -> None:
    other = Running(tmp_path)
    assert other.up().returncode == 0
    try:
        assert other.process("hostd") != running.process("hostd")
        assert running.berth("status").returncode == 0
    finally:
        assert other.berth("down").returncode == 0
    assert running.berth("status").returncode == 0


def test_a_workspace_outlives_a_killed_hostd_worker_and_broker(running: Running) -> None:
    status, workspace = running.rest("POST", "/workspaces?wait=true", {"name": "lasting"})
    assert (status, workspace["state"]) == (201, "running")
    body = hostside.bodies(running.instance)[workspace["id"]]
    for name in ("hostd", "worker", "redis"):
        before = running.process(name)
        assert before is not None
        before.signal(signal.SIGKILL)
        wait_until(lambda name=name, before=before: running.process(name) not in (None, before))
    wait_until(lambda: running.rest("POST", f"/workspaces/{workspace['id']}/execs", {"command": ["true"]})[0] == 200)
    assert hostside.bodies(running.instance)[workspace["id"]] == body


def test_down_then_up_loses_no_workspace(running: Running) -> None:
    _, before = running.rest("GET", "/workspaces")
    down = running.berth("down")
    assert down.returncode == 0, down.stderr
    assert running.process("supervisor") is None
    assert hostside.left(running.instance) == []
    assert running.up().returncode == 0
    wait_until(lambda: states(running) == {row["id"]: "running" for row in before["results"]})


def test_down_ends_what_a_killed_supervisor_left(running: Running) -> None:
    supervisor, gateway = running.process("supervisor"), running.process("gateway")
    assert supervisor is not None and gateway is not None
    supervisor.signal(signal.SIGKILL)
    assert pids.wait_gone(supervisor, 60)
    assert gateway.alive()
    assert running.berth("down").returncode == 0
    assert not gateway.alive()
    assert hostside.left(running.instance) == []


def states(running: Running) -> dict[str, str]:
    _, listed = running.rest("GET", "/workspaces")
    return {row["id"]: row["state"] for row in listed["results"]}


def wait_until(true: Callable[[], object], within_s: float = 90) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.2)
