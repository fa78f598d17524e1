"""The hot path's memory: seconds long, bounded, emptied at once, and one load for many askers. Pure, a fake clock."""

from __future__ import annotations

import asyncio

import pytest

from workspaces.api.errors import Problem
from workspaces.gateway.lookups import Table


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def answer(value: str) -> str:
    await asyncio.sleep(0)
    return value


async def test_an_answer_is_kept_for_its_time_and_no_longer() -> None:
    clock = Clock()
    table: Table[str] = Table(ttl_s=3, clock=clock)
    assert await table.get("k", lambda: answer("old")) == "old"
    clock.now = 2.9
    assert await table.get("k", lambda: answer("new")) == "old"
    clock.now = 3.1
    assert await table.get("k", lambda: answer("new")) == "new"
    assert table.loads == 2


async def test_a_refusal_is_kept_shorter_and_raised_again() -> None:
    clock = Clock()
    table: Table[str] = Table(ttl_s=3, negative_ttl_s=1, clock=clock)

    async def refuse() -> str:
        raise Problem("not_found", "gone", reason="why")

    for _ in range(2):
        with pytest.raises(Problem) as caught:
            await table.get("k", refuse)
        assert (caught.value.code, caught.value.extra) == ("not_found", {"reason": "why"})
    assert table.loads == 1
    clock.now = 1.1
    assert await table.get("k", lambda: answer("here")) == "here"


async def test_a_fault_of_ours_is_never_kept() -> None:
    table: Table[str] = Table()

    async def broken() -> str:
        raise Problem("unavailable")

    with pytest.raises(Problem):
        await table.get("k", broken)
    assert await table.get("k", lambda: answer("well")) == "well"


async def test_concurrent_misses_share_one_load_even_when_the_first_asker_leaves() -> None:
    table: Table[str] = Table()
    gate = asyncio.Event()

    async def slow() -> str:
        await gate.wait()
        return "one"

    askers = [asyncio.create_task(table.get("k", slow)) for _ in range(50)]
    await asyncio.sleep(0.01)
    askers[0].cancel()
    gate.set()
    assert await asyncio.gather(*askers[1:]) == ["one"] * 49
    assert table.loads == 1


async def test_what_was_loading_when_the_table_was_emptied_is_not_kept() -> None:
    table: Table[str] = Table()
    gate = asyncio.Event()

    async def slow() -> str:
        await gate.wait()
        return "before the revocation"

    asker = asyncio.create_task(table.get("k", slow))
    await asyncio.sleep(0.01)
    table.drop_all()
    gate.set()
    assert await asker == "before the revocation"
    assert await table.get("k", lambda: answer("after")) == "after"


async def test_only_what_matches_is_dropped() -> None:
    table: Table[str] = Table()
    await table.get("1/x", lambda: answer("x"))
    await table.get("1/y", lambda: answer("y"))
    table.drop_if(lambda key, _value: key.endswith("/x"))
    assert await table.get("1/y", lambda: answer("new")) == "y"
    assert await table.get("1/x", lambda: answer("new")) == "new"


async def test_the_table_is_bounded_and_the_oldest_goes_first() -> None:
    table: Table[str] = Table(size=10)
    for n in range(100):
        await table.get(str(n), lambda n=n: answer(str(n)))
    assert len(table) == 10
    await table.get("99", lambda: answer("again"))
    assert table.loads == 100
