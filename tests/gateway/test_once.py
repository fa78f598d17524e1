"""Idempotency-Key on changes of files and execs: made once, joined while under way, shown later as they then are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp
import pytest
from aiohttp import web

from tests.gateway.conftest import AUTH, EID, WID, Rig
from tests.redis_server import private_redis

FILES = f"/api/v1/workspaces/{WID}/files"
SIGNAL = f"/api/v1/workspaces/{WID}/execs/{EID}/signal"


@dataclass
class Guest:
    """A hostd whose folders can be made once: the second mkdir of a path is refused, as the real one does."""

    rig: Rig
    client: aiohttp.ClientSession
    made: list[str] = field(default_factory=list)
    size: int = 1
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return web.json_response({"path_encoded": request.query["path"], "size": self.size, "entries": [],
                                      "next": None, "user": request.query.get("user")})
        body = await request.json()
        if request.path.endswith("/signal"):
            self.made.append(body["signal"])
            return web.json_response({"id": EID, "state": "running"}, status=202)
        await self.go.wait()
        if body["path"] in self.made:
            return web.json_response({"code": "file_exists", "detail": ""}, status=409)
        self.made.append(body["path"])
        return web.json_response({"path_encoded": body["path"], "size": self.size}, status=201)

    async def mkdir(self, path: str, key: str, query: str = "") -> tuple[int, dict]:
        async with self.client.post(f"{FILES}/mkdir{query}", json={"path": path},
                                    headers={"Idempotency-Key": key}) as reply:
            return reply.status, await reply.json(content_type=None)


@pytest.fixture
async def guest(with_limits) -> AsyncIterator[Guest]:
    async with private_redis() as url, with_limits(redis_url=url) as rig, \
            aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        made = Guest(rig, client)
        made.go.set()
        rig.hostd.handler = made.answer
        yield made


async def test_a_repeated_change_is_made_once_and_shown_as_it_is_now(guest: Guest) -> None:
    assert await guest.mkdir("/a", "k", "?user=root") == (201, {"path_encoded": "/a", "size": 1})
    guest.size = 7
    assert await guest.mkdir("/a", "k", "?user=root") == (201, {"path_encoded": "/a", "size": 7, "user": "root"})
    assert guest.made == ["/a"]


async def test_a_key_that_meant_something_else_is_a_conflict_and_changes_nothing(guest: Guest) -> None:
    await guest.mkdir("/a", "k")
    status, said = await guest.mkdir("/b", "k")
    assert (status, said["code"], guest.made) == (409, "idempotency_conflict", ["/a"])


async def test_who_comes_while_it_is_under_way_joins_it(guest: Guest) -> None:
    guest.go.clear()
    both = [asyncio.create_task(guest.mkdir("/a", "k")) for _ in range(2)]
    await asyncio.sleep(0.3)  # long enough that a second one, if it were sent, would have been
    assert len(guest.rig.hostd.seen) == 1
    guest.go.set()
    assert [status for status, _ in await asyncio.gather(*both)] == [201, 201]
    assert guest.made == ["/a"]


async def test_a_refused_change_keeps_no_key(guest: Guest) -> None:
    guest.made.append("/a")
    assert (await guest.mkdir("/a", "k"))[0] == 409
    guest.made.clear()
    assert (await guest.mkdir("/a", "k"))[0] == 201


async def test_a_client_that_goes_away_ends_no_change_that_it_will_ask_for_again(guest: Guest) -> None:
    guest.go.clear()
    leaving = asyncio.create_task(guest.mkdir("/a", "k"))
    async with asyncio.timeout(60):
        while not guest.rig.hostd.seen:
            await asyncio.sleep(0.01)
    leaving.cancel()
    await asyncio.sleep(0.7)  # more than the gateway needs to notice
    guest.go.set()
    assert (await guest.mkdir("/a", "k"))[0] == 201
    assert guest.made == ["/a"]


async def test_a_signal_with_a_key_is_sent_once(guest: Guest) -> None:
    async def look(request: web.Request) -> web.StreamResponse:
        return await guest.answer(request) if request.method == "POST" else web.json_response({"id": EID, "state": "x"})
    guest.rig.hostd.handler = look
    answers = []
    for _ in range(2):
        async with guest.client.post(SIGNAL, json={"signal": "SIGINT"}, headers={"Idempotency-Key": "s"}) as reply:
            answers.append((reply.status, (await reply.json())["state"]))
    assert answers == [(202, "running"), (202, "x")] and guest.made == ["SIGINT"]
