"""State files that a foreign hand emptied, cut in half or wrote over: the next hostd starts, nobody else's machine is
touched, and the one that was hit has a named state and all of its disk.

On the fake driver with a memory of a kind (`tests/upstairs/sleepy.py`); a real disk's chain: `test_pasts_vm.py`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from tests.host.client import Hostd, body_pids, new_id, running_hostd
from tests.host.test_checkpoints import home, put, read, refusal, result
from tests.remains import nothing_remains

DAMAGES: dict[str, Callable[[Path], None]] = {
    "emptied": lambda path: os.truncate(path, 0),
    "cut in half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "written over": lambda path: path.write_text('{"what": "ever"}\n') and None,
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)) and None,
}


@pytest_asyncio.fixture
async def hostd() -> AsyncIterator[Hostd]:
    async with running_hostd(module="tests.upstairs.sleepy") as running:
        yield running


async def machine(hostd: Hostd) -> str:
    """Running, with a file and a checkpoint of it with memory."""
    mid = await hostd.machine()
    await put(hostd, mid, "file", "kept")
    await result(hostd, mid, "capture", checkpoint_id="c", memory=True)
    return mid


async def up_again(hostd: Hostd, mid: str) -> None:
    """A boot as upstairs asks for it, and everything is there."""
    await result(hostd, mid, "boot", 2, spec={"machine_id": mid, "generation": 2})
    assert await read(hostd, mid, "file") == "kept"
    assert [row["checkpoint_id"] for row in (await hostd.observe(mid))["checkpoints"]] == ["c"]


@pytest.mark.parametrize("damage", list(DAMAGES))
async def test_one_unreadable_state_file_is_named_and_costs_nobody_his_disk(hostd: Hostd, damage: str):
    ran, slept, noted, image, point, exec_of, unhurt = [await machine(hostd) for _ in range(7)]
    for mid in (slept, image):
        await result(hostd, mid, "park")
    before = {mid: body_pids(hostd, mid) for mid in (noted, point, exec_of, unhurt)}
    await hostd.exec(exec_of, "echo one")
    at, records = (hostd.state / "machines"), hostd.state / "records"
    hostd.kill9()
    for path in (records / ran / "machine.json", records / slept / "machine.json", hostd.state / "boot.json",
                 at / noted / "driver" / "body.json", at / image / "standby" / "checkpoint.json",
                 at / point / "checkpoints" / "c" / "checkpoint.json",
                 *(records / exec_of / "execs").glob("log-*.jsonl"), *(hostd.state / "feed").glob("feed-*.jsonl")):
        DAMAGES[damage](path)
    await hostd.start()

    assert (await hostd.call("GET", "/v1/machines")).status == 200
    assert {mid: body_pids(hostd, mid) for mid in before} == before, "a body is found by its mark, and goes on"
    assert (await hostd.exec(unhurt, "cat file"))["stdout"] == "kept"
    await nothing_remains(hostd.state)

    seen = await hostd.observe(ran)
    assert (seen["phase"], seen["end_reason"]) == ("stopped", "record_lost")
    await up_again(hostd, ran)
    assert (await hostd.observe(slept))["phase"] == "parked"
    await up_again(hostd, slept)
    facts = [fact["data"] for fact in await hostd.facts(slept, "machine.running")]
    assert facts[-1:] == [{"from": "memory"}]

    await up_again(hostd, image)
    facts = [fact["data"] for fact in await hostd.facts(image, "machine.memory_dropped")]
    assert facts == [{"reason": "memory_image_damaged"}]

    assert (await refusal(hostd, point, "rollback", 2, checkpoint_id="c", memory=True))["code"] == "not_found"
    assert await read(hostd, point, "file") == "kept", "a refusal touches nothing"
    await result(hostd, point, "capture", 2, checkpoint_id="c", memory=True)
    await result(hostd, point, "rollback", 3, checkpoint_id="c", memory=True)
    await up_again_after(hostd, point, 3)

    assert (await hostd.call("GET", f"/v1/machines/{exec_of}/execs")).status == 200
    assert (await hostd.exec(exec_of, "echo two"))["stdout"] == "two\n"
    await result(hostd, noted, "kill", 2)
    assert body_pids(hostd, noted) == []
    await nothing_remains(hostd.state)


async def up_again_after(hostd: Hostd, mid: str, generation: int) -> None:
    await result(hostd, mid, "boot", generation, spec={"machine_id": mid, "generation": generation})
    assert await read(hostd, mid, "file") == "kept"


async def test_what_a_dead_hostd_was_writing_is_cleared_away(hostd: Hostd):
    mid = await machine(hostd)
    await result(hostd, mid, "park")
    hostd.kill9()
    at = home(hostd, mid)
    for path in (hostd.state / "records" / mid / ".machine.json.7.new", at / "standby" / ".checkpoint.json.7.new",
                 at / "checkpoints" / "c" / ".checkpoint.json.7.new", at / "driver" / ".body.json.7.new"):
        path.write_text("half")
    look = at / "checkpoints" / "look-0123"
    look.mkdir()
    await hostd.start()
    await nothing_remains(hostd.state)
    assert not look.exists()
    await up_again(hostd, mid)


async def test_a_power_cut_is_everything_killed_at_once(hostd: Hostd):
    """Bodies and hostd at one moment, in the middle of operations; the next boot's hostd finds all that was synced."""
    ran, slept, busy = [await machine(hostd) for _ in range(3)]
    await result(hostd, slept, "park")
    for mid, kind, more in ((busy, "capture", {"checkpoint_id": "half", "memory": True}), (ran, "park", {})):
        await hostd.call("POST", f"/v1/machines/{mid}/operations", json={
            "operation_id": new_id(), "kind": kind, "generation": 1, **more})
    hostd.kill9()
    for mid in (ran, slept, busy):
        for pid in body_pids(hostd, mid):
            kill(pid)
    (hostd.state / "boot.json").write_text('{"boot_id": "the boot before this one"}')
    await hostd.start()
    await nothing_remains(hostd.state)
    for mid, phases in ((ran, ("dead", "parked")), (slept, ("parked",)), (busy, ("dead",))):
        seen = await hostd.observe(mid)
        assert seen["phase"] in phases, seen
        assert seen["phase"] != "dead" or seen["end_reason"] == "host_rebooted"
        await result(hostd, mid, "boot", 2)
        assert await read(hostd, mid, "file") == "kept"
    whole = [row["checkpoint_id"] for row in (await hostd.observe(busy))["checkpoints"]]
    assert whole in (["c"], ["c", "half"])
    await nothing_remains(hostd.state, "wakes are settled")


def kill(pid: int) -> None:
    import contextlib
    import signal

    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
