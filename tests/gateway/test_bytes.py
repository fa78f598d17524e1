"""Files through the gateway: any size, the slower end's pace, whole or broken off, and never a page."""

from __future__ import annotations

import asyncio
import hashlib

import aiohttp
import pytest
from aiohttp import web

from tests.gateway.conftest import AUTH, WID, Rig

FILES = f"/api/v1/workspaces/{WID}/files"
PIECE = bytes(range(256)) * 256  # 64 KiB, every byte there is


async def observed_or(request: web.Request, then) -> web.StreamResponse:
    """The question before an upload, then what the test wants."""
    if request.path == f"/v1/machines/{WID}":
        return web.json_response({"phase": "running"})
    return await then(request)


async def test_an_upload_arrives_byte_for_byte_with_its_conditions(rig: Rig) -> None:
    got = hashlib.sha256()

    async def take(request: web.Request) -> web.StreamResponse:
        async for piece in request.content.iter_any():
            got.update(piece)
        return web.json_response({"size": 1}, status=201, headers={"ETag": '"x"'})
    rig.hostd.handler = lambda request: observed_or(request, take)

    async def pieces():
        for _ in range(400):
            yield PIECE
    path, new = FILES + "/content?path=/a%FFb&mode=0600", {"If-None-Match": "*"}
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client, \
            client.put(path, data=pieces(), headers=new) as reply:
        assert (reply.status, reply.headers["ETag"]) == (201, '"x"')
    assert got.digest() == hashlib.sha256(PIECE * 400).digest()
    sent = rig.hostd.seen[-1]
    assert sent.raw_path == f"/v1/machines/{WID}/files/content?path=/a%FFb&mode=0600"
    assert sent.headers["If-None-Match"] == "*"


async def test_an_upload_cut_by_its_client_is_cut_below_too(rig: Rig) -> None:
    cut = asyncio.Event()

    async def take(request: web.Request) -> web.StreamResponse:
        try:
            await request.read()
        except (ConnectionError, web.RequestPayloadError, aiohttp.ClientPayloadError):
            cut.set()
            raise
        except asyncio.CancelledError:
            cut.set()
            raise
        return web.json_response({})
    rig.hostd.handler = lambda request: observed_or(request, take)
    for head in (b"Content-Length: 1000000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n4000\r\n"):
        cut.clear()
        _reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
        writer.write(f"PUT {FILES}/content?path=/x HTTP/1.1\r\nHost: localhost\r\n"
                     f"Authorization: {AUTH['Authorization']}\r\n".encode() + head + b"x" * 10_000)
        await writer.drain()
        await asyncio.sleep(0.2)
        writer.transport.abort()
        await asyncio.wait_for(cut.wait(), 60)


async def test_a_refusal_in_the_middle_of_an_upload_reaches_its_client(rig: Rig) -> None:
    async def full(request: web.Request) -> web.StreamResponse:
        await request.content.readexactly(100_000)
        return web.json_response({"code": "guest_disk_full", "detail": "no space"}, status=507)
    rig.hostd.handler = lambda request: observed_or(request, full)
    _reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
    writer.write(f"PUT {FILES}/content?path=/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50000000\r\n"
                 f"Authorization: {AUTH['Authorization']}\r\n\r\n".encode() + b"x" * 200_000)
    answer = await asyncio.wait_for(_reader.read(), 60)
    assert answer.startswith(b"HTTP/1.1 507") and b"guest_disk_full" in answer and b"connection: close" in answer
    writer.close()


async def test_a_client_that_stalls_stalls_the_host_and_nothing_piles_up(rig: Rig) -> None:
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(PIECE)
            sent += len(PIECE)
    rig.hostd.handler = endless
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.port, limit=4096)
    writer.write(f"GET {FILES}/content?path=/x HTTP/1.1\r\nHost: localhost\r\n"
                 f"Authorization: {AUTH['Authorization']}\r\n\r\n".encode())
    await reader.readline()
    settled = await _settled(lambda: sent)
    assert 0 < settled < 24 * 1024 * 1024  # socket buffers of three hops, not a file
    writer.transport.abort()


