"""First calls wake: once however many ask, for as long as they want, and with a name when it cannot be."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from aiohttp import web

from tests.gateway.conftest import AUTH, EID, WID, Rig
from workspaces.api.errors import Problem

BASE = f"/api/v1/workspaces/{WID}"


def wakes_after(rig: Rig, moment: asyncio.Event) -> None:
    """Upstairs: the wish is noted at once, the machine runs when `moment` is set; both are told by a nudge."""
    async def on_wake(workspace_id: str) -> None:
        rig.books.states[workspace_id] = "waking"
        rig.app.gate.nudges._tell("workspace", workspace_id)

        async def later() -> None:
            await moment.wait()
            rig.books.states[workspace_id] = "running"
            rig.app.gate.nudges._tell("workspace", workspace_id)
        rig.later = asyncio.create_task(later())  # type: ignore[attr-defined]
    rig.books.on_wake = on_wake


@pytest.mark.parametrize("state", ["stopped", "standby", "stopping", "parking"])
async def test_fifty_first_calls_wake_once_and_are_all_answered(rig: Rig, state: str) -> None:
    rig.books.states[WID] = state
    moment = asyncio.Event()
    wakes_after(rig, moment)
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        asking = [asyncio.create_task(_status(client, *how)) for how in [
            ("POST", "/execs", {"json": {"command": "true"}}), ("GET", "/files?path=/", {}),
            ("PUT", "/files/content?path=/x", {"data": b"x" * 100_000}), ("GET", "/files/content?path=/x", {}),
            ("POST", "/files/mkdir", {"json": {"path": "/d"}})] * 10]
        await asyncio.sleep(0.3)
        assert not rig.hostd.seen and not any(task.done() for task in asking)
        moment.set()
        assert await asyncio.wait_for(asyncio.gather(*asking), 60) == [200] * 50
    assert len(rig.books.wakes) == 1 and rig.books.wakes[0][0] == WID


async def test_hostd_s_word_that_it_runs_is_not_kept_waiting_by_the_ledger(rig: Rig) -> None:
    rig.books.states[WID] = "standby"
    wakes_after(rig, asyncio.Event())
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        asking = [asyncio.create_task(_status(client, "POST", "/execs", {"json": {"command": "true"}}))
                  for _ in range(20)]
        async with asyncio.timeout(60):
            while not rig.hostd.asked_whether_up:
                await asyncio.sleep(0.01)
        assert not rig.hostd.seen
        rig.hostd.up.set()
        assert await asyncio.wait_for(asyncio.gather(*asking), 60) == [200] * 20
    assert rig.books.states[WID] == "waking" and len(rig.books.wakes) == 1
    assert rig.hostd.asked_whether_up < 5, "one question for all who wait"


@pytest.mark.parametrize("state", ["parking", "stopping", "restoring"])
async def test_what_runs_before_it_came_to_rest_is_no_wake(rig: Rig, state: str) -> None:
    """hostd still has the body that is on its way down, or to another past."""
    rig.books.states[WID] = state
    rig.hostd.up.set()
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        asking = asyncio.create_task(_status(client, "POST", "/execs", {"json": {"command": "true"}}))
        await asyncio.sleep(0.3)
        assert not rig.hostd.seen
        rig.books.states[WID] = "running"
        rig.app.gate.nudges._tell("workspace", WID)
        assert await asyncio.wait_for(asking, 60) == 200


async def test_creating_is_waited_for_and_not_asked_for(rig: Rig) -> None:
    rig.books.states[WID] = "creating"
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        asking = asyncio.create_task(_status(client, "POST", "/execs", {"json": {"command": "true"}}))
        await asyncio.sleep(0.2)
        rig.books.states[WID] = "running"
        rig.app.gate.nudges._tell("workspace", WID)
        assert await asyncio.wait_for(asking, 60) == 200
    assert rig.books.wakes == []


async def test_a_lost_nudge_costs_seconds_not_the_answer(rig: Rig) -> None:
    rig.books.states[WID] = "creating"
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        asking = asyncio.create_task(_status(client, "POST", "/execs", {"json": {"command": "true"}}))
        await asyncio.sleep(0.1)
        rig.books.states[WID] = "running"  # and nobody says so
        assert await asyncio.wait_for(asking, 60) == 200


async def test_a_caller_decides_how_long_waking_may_take_and_the_waking_goes_on(rig: Rig) -> None:
    rig.books.states[WID] = "stopped"
    moment = asyncio.Event()
    wakes_after(rig, moment)
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        async with client.post(BASE + "/execs", json={"command": "true", "wake_timeout_s": 0.2}) as reply:
            said = await reply.json(content_type=None)
            assert (reply.status, said["code"]) == (503, "wake_timeout") and reply.headers["Retry-After"]
        assert rig.books.states[WID] == "waking"
        moment.set()
        assert await _status(client, "POST", "/execs", {"json": {"command": "true"}}) == 200
    assert len(rig.books.wakes) == 1


@pytest.mark.parametrize("state", ["deleted", "deleting"])
async def test_the_trash_is_not_woken_from(rig: Rig, state: str) -> None:
    rig.books.states[WID] = state
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client, \
            client.post(BASE + "/execs", json={"command": "true"}) as reply:
        said = await reply.json(content_type=None)
        assert (reply.status, said["code"], said["reason"]) == (409, "state_conflict", "deleted")
    assert rig.books.wakes == []


async def test_a_workspace_that_failed_and_may_not_be_woken_says_why(rig: Rig) -> None:
    rig.books.states[WID] = "failed"

    async def refuse(_workspace_id: str) -> None:
        raise Problem("state_conflict", "It failed.", reason="failed")
    rig.books.on_wake = refuse
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client, \
            client.get(BASE + "/files?path=/") as reply:
        said = await reply.json(content_type=None)
        assert (reply.status, said["code"], said["reason"]) == (409, "state_conflict", "failed")


async def test_a_failure_while_waking_is_told_to_everyone_who_waits(rig: Rig) -> None:
    rig.books.states[WID] = "stopped"

    async def fail(workspace_id: str) -> None:
        rig.books.states[workspace_id] = "failed"
    rig.books.on_wake = fail
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        how = ("POST", "/execs", {"json": {"command": "true"}})
        assert await asyncio.gather(*(_status(client, *how) for _ in range(5))) == [409] * 5


async def test_a_host_that_knows_better_than_the_row_gets_the_machine_woken_and_is_asked_again(rig: Rig) -> None:
    async def off_at_first(request: web.Request) -> web.StreamResponse:
        if not rig.books.wakes:
            return web.json_response({"code": "not_running", "detail": "the body is gone"}, status=409)
        return await rig.hostd.echo(request)
    rig.hostd.handler = off_at_first
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        for method, path, how in [("POST", "/execs", {"json": {"command": "true"}}), ("GET", "/files?path=/", {})]:
            rig.books.wakes.clear()
            assert await _status(client, method, path, how) == 200
            assert len(rig.books.wakes) == 1


async def test_a_read_that_says_so_neither_wakes_nor_counts(rig: Rig) -> None:
    """Field case 072: what an open page reads by itself keeps nobody awake, and cannot undo a stop of that moment."""
    async def off(request: web.Request) -> web.StreamResponse:
        return web.json_response({"code": "not_running", "detail": "stopped"}, status=409,
                                 headers={"Berth-Code": "not_running"})
    ways = [("GET", "/files?path=/a"), ("GET", "/files/content?path=/a"), ("HEAD", "/files/content?path=/a")]
    async with aiohttp.ClientSession(rig.url, headers={**AUTH, "Berth-Wake": "never"}) as client:
        for method, path in ways:
            assert await _status(client, method, path, {}) == 200
        rig.books.states[WID], rig.hostd.handler = "stopped", off
        for method, path in ways:
            assert await _status(client, method, path, {}) == 409
        await asyncio.sleep(0.05)
        assert rig.books.wakes == [] and rig.books.touches == []


@pytest.mark.parametrize(("method", "path"), [
    ("GET", "/execs"), ("GET", f"/execs/{EID}"), ("GET", f"/execs/{EID}/output?stream=stdout"),
    ("GET", f"/execs/{EID}/stream"), ("GET", f"/execs/{EID}/recording"),
    ("GET", "/metrics"), ("GET", "/network/log"), ("DELETE", f"/execs/{EID}")])
async def test_looking_never_wakes_and_is_no_activity(rig: Rig, method: str, path: str) -> None:
    rig.books.states[WID] = "stopped"
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        assert await _status(client, method, path, {}) == 200
    await asyncio.sleep(0.05)
    assert rig.books.wakes == [] and rig.books.touches == []


async def test_work_is_told_upstairs_once_in_ten_seconds(rig: Rig) -> None:
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        for _ in range(30):
            await _status(client, "POST", "/execs", {"json": {"command": "true"}})
    async with asyncio.timeout(60):
        while not rig.books.touches:
            await asyncio.sleep(0.01)
    assert rig.books.touches == [(WID, "exec")]


async def _status(client: aiohttp.ClientSession, method: str, path: str, how: dict) -> int:
    async with client.request(method, BASE + path, **how) as reply:
        await reply.read()
        return reply.status
