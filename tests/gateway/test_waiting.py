"""`?wait=true`: the change is Daphne's, the waiting is here, and waiting is never an error."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest
from aiohttp import web

from tests.gateway.conftest import AUTH, WID, Rig
from tests.gateway.test_execs import eventually

ONE = f"/api/v1/workspaces/{WID}"


@pytest.fixture(autouse=True)
def django(rig: Rig) -> None:
    """Daphne's part: a change is accepted, a look shows the state as it is."""
    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        if request.method == "GET":
            return web.json_response({"id": WID, "state": rig.books.states[WID], "fresh": True})
        if "missing" in request.raw_path:
            return web.json_response({"code": "not_found"}, status=404)
        status = 201 if request.path.endswith("/workspaces") else 202
        return web.json_response({"id": WID, "state": "changing"}, status=status, headers={"Location": ONE})
    rig.daphne.handler = answer


CASES = [("POST", "/api/v1/workspaces", "running", 201), ("POST", ONE + "/start", "running", 200),
         ("POST", ONE + "/restart", "running", 200), ("POST", ONE + "/stop", "stopped", 200),
         ("POST", ONE + "/standby", "standby", 200), ("DELETE", ONE, "deleted", 200),
         ("POST", ONE + "/undelete", "stopped", 200)]


@pytest.mark.parametrize(("method", "path", "goal", "status"), CASES)
async def test_reached_is_told_with_the_object_as_it_then_is(rig: Rig, method, path, goal, status) -> None:
    rig.books.states[WID] = "stopping"
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        asking = asyncio.create_task(client.request(method, path + "?wait=true&x=1&timeout_s=200", json={"name": "n"}))
        await eventually(lambda: len(rig.daphne.seen) == 1)
        assert rig.daphne.seen[0].raw_path == path + "?x=1" and not asking.done()
        rig.books.states[WID] = goal
        rig.app.gate.nudges._tell("workspace", WID)
        reply = await asyncio.wait_for(asking, 60)
        assert (reply.status, await reply.json()) == (status, {"id": WID, "state": goal, "fresh": True})
        assert (reply.headers.get("Location") == ONE) is True


@pytest.mark.parametrize(("method", "path", "goal", "status"), CASES)
async def test_not_in_time_and_failed_are_answers_too(rig: Rig, method, path, goal, status) -> None:
    rig.books.states[WID] = "waking"
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        async with client.request(method, path + "?wait=true&timeout_s=0.2") as reply:
            assert (reply.status, (await reply.json())["state"]) == (201 if status == 201 else 202, "waking")
        rig.books.states[WID] = "failed"
        rig.app.gate.access.forget("workspace", WID)
        async with client.request(method, path + "?wait=true&timeout_s=20") as reply:
            assert (reply.status, (await reply.json())["state"]) == (200, "failed")


async def test_a_refused_change_is_daphnes_answer_at_once(rig: Rig) -> None:
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client, \
            client.post(ONE + "/start?wait=true&missing=1") as reply:
        assert (reply.status, await reply.json()) == (404, {"code": "not_found"})


@pytest.mark.parametrize("query", ["wait=maybe", "wait=true&timeout_s=301", "wait=true&timeout_s=-1",
                                   "wait=true&timeout_s=nan", "wait=true&timeout_s=x", "timeout_s=1e999"])
async def test_nonsense_is_invalid_by_field_and_changes_nothing(rig: Rig, query: str) -> None:
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client, client.post(f"{ONE}/stop?{query}") as reply:
        said = await reply.json(content_type=None)
        assert (reply.status, said["code"]) == (400, "invalid") and said["errors"]
    assert not rig.daphne.seen


async def test_without_wait_it_is_daphnes_alone_and_the_parameters_are_gone(rig: Rig) -> None:
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client, \
            client.post(ONE + "/stop?wait=false&timeout_s=3", data=b"{}") as reply:
        assert reply.status == 202
    assert [r.method for r in rig.daphne.seen] == ["POST"]


async def test_many_waiters_cost_one_look(rig: Rig) -> None:
    rig.books.states[WID] = "waking"
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(rig.url, headers=AUTH, connector=connector) as client:
        asking = [asyncio.create_task(client.post(ONE + "/start?wait=true&timeout_s=20")) for _ in range(40)]
        await eventually(lambda: len(rig.app.gate.nudges._waiting.get(WID, ())) == 40)
        await asyncio.sleep(0.1)
        before = rig.books.reads
        rig.books.states[WID] = "running"
        rig.app.gate.nudges._heard(json.dumps({"kind": "workspace", "id": WID}))
        assert [r.status for r in await asyncio.gather(*asking)] == [200] * 40
        assert rig.books.reads - before <= 2


CID = "c" * 20