async def test_a_host_that_stalls_stalls_the_client_and_nothing_piles_up(rig: Rig) -> None:
    async def stall(request: web.Request) -> web.StreamResponse:
        await request.content.readany()
        await asyncio.sleep(60)
        return web.json_response({})
    rig.hostd.handler = lambda request: observed_or(request, stall)
    sent = 0

    async def pour() -> None:
        nonlocal sent
        _reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
        writer.write(f"PUT {FILES}/content?path=/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999999\r\n"
                     f"Authorization: {AUTH['Authorization']}\r\n\r\n".encode())
        while True:
            writer.write(PIECE)
            await writer.drain()
            sent += len(PIECE)
    pouring = asyncio.create_task(pour())
    assert 0 < await _settled(lambda: sent) < 24 * 1024 * 1024
    pouring.cancel()


async def test_a_client_that_leaves_in_the_middle_of_a_download_ends_it_below(rig: Rig) -> None:
    ended = asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(PIECE)
        except (ConnectionError, asyncio.CancelledError):
            ended.set()
            raise
    rig.hostd.handler = endless
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        reply = await client.get(FILES + "/content?path=/x")
        await reply.content.readexactly(1_000_000)
        reply.close()
        await asyncio.wait_for(ended.wait(), 60)


async def test_a_silent_stream_notices_that_its_client_left(rig: Rig) -> None:
    ended = asyncio.Event()

    async def silent(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.set()
            raise
        return response
    rig.hostd.handler = silent
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        reply = await client.get(FILES + "/content?path=/x")
        reply.close()
        await asyncio.wait_for(ended.wait(), 60)


@pytest.mark.parametrize("path", ["/content?path=/x.html", "/content?path=/x.svg"])
async def test_contents_are_never_a_page_of_ours(rig: Rig, path: str) -> None:
    async def page(request: web.Request) -> web.Response:
        return web.Response(body=b"<svg onload=alert(1)>", headers={
            "Content-Type": "image/svg+xml", "Content-Disposition": "inline", "Set-Cookie": "berth_session=evil",
            "Content-Security-Policy": "script-src *", "X-Content-Type-Options": "sniff", "ETag": '"1"'})
    rig.hostd.handler = page
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client, client.get(FILES + path) as reply:
        assert await reply.read() == b"<svg onload=alert(1)>"
    said = reply.headers
    assert said.getall("Content-Disposition") == ["attachment"] and said.getall("X-Content-Type-Options") == ["nosniff"]
    assert said.getall("Content-Security-Policy") == ["sandbox; default-src 'none'"] and said["ETag"] == '"1"'
    assert "Set-Cookie" not in said


async def test_ranges_conditions_and_heads_pass_as_they_are(rig: Rig) -> None:
    async def part(request: web.Request) -> web.Response:
        if request.headers.get("If-None-Match"):
            return web.Response(status=304, headers={"ETag": '"1"'})
        if request.method == "HEAD":
            return web.Response(headers={"Content-Length": "5000000000", "ETag": '"1"', "Accept-Ranges": "bytes"})
        assert request.headers["Range"] == "bytes=2-3" and request.headers["If-Range"] == '"1"'
        return web.Response(status=206, body=b"cd", headers={"Content-Range": "bytes 2-3/10"})
    rig.hostd.handler = part
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        async with client.get(FILES + "/content?path=/x", headers={"Range": "bytes=2-3", "If-Range": '"1"'}) as reply:
            assert (reply.status, reply.headers["Content-Range"], await reply.read()) == (206, "bytes 2-3/10", b"cd")
        async with client.get(FILES + "/content?path=/x", headers={"If-None-Match": '"1"'}) as reply:
            assert reply.status == 304
        async with client.head(FILES + "/content?path=/x") as reply:
            assert reply.headers["Content-Length"] == "5000000000"


async def test_lists_of_files_go_on_by_url_whatever_bytes_the_names_hold(rig: Rig) -> None:
    async def page(request: web.Request) -> web.Response:
        return web.json_response({"path": "/d", "type": "dir", "entries": [], "next_cursor": "/d/%FF%20x"})
    rig.hostd.handler = page
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client, client.get(FILES + "?path=/d&limit=1") as reply:
        said = await reply.json()
    assert said["next"] == f"{rig.url}{FILES}?path=/d&limit=1&cursor=/d/%FF%20x" and "next_cursor" not in said


async def _settled(value, quiet_s: float = 0.5) -> int:
    """The value once it has not moved for a while (and has moved at all)."""
    async with asyncio.timeout(60):
        last, since = -1, asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(0.05)
            now = asyncio.get_running_loop().time()
            if value() != last:
                last, since = value(), now
            elif last > 0 and now - since > quiet_s:
                return last
