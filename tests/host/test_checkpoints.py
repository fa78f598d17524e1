"""Checkpoints, rollback, clone and drop on the fake driver: every answer, every refusal, and what is left on disk.

Memory is another matter: `test_pasts_vm.py`.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.host.client import Hostd, body_pids, eventually, new_id
from tests.host.inside import Inside, inside


async def result(hostd: Hostd, machine_id: str, kind: str, generation: int = 1, **more: Any) -> dict[str, Any]:
    ended = await hostd.operate(machine_id, kind, generation, **more)
    assert ended["state"] == "done", (ended, hostd.log[-2000:])
    return ended["result"] or {}


async def refusal(hostd: Hostd, machine_id: str, kind: str, generation: int = 1, **more: Any) -> dict[str, Any]:
    ended = await hostd.operate(machine_id, kind, generation, **more)
    assert ended["state"] == "failed"
    return ended["error"]


async def put(hostd: Hostd, machine_id: str, name: str, text: str) -> None:
    path = f"/v1/machines/{machine_id}/files/content?path=/home/user/{name}"
    assert (await hostd.call("PUT", path, data=text.encode())).status in (200, 201)


async def read(hostd: Hostd, machine_id: str, name: str) -> str | None:
    answer = await hostd.call("GET", f"/v1/machines/{machine_id}/files/content?path=/home/user/{name}")
    return answer.body.decode() if answer.status == 200 else None


def home(hostd: Hostd, machine_id: str) -> Path:
    return hostd.state / "machines" / machine_id


def left_overs(hostd: Hostd, machine_id: str) -> list[str]:
    """Names that do not count: nothing of them stays behind an operation, or a start of hostd."""
    at = home(hostd, machine_id)
    return [str(path.relative_to(at)) for path in (*at.glob(".*"), *at.glob("*/.*"))]


async def test_a_checkpoint_keeps_files_as_they_were_and_rollback_brings_them_back(hostd: Hostd, machine: str):
    await put(hostd, machine, "file", "one")
    first = await result(hostd, machine, "capture", checkpoint_id="c1", memory=True)
    assert not first["memory"], "a driver without memory images keeps the disk"
    assert first["consistency"] == "clean" and first["pause_ms"] > 0 and first["disk_bytes"] > 0
    await put(hostd, machine, "file", "two")
    assert await result(hostd, machine, "capture", checkpoint_id="c1", memory=True) == first, "the same id: the same"
    await result(hostd, machine, "capture", checkpoint_id="c2", memory=False)
    seen = (await hostd.observe(machine))["checkpoints"]
    assert [(row["checkpoint_id"], row["memory"], row["memory_usable"]) for row in seen] == [
        ("c1", False, False), ("c2", False, False)]
    sleeping = await hostd.exec(machine, "sleep 600", background=True)
    assert await result(hostd, machine, "rollback", 2, checkpoint_id="c1", memory=True) == {"parked": False}
    assert (await hostd.observe(machine))["phase"] == "stopped" and body_pids(hostd, machine) == []
    record = (await hostd.call("GET", f"/v1/machines/{machine}/execs/{sleeping['id']}")).json
    assert record["outcome"] == {"kind": "lost", "reason": "rolled_back"}
    await hostd.operate(machine, "boot", 2)
    assert await read(hostd, machine, "file") == "one"
    await result(hostd, machine, "rollback", 3, checkpoint_id="c2", memory=False, boot=True)
    assert (await hostd.observe(machine))["phase"] == "running", "it need not be asked for twice"
    assert await read(hostd, machine, "file") == "two", "going back can be taken back"
    facts = [fact["data"] for fact in await hostd.facts(machine, "machine.rolled_back")]
    assert facts == [{"checkpoint_id": "c1"}, {"checkpoint_id": "c2"}]
    assert left_overs(hostd, machine) == []


async def test_a_stopped_machine_is_captured_and_its_phase_stays(hostd: Hostd, machine: str):
    await put(hostd, machine, "file", "kept")
    await hostd.operate(machine, "shutdown")
    taken = await result(hostd, machine, "capture", checkpoint_id="off", memory=True)
    assert (taken["memory"], taken["pause_ms"], taken["consistency"]) == (False, 0.0, "clean")
    assert (await hostd.observe(machine))["phase"] == "stopped"


async def test_a_clone_has_the_files_and_nothing_else_of_its_source(hostd: Hostd, machine: str):
    await put(hostd, machine, "file", "shared")
    await result(hostd, machine, "capture", checkpoint_id="c", memory=False)
    clone = new_id()
    source = {"machine_id": machine, "checkpoint_id": "c"}
    spec = {"machine_id": clone, "generation": 1, "hostname": "clone"}
    assert await result(hostd, clone, "clone", source=source, memory=True, spec=spec) == {"parked": False}
    assert await result(hostd, clone, "clone", source=source, memory=True, spec=spec) == {"parked": False}
    await hostd.operate(clone, "boot")
    assert (await hostd.exec(clone, "hostname"))["stdout"] == "clone\n"
    await put(hostd, clone, "file", "mine")
    assert await read(hostd, machine, "file") == "shared"
    await hostd.operate(machine, "destroy")
    assert await read(hostd, clone, "file") == "mine"
    assert (await hostd.observe(clone))["checkpoints"] == []


async def test_dropping_frees_and_may_be_repeated(hostd: Hostd, machine: str):
    await put(hostd, machine, "file", "x" * 500_000)
    await result(hostd, machine, "capture", checkpoint_id="c", memory=False)
    full = (await hostd.observe(machine))["disk_used_bytes"]
    assert (await result(hostd, machine, "drop", checkpoint_id="c"))["freed_bytes"] >= 500_000
    assert await result(hostd, machine, "drop", checkpoint_id="c") == {"freed_bytes": 0}
    assert (await hostd.observe(machine))["disk_used_bytes"] <= full - 500_000
    assert (await refusal(hostd, machine, "rollback", checkpoint_id="c"))["code"] == "not_found"
    assert (await hostd.observe(machine))["phase"] == "running", "a refusal touches nothing"


async def test_a_checkpoint_taken_again_under_a_name_that_went_is_seen_as_the_new_one(hostd: Hostd, machine: str):
    async def seen() -> list[tuple[str, int]]:
        return [(row["checkpoint_id"], row["disk_bytes"]) for row in (await hostd.observe(machine))["checkpoints"]]

    first = await result(hostd, machine, "capture", checkpoint_id="c", memory=False)
    assert await seen() == [("c", first["disk_bytes"])] == await seen()
    await result(hostd, machine, "drop", checkpoint_id="c")
    assert await seen() == []
    await put(hostd, machine, "file", "x" * 500_000)
    second = await result(hostd, machine, "capture", checkpoint_id="c", memory=False)
    assert await seen() == [("c", second["disk_bytes"])] and second["disk_bytes"] > first["disk_bytes"]


async def test_without_memory_images_park_is_refused_by_name_and_the_machine_runs_on(hostd: Hostd, machine: str):
    pids = body_pids(hostd, machine)
    error = await refusal(hostd, machine, "park")
    assert (error["code"], error["reason"]) == ("no_memory_images", "no_memory_images")
    assert body_pids(hostd, machine) == pids and (await hostd.exec(machine, "echo on"))["stdout"] == "on\n"
    for kind in ("discard_memory", "collapse"):
        await result(hostd, machine, kind)


@pytest.mark.parametrize(("kind", "body"), [
    ("capture", {}), ("capture", {"checkpoint_id": ""}), ("capture", {"checkpoint_id": "a", "memory": "yes"}),
    ("rollback", {"memory": True}), ("clone", {"source": {"machine_id": "m"}}), ("clone", {"source": 1}),
    ("drop", {"checkpoint_id": 5}), ("collapse", {"max_depth": 0}), ("boot", {"checkpoint_id": "a"}),
])
async def test_a_malformed_operation_is_refused_with_its_field_and_remembered_nowhere(
    steady: tuple[Hostd, str], kind: str, body: dict[str, Any]
):
    hostd, machine = steady
    answer = await hostd.call("POST", f"/v1/machines/{machine}/operations",
                              json={"operation_id": new_id(), "kind": kind, "generation": 1, **body})
    assert (answer.status, answer.json["code"]) == (400, "invalid"), answer.body
    assert answer.json["errors"]


@pytest.mark.parametrize("checkpoint_id", ["../up", ".hidden", "a/b", "a" * 65 + "/"])
async def test_a_checkpoint_id_is_never_a_path(steady: tuple[Hostd, str], checkpoint_id: str):
    hostd, machine = steady
    for kind in ("capture", "rollback", "drop"):
        answer = await hostd.call("POST", f"/v1/machines/{machine}/operations", json={
            "operation_id": new_id(), "kind": kind, "generation": 1, "checkpoint_id": checkpoint_id})
        if answer.status == 202:
            ended = await hostd.operation_end(machine, answer.json["operation_id"])
            assert ended["error"]["code"] == "invalid"
        else:
            assert answer.status == 400
    assert (await hostd.observe(machine))["checkpoints"] == []


async def test_an_agent_that_does_not_come_to_rest_is_captured_as_it_is(hostd: Hostd, machine: str):
    await put(hostd, machine, "file", "there")
    for pid in body_pids(hostd, machine):
        stop(pid)
    taken = await result(hostd, machine, "capture", checkpoint_id="c", memory=False, grace_s=0.5)
    assert taken["consistency"] == "crash"
    for pid in body_pids(hostd, machine):
        stop(pid, go_on=True)
    assert (await hostd.exec(machine, "echo on"))["stdout"] == "on\n"


def stop(pid: int, go_on: bool = False) -> None:
    import os
    import signal
    os.kill(pid, signal.SIGCONT if go_on else signal.SIGSTOP)


async def test_execs_and_files_asked_for_during_a_capture_wait_for_it_and_are_not_refused(hostd: Hostd, machine: str):
    await put(hostd, machine, "blob", "x" * 3_000_000)
    capturing = asyncio.create_task(hostd.operate(machine, "capture", checkpoint_id="c", memory=False))
    ran = 0
    while not capturing.done():
        record = await hostd.exec(machine, "echo on")
        assert record["stdout"] == "on\n"
        await put(hostd, machine, "other", "y")
        ran += 1
    assert (await capturing)["state"] == "done" and ran


# -- failures ----------------------------------------------------------------------------------------------------------

async def test_a_full_disk_refuses_capture_and_clone_and_leaves_nothing_of_them(tmp_path: Path, monkeypatch):
    from sandboxes.linux import space
    folder = short(tmp_path)
    try:
        async with inside(folder) as hostd:
            mid = await hostd.machine()
            await put(hostd, mid, "file", "kept")
            await result(hostd, mid, "capture", checkpoint_id="whole", memory=False)
            with monkeypatch.context() as full:
                full.setattr(space, "free_bytes", lambda _folder: space.MARGIN_BYTES)
                assert (await refusal(hostd, mid, "capture", checkpoint_id="c"))["code"] == "disk_full"
                assert (await refusal(hostd, mid, "rollback", 2, checkpoint_id="whole"))["code"] == "disk_full"
                clone = new_id()
                error = await refusal(hostd, clone, "clone", source={"machine_id": mid, "checkpoint_id": "whole"},
                                      spec={"machine_id": clone, "generation": 1})
                assert error["code"] == "disk_full"
            assert not home(hostd, clone).exists() and (await hostd.observe(clone))["phase"] == "absent"
            assert left_overs(hostd, mid) == []
            assert (await hostd.observe(mid))["phase"] == "running", "a failure before the swap leaves all as it was"
            assert await read(hostd, mid, "file") == "kept"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def test_a_rollback_that_fails_before_the_swap_leaves_the_machine_running_and_none_fails_after_it(
        tmp_path: Path, monkeypatch):
    from sandboxes.drivers import fake
    folder = short(tmp_path)
    try:
        async with inside(folder) as hostd:
            mid = await hostd.machine()
            await result(hostd, mid, "capture", checkpoint_id="c", memory=False)
            pids = body_pids(hostd, mid)
            with monkeypatch.context() as broken:
                broken.setattr(fake, "_copy_root", failing)
                error = await refusal(hostd, mid, "rollback", 2, checkpoint_id="c")
            assert error["code"] == "step_failed"
            assert body_pids(hostd, mid) == pids and (await hostd.exec(mid, "echo on"))["stdout"] == "on\n"
            with monkeypatch.context() as broken:
                broken.setattr("sandboxes.linux.atomic.exchange", failing)
                await refusal(hostd, mid, "rollback", 2, checkpoint_id="c")
            seen = await hostd.observe(mid)
            assert (seen["phase"], seen["end_reason"]) == ("stopped", "rollback_failed"), "never terminal"
            with monkeypatch.context() as full:
                full.setattr("sandboxes.host.capacity.CPU_OVERCOMMIT", 0.0)
                assert (await result(hostd, mid, "rollback", 2, checkpoint_id="c", boot=True)) == {"parked": False}
                assert (await hostd.observe(mid))["phase"] == "stopped", "gone back it has, whether it can run or not"
                assert (await refusal(hostd, mid, "boot", 2))["code"] == "no_capacity"
            assert (await hostd.operate(mid, "boot", 2))["state"] == "done"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def failing(*_: Any, **__: Any) -> None:
    raise RuntimeError("broken here")


def short(tmp_path: Path) -> Path:
    import tempfile
    return Path(tempfile.mkdtemp(prefix="bh-", dir="/tmp"))


# -- work --------------------------------------------------------------------------------------------------------------

async def test_what_works_is_seen_and_an_open_terminal_is_no_work(tmp_path: Path, monkeypatch):
    from sandboxes.host import work
    monkeypatch.setattr(work, "SAMPLE_S", 0.3)
    folder = short(tmp_path)
    try:
        async with inside(folder) as hostd:
            mid = await hostd.machine()
            await works_through(hostd, mid)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def test_an_agent_that_hangs_is_said_to_be_silent_and_nobody_ends_its_machine(tmp_path: Path, monkeypatch):
    from sandboxes.host import work
    for name, seconds in (("SAMPLE_S", 0.1), ("ANSWER_S", 0.3), ("SILENT_S", 0.8)):
        monkeypatch.setattr(work, name, seconds)
    folder = short(tmp_path)
    try:
        async with inside(folder) as hostd:
            mid, well = await hostd.machine(), await hostd.machine()
            pids = body_pids(hostd, mid)
            for pid in pids:
                stop(pid)
            await eventually(lambda: condition(hostd, mid, "agent_silent"), "its silence is said")
            seen = await hostd.observe(mid)
            assert seen["phase"] == "running" and body_pids(hostd, mid) == pids
            assert (await hostd.observe(well))["condition"] == ""
            for pid in pids:
                stop(pid, go_on=True)
            await eventually(lambda: condition(hostd, mid, ""), "it is heard again")
            assert (await hostd.exec(mid, "echo on"))["stdout"] == "on\n"
            told = [fact["kind"] for fact in await hostd.facts(mid) if fact["kind"].startswith("machine.agent")]
            assert told == ["machine.agent_silent", "machine.agent_heard"], "each once"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def condition(hostd: Hostd, mid: str, wanted: str) -> bool:
    return bool((await hostd.observe(mid))["condition"] == wanted)


async def works_through(hostd: Inside, mid: str) -> None:
    async def work() -> dict[str, Any]:
        return (await hostd.observe(mid))["work"]

    shell = await hostd.exec(mid, "sleep 600", tty={"cols": 80, "rows": 24}, wait_s=0)
    await eventually(lambda: quiet(hostd, mid), "nothing computes", 60)
    at_rest = await work()
    assert (at_rest["running_execs"], at_rest["cpu_busy"], at_rest["holds"]) == (0, False, [])
    silent = await hostd.exec(mid, "sleep 600", background=True)
    assert (await work())["running_execs"] == 1 and (await work())["last_work_at"] > at_rest["last_work_at"]
    stamped = (await work())["last_work_at"]
    await put(hostd, mid, "file", "x")
    assert (await work())["last_work_at"] > stamped
    await hostd.call("DELETE", f"/v1/machines/{mid}/execs/{silent['id']}")

    # A terminal in which something computes silently is busy all the same.
    burning = await hostd.exec(mid, "while :; do :; done", tty={"cols": 80, "rows": 24}, wait_s=0)

    async def busy() -> bool:
        said = await work()
        return said["cpu_busy"] and said["running_execs"] == 0

    await eventually(busy, "it is seen to compute", 60)
    for exec_id in (burning["id"], shell["id"]):
        await hostd.call("DELETE", f"/v1/machines/{mid}/execs/{exec_id}")
    await holds_through(hostd, mid, work)
    await hostd.operate(mid, "kill")
    assert (await hostd.observe(mid))["work"] is None


async def quiet(hostd: Hostd, mid: str) -> bool:
    return not (await hostd.observe(mid))["work"]["cpu_busy"]


async def holds_through(hostd: Hostd, mid: str, work: Any) -> None:
    hold = "BERTH_HOLD_SOCKET=/mnt/hold.sock PYTHONPATH=/srv python3 -m sandboxes.guest.agent.holdclient "
    said = await hostd.exec(mid, hold + "--reason 'nightly build' --ttl 60")
    assert said["outcome"] == {"kind": "exited", "code": 0}, said

    async def held(reason: str) -> Any:
        return [each for each in (await work())["holds"] if each["reason"] == reason]

    seen = await eventually(lambda: held("nightly build"), "the hold is seen", 30)
    assert seen[0]["from"] == "guest" and seen[0]["expires_at"].endswith("Z")
    await hostd.exec(mid, hold + f"--release {said['stdout'].strip()}")
    running = await hostd.exec(mid, hold + "--reason make -- sh -c 'sleep 600; exit 3'", background=True)
    await eventually(lambda: held("make"), "an attached hold is seen", 30)
    assert await held("nightly build") == []
    await hostd.call("DELETE", f"/v1/machines/{mid}/execs/{running['id']}")

    async def gone() -> bool:
        return not (await work())["holds"]

    await eventually(gone, "what ends the command ends the hold", 30)
    refused = await hostd.exec(mid, hold + "--reason x --ttl 99999999")
    assert refused["outcome"] == {"kind": "exited", "code": 1} and "ttl" in refused["stderr"]
    misused = await hostd.exec(mid, hold + "--ttl 5")
    assert misused["outcome"] == {"kind": "exited", "code": 2}
