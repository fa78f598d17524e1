"""The whole product over its public port: every process real, the machines those of the fake driver."""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from tests.gateway.test_access import ROUTES
from tests.stack import Stack, until
from tests.terminal_client import Terminal

pytestmark = pytest.mark.stack
MIB = 1024 * 1024
#: Above this much growth of the gateway a whole body would have been kept; what grows below is Python's own.
FLAT_KIB = 48 * 1024


@pytest.fixture(scope="module")
def anna(stack: Stack) -> Iterator[httpx.Client]:
    with stack.client("anna", limits=httpx.Limits(max_connections=None)) as client:
        yield client


@pytest.fixture(scope="module")
def workspace(stack: Stack) -> str:
    return str(stack.workspace("anna")["id"])


@pytest.fixture(scope="module")
def base(workspace: str) -> str:
    return f"/api/v1/workspaces/{workspace}"


def bearer(stack: Stack, user: str = "anna") -> dict[str, str]:
    return {"Authorization": f"Bearer {stack.token(user)}"}


def events_of(client: httpx.Client, base: str) -> list[dict[str, Any]]:
    got, after = [], 0
    while True:
        page = client.get(f"{base}/events", params={"after": after, "limit": 200}).json()["results"]
        if not page:
            return got
        got += page
        after = page[-1]["seq"]


def test_create_exec_file_terminal_delete(stack: Stack, anna: httpx.Client) -> None:
    made = anna.post("/api/v1/workspaces?wait=true", json={"name": "from birth to trash"})
    assert (made.status_code, made.json()["state"]) == (201, "running")
    base = f"/api/v1/workspaces/{made.json()['id']}"

    ran = anna.post(f"{base}/execs", json={"command": "echo out; echo err >&2; exit 7"})
    assert ran.status_code == 200 and ran.json()["outcome"] == {"kind": "exited", "code": 7}
    assert (ran.json()["stdout"], ran.json()["stderr"]) == ("out\n", "err\n")
    assert ran.json()["actor"]["type"] == "token"

    path = {"path": "/home/user/d/ü \xff.bin", "parents": "true"}
    data = os.urandom(100_000)
    wrote = anna.put(f"{base}/files/content", params=path, content=data)
    assert wrote.status_code == 201
    read = anna.get(f"{base}/files/content", params={"path": path["path"]})
    assert read.content == data and read.headers["ETag"] == wrote.headers["ETag"]
    assert read.headers["Content-Disposition"] == "attachment"
    stale = anna.put(f"{base}/files/content", params=path, content=b"x", headers={"If-Match": '"other"'})
    assert (stale.status_code, stale.json()["code"]) == (412, "precondition_failed")
    listed = anna.get(f"{base}/files", params={"path": "/home/user/d"}).json()
    assert [entry["size"] for entry in listed["entries"]] == [100_000]

    shell = anna.post(f"{base}/execs", json={"command": ["/bin/sh"], "tty": {"cols": 80, "rows": 24}})
    assert shell.status_code == 202
    with Terminal(stack.base_url, made.json()["id"], shell.json()["id"], bearer(stack)) as terminal:
        terminal.type("echo $((6*7)) && exit 5\n")
        assert terminal.until_ended() == {"kind": "exited", "code": 5}
        assert b"42" in terminal.output
    gone = anna.delete(f"{base}?wait=true")
    assert (gone.status_code, gone.json()["state"]) == (200, "deleted")
    refused = anna.post(f"{base}/execs", json={"command": "true"})
    assert (refused.status_code, refused.json()["reason"]) == (409, "deleted")


def test_a_background_exec_and_its_stream_end_with_its_own_outcome(anna: httpx.Client, base: str) -> None:
    begun = anna.post(f"{base}/execs", json={"command": "for i in 1 2 3; do echo $i; sleep 0.1; done; exit 7",
                                              "background": True})
    assert begun.status_code == 202
    names = []
    with anna.stream("GET", f"{base}/execs/{begun.json()['id']}/stream") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        names = [line.removeprefix("event: ") for line in stream.iter_lines() if line.startswith("event: ")]
    assert names[-1] == "outcome" and "stdout" in names and "error" not in names
    assert anna.get(f"{base}/execs/{begun.json()['id']}").json()["outcome"] == {"kind": "exited", "code": 7}


