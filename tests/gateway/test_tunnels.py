"""Tunnels and watches through the gateway: who may, frames both ways, half-close, and an end for each way of ending."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import aiohttp
import pytest
from aiohttp import web

from tests.gateway.conftest import AUTH, OTHERS, TOKEN, WID, Rig, scoped
from workspaces.actors import Actor
from workspaces.gateway.config import Config

PATH = f"/ws/v1/workspaces/{WID}/ports/8080/tunnel"
WATCH = f"/ws/v1/workspaces/{WID}/files/watch?path=/home/user"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OPEN = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"


class RawHostd:
    """hostd's end of `connect`: after the head, a test's own coroutine has the two ends."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.answer = OPEN
        self.serve: Serve = self.echo
        self.ended = asyncio.Event()

    async def echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write(b"bye")
        writer.write_eof()
        await asyncio.sleep(0.1)

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self.answer)
        try:
            if self.answer == OPEN:
                await self.serve(reader, writer)
        finally:
            writer.close()
            self.ended.set()


@pytest.fixture
async def raw(rig: Rig) -> AsyncIterator[RawHostd]:
    """In the place of the rig's hostd, which speaks whole requests only."""
    made = RawHostd()
    await rig.hostd.stop()
    rig.config.host_socket.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(made, str(rig.config.host_socket))
    yield made
    server.close()


async def refusal(rig: Rig, path: str, headers: dict[str, str]) -> tuple[int, str]:
    """(status, code) of an upgrade that is refused, as any HTTP client can read it."""
    asked = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
             "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", **headers}
    async with aiohttp.ClientSession(rig.url) as client, client.get(path, headers=asked) as answer:
        return answer.status, json.loads(await answer.read())["code"]


async def test_bytes_pass_both_ways_and_an_empty_frame_is_the_end_of_one(rig: Rig, raw: RawHostd) -> None:
    async with aiohttp.ClientSession(rig.url) as client, client.ws_connect(PATH, headers=AUTH) as socket:
        await socket.send_bytes(b"\x00\xff" + b"x" * 300_000)
        got = b""
        while len(got) < 300_002:
            got += (await asyncio.wait_for(socket.receive(), 60)).data
        assert got == b"\x00\xff" + b"x" * 300_000
        await socket.send_bytes(b"")
        assert [(await socket.receive()).data for _ in range(2)] == [b"bye", b""]
        await socket.receive()
        assert socket.close_code == 1000
    head = raw.heads[0]
    assert head.startswith(f"GET /v1/machines/{WID}/ports/8080/connect HTTP/1.1\r\n".encode())
    assert b"Berth-Actor" in head and b"Bearer" not in head and (WID, "preview") in rig.books.touches


