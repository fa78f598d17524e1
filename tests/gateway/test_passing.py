"""What goes on to Daphne: whole small bodies, true forwarding headers, sockets, and never a preview's name."""

from __future__ import annotations

import asyncio
import json
import logging

import aiohttp
import pytest
from aiohttp import web

from tests.gateway.conftest import AUTH, OTHERS, TOKEN, WID, Rig
from tests.gateway.test_execs import eventually


async def test_what_a_client_pretends_is_replaced_by_what_is_true(rig: Rig) -> None:
    lies = {"X-Forwarded-For": "9.9.9.9", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil",
            "Forwarded": "for=x", "X-Real-IP": "9.9.9.9",
            "X-HTTP-Method-Override": "DELETE", "Connection": "keep-alive, X-Secret",
            "X-Secret": "1", "X-Kept": "2", "Berth-Actor": "{}", "Cookie": "a=b"}
    async with aiohttp.ClientSession(rig.url) as client, \
            client.post("/sign-in?next=/x", data=b"a=1", headers=lies) as reply:
        said = await reply.json()
    passed = dict(said["headers"])
    assert passed["x-forwarded-for"] == "127.0.0.1" and passed["x-forwarded-proto"] == "http"
    assert passed["x-forwarded-host"] == passed["host"] == f"127.0.0.1:{rig.port}"
    assert {"forwarded", "x-real-ip", "x-http-method-override", "x-secret", "berth-actor"}.isdisjoint(passed)
    assert passed["x-kept"] == "2" and passed["cookie"] == "a=b"
    assert (said["path"], said["body"]) == ("/sign-in?next=/x", "a=1")


async def test_answers_pass_with_every_cookie_and_without_hop_headers(rig: Rig) -> None:
    async def page(request: web.Request) -> web.Response:
        answer = web.Response(status=302, headers={"Location": "/x", "Server": "daphne"})
        answer.headers.add("Set-Cookie", "a=1; HttpOnly")
        answer.headers.add("Set-Cookie", "b=2")
        return answer
    rig.daphne.handler = page
    async with aiohttp.ClientSession(rig.url) as client, client.get("/", allow_redirects=False) as reply:
        assert (reply.status, reply.headers["Location"]) == (302, "/x")
        assert reply.headers.getall("Set-Cookie") == ["a=1; HttpOnly", "b=2"] and "Server" not in reply.headers


