"""Members, approvals, revocation and the audit over the whole product: every process real, fake machines."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.mcp_client import call, connected, refused
from tests.stack import Stack, until

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def owner(stack: Stack) -> Iterator[httpx.Client]:
    with stack.client("olga") as client:
        yield client


@pytest.fixture(scope="module")
def base(stack: Stack, owner: httpx.Client) -> str:
    made = owner.post("/api/v1/workspaces?wait=true", json={
        "name": "shared", "approvals": {"exec": ["rm *"], "delete": True, "timeout_s": 60}})
    assert made.json()["state"] == "running", made.text
    return f"/api/v1/workspaces/{made.json()['id']}"


@pytest.fixture(scope="module")
def supervisor(stack: Stack, owner: httpx.Client, base: str) -> Iterator[httpx.Client]:
    """Somebody else, who may decide."""
    secret = stack.manage("berth_token", "sven", *[part for scope in ("workspaces:read", "exec", "approvals")
                                                   for part in ("--scope", scope)]).split()[-1]
    assert owner.post(f"{base}/members", json={"user": "sven", "role": "operator"}).status_code == 201
    with httpx.Client(base_url=stack.base_url, headers={"Authorization": f"Bearer {secret}"}, timeout=60) as client:
        yield client


def pending(client: httpx.Client, base: str) -> list[dict[str, Any]]:
    return list(client.get(f"{base}/approvals?state=pending").json()["results"])


def decide(client: httpx.Client, base: str, decision: str) -> None:
    (asked,) = until(lambda: pending(client, base), "a request that waits")
    assert client.post(f"{base}/approvals/{asked['id']}", json={"decision": decision}).status_code == 200


def test_an_exec_waits_for_a_member_and_runs_or_does_not(
        owner: httpx.Client, supervisor: httpx.Client, base: str) -> None:
    assert owner.post(f"{base}/execs", json={"command": "echo free"}).json()["stdout"] == "free\n"
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asked = pool.submit(owner.post, f"{base}/execs", json={"command": "rm -f x; echo gone"})
        decide(supervisor, base, "approve")
        assert asked.result().json()["stdout"] == "gone\n"
        asked = pool.submit(owner.post, f"{base}/execs", json={"command": "rm -f y"})
        decide(supervisor, base, "deny")
        refused = asked.result()
    assert (refused.status_code, refused.json()["code"]) == (403, "approval_denied")
    read = owner.get(f"{base}/execs/{refused.json()['exec']['id']}").json()
    assert read["outcome"] == {"kind": "refused", "code": "approval_denied"}


def test_in_the_background_it_is_pending_and_then_an_exec_like_any_other(
        owner: httpx.Client, supervisor: httpx.Client, base: str) -> None:
    held = owner.post(f"{base}/execs", json={"command": "rm -f x; echo later", "background": True})
    assert (held.status_code, held.json()["state"]) == (202, "pending_approval")
    decide(supervisor, base, "approve")
    ended = until(lambda: _ended(owner, f"{base}/execs/{held.json()['id']}"), "its end")
    assert ended["stdout"] == "later\n" and ended["actor"]["type"] == "token"


async def test_an_agents_tools_say_that_it_waits_and_then_what_was_decided(
        stack: Stack, owner: httpx.Client, supervisor: httpx.Client, base: str) -> None:
    """A model asks once, is told that somebody has to say yes, and finds the end where it was told to look."""
    async with connected(stack.base_url, stack.token("olga"), f"?workspace={base.rpartition('/')[2]}") as agent:
        for decision in ("approve", "deny"):
            result = await agent.call_tool("exec", {"command": f"rm -f x; echo {decision}", "wait_s": 0})
            held = dict(result.structured_content)
            assert not result.is_error and held["state"] == "pending_approval"
            assert "has to approve" in result.content[0].text and held["exec_id"] in result.content[0].text
            looked = await call(agent, "exec_output", exec_id=held["exec_id"])
            assert (looked["state"], looked["content"], looked["at_end"]) == ("pending_approval", "", False)
            early = await refused(agent, "exec_signal", exec_id=held["exec_id"])
            assert (early["code"], early["reason"]) == ("conflict", "pending_approval")
            waits = asyncio.create_task(call(agent, "exec_output", exec_id=held["exec_id"], wait_s=60))
            await asyncio.to_thread(decide, supervisor, base, decision)
            seen = await waits
            if decision == "approve":
                assert (seen["outcome"], seen["content"]) == ({"kind": "exited", "code": 0}, "approve\n")
            else:
                assert (seen["outcome"], seen["content"]) == ({"kind": "refused", "code": "approval_denied"}, "")
                assert seen["at_end"]
        blocked = asyncio.create_task(refused(agent, "exec", command="rm -f y", wait_s=60))
        await asyncio.to_thread(decide, supervisor, base, "deny")
        assert (await blocked)["code"] == "approval_denied"


def _ended(client: httpx.Client, path: str) -> dict[str, Any] | None:
    said: dict[str, Any] = client.get(f"{path}?wait_s=5").json()
    return said if said["state"] == "ended" else None


def test_a_waited_for_delete_says_that_it_was_denied(
        owner: httpx.Client, supervisor: httpx.Client, base: str) -> None:
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asked = pool.submit(owner.delete, f"{base}?wait=true&timeout_s=60")
        decide(supervisor, base, "deny")
        answer = asked.result()
    assert (answer.status_code, answer.json()["code"]) == (403, "approval_denied")
    assert owner.get(base).json()["state"] == "running"


def test_who_is_taken_out_loses_what_is_open_at_once(stack: Stack, owner: httpx.Client, base: str) -> None:
    with stack.client("vera") as vera:
        assert owner.post(f"{base}/members", json={"user": "vera", "role": "viewer"}).status_code == 201
        assert vera.get(base).json()["role"] == "viewer"
        assert vera.post(f"{base}/execs", json={"command": "true"}).json()["code"] == "forbidden"
        place = base.replace("/api/", "/ws/")
        with connect(f"ws://{stack.base_url.removeprefix('http://')}{place}/events",
                     additional_headers={"Authorization": f"Bearer {stack.token('vera')}"}) as socket:
            socket.recv(timeout=60)
            assert owner.delete(f"{base}/members/vera").status_code == 204
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    socket.recv(timeout=60)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 4404
        assert vera.get(base).status_code == 404


def test_every_act_of_it_is_in_the_audit_with_who_and_whence(stack: Stack, owner: httpx.Client, base: str) -> None:
    owner.put(f"{base}/files/content?path=/home/user/noted", content=b"x")
    secret = stack.manage("berth_token", "root", "--admin").split()[-1]
    with httpx.Client(base_url=stack.base_url, headers={"Authorization": f"Bearer {secret}"}, timeout=60) as admin:
        def noted() -> list[dict[str, Any]]:
            query = {"target": f"workspace:{base.rpartition('/')[2]}", "kind": "file.write"}
            return list(admin.get("/api/v1/audit", params=query).json()["results"])
        (found,) = until(noted, "the write is noted")
    assert (found["actor"]["name"], found["address"], found["outcome"]) == ("olga", "127.0.0.1", "ok")


def test_figures_are_there_awake_and_asleep_and_wake_nothing(owner: httpx.Client, base: str) -> None:
    awake = owner.get(f"{base}/metrics").json()
    assert awake["now"]["memory_total_bytes"] > 0 and awake["interval_s"] > 0
    assert owner.post(f"{base}/stop?wait=true").json()["state"] == "stopped"
    asleep = owner.get(f"{base}/metrics").json()
    assert asleep["now"] is None and asleep["reason"] and owner.get(base).json()["state"] == "stopped"
    mine = base.rpartition("/")[2]
    (hour,) = owner.get("/api/v1/metrics", params={"ids": f"{mine},{'a' * 20}"}).json()["results"]
    assert hour["workspace"] == mine and hour["history"][-1:] == [
        {name: sample[name] for name in hour["history"][-1]} for sample in asleep["history"][-1:]]
