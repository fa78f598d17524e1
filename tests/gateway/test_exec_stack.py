"""Execs over the public port while parts of the product die: no byte, no outcome and no name is lost.

The machines are the fake driver's; every other process is the real one.
"""

from __future__ import annotations

import base64
import concurrent.futures
import contextlib
import hashlib
import json
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from tests.gateway.test_stack import bearer, events_of
from tests.stack import Stack, until
from tests.terminal_client import Terminal

pytestmark = pytest.mark.stack

LINES = 4000
#: Both streams, uneven pieces, for some seconds: long enough that every part can die on the way.
TALK = f"""
import os, random, time
chance = random.Random(7)
for n in range({LINES}):
    os.write(1, b"out-%d-%s\\n" % (n, b"x" * chance.randrange(120)))
    if n % 3 == 0:
        os.write(2, b"err-%d-%s\\n" % (n, b"y" * chance.randrange(60)))
    if n % 40 == 0:
        time.sleep(0.05)
raise SystemExit(9)
"""


def said_by_talk() -> dict[str, bytes]:
    chance, said = random.Random(7), {"stdout": bytearray(), "stderr": bytearray()}
    for n in range(LINES):
        said["stdout"] += b"out-%d-%s\n" % (n, b"x" * chance.randrange(120))
        if n % 3 == 0:
            said["stderr"] += b"err-%d-%s\n" % (n, b"y" * chance.randrange(60))
    return {name: bytes(data) for name, data in said.items()}


@pytest.fixture(scope="module")
def workspace(stack: Stack) -> str:
    return str(stack.workspace("anna")["id"])


@pytest.fixture(scope="module")
def base(workspace: str) -> str:
    return f"/api/v1/workspaces/{workspace}"


@pytest.fixture(scope="module")
def anna(stack: Stack) -> Iterator[httpx.Client]:
    with stack.client("anna", limits=httpx.Limits(max_connections=None)) as client:
        yield client


class Reader:
    """Follows an exec's events as a careful client does: from where it was, however often it is cut off."""

    def __init__(self, client: httpx.Client, url: str) -> None:
        self._client, self._url = client, url
        self.said = {"stdout": bytearray(), "stderr": bytearray()}
        self.offset = 0
        self.connections = 0
        self.outcome: Any = None

    def follow(self, cut_after: int | None = None) -> None:
        """One connection, to its end or until so many events came."""
        self.connections += 1
        with contextlib.suppress(httpx.TransportError), self._client.stream(
                "GET", self._url, params={"offset": self.offset}, timeout=30) as reply:
            if reply.status_code != 200:
                return
            name = ""
            for line in reply.iter_lines():
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    self._take(name, json.loads(line.removeprefix("data: ")))
                    cut_after = None if cut_after is None else cut_after - 1
                    if self.outcome is not None or cut_after == 0:
                        return

    def _take(self, name: str, value: dict[str, Any]) -> None:
        if name == "outcome":
            self.outcome = value
        elif name in self.said:
            data = base64.b64decode(value["data"])
            assert (value["offset"], value["next_offset"]) == (self.offset, self.offset + len(data))
            self.said[name] += data
            self.offset = value["next_offset"]

    def to_the_end(self) -> None:
        deadline = time.monotonic() + 120
        while self.outcome is None:
            assert time.monotonic() < deadline, f"no outcome after {self.connections} connections"
            self.follow()
            time.sleep(0.1)


def test_a_stream_is_byte_identical_through_cuts_and_the_death_of_every_part(stack: Stack, anna, base: str) -> None:
    begun = anna.post(f"{base}/execs", json={"command": ["python3", "-c", TALK], "background": True}).json()
    reader = Reader(anna, f"{base}/execs/{begun['id']}/stream")
    for part in (None, "gateway", "hostd", None, "daphne", "redis", "courier"):
        reader.follow(cut_after=20)
        if part is not None:
            stack.restart(part)
    reader.to_the_end()
    stack.ready()
    assert reader.outcome == {"kind": "exited", "code": 9} and reader.connections > 7
    assert {name: bytes(data) for name, data in reader.said.items()} == said_by_talk()
    record = anna.get(f"{base}/execs/{begun['id']}").json()
    assert (record["stdout"], record["stderr"]) == tuple(data.decode() for data in said_by_talk().values())
    for name, data in said_by_talk().items():
        cut = len(data) // 3
        part = anna.get(f"{base}/execs/{begun['id']}/output", params={"stream": name, "offset": cut})
        assert part.content == data[cut:] and int(part.headers["Berth-Next-Offset"]) == len(data)


def test_fifty_clients_at_once_lose_no_byte(stack: Stack, anna: httpx.Client, base: str) -> None:
    def one(number: int) -> None:
        command = f"head -c 200000 /dev/urandom | tee /tmp/c{number} | base64 -w0; sha256sum < /tmp/c{number} >&2"
        record = anna.post(f"{base}/execs", json={"command": command}).json()
        assert record["outcome"] == {"kind": "exited", "code": 0}, record
        assert hashlib.sha256(base64.b64decode(record["stdout"])).hexdigest() == record["stderr"].split()[0]
    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        list(pool.map(one, range(50)))


