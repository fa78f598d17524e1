"""Activity stamps: the first use at once, more of it at most every ten seconds, none of it forgotten."""

from __future__ import annotations

import asyncio
import contextlib

from workspaces.gateway.activity import EVERY_S, Activity


class Told:
    def __init__(self) -> None:
        self.stamps: list[tuple[str, str]] = []
        self.now = 0.0
        self.activity = Activity(self.touch, lambda: self.now)

    async def touch(self, workspace_id: str, kind: str) -> None:
        self.stamps.append((workspace_id, kind))

    async def until(self, stamps: list[tuple[str, str]]) -> None:
        async with asyncio.timeout(60):
            while self.stamps != stamps:
                await asyncio.sleep(0.01)

    async def asleep(self) -> None:
        """The loop has told all it knows and waits for the bell."""
        async with asyncio.timeout(60):
            while self.activity._untold or self.activity._rung.is_set():
                await asyncio.sleep(0.01)
        await asyncio.sleep(1.2)  # past its last look around


async def test_a_use_after_a_long_silence_is_told_though_nobody_else_is_at_work() -> None:
    told = Told()
    running = asyncio.create_task(told.activity.run())
    try:
        told.activity.happened("a", "exec")
        await told.until([("a", "exec")])
        await told.asleep()
        told.now += EVERY_S + 1
        told.activity.happened("a", "file")
        await told.until([("a", "exec"), ("a", "file")])
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def test_much_use_within_ten_seconds_is_one_stamp_and_one_more_when_they_are_over() -> None:
    told = Told()
    running = asyncio.create_task(told.activity.run())
    try:
        for _ in range(100):
            told.activity.happened("a", "terminal")
            await asyncio.sleep(0)
        await told.until([("a", "terminal")])
        told.activity.happened("a", "terminal")
        await asyncio.sleep(1.2)
        assert told.stamps == [("a", "terminal")]
        told.now += EVERY_S
        await told.until([("a", "terminal")] * 2)
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
