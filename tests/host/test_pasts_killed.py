"""hostd killed with -9 at every step it makes on the file system, in every operation on a machine's past.

Whatever the step: the next hostd finds a machine that is what it was or what it was to become, all of its files whole,
nothing half made left behind, and the same operation repeated succeeds.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from tests.host.client import Hostd, body_pids, new_id, running_hostd
from tests.host.test_checkpoints import home, put, read, result
from tests.remains import nothing_remains

MOST_STEPS = 60


@contextlib.asynccontextmanager
async def mortal(driver: str = "fake", **more: Any) -> AsyncIterator[Hostd]:
    """A hostd that can be told at which step to die."""
    from tests.host.client import new_folder
    folder = new_folder()
    async with running_hostd(driver, folder=folder, BERTH_DIES_AT=str(folder / "armed"), **more) as hostd:
        hostd.module = "tests.host.dying"
        hostd.stop()
        await hostd.start(600)
        yield hostd
        (folder / "armed").unlink(missing_ok=True)


async def dies_in(hostd: Hostd, machine_id: str, kind: str, generation: int, at: int, where: str = "/machines/",
                  **more: Any) -> str:
    """Starts the operation with a hostd that dies at that step; "" when it was over before. The next hostd is up."""
    armed = hostd.folder / "armed"
    armed.write_text(json.dumps({"id": new_id(), "at": at, "where": where}))
    with contextlib.suppress(aiohttp.ClientError, OSError, AssertionError, json.JSONDecodeError):
        await hostd.operate(machine_id, kind, generation, **more)
    try:
        armed.unlink()
        return ""
    except FileNotFoundError:
        assert hostd.process is not None
        hostd.process.wait(timeout=60)
    died = armed.with_suffix(".died")
    said = died.read_text()
    died.unlink()
    await hostd.start(600)
    return said


async def at_every_step(hostd: Hostd, once: Callable[[int], Awaitable[str]]) -> list[str]:
    """Calls it with 1, 2, 3… until nobody died."""
    died: list[str] = []
    while said := await once(len(died) + 1):
        died.append(said)
        assert len(died) < MOST_STEPS, died
    return died


async def test_capture_and_drop() -> None:
    async with mortal() as hostd:
        mid = await hostd.machine()
        await put(hostd, mid, "file", "kept")
        pids = body_pids(hostd, mid)

        async def capture(at: int) -> str:
            said = await dies_in(hostd, mid, "capture", 1, at, checkpoint_id=f"c{at}", memory=False)
            assert body_pids(hostd, mid) == pids and await read(hostd, mid, "file") == "kept", said
            await nothing_remains(hostd.state, said)
            names = [row["checkpoint_id"] for row in (await hostd.observe(mid))["checkpoints"]]
            assert names in ([], [f"c{at}"]), "whole or not at all"
            await result(hostd, mid, "capture", checkpoint_id=f"c{at}", memory=False)
            await result(hostd, mid, "drop", checkpoint_id=f"c{at}")
            return said

        async def drop(at: int) -> str:
            await result(hostd, mid, "capture", checkpoint_id="d", memory=False)
            said = await dies_in(hostd, mid, "drop", 1, at, checkpoint_id="d")
            await nothing_remains(hostd.state, said)
            await result(hostd, mid, "drop", checkpoint_id="d")
            assert (await hostd.observe(mid))["checkpoints"] == []
            return said

        assert len(await at_every_step(hostd, capture)) >= 4
        assert len(await at_every_step(hostd, drop)) >= 2


@pytest.mark.parametrize("running", [True, False], ids=["running", "stopped"])
async def test_rollback(running: bool) -> None:
    async with mortal() as hostd:
        mid = await hostd.machine()
        await put(hostd, mid, "file", "then")
        await result(hostd, mid, "capture", checkpoint_id="c", memory=False)
        generation = 1

        async def rollback(at: int) -> str:
            nonlocal generation
            generation += 1
            await hostd.operate(mid, "boot", generation)
            await put(hostd, mid, "file", "now")
            if not running:
                await hostd.operate(mid, "shutdown", generation)
            said = await dies_in(hostd, mid, "rollback", generation, at, checkpoint_id="c", memory=False)
            phase = (await hostd.observe(mid))["phase"]
            assert phase == "stopped" or (running and phase == "running"), (said, phase)
            await nothing_remains(hostd.state, said)
            await hostd.operate(mid, "boot", generation)
            assert await read(hostd, mid, "file") in ("then", "now"), said
            await result(hostd, mid, "rollback", generation, checkpoint_id="c", memory=False)
            await hostd.operate(mid, "boot", generation)
            assert await read(hostd, mid, "file") == "then", said
            return said

        assert len(await at_every_step(hostd, rollback)) >= 2


async def test_clone() -> None:
    async with mortal() as hostd:
        mid = await hostd.machine()
        await put(hostd, mid, "file", "shared")
        await result(hostd, mid, "capture", checkpoint_id="c", memory=False)

        async def clone(at: int) -> str:
            one = new_id()
            asked = {"source": {"machine_id": mid, "checkpoint_id": "c"}, "memory": True,
                     "spec": {"machine_id": one, "generation": 1}}
            said = await dies_in(hostd, one, "clone", 1, at, **asked)
            phase = (await hostd.observe(one))["phase"]
            assert (phase == "absent") == (not home(hostd, one).exists()), (said, phase)
            await result(hostd, one, "clone", **asked)
            await hostd.operate(one, "boot", 1)
            assert await read(hostd, one, "file") == "shared", said
            await nothing_remains(hostd.state, said)
            await hostd.operate(one, "destroy", 1)
            return said

        assert len(await at_every_step(hostd, clone)) >= 3


async def test_a_rest_a_wake_and_a_rollback_with_memory() -> None:
    """On the fake driver with a memory of a kind; a real one's: `test_pasts_vm.py`."""
    async with mortal(BERTH_DIES_ASLEEP="yes") as hostd:
        mid = await hostd.machine()
        await put(hostd, mid, "file", "then")
        await result(hostd, mid, "capture", checkpoint_id="c", memory=True)
        generation = 1

        async def in_one_of(said: str, *phases: str) -> str:
            phase = str((await hostd.observe(mid))["phase"])
            assert phase in phases, said
            await nothing_remains(hostd.state, said)
            return phase

        async def up() -> None:
            nonlocal generation
            generation += 1
            await result(hostd, mid, "boot", generation, spec={"machine_id": mid, "generation": generation})

        async def park(at: int) -> str:
            await up()
            await put(hostd, mid, "file", "now")
            said = await dies_in(hostd, mid, "park", generation, at, mid)
            await in_one_of(said, "running", "parked")
            await result(hostd, mid, "park", generation)
            await up()
            assert (await hostd.facts(mid, "machine.running"))[-1]["data"] == {"from": "memory"}, said
            assert await read(hostd, mid, "file") == "now", said
            return said

        async def wake(at: int) -> str:
            await up()
            await result(hostd, mid, "park", generation)
            said = await dies_in(hostd, mid, "boot", generation, at, mid)
            await in_one_of(said, "running", "parked")
            await up()
            assert await read(hostd, mid, "file") == "now", said
            return said

        async def rollback(at: int) -> str:
            await up()
            await put(hostd, mid, "file", "now")
            how = {"checkpoint_id": "c", "memory": True, "boot": True,
                   "spec": {"machine_id": mid, "generation": generation}}
            said = await dies_in(hostd, mid, "rollback", generation, at, mid, **how)
            phase = await in_one_of(said, "running", "stopped", "parked")
            if phase == "running":
                went_back.append(await read(hostd, mid, "file") == "then")
            assert await result(hostd, mid, "rollback", generation, **how) == {"parked": True}, said
            assert await in_one_of(said, "running") and await read(hostd, mid, "file") == "then", said
            return said

        assert len(await at_every_step(hostd, park)) >= 6
        assert len(await at_every_step(hostd, wake)) >= 6
        went_back: list[bool] = []
        assert len(await at_every_step(hostd, rollback)) >= 10
        assert {True, False} == set(went_back) and went_back == sorted(went_back), "it runs in one past, then the other"
        assert await hostd.facts(mid, "machine.memory_dropped") == [], "no memory was given up on the way"