def test_an_exec_shows_who_asked_in_its_record_and_its_events(stack: Stack, anna: httpx.Client, base: str) -> None:
    secret = stack.token("anna", "--name", "ci robot", "--scope", "exec")
    body = {"command": ["sh", "-c", "pwd; kill -TERM $$"]}
    record = anna.post(f"{base}/execs", json=body, headers={"Authorization": f"Bearer {secret}"}).json()
    assert record["actor"]["type"] == "token" and "ci robot" in record["actor"]["name"]
    assert (record["cwd"], record["stdout"]) == ("/home/user", "/home/user\n")
    assert record["outcome"] == {"kind": "signaled", "signal": "SIGTERM"} and record["continued_from"] is None

    def told() -> list[dict[str, Any]]:
        events = [e for e in events_of(anna, base) if e["data"].get("exec_id") == record["id"]]
        return events if len(events) == 2 else []
    started, ended = until(told, "both events of the exec")
    assert (started["kind"], ended["kind"]) == ("exec.started", "exec.ended")
    assert started["actor"] == ended["actor"] == record["actor"] and ended["data"]["outcome"] == record["outcome"]


@pytest.mark.parametrize(("more", "field"), [
    ({"user": "nobody-here"}, "user"), ({"cwd": "/does/not/exist"}, "cwd"), ({"cwd": "/etc/passwd"}, "cwd"),
    ({"command": ["/bin/echo", "x" * 131_072]}, "command")])
def test_what_cannot_begin_is_refused_by_field(anna: httpx.Client, base: str, more: dict[str, Any], field: str) -> None:
    """Field case 120; E2BIG has the command's name."""
    said = anna.post(f"{base}/execs", json={"command": "true", **more})
    assert (said.status_code, said.json()["code"], list(said.json()["errors"])) == (400, "invalid", [field])


def test_a_wake_has_a_bound_of_its_own(stack: Stack) -> None:
    base = f"/api/v1/workspaces/{stack.workspace('anna')['id']}"
    with stack.client("anna") as client:
        client.post(f"{base}/stop?wait=true&timeout_s=60")
        late = client.post(f"{base}/execs", json={"command": "true", "wake_timeout_s": 0})
        assert late.json()["code"] == "wake_timeout" and int(late.headers["Retry-After"]) > 0
        for wrong in (-1, 301, "5", True):
            said = client.post(f"{base}/execs", json={"command": "true", "wake_timeout_s": wrong})
            assert (said.status_code, list(said.json()["errors"])) == (400, ["wake_timeout_s"])
        ended = client.post(f"{base}/execs", json={"command": "sleep 0.2; echo up", "timeout_s": 30}).json()
        assert ended["stdout"] == "up\n"
        client.delete(base)


CROWD = 80


def test_a_crowd_that_comes_back_at_once_is_served_and_wakes_nobody(stack: Stack, anna, base, workspace) -> None:
    """Field case 096: the gateway dies under many terminals; all return with backoff, REST is answered meanwhile."""
    resting = stack.workspace("anna")
    rest = f"/api/v1/workspaces/{resting['id']}"
    asleep = anna.post(f"{rest}/execs", json={"command": ["cat"], "tty": {"cols": 80, "rows": 24}}).json()["id"]
    anna.post(f"{rest}/stop?wait=true&timeout_s=60")
    shell = anna.post(f"{base}/execs", json={"command": ["/bin/sh"], "tty": {"cols": 80, "rows": 24}}).json()["id"]
    together, again = threading.Barrier(CROWD + 1, timeout=120), threading.Event()

    def client(number: int) -> None:
        chance, pause_s = random.Random(number), 0.1
        with Terminal(stack.base_url, workspace, shell, bearer(stack)) as terminal:
            if number == 0:
                terminal.type("echo be-$((40+2))-fore\n")
            terminal.until(b"be-42-fore")
            offset = terminal.offset
            together.wait()
            with pytest.raises(ConnectionClosed):
                while True:
                    terminal.take(60)
        again.wait(60)
        deadline = time.monotonic() + 90
        while True:
            try:
                with Terminal(stack.base_url, workspace, shell, bearer(stack), offset) as terminal:
                    terminal.until(b"af-42-ter", 60)
                    assert b"be-42-fore" not in terminal.output
                with Terminal(stack.base_url, resting["id"], asleep, bearer(stack)) as ended:
                    assert ended.until_ended()["kind"] in ("lost", "signaled")
                return
            except (OSError, ConnectionClosed, InvalidHandshake, TimeoutError):
                assert time.monotonic() < deadline, "it did not come back"
                time.sleep(chance.uniform(0, pause_s))
                pause_s = min(5.0, pause_s * 2)
    with concurrent.futures.ThreadPoolExecutor(CROWD) as pool:
        clients = [pool.submit(client, n) for n in range(CROWD)]
        together.wait()
        stack.restart("gateway")
        again.set()
        stack.ready()
        assert anna.get("/api/v1/workspaces").status_code == 200
        typed = {"command": ["true"]}
        assert anna.post(f"{base}/execs", json=typed).json()["outcome"] == {"kind": "exited", "code": 0}
        assert anna.post(f"{base}/execs/{shell}/stdin", content=b"echo af-$((40+2))-ter\n").status_code == 200
        for done in concurrent.futures.as_completed(clients, timeout=150):
            done.result()
    shells = [e for e in anna.get(f"{base}/execs?state=running&limit=200").json()["results"] if e["tty"]]
    assert [e["id"] for e in shells] == [shell]
    assert anna.get(rest).json()["state"] == "stopped"
    assert anna.delete(f"{base}/execs/{shell}").json()["outcome"]["kind"] == "killed"
    anna.delete(rest)
