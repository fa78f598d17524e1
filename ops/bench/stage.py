"""The private instance that benches run on: its own folder and port, the shared cache, gone afterwards.

Called by `ops.bench`. Starts and stops through `./berth`'s own commands, speaks REST as any client does, and to
hostd directly where a floor is measured.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ops.instance import ROOT, Instance, from_environment
from ops.probes import UnixConnection
from ops.say import SetupFailed

#: What benches make at once: quotas are not what they measure, and a checkpoint that nobody asked for is in no figure.
ROOM = {"BERTH_QUOTA_WORKSPACES": "2000", "BERTH_QUOTA_DISK_GIB": "100000", "BERTH_QUOTA_RUNNING": "100",
        "BERTH_QUOTA_CPUS": "200", "BERTH_QUOTA_MEMORY_MIB": "200000", "BERTH_QUOTA_CHECKPOINTS": "10000",
        "BERTH_AUTO_CHECKPOINTS": "0", "BERTH_RATE_PER_TOKEN_S": "0", "BERTH_RATE_PER_ADDRESS_S": "0"}


class Client:
    """One kept-alive connection, so that a bench measures requests and no handshakes."""

    def __init__(self, connection: http.client.HTTPConnection, headers: dict[str, str]) -> None:
        self.connection = connection
        self.headers = {"Content-Type": "application/json", **headers}

    def call(self, method: str, path: str, body: object = None, expect: tuple[int, ...] = (200, 201, 202)) -> Any:
        """The JSON answer. Raises RuntimeError on another status than expected."""
        self.connection.request(method, path, None if body is None else json.dumps(body), self.headers)
        response = self.connection.getresponse()
        raw = response.read()
        if response.status not in expect:
            raise RuntimeError(f"{method} {path}: {response.status} {raw[:300]!r}")
        return json.loads(raw) if raw else None


@dataclass
class Stage:
    instance: Instance
    token: str

    def rest(self) -> Client:
        return Client(http.client.HTTPConnection(self.instance.connect_host, self.instance.port, timeout=120),
                      {"Authorization": f"Bearer {self.token}"})

    def hostd(self) -> Client:
        return Client(UnixConnection(self.instance.hostd_socket, 120),
                      {"Berth-Actor": '{"type":"system","name":"bench"}'})

    def create(self, name: str, **fields: object) -> dict[str, Any]:
        workspace: dict[str, Any] = self.rest().call(
            "POST", "/api/v1/workspaces?wait=true&timeout_s=120", {"name": name, **fields})
        if workspace["state"] != "running":
            raise RuntimeError(f"workspace {name} is {workspace['state']}: {workspace.get('state_reason')}")
        return workspace

    def purge(self, workspace_id: str) -> None:
        self.rest().call("DELETE", f"/api/v1/workspaces/{workspace_id}?purge=true&wait=true")

    def pid(self, name: str) -> int:
        return int((self.instance.run / f"{name}.pid").read_text().split()[0])


@contextmanager
def staged(driver: str) -> Iterator[Stage]:
    shared = from_environment()
    folder = Path(tempfile.mkdtemp(prefix="berth-bench-"))
    instance = Instance(folder / "data", shared.cache, port=free_port(), driver=driver)
    env = {**instance.environment(), **ROOM}
    try:
        berth(env, "up", "--detach", "--port", str(instance.port))
        yield Stage(instance, berth(env, "token", "bench", "--admin").strip())
    finally:
        subprocess.run([sys.executable, "-m", "ops", "down"], cwd=ROOT, env=env, check=False, stdin=subprocess.DEVNULL)
        shutil.rmtree(folder, ignore_errors=True)


def berth(env: dict[str, str], *arguments: str) -> str:
    """A command of the machine room; its chatter goes through to stderr, its stdout is the answer."""
    done = subprocess.run([sys.executable, "-m", "ops", *arguments], cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SetupFailed(f"{arguments[0]} of the bench's own instance failed")
    return done.stdout


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024**2
