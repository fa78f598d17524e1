"""The two events sockets through the whole product: order, no gap, the truth again after a loss, and who may listen."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.stack import Stack, until

pytestmark = pytest.mark.stack


def ws(stack: Stack, path: str, headers: dict[str, str]) -> Any:
    return connect(stack.base_url.replace("http", "ws", 1) + path, additional_headers=headers)


def bearer(stack: Stack, user: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {stack.token(user)}"}


def messages(socket: ClientConnection, until_: Callable[[dict[str, Any]], bool], timeout_s: float = 60) -> list[Any]:
    """Everything up to and with the first message that `until_` is true for."""
    got: list[Any] = []
    deadline = time.monotonic() + timeout_s
    while not got or not until_(got[-1]):
        assert time.monotonic() < deadline, got[-3:]
        got.append(json.loads(socket.recv(timeout_s)))
    return got


@pytest.fixture(scope="module")
def carla(stack: Stack) -> Iterator[httpx.Client]:
    with stack.client("carla") as client:
        yield client


def test_a_workspaces_events_come_in_order_without_a_gap_and_again_from_any_number(stack: Stack, carla) -> None:
    made = stack.workspace("carla")
    base = f"/api/v1/workspaces/{made['id']}"
    path = f"/ws/v1/workspaces/{made['id']}/events"
    with ws(stack, path, bearer(stack, "carla")) as socket:
        first = messages(socket, lambda event: event["kind"] == "workspace.running")
        carla.post(f"{base}/execs", json={"command": "true"})
        first += messages(socket, lambda event: event["kind"] == "exec.ended")
        carla.post(f"{base}/stop?wait=true&timeout_s=60")
        first += messages(socket, lambda event: event["kind"] == "workspace.stopped")
    assert [event["seq"] for event in first] == list(range(1, len(first) + 1))
    assert first == carla.get(f"{base}/events?after=0&limit=200").json()["results"][:len(first)]
    with ws(stack, f"{path}?after=2", bearer(stack, "carla")) as socket:
        assert messages(socket, lambda event: event["seq"] == len(first)) == first[2:]
    carla.delete(base)


def test_everything_one_may_see_is_shown_then_each_change_until_it_is_gone(stack: Stack, carla) -> None:
    here = stack.workspace("carla")
    stack.workspace("dora")
    with ws(stack, "/ws/v1/events", bearer(stack, "carla")) as socket:
        seen = messages(socket, lambda m: m.get("workspace", {}).get("id") == here["id"])
        assert seen[0] == {"type": "hello"}
        assert {m["workspace"]["owner"] for m in seen[1:]} == {"carla"}
        assert seen[-1]["workspace"] == carla.get(f"/api/v1/workspaces/{here['id']}").json()
        new = carla.post("/api/v1/workspaces", json={"name": "seen from birth"}).json()["id"]
        states = [m["workspace"]["state"] for m in messages(
            socket, lambda m: m.get("workspace", {}).get("id") == new and m["workspace"]["state"] == "running")
            if m["workspace"]["id"] == new]
        assert states[0] == "creating"
        carla.delete(f"/api/v1/workspaces/{new}")
        messages(socket, lambda m: m.get("workspace", {}).get("id") == new and m["workspace"]["state"] == "deleted")
        carla.delete(f"/api/v1/workspaces/{new}?purge=true")
        messages(socket, lambda m: m == {"type": "gone", "id": new})


@pytest.mark.parametrize("name", ["redis", "daphne", "gateway"])
def test_a_lost_part_costs_freshness_and_never_an_event(stack: Stack, carla, name: str) -> None:
    made = stack.workspace("carla")
    base, path = f"/api/v1/workspaces/{made['id']}", f"/ws/v1/workspaces/{made['id']}/events"
    with ws(stack, path, bearer(stack, "carla")) as socket:
        got = messages(socket, lambda event: event["kind"] == "workspace.running")
        stack.restart(name)
        stack.ready()
        carla.patch(base, json={"labels": {"n": name}})
        try:
            got += messages(socket, lambda event: event["kind"] == "workspace.changed")
        except ConnectionClosed as closed:
            assert (name != "redis" and closed.rcvd is None) or closed.rcvd.code == 1012
    with ws(stack, f"{path}?after={got[-1]['seq']}", bearer(stack, "carla")) as socket:
        carla.patch(base, json={"labels": {"n": "last"}})
        got += messages(socket, lambda event: event["kind"] == "workspace.changed" and event["seq"] > got[-1]["seq"])
    assert [event["seq"] for event in got] == list(range(1, len(got) + 1))
    carla.delete(base)


def test_nobody_listens_to_what_is_not_theirs(stack: Stack, carla) -> None:
    made = stack.workspace("carla")
    for user, workspace in [("dora", made["id"]), ("dora", "a" * 20)]:
        with pytest.raises(InvalidStatus) as caught, \
                ws(stack, f"/ws/v1/workspaces/{workspace}/events", bearer(stack, user)):
            pass
        assert caught.value.response.status_code == 404
    for headers in ({}, {"Authorization": "Bearer berth_nobody"}):
        with pytest.raises(InvalidStatus) as caught, ws(stack, "/ws/v1/events", headers):
            pass
        assert caught.value.response.status_code == 401
    carla.delete(f"/api/v1/workspaces/{made['id']}")


def test_a_revoked_token_is_heard_of_within_seconds(stack: Stack, carla) -> None:
    secret = stack.manage("berth_token", "carla", "--name", "to be revoked")
    made = stack.workspace("carla")
    shell = carla.post(f"/api/v1/workspaces/{made['id']}/execs",
                       json={"command": ["cat"], "tty": {"cols": 80, "rows": 24}}).json()["id"]
    headers = {"Authorization": f"Bearer {secret}"}
    paths = ["/ws/v1/events", f"/ws/v1/workspaces/{made['id']}/events",
             f"/ws/v1/workspaces/{made['id']}/terminals/{shell}"]
    sockets = [ws(stack, path, headers).__enter__() for path in paths]
    token = next(t for t in carla.get("/api/v1/tokens").json()["results"] if t["name"] == "to be revoked")
    assert carla.delete(f"/api/v1/tokens/{token['id']}").status_code == 204
    for socket in sockets:
        with pytest.raises(ConnectionClosed) as caught:
            while True:
                socket.recv(30)
        assert caught.value.rcvd is not None and caught.value.rcvd.code == 4401
    execs = f"{stack.base_url}/api/v1/workspaces/{made['id']}/execs"
    until(lambda: httpx.get(execs, headers=headers, timeout=60).status_code == 401, "the token ends on routes, too")
    carla.delete(f"/api/v1/workspaces/{made['id']}")
