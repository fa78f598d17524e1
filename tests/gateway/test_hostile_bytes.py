"""What strangers, guests and people who lost their rights try at the public door."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from aiohttp import web

from tests.gateway.conftest import AUTH, EID, WID, Rig
from tests.gateway.test_limits import raw
from workspaces.gateway.exchange import Exchange

EXEC = f"/api/v1/workspaces/{WID}/execs/{EID}"
CONTENT = f"/api/v1/workspaces/{WID}/files/content?path=/x"


async def test_a_refusal_from_below_cannot_write_headers(rig: Rig) -> None:
    """A hostile agent's words travel up in errors: `allow` was one that became a header as it was."""
    async def refuses(request: web.Request) -> web.Response:
        return web.json_response({"code": "invalid", "detail": "x", "allow": "GET\r\nSet-Cookie: __Host-a=b",
                                  "retry_after_s": 1e999, "errors": {"a\r\nb": "c"}}, status=400)
    rig.hostd.handler = refuses
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client, client.get(EXEC) as reply:
        assert reply.status == 400 and "Set-Cookie" not in reply.headers and "Allow" not in reply.headers


async def test_no_route_can_split_an_answer() -> None:
    sent: list[object] = []

    async def send(message: object) -> None:
        sent.append(message)

    async def receive() -> dict[str, object]:
        return {"type": "http.disconnect"}
    exchange = Exchange({"type": "http", "path": "/", "headers": []}, receive, send)
    for value in (b"a\r\nSet-Cookie: a=b", b"a\nb", b"a\0b"):
        with pytest.raises(ValueError, match="line break"):
            await exchange.json(200, {}, [(b"location", value)])
    assert sent == [] and not exchange.answered


@pytest.mark.parametrize("begin", [
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", b"GET / HTTP/1.1\r\nHost: localhost\r\n",
    b"POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;",
    b"POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: "])
async def test_what_never_ends_is_refused_before_it_is_kept(rig: Rig, begin: bytes) -> None:
    """The parser keeps a header until its end. Here a stranger sends as much as is taken: it must be little."""
    _reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
    writer.write(begin)
    taken = 0
    try:
        async with asyncio.timeout(10):
            while taken < 64 * 1024 * 1024:
                writer.write(b"x" * 65536)
                await writer.drain()
                taken += 65536
    except (ConnectionError, TimeoutError):
        pass
    writer.close()
    assert taken < 16 * 1024 * 1024
    assert (await raw(rig, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")).endswith(b'"ok"}')


async def test_a_strangers_body_is_small_and_a_known_persons_is_not(rig: Rig) -> None:
    big = b"x" * 100_000
    async with aiohttp.ClientSession(rig.url) as client:
        for headers in ({}, {"Authorization": "Bearer berth_guessed"}, {"Cookie": "berth_session=guessed"}):
            async with client.post("/api/v1/session", data=big, headers=headers) as reply:
                assert reply.status == 413
        async with client.post("/api/v1/session", data=b"x" * 60_000) as reply:
            assert reply.status == 200
        async with client.post("/api/v1/tokens", data=big, headers=AUTH) as reply:
            assert reply.status == 200
    assert len(rig.daphne.seen) == 2


@pytest.mark.parametrize("change", ["token", "workspace", "role"])
@pytest.mark.parametrize("path", [f"{EXEC}/stream", f"{EXEC}/output", CONTENT])
async def test_what_flows_stops_when_the_right_to_it_ends(rig: Rig, path: str, change: str) -> None:
    """Field case 104: an open stream is no way to go on reading for somebody who was shown out."""
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        while True:
            await response.write(b": x\n\n")
            await asyncio.sleep(0.05)
    rig.hostd.handler = endless
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client, client.get(path) as reply:
        await reply.content.readany()
        _take_away(rig, change)
        async with asyncio.timeout(60):
            with pytest.raises(aiohttp.ClientError):
                while await reply.content.readany():
                    pass


@pytest.mark.parametrize(("change", "status"), [("token", 401), ("workspace", 404), ("role", 403)])
async def test_a_long_poll_is_answered_to_those_who_still_may(rig: Rig, change: str, status: int) -> None:
    asked = asyncio.Event()

    async def waits(request: web.Request) -> web.Response:
        asked.set()
        await asyncio.sleep(60)
        return web.json_response({"stdout": "secret"})
    rig.hostd.handler = waits
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        poll = asyncio.create_task(client.get(f"{EXEC}?wait_s=60").__aenter__())
        await asked.wait()
        _take_away(rig, change)
        reply = await asyncio.wait_for(poll, 60)
        assert reply.status == status and "secret" not in await reply.text()


@pytest.mark.parametrize(("change", "code"), [("token", "unauthenticated"), ("workspace", "not_found"),
                                              ("role", "forbidden")])
@pytest.mark.parametrize("what", ["content", "archive"])
async def test_an_upload_under_way_ends_with_the_right_to_it_and_is_cut_below(rig: Rig, what: str, change: str,
                                                                             code: str) -> None:
    """Of what somebody sends who was shown out meanwhile, nothing becomes a file: below it is half a body."""
    begun, cut = asyncio.Event(), asyncio.Event()

    async def take(request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return web.json_response({"phase": "running"})
        try:
            while await request.content.readany():
                begun.set()
        except (ConnectionError, aiohttp.ClientError, web.RequestPayloadError, asyncio.CancelledError):
            cut.set()
            raise
        return web.json_response({}, status=201)
    rig.hostd.handler = take

    async def pieces():
        while True:
            yield b"x" * 1000
            await asyncio.sleep(0.05)
    path = f"/api/v1/workspaces/{WID}/files/{what}?path=/x"
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        sent = asyncio.create_task(client.put(path, data=pieces()).__aenter__())
        await begun.wait()
        _take_away(rig, change)
        async with asyncio.timeout(60):
            reply = await sent
            assert (await reply.json())["code"] == code
            await cut.wait()


def _take_away(rig: Rig, what: str) -> None:
    if what == "token":
        rig.books.tokens.clear()
    elif what == "workspace":
        rig.books.states.clear()
    else:
        rig.books.role = "viewer"
