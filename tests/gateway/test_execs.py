"""Execs through the gateway: named here, run there, waited for by whoever stays. hostd's part is a stand-in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from tests.gateway.conftest import AUTH, EID, WID, Rig
from tests.redis_server import private_redis

EXECS = f"/api/v1/workspaces/{WID}/execs"


@pytest.fixture
async def client(rig: Rig) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as session:
        yield session


async def test_the_exec_is_named_here_and_the_body_goes_down_whole(rig: Rig, client) -> None:
    async with client.post(EXECS + "?wait_s=3&encoding=base64", json={"command": ["ls", "ü"], "wait_s": 5}) as reply:
        said = await reply.json()
    sent = json.loads(said["body"])
    assert len(sent.pop("exec_id")) == 20
    assert sent == {"command": ["ls", "ü"], "wait_s": 5}
    assert said["path"] == f"/v1/machines/{WID}/execs?wait_s=3&encoding=base64"


@pytest.mark.parametrize(("body", "status", "code"), [
    (b"", 200, None), (b"[1]", 400, "invalid"), (b"nonsense", 400, "malformed"), (b"\xff\xfe", 400, "malformed"),
    (b'{"command":"true","exec_id":"' + b"a" * 20 + b'"}', 400, "invalid"), (b"[" * 100_000, 400, "malformed"),
    (b'{"command":"true","wake_timeout_s":"soon"}', 400, "invalid"),
    (b'{"command":"true","wake_timeout_s":1e9}', 400, "invalid")])
async def test_bodies_that_cannot_be_meant_are_refused_with_a_name(rig: Rig, client, body, status, code) -> None:
    async with client.post(EXECS, data=body) as reply:
        said = await reply.json(content_type=None)
        assert (reply.status, said.get("code")) == (status, code)


async def test_refusals_of_the_host_arrive_with_their_code_and_fields(rig: Rig, client) -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.json_response({"code": "invalid", "detail": "cwd: must be text", "errors": {"cwd": "must be text"},
                                  "status": 999, "type": "x"}, status=400)
    rig.hostd.handler = refuse
    async with client.post(EXECS, json={"command": "x", "cwd": 1}) as reply:
        said = await reply.json(content_type="application/problem+json")
    assert reply.status == 400 and said["errors"] == {"cwd": ["must be text"]} and said["status"] == 400
    assert said["type"] == "urn:berth:problem:invalid"


async def test_a_client_that_goes_away_ends_its_wait_and_nothing_else(rig: Rig, client) -> None:
    waiting, left = asyncio.Event(), asyncio.Event()

    async def long_poll(request: web.Request) -> web.Response:
        await request.read()
        waiting.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            left.set()
            raise
        return web.json_response({})
    rig.hostd.handler = long_poll
    asking = asyncio.create_task(client.post(EXECS, json={"command": "sleep 60"}))
    await asyncio.wait_for(waiting.wait(), 60)
    asking.cancel()
    await asyncio.wait_for(left.wait(), 60)
    assert [r.method for r in rig.hostd.seen] == ["POST"]  # no DELETE, no signal: it was only let go of
    await eventually(lambda: rig.app.gate.requests.held_by("1") == 0)


async def test_a_wait_survives_a_restart_of_the_host_process(rig: Rig, client) -> None:
    waiting = asyncio.Event()

    async def long_poll(request: web.Request) -> web.Response:
        await request.read()
        waiting.set()
        await asyncio.sleep(60)
        return web.json_response({})
    rig.hostd.handler = long_poll
    asking = asyncio.create_task(client.post(EXECS, json={"command": "x"}))
    await asyncio.wait_for(waiting.wait(), 60)
    await rig.hostd.stop()
    rig.hostd.handler = rig.hostd.echo
    await asyncio.sleep(0.2)
    await rig.hostd.start()
    reply = await asyncio.wait_for(asking, 60)
    assert reply.status == 200
    assert len(rig.hostd.bodies) == 1 and len(rig.hostd.seen) == 2
    reply.release()


async def test_a_host_that_stays_away_is_a_503_with_a_time_to_come_again(rig: Rig, client) -> None:
    await rig.hostd.stop()
    async with client.get(f"{EXECS}/{EID}") as reply:
        said = await reply.json(content_type="application/problem+json")
    assert (reply.status, said["code"], reply.headers["Retry-After"]) == (503, "host_unreachable", "2")


async def test_what_may_have_happened_is_not_done_again(rig: Rig, client) -> None:
    async def break_off(request: web.Request) -> web.Response:
        await request.read()
        request.transport.abort()
        return web.Response()
    rig.hostd.handler = break_off
    async with client.post(f"{EXECS}/{EID}/stdin", data=b"rm -rf x\n") as reply:
        assert reply.status == 503
    assert len(rig.hostd.seen) == 1


async def test_lists_turn_the_cursor_into_a_url_that_goes_on(rig: Rig, client) -> None:
    async def page(request: web.Request) -> web.Response:
        return web.json_response({"results": [], "next": "41"})
    rig.hostd.handler = page
    async with client.get(EXECS + "?limit=2&state=ended&cursor=99") as reply:
        said = await reply.json()
    assert said["next"] == f"{rig.url}{EXECS}?limit=2&state=ended&cursor=41"


async def test_a_stream_that_breaks_says_so_and_is_never_ended_as_whole(rig: Rig, client) -> None:
    async def break_off(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"event: stdout\ndata: {}\n\n")
        await asyncio.sleep(0.05)
        request.transport.abort()
        return response
    rig.hostd.handler = break_off
    async with client.get(f"{EXECS}/{EID}/stream") as reply:
        text = (await reply.read()).decode()
    assert text.startswith("event: stdout") and "event: error" in text and "host_unreachable" in text
    assert "outcome" not in text


async def test_output_that_breaks_off_breaks_the_clients_connection_too(rig: Rig, client) -> None:
    async def break_off(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
        await response.prepare(request)
        await response.write(b"half")
        await asyncio.sleep(0.05)
        request.transport.abort()
        return response
    rig.hostd.handler = break_off
    with pytest.raises(aiohttp.ClientError):
        async with client.get(f"{EXECS}/{EID}/output?stream=stdout") as reply:
            await reply.read()


async def test_events_arrive_as_they_are_sent_not_when_all_are_there(rig: Rig, client) -> None:
    seen = asyncio.Event()

    async def one_by_one(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"event: stdout\ndata: 1\n\n")
        await asyncio.wait_for(seen.wait(), 60)
        await response.write(b"event: outcome\ndata: 2\n\n")
        return response
    rig.hostd.handler = one_by_one
    async with client.get(f"{EXECS}/{EID}/stream", headers={"Last-Event-ID": "7"}) as reply:
        assert b"stdout" in await reply.content.readuntil(b"\n\n")
        seen.set()
        assert b"outcome" in await reply.content.read()
    assert rig.hostd.seen[0].headers["Last-Event-ID"] == "7"


async def test_an_idempotency_key_names_one_exec_for_a_day(with_limits) -> None:
    async with private_redis() as url, with_limits(redis_url=url) as rig, \
            aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        async def ask(key: str, body: dict) -> tuple[int, dict]:
            async with client.post(EXECS, json=body, headers={"Idempotency-Key": key}) as reply:
                return reply.status, await reply.json(content_type=None)
        first = json.loads((await ask("k1", {"command": "a"}))[1]["body"])["exec_id"]
        again = (await ask("k1", {"command": "a"}))[1]  # now only read, by the same name, with the same wait
        assert again["path"] == f"/v1/machines/{WID}/execs/{first}?wait_s=60"
        assert (await ask("k1", {"command": "b"}))[1]["code"] == "idempotency_conflict"
        other = json.loads((await ask("k2", {"command": "a"}))[1]["body"])["exec_id"]
        assert other != first
        assert (await ask("", {"command": "a"}))[0] == 400
        ttls = [await rig.app.gate.redis.ttl(name) for name in await rig.app.gate.redis.keys("berth:exec-key:*")]
        assert len(ttls) == 2 and all(86_000 < ttl <= 86_400 for ttl in ttls)


async def test_a_key_whose_exec_never_began_starts_it_under_the_same_name(with_limits) -> None:
    async with private_redis() as url, with_limits(redis_url=url) as rig, \
            aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        async def failing_once(request: web.Request) -> web.StreamResponse:
            if request.method == "GET":
                return web.json_response({"code": "not_found", "detail": ""}, status=404)
            if len(rig.hostd.seen) == 1:
                return web.json_response({"code": "no_capacity", "detail": ""}, status=503)
            return await rig.hostd.echo(request)
        rig.hostd.handler = failing_once
        key = {"Idempotency-Key": "retry"}
        async with client.post(EXECS, json={"command": "a"}, headers=key) as reply:
            assert reply.status == 503
        async with client.post(EXECS, json={"command": "a"}, headers=key) as reply:
            assert reply.status == 200
        assert [r.method for r in rig.hostd.seen] == ["POST", "GET", "POST"]


async def test_a_key_that_cannot_be_remembered_starts_nothing(rig: Rig, client) -> None:
    async with client.post(EXECS, json={"command": "a"}, headers={"Idempotency-Key": "k"}) as reply:
        said = await reply.json(content_type=None)
        assert (reply.status, said["code"]) == (503, "unavailable")
    assert not rig.hostd.seen
    async with client.post(EXECS, json={"command": "a"}) as reply:
        assert reply.status == 200  # without a key nothing depends on Redis


async def eventually(true, timeout_s: float = 60) -> None:
    async with asyncio.timeout(timeout_s):
        while not true():
            await asyncio.sleep(0.01)