def test_stdin_is_taken_byte_for_byte_and_closed(anna: httpx.Client, base: str) -> None:
    begun = anna.post(f"{base}/execs", json={"command": "wc -c; echo done", "stdin_open": True, "background": True})
    path = f"{base}/execs/{begun.json()['id']}"
    assert anna.post(f"{path}/stdin", content=b"\x00\xff" * 50_000).json() == {"accepted_bytes": 100_000}
    assert anna.post(f"{path}/stdin?eof=true", content=b"x").status_code == 200
    ended = anna.get(f"{path}?wait_s=20").json()
    assert ended["stdout"].split() == ["100001", "done"]
    assert anna.post(f"{path}/stdin", content=b"x").status_code == 409


def test_signal_and_kill_reach_the_tree(anna: httpx.Client, base: str) -> None:
    begun = anna.post(f"{base}/execs", json={"command": ["sleep", "300"], "background": True}).json()
    assert anna.post(f"{base}/execs/{begun['id']}/signal", json={"signal": "SIGINT"}).status_code in (200, 202)
    ended = anna.get(f"{base}/execs/{begun['id']}?wait_s=20").json()
    assert ended["outcome"] == {"kind": "signaled", "signal": "SIGINT"}
    begun = anna.post(f"{base}/execs", json={"command": "sleep 300 & sleep 300", "background": True}).json()
    assert anna.delete(f"{base}/execs/{begun['id']}").json()["outcome"]["kind"] == "killed"


@pytest.mark.parametrize(("body", "field"), [
    ({"command": "true", "cwd": 5}, "cwd"), ({"command": "true", "cwd": "/nope"}, "cwd"),
    ({"command": "true", "unknown": 1}, "unknown"), ({}, "command"),
    ({"command": "a\0b"}, "command"), ({"command": "true", "wait_s": 301}, "wait_s"),
    ({"command": "true", "tty": {"cols": 0, "rows": 1}}, "tty")])
def test_bad_exec_bodies_are_named_by_field(anna: httpx.Client, base: str, body: dict, field: str) -> None:
    said = anna.post(f"{base}/execs", json=body)
    assert (said.status_code, said.json()["code"]) == (400, "invalid")
    assert list(said.json()["errors"]) == [field] and isinstance(said.json()["errors"][field], list)


def test_another_persons_workspace_is_not_there_on_any_route_or_socket(stack: Stack, anna, base, workspace) -> None:
    exec_id = anna.post(f"{base}/execs", json={"command": ["cat"], "tty": {"cols": 80, "rows": 24}}).json()["id"]
    before = anna.get(f"{base}/execs").json()["results"]
    absent = "a" * 20
    with stack.client("bob") as bob:
        for method, path, _scope in ROUTES:
            path = path.replace("e" * 20, exec_id)
            foreign = bob.request(method, base + path)
            nothing = bob.request(method, f"/api/v1/workspaces/{absent}{path}")
            assert (foreign.status_code, foreign.content) == (404, nothing.content) and nothing.status_code == 404
    socket = f"/ws/v1/workspaces/{workspace}"
    for path in (f"{socket}/terminals/{exec_id}", f"{socket}/events", f"{socket}/files/watch?path=/",
                 f"{socket}/ports/80/tunnel"):
        statuses = []
        for target in (path, path.replace(workspace, absent)):
            with pytest.raises(InvalidStatus) as caught, \
                    connect(stack.base_url.replace("http", "ws", 1) + target, additional_headers=bearer(stack, "bob")):
                pass
            statuses.append(caught.value.response.status_code)
        assert statuses == [404, 404]
    after = anna.get(f"{base}/execs").json()["results"]
    assert [e["id"] for e in before] == [e["id"] for e in after]
    anna.delete(f"{base}/execs/{exec_id}")


