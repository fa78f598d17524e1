"""Terminals through the gateway: who may open one, and frames that keep the slower end's pace."""

from __future__ import annotations

import asyncio
import contextlib

import aiohttp
import pytest
from aiohttp import web

from tests.gateway.conftest import AUTH, EID, OTHERS, TOKEN, WID, Rig
from workspaces.actors import Actor

PATH = f"/ws/v1/workspaces/{WID}/terminals/{EID}"


async def echoing(request: web.Request) -> web.StreamResponse:
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    await socket.send_bytes(b"\x04" + request.headers["Berth-Role"].encode())
    async for message in socket:
        if message.data == b"\x00exit":
            await socket.send_bytes(b'\x03{"kind":"exited","code":0}')
            break
        await socket.send_bytes(b"\x01" + message.data)
    await socket.close()
    return socket


@pytest.fixture(autouse=True)
def terminal(rig: Rig) -> None:
    rig.hostd.handler = echoing
    rig.books.sessions["s3ss10n"] = Actor(type="user", name="anna", user_id=1)


async def refused(rig: Rig, path: str, headers: dict[str, str]) -> int:
    async with aiohttp.ClientSession(rig.url) as client:
        try:
            async with client.ws_connect(path, headers=headers):
                return 101
        except aiohttp.WSServerHandshakeError as error:
            return error.status


async def test_frames_pass_both_ways_and_the_end_is_the_terminals_own(rig: Rig) -> None:
    async with aiohttp.ClientSession(rig.url) as client, \
            client.ws_connect(PATH + "?offset=5", headers=AUTH) as socket:
        assert (await socket.receive()).data == b"\x04owner"
        await socket.send_bytes(b"\x00ls \xff\n")
        assert (await socket.receive()).data == b"\x01\x00ls \xff\n"
        await socket.send_bytes(b"\x00exit")
        assert (await socket.receive()).data[0] == 3
        await socket.receive()
        assert socket.close_code == 1000
    assert rig.hostd.seen[0].raw_path == f"/v1/machines/{WID}/execs/{EID}/terminal?offset=5"


@pytest.mark.parametrize("origin", [
    "https://evil.example", "null", "http://3000--{wid}.preview.localhost:{port}", "http://127.0.0.1:1",
    "https://127.0.0.1:{port}", "http://127.0.0.1:{port}.evil.example", "http://127.0.0.1", "", None,
    "http://127.0.0.1:{port}/", "http://localhost:{port}"])
async def test_a_cookie_from_another_origin_opens_no_socket(rig: Rig, origin: str | None) -> None:
    headers = {"Cookie": "berth_session=s3ss10n"}
    if origin is not None:
        headers["Origin"] = origin.format(wid=WID, port=rig.port)
    for path in (PATH, "/ws/v1/events", f"/ws/v1/workspaces/{WID}/events"):
        assert await refused(rig, path, headers) == 403
    assert not rig.hostd.seen and not rig.daphne.seen


async def test_our_own_origin_may_and_a_token_needs_none(rig: Rig) -> None:
    assert await refused(rig, PATH, {"Cookie": "berth_session=s3ss10n", "Origin": rig.url}) == 101
    assert await refused(rig, PATH, AUTH) == 101


@pytest.mark.parametrize(("path", "headers", "status"), [
    (PATH, {}, 401), (PATH, {"Authorization": "Bearer berth_expired"}, 401), (PATH + "?token=" + TOKEN, {}, 401),
    (PATH.replace(WID, OTHERS), AUTH, 404), (PATH.replace(EID, "short"), AUTH, 404), ("/ws/other", AUTH, 404)])
async def test_strangers_are_refused_before_accept(rig: Rig, path, headers, status) -> None:
    if path.endswith("short"):
        async def no_socket(request: web.Request) -> web.Response:
            return web.Response(status=404)
        rig.daphne.handler = no_socket
    assert await refused(rig, path, headers) == status
    assert not rig.hostd.seen


async def test_a_viewer_watches_and_cannot_type(rig: Rig) -> None:
    rig.books.role = "viewer"
    async with aiohttp.ClientSession(rig.url) as client, client.ws_connect(PATH, headers=AUTH) as socket:
        assert (await socket.receive()).data == b"\x04viewer"
        await socket.send_bytes(b"\x00rm -rf /\n")
        await socket.send_bytes(b'\x02{"cols":1,"rows":1}')
        await socket.send_bytes(b'\x05{"take":true}')
        await socket.send_bytes(b'\x04{"ack":1}')
        assert (await socket.receive()).data == b'\x01\x04{"ack":1}'
    assert rig.books.touches == []