def moments(rig: Rig, kept: dict[str, object]) -> None:
    """Daphne's part where checkpoints, restores and forks are concerned."""
    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        path = request.path
        if request.method == "GET" and "/checkpoints/" in path:
            return web.json_response({"id": CID, "state": kept["state"]})
        if request.method == "GET":
            return web.json_response({"id": path[-20:], "state": rig.books.states[path[-20:]]})
        if path.endswith("/checkpoints"):
            return web.json_response({"id": CID, "state": "capturing"}, status=201, headers={"Location": path})
        if path.endswith("/restore"):
            return web.json_response({"id": WID, "state": "restoring", "safety_checkpoint": "s" * 20}, status=202)
        return web.json_response({"results": [{"id": one, "state": "creating"} for one in kept["forks"]]}, status=201)
    rig.daphne.handler = answer


@pytest.mark.parametrize(("ends", "status"), [("ready", 201), ("failed", 200)])
async def test_a_checkpoint_is_waited_for_by_its_own_state(rig: Rig, ends: str, status: int) -> None:
    kept: dict[str, object] = {"state": "capturing"}
    moments(rig, kept)
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        async with client.post(ONE + "/checkpoints?wait=true&timeout_s=0.2", json={}) as reply:
            assert (reply.status, (await reply.json())["state"]) == (201, "capturing")
        asking = asyncio.create_task(client.post(ONE + "/checkpoints?wait=true", json={}))
        await eventually(lambda: any(r.method == "GET" for r in rig.daphne.seen))
        kept["state"] = ends
        rig.app.gate.nudges._tell("workspace", WID)
        reply = await asyncio.wait_for(asking, 60)
        assert (reply.status, (await reply.json())["state"]) == (status, ends)
        assert reply.headers["Location"] == ONE + "/checkpoints"


async def test_a_restore_waits_for_the_workspaces_rest_and_keeps_the_id_that_undoes_it(rig: Rig) -> None:
    moments(rig, {})
    rig.books.states[WID] = "restoring"
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        asking = asyncio.create_task(client.post(f"{ONE}/checkpoints/{CID}/restore?wait=true", json={}))
        await eventually(lambda: len(rig.daphne.seen) == 1)
        rig.books.states[WID] = "standby"
        rig.app.gate.nudges._tell("workspace", WID)
        reply = await asyncio.wait_for(asking, 60)
        assert (reply.status, await reply.json()) == (200, {"id": WID, "state": "standby",
                                                            "safety_checkpoint": "s" * 20})


async def test_forks_are_waited_for_together(rig: Rig) -> None:
    ids = ["f" * 20, "g" * 20]
    moments(rig, {"forks": ids})
    rig.books.states.update(dict.fromkeys(ids, "creating"))
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        asking = asyncio.create_task(client.post(ONE + "/fork?wait=true", json={"name": "n", "count": 2}))
        await eventually(lambda: len(rig.daphne.seen) == 1)
        for one in ids:
            rig.books.states[one] = "running"
            rig.app.gate.nudges._tell("workspace", one)
        reply = await asyncio.wait_for(asking, 60)
        assert (reply.status, [row["state"] for row in (await reply.json())["results"]]) == (201, ["running"] * 2)


@pytest.mark.parametrize(("state", "result", "status", "code"), [
    ("denied", {}, 403, "approval_denied"), ("expired", {}, 403, "approval_timeout"),
    ("approved", {"code": "not_found", "detail": "There is no such checkpoint."}, 404, "not_found"),
    ("approved", {"safety_checkpoint": "s"}, 200, None), ("pending", {}, 202, None)])
async def test_a_change_that_waits_for_a_member_is_waited_for_and_says_what_was_decided(
        rig: Rig, state: str, result: dict[str, str], status: int, code: str | None) -> None:
    asked = {"id": "p" * 20, "state": "pending", "result": {}}

    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        if "/approvals/" in request.path:
            return web.json_response(asked)
        said = {"id": WID, "state": rig.books.states[WID]}
        if request.method == "POST":
            return web.json_response({**said, "safety_checkpoint": None, "approval": dict(asked)}, status=202)
        return web.json_response(said)
    rig.daphne.handler = answer
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        restore = f"{ONE}/checkpoints/{'c' * 20}/restore?wait=true&timeout_s={2 if state == 'pending' else 200}"
        asking = asyncio.create_task(client.post(restore, json={}))
        await eventually(lambda: rig.daphne.seen)
        asked.update(state=state, result=result, decided_by={"name": "sven"})
        rig.app.gate.nudges._tell("workspace", WID)
        reply = await asyncio.wait_for(asking, 60)
        said = await reply.json(content_type=None)
    assert (reply.status, said.get("code")) == (status, code)
    if result.get("safety_checkpoint"):
        assert said["safety_checkpoint"] == "s" and said["state"] == "running"