@pytest.mark.parametrize("path", ["/a//b/../c", "/%2e%2e/x", "/a%00b", "/%ff", "/a;b=c?x=%ff&y", "/ws/v1/events"])
async def test_paths_arrive_exactly_as_they_were_spelled(rig: Rig, path: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["path"] == path
    writer.close()


async def test_what_is_asked_by_a_previews_name_never_reaches_daphne(rig: Rig) -> None:
    names = {f"3000--{OTHERS}.preview.localhost:{rig.port}": 403, "x.PREVIEW.localhost": 404, "preview.localhost.": 404,
             f"0--{WID}.preview.localhost": 404, f"3000--{WID}.x.preview.localhost": 404}
    for host, status in names.items():
        async with aiohttp.ClientSession(rig.url) as client:
            for path in ("/", "/api/v1/workspaces", "/healthz", f"/api/v1/workspaces/{WID}/execs"):
                async with client.get(path, headers={"Host": host, **AUTH}) as reply:
                    assert (reply.status, reply.content_type) == (status, "application/problem+json")
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await client.ws_connect("/ws/v1/events", headers={"Host": host, **AUTH})
    assert not rig.daphne.seen and not rig.hostd.seen


async def test_daphne_away_is_a_503_that_says_when_to_come_again_and_the_rest_works_on(rig: Rig) -> None:
    await rig.daphne.stop()
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        async with client.get("/api/v1/workspaces") as reply:
            said = await reply.json(content_type="application/problem+json")
            assert (reply.status, said["code"], reply.headers["Retry-After"]) == (503, "unavailable", "2")
        async with client.get(f"/api/v1/workspaces/{WID}/execs") as reply:
            assert reply.status == 200
        async with client.get("/healthz") as reply:
            assert reply.status == 200
        await rig.daphne.start()
        async with client.get("/api/v1/workspaces") as reply:
            assert reply.status == 200


async def test_bodies_above_two_mebibytes_never_reach_daphne(with_limits) -> None:
    async with with_limits(json_body_bytes=1000) as rig, aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        async def endless():
            while True:
                yield b"x" * 500
        for data in (b"x" * 1001, endless()):
            async with client.post("/api/v1/workspaces", data=data) as reply:
                assert reply.status == 413 and (await reply.json(content_type=None))["code"] == "too_large"
        async with client.post("/api/v1/workspaces", data=b"x" * 1000) as reply:
            assert reply.status == 200
        assert len(rig.daphne.seen) == 1


async def test_a_slow_body_holds_no_connection_of_daphnes_and_ends(with_limits) -> None:
    async with with_limits(body_timeout_s=0.5) as rig:
        reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
        writer.write(b"POST /api/v1/workspaces HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        answer = await asyncio.wait_for(reader.read(), 60)
        assert answer.startswith(b"HTTP/1.1 408") and not rig.daphne.seen
        writer.close()


async def test_events_pass_through_as_text_with_their_close_code(rig: Rig) -> None:
    async def events(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        assert request.headers["Authorization"] == f"Bearer {TOKEN}"
        assert request.headers["X-Forwarded-For"] == "127.0.0.1"
        await socket.send_str('{"type":"hello"}')
        await socket.receive()
        await socket.close(code=4401)
        return socket
    rig.daphne.handler = events
    async with aiohttp.ClientSession(rig.url) as client, client.ws_connect("/ws/v1/events?x=1", headers=AUTH) as socket:
        assert (await socket.receive()).data == '{"type":"hello"}'
        await socket.send_str("anything")
        await socket.receive()
        assert socket.close_code == 4401
    assert rig.daphne.seen[0].raw_path == "/ws/v1/events?x=1"


async def test_a_socket_that_daphne_refuses_is_refused_before_accept(rig: Rig) -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.Response(status=403)
    rig.daphne.handler = refuse
    async with aiohttp.ClientSession(rig.url) as client:
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await client.ws_connect("/ws/v1/events", headers=AUTH)
        assert caught.value.status == 403
        await rig.daphne.stop()
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await client.ws_connect("/ws/v1/events", headers=AUTH)
        assert caught.value.status == 503


@pytest.mark.parametrize(("path", "status"), [
    (f"/ws/v1/workspaces/{WID}/events?after=-1", 400), (f"/ws/v1/workspaces/{WID}/events?after=x", 400),
    (f"/ws/v1/workspaces/{OTHERS}/events", 404), ("/ws/v1/nothing", 404), (f"/ws/v1/workspaces/{WID}/nothing", 404)])
async def test_an_events_socket_that_cannot_be_is_refused_here_with_its_own_status(rig: Rig, path, status) -> None:
    async with aiohttp.ClientSession(rig.url) as client:
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await client.ws_connect(path, headers=AUTH)
        assert caught.value.status == status
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await client.ws_connect(path)
        assert caught.value.status == 401
    assert not rig.daphne.seen


async def test_daphne_restarting_closes_event_sockets_with_come_again(rig: Rig) -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_str("{}")
        request.transport.abort()
        return socket
    rig.daphne.handler = cut
    async with aiohttp.ClientSession(rig.url) as client, client.ws_connect("/ws/v1/events", headers=AUTH) as socket:
        async for _message in socket:
            pass
        assert socket.close_code == 1012


async def test_logs_hold_no_query_no_token_and_no_cookie(rig: Rig, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("aiohttp.access").disabled = True  # the stand-ins' own
    async with aiohttp.ClientSession(rig.url) as client:
        headers = {**AUTH, "Cookie": "berth_session=c00kie-secret"}
        for path in ("/x?code=sh4re-secret", f"/api/v1/workspaces/{WID}/files?path=/home/pr1vate-secret",
                     "/ws/v1/events?token=qu3ry-secret", f"/api/v1/workspaces/{WID}/nothing?a=n0thing-secret"):
            async with client.get(path, headers=headers) as reply:
                await reply.read()
        rig.hostd.handler = lambda request: (_ for _ in ()).throw(RuntimeError)
        for path in (f"/ws/v1/workspaces/{WID}/terminals/{'e' * 20}?t=w5-secret", "/ws/v1/events?t=w6-secret"):
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await client.ws_connect(path, headers=headers)
    ours = [r for r in caplog.records if not r.name.startswith(("aiohttp.server", "asyncio"))]
    said = "\n".join(f"{r.name} {r.getMessage()} {r.exc_text or ''}" for r in ours)
    assert "berth.gateway.access" in said
    assert "-secret" not in said and TOKEN not in said
    assert "without completing" not in said


async def test_a_client_that_leaves_frees_its_place_at_daphne(rig: Rig) -> None:
    begun = asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        begun.set()
        await asyncio.sleep(60)
        return web.Response()
    rig.daphne.handler = slow
    async with aiohttp.ClientSession(rig.url) as client:
        asking = asyncio.create_task(client.get("/"))
        await asyncio.wait_for(begun.wait(), 60)
        assert rig.app.gate.daphne_requests.held_by("127.0.0.1") == 1
        asking.cancel()
        await eventually(lambda: rig.app.gate.daphne_requests.held_by("127.0.0.1") == 0)
