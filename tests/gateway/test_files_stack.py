"""Files and ports through the whole product: what every process holds while much passes, and a real tunnel."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.stack import Stack, until

pytestmark = pytest.mark.stack
MIB = 1024 * 1024
#: By hand with 1024: the bound is the same.
FILE_MIB = int(os.environ.get("BERTH_TEST_FILE_MIB", "64"))
#: Of each process. A hop that kept the body would hold all of it.
FLAT_MIB = 24
HOME = "/home/user"


@pytest.fixture(scope="module")
def anna(stack: Stack) -> Iterator[httpx.Client]:
    with stack.client("anna", timeout=600) as client:
        yield client


@pytest.fixture(scope="module")
def workspace(stack: Stack) -> str:
    return str(stack.workspace("anna")["id"])


@pytest.fixture(scope="module")
def base(workspace: str) -> str:
    return f"/api/v1/workspaces/{workspace}"


class Peaks:
    """What each process held at most since it was asked to count anew, as its kernel says."""

    def __init__(self, **pids: int) -> None:
        self._pids = pids
        self._before = {}
        for name, pid in pids.items():
            Path(f"/proc/{pid}/clear_refs").write_text("5")
            self._before[name] = self._peak(pid)

    def grown_mib(self) -> dict[str, float]:
        return {name: round((self._peak(pid) - self._before[name]) / 1024, 1) for name, pid in self._pids.items()}

    @staticmethod
    def _peak(pid: int) -> int:
        return int(Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0])


def agent_pid(workspace: str) -> int:
    """The guest's agent as a process of this host: it carries the fake driver's mark."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                ours = f":{workspace}".encode() in (entry / "environ").read_bytes()
                if ours and b"sandboxes.guest.agent" in (entry / "cmdline").read_bytes():
                    return int(entry.name)
    raise AssertionError("no agent")


def test_a_large_file_and_a_large_tree_pass_every_hop_with_flat_memory(stack: Stack, anna: httpx.Client, base: str,
                                                                       workspace: str) -> None:
    piece = os.urandom(MIB)
    whole = hashlib.sha256()
    for _ in range(FILE_MIB):
        whole.update(piece)
    path = {"path": f"{HOME}/large/file"}
    anna.put(f"{base}/files/content", params={"path": f"{HOME}/warm"}, content=piece)
    anna.get(f"{base}/files/content", params={"path": f"{HOME}/warm"})
    peaks = Peaks(gateway=stack.pid("gateway"), hostd=stack.pid("hostd"), agent=agent_pid(workspace))
    wrote = anna.put(f"{base}/files/content", params={**path, "parents": "true"},
                     content=(piece for _ in range(FILE_MIB)))
    assert (wrote.status_code, wrote.json()["size"]) == (201, FILE_MIB * MIB), wrote.text
    assert digest_of(anna, f"{base}/files/content", path) == whole.hexdigest()

    def tar_in_pieces() -> Iterator[bytes]:
        info = tarfile.TarInfo("again")
        info.size = FILE_MIB * MIB
        yield info.tobuf(tarfile.PAX_FORMAT)
        for _ in range(FILE_MIB):
            yield piece
        yield bytes(1024)
    took = anna.put(f"{base}/files/archive", params={"path": f"{HOME}/large"}, content=tar_in_pieces())
    assert took.status_code == 200 and took.json()["bytes"] == FILE_MIB * MIB, took.text
    sums = anna.post(f"{base}/execs", json={"command": "sha256sum large/*", "wait_s": 300}).json()["stdout"].split()
    assert sums[0] == sums[2] == whole.hexdigest()
    size = 0
    with anna.stream("GET", f"{base}/files/archive", params={"path": f"{HOME}/large"}) as reply:
        for data in reply.iter_raw():
            size += len(data)
    assert size == 2 * (FILE_MIB * MIB + 512) + 1024
    grown = peaks.grown_mib()
    print(f"{FILE_MIB} MiB up, down, tar in, tar out of two: grown by {grown} MiB")
    assert max(grown.values()) < FLAT_MIB, grown
    assert anna.delete(f"{base}/files", params={"path": f"{HOME}/large", "recursive": "true"}).status_code == 204