def test_a_client_that_drops_kills_nothing_and_finds_the_result_later(stack: Stack, anna, base: str) -> None:
    with contextlib.closing(socket.create_connection(("127.0.0.1", stack.port))) as raw:
        body = json.dumps({"command": "sleep 1; echo survived; exit 9"}).encode()
        raw.sendall((f"POST {base}/execs HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
                     f"Authorization: Bearer {stack.token('anna')}\r\n\r\n").encode() + body)
        begun = until(lambda: [e for e in anna.get(f"{base}/execs?limit=5").json()["results"]
                               if "survived" in str(e["command"])], "the exec began")[0]
    ended = anna.get(f"{base}/execs/{begun['id']}?wait_s=20").json()
    assert (ended["outcome"], ended["stdout"]) == ({"kind": "exited", "code": 9}, "survived\n")


def test_one_key_is_one_exec_even_across_a_restart_of_the_gateway(stack: Stack, anna: httpx.Client, base: str) -> None:
    key = {"Idempotency-Key": f"k-{time.monotonic_ns()}"}
    body = {"command": "echo run >> /home/user/runs; cat /home/user/runs"}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: anna.post(f"{base}/execs", json=body, headers=key), range(8)))
    assert len({a.json()["id"] for a in answers}) == 1 and {a.json()["stdout"] for a in answers} == {"run\n"}
    stack.restart("gateway")
    stack.ready()
    assert anna.post(f"{base}/execs", json=body, headers=key).json()["id"] == answers[0].json()["id"]
    other = anna.post(f"{base}/execs", json={"command": "false"}, headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")


def test_ten_megabytes_through_a_terminal_in_flat_memory(stack: Stack, anna, base: str, workspace: str) -> None:
    command = "stty -onlcr; head -c 10485760 /dev/zero | tr '\\0' x; echo END"
    begun = anna.post(f"{base}/execs", json={"command": command, "tty": {"cols": 80, "rows": 24}}).json()
    before = stack.rss_kib("gateway")
    with Terminal(stack.base_url, workspace, begun["id"], bearer(stack)) as terminal:
        terminal.until_ended(120)
    assert terminal.output.count(b"x") == 10 * MIB and b"END" in terminal.output
    assert stack.rss_kib("gateway") - before < FLAT_KIB


def test_a_stalled_terminal_costs_no_memory_and_delays_no_other(stack: Stack, anna, base: str, workspace: str) -> None:
    begun = anna.post(f"{base}/execs", json={"command": "yes", "tty": {"cols": 80, "rows": 24}}).json()
    before = stack.rss_kib("gateway")
    with Terminal(stack.base_url, workspace, begun["id"], bearer(stack)):  # reads nothing
        for _ in range(20):
            assert anna.post(f"{base}/execs", json={"command": "true"}).json()["outcome"]["code"] == 0
        assert stack.rss_kib("gateway") - before < FLAT_KIB
    assert anna.delete(f"{base}/execs/{begun['id']}").json()["outcome"]["kind"] == "killed"


def test_two_hundred_megabytes_up_and_down_in_flat_memory(stack: Stack, anna: httpx.Client, base: str) -> None:
    piece, count = os.urandom(MIB), 200
    whole = hashlib.sha256()
    for _ in range(count):
        whole.update(piece)
    peak = Peak(stack, "gateway")
    path = {"path": "/home/user/big.bin"}
    with peak:
        wrote = anna.put(f"{base}/files/content", params=path, content=(piece for _ in range(count)), timeout=300)
        assert wrote.status_code == 201, wrote.text
        got = hashlib.sha256()
        with anna.stream("GET", f"{base}/files/content", params=path, timeout=300) as reply:
            for data in reply.iter_raw(256 * 1024):
                got.update(data)
    assert got.digest() == whole.digest()
    assert peak.growth_kib < FLAT_KIB
    part = anna.get(f"{base}/files/content", params=path, headers={"Range": f"bytes={MIB}-{MIB + 9}"})
    assert (part.status_code, part.content) == (206, piece[:10])
    assert anna.delete(f"{base}/files", params=path).status_code == 204


def test_a_stalled_download_costs_no_memory(stack: Stack, anna: httpx.Client, base: str) -> None:
    anna.post(f"{base}/execs", json={"command": "head -c 100000000 /dev/zero > /home/user/zeros"})
    peak = Peak(stack, "gateway")
    with peak, anna.stream("GET", f"{base}/files/content", params={"path": "/home/user/zeros"}) as reply:
        assert reply.status_code == 200
        for _ in range(20):
            assert anna.get(f"{base}/execs?limit=1").status_code == 200
    assert peak.growth_kib < FLAT_KIB


def test_half_an_upload_never_replaces_a_file(stack: Stack, anna: httpx.Client, base: str) -> None:
    path = {"path": "/home/user/kept"}
    anna.put(f"{base}/files/content", params=path, content=b"the old content")
    with contextlib.closing(socket.create_connection(("127.0.0.1", stack.port))) as raw:
        raw.sendall((f"PUT {base}/files/content?path=/home/user/kept HTTP/1.1\r\nHost: localhost\r\n"
                     f"Content-Length: 1000000\r\nAuthorization: Bearer {stack.token('anna')}\r\n\r\n").encode()
                    + b"n" * 500_000)
        until(lambda: len(anna.get(f"{base}/files?path=/home/user").json()["entries"]) > 0, "the listing")
    for _ in range(10):
        assert anna.get(f"{base}/files/content", params=path).content == b"the old content"


def test_twenty_first_calls_wake_a_stopped_workspace_once(stack: Stack) -> None:
    made = stack.workspace("anna")
    base = f"/api/v1/workspaces/{made['id']}"
    with stack.client("anna", limits=httpx.Limits(max_connections=None)) as client:
        stopped = client.post(f"{base}/stop?wait=true&timeout_s=60")
        assert (stopped.status_code, stopped.json()["state"]) == (200, "stopped")
        count = len(events_of(client, base))
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(lambda n: client.post(f"{base}/execs", json={"command": f"echo {n}"}), range(20)))
        assert [a.json()["stdout"] for a in answers] == [f"{n}\n" for n in range(20)]
        kinds = [e["kind"] for e in events_of(client, base)[count:]]
        assert kinds.count("workspace.waking") == 1 and kinds.count("workspace.running") == 1
        client.delete(base)


