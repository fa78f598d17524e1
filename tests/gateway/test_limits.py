"""Bounds on what one client may cost the others (field cases 004, 085)."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from aiohttp import web

from tests.gateway.conftest import AUTH, WID, Rig
from tests.gateway.test_execs import eventually
from workspaces.actors import Actor

EXECS = f"/api/v1/workspaces/{WID}/execs"


async def raw(rig: Rig, *parts: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
    for part in parts:
        writer.write(part)
        await writer.drain()
    try:
        return await asyncio.wait_for(reader.read(), 60)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def test_headers_are_bounded_in_size_and_the_server_lives_on(rig: Rig) -> None:
    answer = await raw(rig, b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"X-Big: " + b"x" * 40_000 + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 431")
    answer = await raw(rig, b"GET / HTTP/1.1\r\nHost: localhost\r\n", *[b"X-%d: y\r\n" % n for n in range(4000)])
    assert answer.startswith(b"HTTP/1.1 431")
    answer = await raw(rig, b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 431")
    assert not rig.daphne.seen
    ok = await raw(rig, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 16_000
                   + b"\r\nConnection: close\r\n\r\n")
    assert ok.startswith(b"HTTP/1.1 200")


async def test_headers_are_bounded_in_time(with_limits) -> None:
    async with with_limits(head_timeout_s=1.5) as rig:
        for said in await asyncio.gather(raw(rig, b"GET / HTTP/1.1\r\nHost:"), raw(rig, b"")):
            assert said.startswith(b"HTTP/1.1 408")
        reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
        for _ in range(2):  # a kept connection may rest between requests for longer than a head may take
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200 OK" in await reader.readuntil(b'"ok"}')
            await asyncio.sleep(2)
        writer.close()


@pytest.mark.parametrize("request_", [
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\nConnection: close\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    b"0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\nConnection: close\r\n\r\nxxxxxx",
    b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00"])
async def test_requests_that_can_be_read_two_ways_are_refused(rig: Rig, request_: bytes) -> None:
    assert (await raw(rig, request_)).startswith(b"HTTP/1.1 400")
    assert not rig.daphne.seen


async def test_one_persons_crowd_is_shed_and_nobody_else_notices(with_limits) -> None:
    async with with_limits(requests_per_actor=5) as rig:
        release = asyncio.Event()

        async def slow(request: web.Request) -> web.StreamResponse:
            if request.method == "POST":
                await release.wait()
            return await rig.hostd.echo(request)
        rig.hostd.handler = slow
        rig.books.tokens["berth_of_bob"] = Actor(type="token", name="bob", user_id=2, token_id="u" * 20)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(rig.url, headers=AUTH, connector=connector) as client:
            crowd = [asyncio.create_task(client.post(EXECS, json={"command": "sleep 99"})) for _ in range(5)]
            await eventually(lambda: rig.app.gate.requests.held_by("1") == 5)
            async with client.get(EXECS) as reply:
                said = await reply.json(content_type=None)
                assert (reply.status, said["code"], reply.headers["Retry-After"]) == (429, "rate_limited", "1")
            async with client.get(EXECS, headers={"Authorization": "Bearer berth_of_bob"}) as reply:
                assert reply.status == 404  # bob is served (this workspace is not his)
            async with client.get("/api/v1/workspaces") as reply:
                assert reply.status == 200
            release.set()
            assert [r.status for r in await asyncio.gather(*crowd)] == [200] * 5
            async with client.get(EXECS) as reply:
                assert reply.status == 200


async def test_slow_uploads_and_sleeping_execs_delay_no_list(rig: Rig) -> None:
    """Counted, not timed: a list is answered while every one of a hundred slow calls is still open."""
    async def slow(request: web.Request) -> web.StreamResponse:
        if request.method == "PUT":
            await request.read()
        elif request.method == "POST":
            await asyncio.sleep(60)
        return await rig.hostd.echo(request)
    rig.hostd.handler = slow

    async def drip():
        while True:
            yield b"x" * 100
            await asyncio.sleep(0.1)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(rig.url, headers=AUTH, connector=connector) as client:
        path = f"/api/v1/workspaces/{WID}/files/content?path=/x"
        slow_ones = [asyncio.create_task(client.put(path, data=drip())) for _ in range(50)]
        slow_ones += [asyncio.create_task(client.post(EXECS, json={"command": "sleep 120"})) for _ in range(50)]
        await eventually(lambda: rig.app.gate.requests.held_by("1") == 100)
        for _ in range(20):
            for path in (EXECS, "/api/v1/workspaces"):
                async with client.get(path) as reply:
                    assert reply.status == 200
        assert not any(task.done() for task in slow_ones)
        for task in slow_ones:
            task.cancel()
        await asyncio.gather(*slow_ones, return_exceptions=True)
        await eventually(lambda: rig.app.gate.requests.held_by("1") == 0)


async def test_thousands_of_aborted_requests_leave_nothing_behind(rig: Rig) -> None:
    async def slow(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()
    rig.hostd.handler = slow
    head = f"GET {EXECS}/{'e' * 20} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {AUTH['Authorization']}\r\n\r\n"
    for _ in range(10):
        writers = [(await asyncio.open_connection("127.0.0.1", rig.port))[1] for _ in range(50)]
        for writer in writers:
            writer.write(head.encode())
        await asyncio.gather(*(writer.drain() for writer in writers))
        for writer in writers:
            writer.transport.abort()
    gate = rig.app.gate
    await eventually(lambda: gate.requests.held_by("1") == 0, timeout_s=20)
    await eventually(lambda: len(gate.hostd._session.connector._acquired) == 0, timeout_s=20)