def digest_of(client: httpx.Client, path: str, params: dict[str, str]) -> str:
    digest = hashlib.sha256()
    with client.stream("GET", path, params=params) as reply:
        for data in reply.iter_raw():
            digest.update(data)
    return digest.hexdigest()


@contextlib.contextmanager
def socket_to(stack: Stack, path: str) -> Iterator[ClientConnection]:
    with connect(stack.base_url.replace("http", "ws", 1) + path, max_size=None,
                 additional_headers={"Authorization": f"Bearer {stack.token('anna')}"}) as made:
        yield made


SERVER = ("import http.server, functools; s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), "
          "http.server.SimpleHTTPRequestHandler); print(s.server_port, flush=True); s.serve_forever()")


def test_a_port_is_listed_and_a_tunnel_carries_a_program_of_its_own(stack: Stack, anna: httpx.Client, base: str,
                                                                    workspace: str) -> None:
    data = os.urandom(3 * MIB)
    anna.put(f"{base}/files/content", params={"path": f"{HOME}/served"}, content=data)
    exec_id = anna.post(f"{base}/execs", json={"command": ["python3", "-c", SERVER], "background": True}).json()["id"]
    output = f"{base}/execs/{exec_id}/output?stream=stdout"
    port = int(until(lambda: anna.get(output).text.strip(), "the server listens"))
    listed = anna.get(f"{base}/ports").json()["results"]
    assert [(each["address"], each["process"]) for each in listed if each["port"] == port] == [("127.0.0.1", "python3")]
    with socket_to(stack, f"/ws/v1/workspaces/{workspace}/ports/{port}/tunnel") as tunnel:
        tunnel.send(b"GET /served HTTP/1.0\r\n\r\n")
        tunnel.send(b"")
        got = b""
        while frame := tunnel.recv(timeout=60):
            assert isinstance(frame, bytes)
            got += frame
        assert got.startswith(b"HTTP/1.0 200") and got.endswith(data)
        with pytest.raises(ConnectionClosed) as closed:
            tunnel.recv(timeout=60)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1000

    def kinds() -> list[tuple[str, Any]]:
        events = anna.get(f"{base}/events", params={"limit": 200}).json()["results"]
        return [(event["kind"], event["data"].get("port")) for event in events if event["kind"].startswith("port.")]
    until(lambda: ("port.opened", port) in kinds(), "the port is news")
    anna.delete(f"{base}/execs/{exec_id}")
    until(lambda: ("port.closed", port) in kinds(), "and its end")


def test_a_watch_sees_what_an_agent_writes_and_the_event_names_it(stack: Stack, anna: httpx.Client, base: str,
                                                                  workspace: str) -> None:
    anna.post(f"{base}/files/mkdir", json={"path": f"{HOME}/seen"})
    with socket_to(stack, f"/ws/v1/workspaces/{workspace}/files/watch?path={HOME}/seen") as watch:
        assert json.loads(watch.recv(timeout=60))["type"] == "ready"
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as archive:
            archive.addfile(tarfile.TarInfo("from-tar"))
        assert anna.put(f"{base}/files/archive", params={"path": f"{HOME}/seen"}, content=out.getvalue()).is_success
        assert json.loads(watch.recv(timeout=60))["changes"][0]["path"] == f"{HOME}/seen/from-tar"

    def told() -> Any:
        events = anna.get(f"{base}/events", params={"limit": 200}).json()["results"]
        return next((event for event in events if event["kind"] == "file.extracted"
                     and event["data"]["path"] == f"{HOME}/seen"), None)
    event = until(told, "the archive is an event")
    assert event["actor"]["type"] == "token" and event["data"] == {"path": f"{HOME}/seen", "entries": 1, "bytes": 0}
    found = anna.get(f"{base}/files/search", params={"path": HOME, "pattern": "from-*"}).json()
    assert [entry["path"] for entry in found["results"]] == [f"{HOME}/seen/from-tar"] and found["next"] is None