def test_waiting_answers_with_the_state_that_was_asked_for(stack: Stack) -> None:
    base = f"/api/v1/workspaces/{stack.workspace('anna')['id']}"
    with stack.client("anna") as client:
        for verb, state in [("stop", "stopped"), ("start", "running"), ("restart", "running"), ("stop", "stopped"),
                            ("start", "running")]:
            said = client.post(f"{base}/{verb}?wait=true&timeout_s=60")
            assert (said.status_code, said.json()["state"]) == (200, state), verb
        short = client.post(f"{base}/restart?wait=true&timeout_s=0")
        assert short.status_code in (200, 202)
        assert client.delete(f"{base}?wait=true&timeout_s=60").json()["state"] == "deleted"


def test_fifty_slow_uploads_and_fifty_sleeping_execs_delay_no_list(stack: Stack, anna: httpx.Client, base: str) -> None:
    """Counted: the lists are answered while every one of the hundred is still open."""
    stop = threading.Event()
    bases = [base, f"/api/v1/workspaces/{stack.workspace('anna')['id']}"]  # a guest takes 32 file streams at once

    def drip(n: int) -> int:
        def data() -> Iterator[bytes]:
            while not stop.is_set():
                yield b"x" * 100
                stop.wait(0.2)
        path = {"path": f"/home/user/slow-{n}"}
        return anna.put(f"{bases[n % 2]}/files/content", params=path, content=data(), timeout=120).status_code

    def sleepers() -> list[str]:
        running = anna.get(f"{base}/execs?limit=200&state=running").json()["results"]
        return [e["id"] for e in running if e["command"] == "sleep 120"]

    with concurrent.futures.ThreadPoolExecutor(100) as pool, stack.client("bob") as bob:
        slow = [pool.submit(drip, n) for n in range(50)]
        execs = [pool.submit(anna.post, f"{base}/execs", json={"command": "sleep 120"}, timeout=200) for _ in range(50)]
        try:
            until(lambda: len(sleepers()) == 50, "fifty execs sleep")
            for _ in range(5):
                for client in (anna, bob):
                    assert client.get("/api/v1/workspaces").status_code == 200
                assert anna.get(f"{base}/execs?limit=1").status_code == 200
            assert not any(task.done() for task in (*slow, *execs))
        finally:
            stop.set()
            for exec_id in sleepers():
                anna.delete(f"{base}/execs/{exec_id}")
        assert {task.result(60) for task in slow} == {201}
    anna.delete(bases[1])


