"""Execs of a token that wait for a member: held back, waited for, begun once by the gateway, refused by name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.gateway.conftest import ANNA, AUTH, EID, WID, Rig, held
from tests.gateway.test_execs import eventually
from workspaces.actors import Actor
from workspaces.gateway.held import Begin
from workspaces.gateway.upstairs import Place

EXECS = f"/api/v1/workspaces/{WID}/execs"


@pytest.fixture
async def client(rig: Rig) -> AsyncIterator[aiohttp.ClientSession]:
    rig.books.approvals = {"exec": ["rm *"]}
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as session:
        yield session


async def unknown(request: web.Request) -> web.Response:
    return web.json_response({"code": "not_found", "detail": "no such exec"}, status=404)


def news(rig: Rig) -> None:
    rig.app.gate.nudges._tell("workspace", WID)


async def test_what_meets_no_pattern_goes_down_and_upstairs_is_not_asked(rig: Rig, client) -> None:
    async with client.post(EXECS, json={"command": "ls"}) as reply:
        assert reply.status == 200
    assert rig.books.asked == []


async def test_a_persons_exec_never_waits(rig: Rig) -> None:
    rig.books.approvals = {"exec": ["*"]}
    rig.books.tokens["berth_person"] = Actor(type="user", name="anna", user_id=1)
    person = {"Authorization": "Bearer berth_person"}
    async with (aiohttp.ClientSession(rig.url, headers=person) as session,
                session.post(EXECS, json={"command": "rm x"}) as reply):
        assert reply.status == 200


async def test_in_the_background_it_is_pending_at_once_and_nothing_has_begun(rig: Rig, client) -> None:
    async with client.post(EXECS, json={"command": "sudo rm x", "background": True}) as reply:
        said = await reply.json()
    assert reply.status == 202 and said["state"] == "pending_approval"
    ((exec_id, pattern, body),) = rig.books.asked
    assert (exec_id, pattern, body["command"]) == (said["id"], "rm *", "sudo rm x")
    assert rig.hostd.seen == [] and rig.books.wakes == []


@pytest.mark.parametrize("code", ["approval_denied", "approval_timeout"])
async def test_in_the_foreground_the_call_blocks_and_says_what_was_decided(rig: Rig, client, code: str) -> None:
    asking = asyncio.create_task(client.post(EXECS, json={"command": "rm x"}))
    await eventually(lambda: rig.books.asked)
    assert not asking.done()
    exec_id = rig.books.asked[0][0]
    rig.books.held[exec_id] = held(exec_id, "ended", code)
    news(rig)
    async with await asking as reply:
        said = await reply.json(content_type=None)
    assert (reply.status, said["code"]) == (403, code)
    assert said["exec"]["outcome"] == {"kind": "refused", "code": code}
    assert rig.hostd.seen == []


async def test_once_approved_it_is_begun_under_its_own_id_and_the_caller_gets_its_end(rig: Rig, client) -> None:
    asking = asyncio.create_task(client.post(EXECS, json={"command": "rm x"}))
    await eventually(lambda: rig.books.asked)
    exec_id, _, body = rig.books.asked[0]
    rig.books.to_begin = [Begin("p" * 20, exec_id, ANNA, Place(WID, "running", "", 1, "owner"), body)]
    rig.app.gate.nudges._tell("approval", "p" * 20)
    await eventually(lambda: rig.books.begun)
    news(rig)
    async with await asking as reply:
        said = await reply.json()
    assert reply.status == 200 and said["path"].startswith(f"/v1/machines/{WID}/execs/{exec_id}")
    begun = next(json.loads(sent) for seen, sent in zip(rig.hostd.seen, rig.hostd.bodies, strict=True)
                 if seen.method == "POST")
    assert begun == {"command": "rm x", "exec_id": exec_id, "wait_s": 0}
    assert rig.books.begun == [("p" * 20, {})]


async def test_one_that_cannot_be_begun_is_refused_with_the_reason(rig: Rig, client) -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.json_response({"code": "invalid", "detail": "no such user"}, status=400)
    rig.hostd.handler = refuse
    rig.books.held[EID] = held(EID, "starting")
    rig.books.to_begin = [Begin("p" * 20, EID, ANNA, Place(WID, "running", "", 1, "owner"), {"command": "rm"})]
    rig.app.gate.nudges._tell("approval", "p" * 20)
    await eventually(lambda: rig.books.begun)
    assert rig.books.begun == [("p" * 20, {"code": "invalid", "detail": "no such user"})]


async def test_a_host_that_is_away_is_asked_again_and_nothing_is_given_up(rig: Rig, client) -> None:
    await rig.hostd.stop()
    rig.books.to_begin = [Begin("p" * 20, EID, ANNA, Place(WID, "running", "", 1, "owner"), {"command": "rm"})]
    rig.app.gate.nudges._tell("approval", "p" * 20)
    await asyncio.sleep(0)
    await rig.hostd.start()
    await eventually(lambda: rig.books.begun, 20)
    assert rig.books.begun == [("p" * 20, {})]


async def test_reading_one_that_waits_or_was_refused_is_answered_from_its_row(rig: Rig, client) -> None:
    rig.hostd.handler = unknown
    rig.books.held[EID] = held(EID, "pending_approval")
    async with client.get(f"{EXECS}/{EID}") as reply:
        assert (reply.status, (await reply.json())["state"]) == (202, "pending_approval")
    for verb in ("output", "stream"):
        async with client.get(f"{EXECS}/{EID}/{verb}") as reply:
            assert (reply.status, (await reply.json(content_type=None))["reason"]) == (409, "pending_approval")
    rig.books.held[EID] = held(EID, "ended", "approval_denied")
    async with client.get(f"{EXECS}/{EID}?wait_s=5") as reply:
        said = await reply.json()
    assert reply.status == 200 and said["outcome"] == {"kind": "refused", "code": "approval_denied"}
    async with client.post(f"{EXECS}/{EID}/stdin", data=b"x") as reply:
        assert (await reply.json(content_type=None))["code"] == "exec_ended"
    async with client.get(f"{EXECS}/{'f' * 20}") as reply:
        assert reply.status == 404


async def test_who_asked_takes_it_back(rig: Rig, client) -> None:
    rig.hostd.handler = unknown
    rig.books.held[EID] = held(EID, "pending_approval")
    async with client.delete(f"{EXECS}/{EID}") as reply:
        assert reply.status == 200 and (await reply.json())["state"] == "ended"


async def test_those_that_wait_come_first_in_the_list_and_alone_when_asked_for(rig: Rig, client) -> None:
    async def some(request: web.Request) -> web.Response:
        return web.json_response({"results": [{"id": "z" * 20}], "next": None})
    rig.hostd.handler = some
    rig.books.held[EID] = held(EID, "pending_approval")

    async def ids(query: str) -> list[Any]:
        async with client.get(EXECS + query) as reply:
            return [row["id"] for row in (await reply.json())["results"]]
    assert await ids("") == [EID, "z" * 20]
    assert await ids("?state=pending_approval") == [EID]
    assert await ids("?cursor=abc") == await ids("?state=running") == ["z" * 20]


async def test_a_command_too_long_to_be_read_is_refused_where_commands_may_wait(rig: Rig, client) -> None:
    async with client.post(EXECS, json={"command": "x" * 70_000}) as reply:
        said = await reply.json(content_type=None)
    assert (reply.status, said["code"]) == (400, "invalid") and "command" in said["errors"]
