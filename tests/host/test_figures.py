"""What a machine used: now, and in a bounded past that outlives its body; looking wakes nobody."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sandboxes.host import figures
from tests.host.client import eventually
from tests.host.hostile import Agent, House, house
from tests.host.test_hostile_agent import results

COUNTED = itertools.count()


async def busier_each_time(agent: Agent, stream: int, params: dict[str, Any]) -> None:
    script = results(metrics={"cpu_s": next(COUNTED) / 1000, "memory_used_bytes": 7, "network_rx_bytes": 3})["metrics"]
    await script(agent, stream, params)


@pytest.fixture
async def hostd(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    monkeypatch.setattr(figures, "SAMPLE_S", 0.05)
    monkeypatch.setattr(figures, "KEPT", 4)
    monkeypatch.setattr(figures, "LEAST_S", 0.01)
    with tempfile.TemporaryDirectory(prefix="berth-f-") as folder:
        async with house(Path(folder)) as made:
            yield made


async def test_the_last_samples_are_kept_and_are_answered_when_the_body_is_gone(hostd: House) -> None:
    machine = await hostd.machine({"metrics": busier_each_time})

    async def seen() -> dict[str, Any]:
        status, said, _ = await hostd.call("GET", f"{machine}/metrics")
        assert status == 200
        return dict(said)

    async def full() -> bool:
        return len((await seen())["history"]) == 4
    await eventually(full, "a full ring")
    first = await seen()
    assert first["now"]["memory_used_bytes"] == 7 and first["now"]["network_rx_bytes"] == 3
    assert first["now"]["cpu_percent"] > 0 and first["reason"] is None

    async def moved_on() -> bool:
        return (await seen())["history"][0]["cpu_s"] > first["history"][-1]["cpu_s"]
    await eventually(moved_on, "newer samples in the place of older ones")
    assert len((await seen())["history"]) == 4

    assert (await hostd.operate(machine, "kill"))["state"] == "done"
    after = await seen()
    assert (after["now"], after["reason"]) == (None, "stopped") and len(after["history"]) == 4


def test_what_a_processor_did_is_told_only_where_it_can_be_known() -> None:
    def look(at: float, cpu_s: float) -> figures.Sample:
        return figures.Sample(at, {"cpu_s": cpu_s}, None)

    def percent(at: float, cpu_s: float, *earlier: figures.Sample, cpus: int = 2) -> float | None:
        return figures.cpu_percent(list(earlier), {"cpu_s": cpu_s}, at, cpus)

    sampled = look(100, 8.45)
    assert percent(100.002, 8.88, sampled) is None, "two answers at one moment, the first of them held up: no 21500 %"
    assert percent(100.002, 8.88, look(70, 8.28), sampled) == 2.0, "the one before is far enough away"
    assert percent(130, 23.45, sampled) == 50.0
    assert percent(110, 8.0, sampled) is None, "another memory came back"
    assert percent(110, 500, sampled) is None, "more than two processors can do"
    assert percent(110, 8.45 + 20.02, sampled) == 200.0, "all of both, by two clocks"
    assert percent(110, 9, sampled, look(120, 1)) == 5.5, "a look that is ahead by a clock that was set back"
    assert percent(130, 9) is None
    assert figures.cpu_percent([sampled], {}, 130, 1) is None


async def test_an_answer_that_was_held_up_is_compared_with_nothing(
        hostd: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "PROMPT_S", -1.0)
    machine = await hostd.machine({"metrics": busier_each_time})

    async def several() -> bool:
        return len((await hostd.call("GET", f"{machine}/metrics"))[1]["history"]) >= 2
    await eventually(several, "samples")
    said = (await hostd.call("GET", f"{machine}/metrics"))[1]
    assert said["now"]["memory_used_bytes"] == 7
    assert {one["cpu_percent"] for one in [said["now"], *said["history"]]} == {None}


async def test_a_machine_that_never_was_has_no_figures_and_a_destroyed_one_has_none_left(hostd: House) -> None:
    assert (await hostd.call("GET", f"{'z' * 20}/metrics"))[1]["history"] == []
    machine = await hostd.machine({"metrics": busier_each_time})

    async def some() -> bool:
        return bool((await hostd.call("GET", f"{machine}/metrics"))[1]["history"])
    await eventually(some, "a sample")
    assert (await hostd.operate(machine, "destroy"))["state"] == "done"

    async def none() -> bool:
        return not await some()
    await eventually(none, "nothing kept of what is gone")