@pytest.mark.parametrize("name", ["hostd", "daphne", "redis", "worker", "courier", "gateway"])
def test_a_killed_process_comes_back_and_nothing_that_ran_is_lost(stack: Stack, anna, base, workspace, name) -> None:
    """Field case 054: during the absence of each part a long exec and a shell live on; afterwards all works."""
    long = anna.post(f"{base}/execs", json={"command": "for i in 1 2 3 4 5 6; do sleep 0.5; echo $i; done; exit 7",
                                             "background": True}).json()["id"]
    shell = anna.post(f"{base}/execs", json={"command": ["/bin/sh"], "tty": {"cols": 80, "rows": 24}}).json()["id"]
    with Terminal(stack.base_url, workspace, shell, bearer(stack)) as terminal:
        terminal.type("echo before-$((1+1))\n")
        terminal.until(b"before-2")
        offset = terminal.offset
        stack.kill(name)
        with contextlib.suppress(httpx.HTTPError):  # whatever it says now, it says it
            assert anna.get("/api/v1/workspaces", timeout=60).status_code in (200, 503)
        stack.start(name)
        stack.ready()
        if name in ("hostd", "gateway"):
            with pytest.raises(ConnectionClosed):
                while True:
                    terminal.take(30)
    with Terminal(stack.base_url, workspace, shell, bearer(stack), offset) as terminal:
        terminal.type("echo after-$((1+2))\n")
        terminal.until(b"after-3")
        assert b"before-2" not in terminal.output
        terminal.type("exit 3\n")
        assert terminal.until_ended() == {"kind": "exited", "code": 3}
    ended = anna.get(f"{base}/execs/{long}?wait_s=60").json()
    assert (ended["outcome"], ended["stdout"].split()) == ({"kind": "exited", "code": 7}, list("123456"))
    assert anna.post(f"{base}/execs", json={"command": "echo hello"}).json()["stdout"] == "hello\n"
    fresh = stack.workspace("anna")
    assert anna.delete(f"/api/v1/workspaces/{fresh['id']}").status_code == 202


def test_an_exec_in_flight_survives_a_restart_of_hostd_unseen_by_its_client(stack: Stack, anna, base) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asking = pool.submit(anna.post, f"{base}/execs", json={"command": "sleep 4; echo here; exit 6"}, timeout=90)
        until(lambda: [e for e in anna.get(f"{base}/execs?limit=3").json()["results"] if "here" in str(e["command"])],
              "the exec began")
        stack.restart("hostd")
        ended = asking.result(90)
    assert ended.status_code == 200
    assert (ended.json()["outcome"], ended.json()["stdout"]) == ({"kind": "exited", "code": 6}, "here\n")


def test_no_secret_is_in_any_log(stack: Stack, anna: httpx.Client, base: str) -> None:
    anna.get(f"{base}/files", params={"path": "/home/user/S3CRET-in-a-query"})
    anna.post(f"{base}/execs", json={"command": "true", "env": {"KEY": "S3CRET-in-a-body"}})
    anna.get("/api/v1/workspaces?name=S3CRET-in-a-list")
    url = stack.base_url.replace("http", "ws", 1) + "/ws/v1/events?token=S3CRET-in-a-socket"
    with pytest.raises(InvalidStatus), connect(url):
        pass
    for name in ("gateway", "daphne", "hostd", "worker", "courier"):
        said = stack.log(name)
        assert "S3CRET" not in said, name
        for token in stack.tokens.values():
            assert token not in said, name


class Peak:
    """The most resident memory of a process while the block runs."""

    def __init__(self, stack: Stack, name: str) -> None:
        self._stack, self._name = stack, name
        self._stop = threading.Event()

    def __enter__(self) -> Peak:
        self._before = self._peak = self._stack.rss_kib(self._name)
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            self._peak = max(self._peak, self._stack.rss_kib(self._name))

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def growth_kib(self) -> int:
        return self._peak - self._before
