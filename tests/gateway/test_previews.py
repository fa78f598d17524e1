"""Previews at the edges: programs that hang, end kept connections, flood; workspaces that sleep. A real gateway, and a
hostd whose every connection a test decides.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from tests.gateway.conftest import AUTH, WID, Rig
from tests.gateway.test_tunnels import OPEN, RawHostd

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
PAGE = {"Accept": "text/html"}
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture
async def program(with_limits: Callable[..., Any]) -> AsyncIterator[tuple[Rig, RawHostd]]:
    async with with_limits(preview_answer_s=2.0, wake_timeout_s=5.0, recheck_s=0.3) as rig:
        made = RawHostd()
        await rig.hostd.stop()
        rig.config.host_socket.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(made, str(rig.config.host_socket))
        yield rig, made
        server.close()


def named(rig: Rig, **more: str) -> dict[str, str]:
    return {"Host": f"3000--{WID}.preview.localhost:{rig.port}", **AUTH, **more}


async def ask(rig: Rig, method: str = "GET", path: str = "/", **how: Any) -> tuple[int, aiohttp.ClientResponse, bytes]:
    headers = named(rig, **how.pop("headers", {}))
    async with aiohttp.ClientSession(rig.url) as client, client.request(
            method, path, headers=headers, allow_redirects=False, **how) as reply:
        return reply.status, reply, await reply.read()


def answers(*parts: bytes) -> Serve:
    """Reads one head for each part and says that part."""
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(part)
            await writer.drain()
        await reader.read()
    return serve


async def test_a_program_that_says_nothing_is_named_so_and_a_slow_body_is_its_own_matter(
        program: tuple[Rig, RawHostd]) -> None:
    rig, hostd = program
    hostd.serve = answers(b"")
    status, reply, body = await ask(rig)
    assert (status, reply.headers["Berth-Error"]) == (504, "preview_timeout") and b"preview_timeout" in body

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
        await asyncio.sleep(3)
        writer.write(b"cd")
        await reader.read()
    hostd.serve = slow
    assert (await ask(rig))[2] == b"abcd"


async def test_a_kept_connection_that_ended_costs_nobody_an_answer(program: tuple[Rig, RawHostd]) -> None:
    rig, hostd = program
    hostd.serve = answers(OK, OK)
    assert [(await ask(rig))[2] for _ in range(2)] == [b"ok"] * 2 and len(hostd.heads) == 1, "one connection for both"
    hostd.serve = answers(OK)
    await asyncio.sleep(0)

    async def ends(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await writer.drain()
        if len(hostd.heads) % 2:
            await reader.readuntil(b"\r\n\r\n")  # takes the next question and goes
    hostd.serve = ends
    hostd.heads.clear()
    rig.app.gate.previews_kept.close()
    assert [(await ask(rig))[0] for _ in range(4)] == [200] * 4
    posted = await ask(rig, "POST", data=b"x")
    assert posted[0] == 200, "a change never rides on a kept connection"


@pytest.mark.parametrize("evil", [
    b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 100_000 + b"\r\n\r\n",
    b"HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    b"HTTP/1.1 999 X\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", b"<html>", b"HTTP/1.1 200 OK\r\nbad name: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n", b"HTTP/3.7 200 OK\r\n\r\n"])
async def test_an_answer_that_is_none_is_the_programs_fault(program: tuple[Rig, RawHostd], evil: bytes) -> None:
    rig, hostd = program
    hostd.serve = answers(evil)
    status, reply, _ = await ask(rig)
    assert status == 502 and reply.headers["Berth-Error"] == "guest_reset"


async def test_answers_before_the_last_are_dropped_and_one_without_length_ends_with_its_connection(
        program: tuple[Rig, RawHostd]) -> None:
    rig, hostd = program
    hostd.serve = answers(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + OK)
    status, reply, body = await ask(rig)
    assert (status, body) == (200, b"ok") and "Link" not in reply.headers

    async def old(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nuntil the end")
        writer.write_eof()
        await reader.read()
    hostd.serve = old
    rig.app.gate.previews_kept.close()
    assert (await ask(rig))[2] == b"until the end"


async def test_a_person_sees_a_page_that_waits_and_a_program_waits(program: tuple[Rig, RawHostd]) -> None:
    rig, hostd = program
    hostd.serve = answers(OK, OK)
    rig.books.states[WID] = "standby"
    status, reply, body = await ask(rig, headers=PAGE, path="/x")
    assert (status, reply.headers["Berth-Error"], reply.headers["Retry-After"]) == (503, "workspace_waking", "2")
    assert b"url=/.berth/wait?path=%2Fx&amp;n=1" in body and len(rig.books.wakes) == 1
    assert rig.books.touches == [], "nothing was used yet"
    rig.books.states[WID] = "waking"
    rig.app.gate.access.forget("workspace", WID)
    status, reply, _ = await ask(rig, headers=PAGE, path="/.berth/wait?path=%2Fx&n=1")
    assert (status, reply.headers["Berth-Error"]) == (503, "workspace_waking")
    rig.books.states[WID] = "standby"
    rig.app.gate.access.forget("workspace", WID)
    status, reply, _ = await ask(rig, headers=PAGE, path="/.berth/wait?path=%2Fx&n=1")
    assert (status, reply.headers["Berth-Error"]) == (409, "workspace_stopped"), "it sleeps again: a page wakes nothing"
    assert len(rig.books.wakes) == 1 and rig.books.touches == []

    async def up(workspace_id: str) -> None:
        rig.books.states[workspace_id] = "running"
        rig.app.gate.access.forget("workspace", workspace_id)
    rig.books.on_wake = up
    status, _, body = await ask(rig, path="/api", headers={"Accept": "application/json"})
    assert (status, body) == (200, b"ok") and rig.books.wakes[-1] == (WID, "preview")


async def test_the_first_request_wakes_and_its_body_is_not_lost(program: tuple[Rig, RawHostd]) -> None:
    """Field case 080."""
    rig, hostd = program
    body, arrived = os.urandom(5_000_000), []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        arrived.append(await reader.readexactly(len(body)))
        writer.write(OK)
        await writer.drain()

    async def up(workspace_id: str) -> None:
        rig.books.states[workspace_id] = "running"
        rig.app.gate.access.forget("workspace", workspace_id)
    hostd.serve, rig.books.on_wake = serve, up
    rig.books.states[WID] = "standby"
    status, _, said = await ask(rig, "POST", "/form", data=body, headers={"Accept": "application/json"})
    assert (status, said) == (200, b"ok") and arrived == [body]
    assert rig.books.wakes == [(WID, "preview")]


@pytest.mark.parametrize("state", ["failed", "deleted"])
async def test_what_cannot_be_woken_says_so_and_is_not_tried_again_and_again(program: tuple[Rig, RawHostd], state: str
                                                                             ) -> None:
    rig, _hostd = program
    rig.books.states[WID] = state
    for headers in (PAGE, {}):
        status, reply, body = await ask(rig, headers=headers)
        assert (status, reply.headers["Berth-Error"]) == (409, "workspace_stopped") and b"refresh" not in body
    assert rig.books.wakes == []


async def test_a_visitor_who_goes_takes_the_connection_along(program: tuple[Rig, RawHostd]) -> None:
    rig, hostd = program

    async def floods(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"1\r\nx\r\n")
            await writer.drain()
            await asyncio.sleep(0.05)
    hostd.serve = floods
    async with aiohttp.ClientSession(rig.url) as client:
        reply = await client.get("/", headers=named(rig))
        assert await reply.content.readexactly(3) == b"xxx"
        reply.close()
    await asyncio.wait_for(hostd.ended.wait(), 60)


async def test_the_connection_is_made_in_that_guest_and_to_that_port(program: tuple[Rig, RawHostd]) -> None:
    rig, hostd = program
    hostd.serve = answers(OK)
    await ask(rig, path="/x", headers={"X-Forwarded-Host": "evil", "Berth-Actor": "evil"})
    assert hostd.heads[0].startswith(f"GET /v1/machines/{WID}/ports/3000/connect HTTP/1.1\r\n".encode())
    assert b"evil" not in hostd.heads[0] and OPEN and (WID, "preview") in rig.books.touches
