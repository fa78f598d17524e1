"""What the gateway answers itself is in the audit, once, with its end; what Daphne answers is Daphne's to note."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence

import aiohttp
import pytest
from aiohttp import web
from django.db import OperationalError

from tests.gateway.conftest import ANNA, AUTH, EID, OTHERS, WID, Rig, scoped
from tests.gateway.test_execs import eventually
from workspaces.acts import Act
from workspaces.gateway.exchange import Exchange
from workspaces.gateway.trail import Trail, kind_of

BASE = f"/api/v1/workspaces/{WID}"


@pytest.fixture
async def client(rig: Rig) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as session:
        yield session


@pytest.mark.parametrize(("method", "rest", "kind"), [
    ("POST", "execs", "exec.start"), ("DELETE", f"execs/{EID}", "exec.kill"),
    ("POST", f"execs/{EID}/stdin", "exec.stdin"), ("PUT", "files/content", "file.write"),
    ("POST", "files/move", "file.move"), ("PUT", "files/archive", "file.archive"),
    ("DELETE", "files", "file.remove"), ("GET", "files/content", "file.read"),
    ("POST", "ports/8000/share", "port.share"),
    ("GET", f"checkpoints/{EID}/files/content", "checkpoint.read"), ("GET", "", "workspace.read")])
def test_an_act_is_called_by_what_it_does(method: str, rest: str, kind: str) -> None:
    assert kind_of(method, rest) == kind


async def test_each_change_is_noted_once_with_actor_address_target_and_outcome(rig: Rig, client) -> None:
    async with client.post(f"{BASE}/execs", json={"command": "hush-command"}) as reply:
        exec_id = json.loads((await reply.json())["body"])["exec_id"]
    async with client.put(f"{BASE}/files/content?path=/hush-name", data=b"hush-bytes") as reply:
        assert reply.status == 200
    await eventually(lambda: len(rig.books.acts) == 2)
    first, second = rig.books.acts
    assert (first.kind, first.target, first.outcome, first.status) == ("exec.start", f"workspace:{WID}", "ok", 200)
    assert first.actor == ANNA and first.address == "127.0.0.1" and first.data == {"exec": exec_id}
    assert second.kind == "file.write" and "hush" not in str(rig.books.acts)


async def test_a_refused_act_is_noted_with_its_code_and_reading_is_no_act(rig: Rig, client) -> None:
    rig.books.tokens["berth_reader"] = scoped("files:read")
    reader = {"Authorization": "Bearer berth_reader"}
    async with client.get(f"{BASE}/files/content?path=/x") as reply:
        assert reply.status == 200
    async with client.post(f"{BASE}/execs", json={"command": "x"}, headers=reader) as reply:
        assert reply.status == 403
    async with client.get(f"{BASE}/execs", headers={"Authorization": "Bearer berth_unknown"}) as reply:
        assert reply.status == 401
    async with client.post(f"/api/v1/workspaces/{OTHERS}/execs", json={"command": "x"}) as reply:
        assert reply.status == 404

    async def refuse(request: web.Request) -> web.Response:
        return web.json_response({"code": "guest_disk_full"}, status=507)
    rig.hostd.handler = refuse
    async with client.put(f"{BASE}/files/content?path=/x", data=b"x") as reply:
        assert reply.status == 507
    await eventually(lambda: len(rig.books.acts) == 4)
    assert [(act.kind, act.outcome, act.actor and act.actor.name) for act in rig.books.acts] == [
        ("exec.start", "scope_missing", "anna's"), ("exec.read", "unauthenticated", None),
        ("exec.start", "not_found", "anna's"), ("file.write", "guest_disk_full", "anna's")]


async def test_what_daphne_answers_is_not_noted_twice(rig: Rig, client) -> None:
    async with client.post("/api/v1/workspaces", json={"name": "x"}) as reply:
        assert reply.status == 200
    async with client.post("/api/v1/workspaces?wait=true", json={"name": "x"}) as reply:
        assert reply.status == 200
    async with client.post(f"{BASE}/execs", json={"command": "x"}) as reply:
        assert reply.status == 200
    await eventually(lambda: rig.books.acts)
    assert [act.kind for act in rig.books.acts] == ["exec.start"]


async def test_who_broke_the_glass_is_noted_when_they_read(rig: Rig, client) -> None:
    rig.books.glass = True
    async with client.get(f"{BASE}/files/content?path=/x") as reply:
        assert reply.status == 200
    await eventually(lambda: rig.books.acts)
    assert [act.kind for act in rig.books.acts] == ["file.read"]


async def test_running_against_a_bound_is_noted_once_and_not_for_each_try(with_limits) -> None:
    async with with_limits(rate_per_token_s=0.01, rate_burst_per_token=1) as rig:
        async with aiohttp.ClientSession(rig.url, headers=AUTH) as session:
            for _ in range(20):
                async with session.post(f"{BASE}/execs", json={"command": "x"}):
                    pass
        await eventually(lambda: len(rig.books.acts) >= 2)
        assert [act.outcome for act in rig.books.acts] == ["ok", "rate_limited"]


async def test_a_database_that_is_away_keeps_nobody_waiting_and_loses_no_act() -> None:
    written: list[Act] = []
    away = [True, True, False]

    async def write(acts: Sequence[Act]) -> None:
        if away.pop(0) if away else False:
            raise OperationalError("away")
        written.extend(acts)
    trail = Trail(write)
    running = asyncio.create_task(trail.run())
    for n in range(3):
        exchange = Exchange({"type": "http", "method": "POST", "path": f"{BASE}/execs", "headers": []}, None, None)
        exchange.status, exchange.noted = 200, {"n": n}
        trail.note(exchange, "192.0.2.1")
    await eventually(lambda: len(written) == 3, 10)
    assert [act.data["n"] for act in written] == [0, 1, 2]
    running.cancel()