async def test_a_program_that_breaks_off_is_told_from_one_that_ends(rig: Rig, raw: RawHostd) -> None:
    async def breaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"half")
        await writer.drain()
    raw.serve = breaks
    async with aiohttp.ClientSession(rig.url) as client, client.ws_connect(PATH, headers=AUTH) as socket:
        assert (await socket.receive()).data == b"half"
        await socket.receive()
        assert socket.close_code == 4502

    async def ends(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write_eof()
        assert await reader.read() == b"more"
    raw.serve = ends
    async with aiohttp.ClientSession(rig.url) as client, client.ws_connect(PATH, headers=AUTH) as socket:
        assert (await socket.receive()).data == b""
        await socket.send_bytes(b"more")
        await socket.send_bytes(b"")
        await socket.receive()
        assert socket.close_code == 1000


async def test_a_client_that_goes_ends_it_below_and_one_that_stalls_stalls_it(rig: Rig, raw: RawHostd) -> None:
    sent = 0

    async def floods(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536
    raw.serve = floods
    async with aiohttp.ClientSession(rig.url) as client:
        socket = await client.ws_connect(PATH, headers=AUTH, max_msg_size=0)
        last = -1
        while last != sent or not sent:
            last = sent
            await asyncio.sleep(0.3)
        assert 0 < sent < 24 * 1024 * 1024
        assert socket._response.connection is not None
        socket._response.connection.transport.abort()
        await asyncio.wait_for(raw.ended.wait(), 60)


@pytest.mark.parametrize(("said", "status", "code"), [
    (b'{"code":"preview_not_listening","detail":"no"}', 502, "preview_not_listening"),
    (b'{"code":"busy","detail":"many","retry_after_s":1}', 409, "busy"), (b"nonsense", 503, "host_unreachable"),
    (b'{"code":"made_up"}', 500, "internal")])
async def test_a_refusal_is_an_answer_with_a_name(rig: Rig, raw: RawHostd, said: bytes, status: int, code: str) -> None:
    raw.answer = b"HTTP/1.1 502 X\r\nContent-Length: %d\r\n\r\n" % len(said) + said
    assert await refusal(rig, PATH, AUTH) == (status, code)


async def test_who_may_not_is_refused_before_anything_is_opened(rig: Rig, raw: RawHostd) -> None:
    rig.books.sessions["s3ss10n"] = Actor(type="user", name="anna", user_id=1)
    cookie = {"Cookie": "berth_session=s3ss10n"}
    assert await refusal(rig, PATH, {}) == (401, "unauthenticated")
    assert (await refusal(rig, PATH, {**cookie, "Origin": "https://evil.example"}))[0] in (401, 403)
    assert await refusal(rig, PATH.replace(WID, OTHERS), AUTH) == (404, "not_found")
    assert (await refusal(rig, PATH.replace("8080", "70000"), AUTH))[0] == 404
    assert (await refusal(rig, PATH.replace("8080", "0"), AUTH))[0] == 404
    rig.books.tokens[TOKEN] = scoped("exec", "files:read", "workspaces:read")
    rig.app.gate.access.forget("token", "")
    assert await refusal(rig, PATH, AUTH) == (403, "scope_missing")
    rig.books.tokens[TOKEN] = scoped("previews")
    rig.books.role = "viewer"
    rig.app.gate.access.forget("token", "")
    assert await refusal(rig, PATH, AUTH) == (403, "forbidden")
    assert raw.heads == []


async def test_a_revocation_closes_an_open_tunnel_and_resets_below(rig: Rig, raw: RawHostd) -> None:
    async with aiohttp.ClientSession(rig.url) as client, client.ws_connect(PATH, headers=AUTH) as socket:
        await socket.send_bytes(b"x")
        assert (await socket.receive()).data == b"x"
        del rig.books.tokens[TOKEN]
        rig.app.gate.access.forget("token", "")
        await asyncio.wait_for(socket.receive(), 60)
        assert socket.close_code == 4401
    await asyncio.wait_for(raw.ended.wait(), 60)


async def test_text_and_frames_too_large_end_it_by_name(rig: Rig, raw: RawHostd) -> None:
    async with aiohttp.ClientSession(rig.url) as client, client.ws_connect(PATH, headers=AUTH) as socket:
        await socket.send_str("text")
        await socket.receive()
        assert socket.close_code == 1003
    async with aiohttp.ClientSession(rig.url) as client, client.ws_connect(PATH, headers=AUTH) as socket:
        await socket.send_bytes(bytes(1024 * 1024 + 1))
        await socket.receive()
        assert socket.close_code == 1009


async def test_a_tunnel_wakes_what_sleeps(rig: Rig, raw: RawHostd) -> None:
    rig.books.states[WID] = "standby"

    async def wakes(workspace_id: str) -> None:
        rig.books.states[WID] = "running"
    rig.books.on_wake = wakes
    async with aiohttp.ClientSession(rig.url) as client, client.ws_connect(PATH, headers=AUTH) as socket:
        await socket.send_bytes(b"awake")
        assert (await socket.receive()).data == b"awake"
    assert rig.books.wakes == [(WID, "preview")]


# -- watches -----------------------------------------------------------------------------------------------------------

async def test_changes_pass_as_text_and_nothing_is_woken_or_counted(rig: Rig) -> None:
    async def tells(request: web.Request) -> web.StreamResponse:
        assert request.raw_path == f"/v1/machines/{WID}/files/watch?path=/home/user"
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_str('{"type":"ready","folders":1,"partial":false}')
        await socket.send_str('{"type":"gone"}')
        await socket.close()
        return socket
    rig.hostd.handler = tells
    async with aiohttp.ClientSession(rig.url) as client, client.ws_connect(WATCH, headers=AUTH) as socket:
        await socket.send_str("nobody reads this")
        assert [(await socket.receive_json())["type"] for _ in range(2)] == ["ready", "gone"]
        await socket.receive()
        assert socket.close_code == 1000
    assert rig.books.wakes == [] and rig.books.touches == []

    async def asleep(request: web.Request) -> web.StreamResponse:
        return web.json_response({"code": "not_running", "detail": "parked", "reason": "parked"}, status=409)
    rig.hostd.handler = asleep
    rig.books.states[WID] = "standby"
    assert await refusal(rig, WATCH, AUTH) == (409, "not_running")
    assert rig.books.wakes == []
    rig.books.tokens[TOKEN] = replace(scoped("exec"))
    rig.app.gate.access.forget("token", "")
    assert await refusal(rig, WATCH, AUTH) == (403, "scope_missing")


async def test_a_host_that_goes_says_come_again(rig: Rig) -> None:
    async def breaks(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.close(code=1012)
        return socket
    rig.hostd.handler = breaks
    async with aiohttp.ClientSession(rig.url) as client, client.ws_connect(WATCH, headers=AUTH) as socket:
        await socket.receive()
        assert socket.close_code == 1012
    assert isinstance(rig.config, Config)
