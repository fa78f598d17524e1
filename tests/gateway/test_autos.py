"""The point just before a program's step: asked for after a quiet time, waited for, joined, and never in the way."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from tests.gateway.conftest import ANNA, AUTH, WID, Rig
from tests.gateway.test_execs import eventually

EXECS = f"/api/v1/workspaces/{WID}/execs"


async def step(client: aiohttp.ClientSession) -> int:
    async with client.post(EXECS, json={"command": "true"}) as reply:
        await reply.read()
        return reply.status


async def test_a_step_waits_for_its_checkpoint_and_others_join(rig: Rig) -> None:
    rig.books.auto_id, rig.books.capturing = "c" * 20, True
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        steps = [asyncio.create_task(step(client)) for _ in range(5)]
        await eventually(lambda: rig.books.autos == [WID])
        assert not rig.hostd.seen, "no step has begun before the checkpoint's moment"
        rig.books.capturing = False
        rig.app.gate.nudges._tell("workspace", WID)
        assert await asyncio.gather(*steps) == [200] * 5
        assert await step(client) == 200
    assert rig.books.autos == [WID], "a busy workspace is not asked about again"


async def test_after_a_quiet_time_it_is_asked_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(rig.app.gate.autos, "_clock", lambda: now[0])
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        for seconds, asked in ((0, 1), (20, 1), (45, 1), (80, 2)):
            now[0] = float(seconds)
            assert await step(client) == 200
            assert len(rig.books.autos) == asked, seconds


async def test_a_person_and_a_checkpoint_that_cannot_be_taken_hold_nobody_up(rig: Rig) -> None:
    async def broken(*_: Any) -> str:
        raise RuntimeError("the database is away")
    rig.books.auto_checkpoint = broken  # type: ignore[method-assign]
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        assert await step(client) == 200
        person = replace(ANNA, type="user", name="anna", token_id=None)
        rig.books.tokens["berth_as-if-a-person"] = person
    async with aiohttp.ClientSession(rig.url, headers={"Authorization": "Bearer berth_as-if-a-person"}) as client:
        assert await step(client) == 200