@pytest.mark.parametrize(("change", "code"), [("token", 4401), ("workspace", 4404), ("role", 4403)])
@pytest.mark.parametrize("told", [True, False])
async def test_a_revocation_closes_open_sockets_told_or_not(rig: Rig, change: str, code: int, told: bool) -> None:
    async with aiohttp.ClientSession(rig.url) as client, client.ws_connect(PATH, headers=AUTH) as socket:
        await socket.receive()
        if change == "token":
            rig.books.tokens.clear()
        elif change == "workspace":
            rig.books.states.clear()
        else:
            rig.books.role = "viewer"
        if told:
            kind = "token" if change == "token" else "workspace"
            rig.app.gate.nudges._tell(kind, WID if kind == "workspace" else "t" * 20)
        message = await asyncio.wait_for(socket.receive(), 60)
        assert message.type is aiohttp.WSMsgType.CLOSE and socket.close_code == code


async def test_a_host_that_goes_asks_the_client_to_come_again(rig: Rig) -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_bytes(b"\x01x")
        request.transport.abort()
        return socket
    rig.hostd.handler = cut
    async with aiohttp.ClientSession(rig.url) as client, client.ws_connect(PATH, headers=AUTH) as socket:
        async for _message in socket:
            pass
        assert socket.close_code == 1012


async def test_a_client_that_leaves_lets_go_of_the_terminal_below(rig: Rig) -> None:
    left = asyncio.Event()

    async def watch(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_bytes(b"\x01x")
        async for _message in socket:
            pass
        left.set()
        return socket
    rig.hostd.handler = watch
    for end in ("close", "abort"):
        left.clear()
        async with aiohttp.ClientSession(rig.url) as client:
            socket = await client.ws_connect(PATH, headers=AUTH)
            await socket.receive()
            if end == "close":
                await socket.close()
            else:
                socket._response.connection.transport.abort()
            await asyncio.wait_for(left.wait(), 60)
    async with asyncio.timeout(60):
        while rig.app.gate.sockets.held_by("1"):
            await asyncio.sleep(0.01)


async def test_a_quiet_socket_is_pinged_both_ways_and_stays(with_limits) -> None:
    """Field case 075: no data at all, for many times longer than a silent peer is waited for."""
    async with with_limits(socket_ping_s=0.2, socket_silence_s=1.0) as rig, aiohttp.ClientSession(rig.url) as client:
        rig.hostd.handler = quiet_then("late")
        async with client.ws_connect(PATH, headers=AUTH, heartbeat=1.0) as socket:
            rig.books.touches.clear()
            assert (await asyncio.wait_for(socket.receive(), 60)).data == b"\x01late"
            assert not rig.books.touches  # pings are nobody's activity


async def test_a_peer_that_vanished_without_a_word_lets_go_of_its_terminal(with_limits) -> None:
    """Field case 075: half-open. The client's kernel still acknowledges; nobody answers a ping."""
    async with with_limits(socket_ping_s=0.2, socket_silence_s=1.0) as rig:
        rig.hostd.handler = quiet_then("late")
        reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
        asked = (f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                 "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
                 f"Authorization: {AUTH['Authorization']}\r\n\r\n")
        writer.write(asked.encode())
        assert b" 101 " in await reader.readline()
        async with asyncio.timeout(60):
            while rig.app.gate.sockets.held_by("1"):
                await asyncio.sleep(0.01)
        writer.close()


def quiet_then(word: str):
    """A terminal that says nothing for three seconds."""
    async def answer(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(socket.receive(), 3.0)
        with contextlib.suppress(ConnectionError):
            await socket.send_bytes(b"\x01" + word.encode())
        return socket
    return answer


async def test_a_client_that_stalls_holds_the_terminal_back(rig: Rig) -> None:
    sent = 0

    async def flood(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        while True:
            await socket.send_bytes(b"\x01" + b"x" * 65535)
            sent += 65536
    rig.hostd.handler = flood
    async with aiohttp.ClientSession(rig.url) as client:
        socket = await client.ws_connect(PATH, headers=AUTH)
        await socket.receive()
        socket._response.connection.transport.pause_reading()
        last, quiet = -1, 0
        async with asyncio.timeout(60):
            while quiet < 10:
                await asyncio.sleep(0.05)
                quiet = quiet + 1 if sent == last else 0
                last = sent
        assert sent < 24 * 1024 * 1024
        socket._response.connection.transport.abort()


async def test_a_frame_too_large_ends_only_its_own_socket(rig: Rig) -> None:
    async with aiohttp.ClientSession(rig.url) as client, client.ws_connect(PATH, headers=AUTH) as socket:
        await socket.receive()
        await socket.send_bytes(b"\x00" + b"x" * 300_000)
        await asyncio.wait_for(socket.receive(), 60)
        assert socket.close_code == 1009
    assert await refused(rig, PATH, AUTH) == 101


async def test_sockets_are_counted_per_person(with_limits) -> None:
    async with with_limits(sockets_per_actor=2) as rig, aiohttp.ClientSession(rig.url) as client:
        rig.hostd.handler = echoing
        first, second = [await client.ws_connect(PATH, headers=AUTH) for _ in range(2)]
        assert await refused(rig, PATH, AUTH) == 429
        await first.close()
        async with asyncio.timeout(60):
            while await refused(rig, PATH, AUTH) != 101:
                await asyncio.sleep(0.02)
        await second.close()
