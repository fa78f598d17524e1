"""A host without space refuses by name, before and during work, and loses nothing. On a small disk of its own."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from sandboxes.drivers import fake
from sandboxes.linux import space
from tests.host.client import Hostd, body_pids, eventually, new_folder, new_id, running_hostd
from tests.host.inside import inside
from tests.host.test_checkpoints import home, put, read
from tests.remains import nothing_remains
from tests.upstairs.sleepy import SleepyDriver, SleepyMachine

MIB = 1024 * 1024


@pytest.fixture
def small_folder() -> Iterator[Path]:
    """192 MiB."""
    folder = new_folder()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=192m,mode=0700", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()


@pytest_asyncio.fixture
async def small(small_folder: Path, tmp_path: Path) -> AsyncIterator[Hostd]:
    """A hostd whose state lives there."""
    async with running_hostd(folder=small_folder, log_file=tmp_path / "log") as hostd:
        yield hostd
        (small_folder / "ballast").unlink(missing_ok=True)


def fill(folder: Path) -> Path:
    """Takes every byte there is."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(64 * 1024)):
                pass
        except OSError as error:
            assert error.errno == 28
    return ballast


async def test_creating_and_booting_without_space_is_refused_and_works_once_there_is_some(small: Hostd):
    stopped = await small.machine()
    await small.operate(stopped, "shutdown")
    ballast = fill(small.folder)
    fresh = new_id()
    for mid, kind in ((fresh, "create_disk"), (stopped, "boot")):
        answer = await small.call(
            "POST",
            f"/v1/machines/{mid}/operations",
            json={
                "operation_id": new_id(),
                "kind": kind,
                "generation": 1,
                "spec": {"machine_id": mid, "generation": 1},
            },
        )
        assert (answer.status, answer.json["code"]) == (507, "disk_full") and answer.json["retry_after_s"]
    assert (await small.observe(fresh))["phase"] == "absent"
    assert (await small.observe(stopped))["phase"] == "stopped"
    ballast.unlink()
    await small.up(fresh)
    await small.operate(stopped, "boot")
    assert (await small.exec(stopped, "echo ok"))["stdout"] == "ok\n"


async def test_the_reserve_is_kept_from_new_machines(small: Hostd):
    ballast = fill(small.folder)
    os.truncate(ballast, ballast.stat().st_size - 4 * MIB)
    assert (await small.call("GET", "/v1/host")).json["capacity"]["disk_free_bytes"] == 0
    mid = new_id()
    ended = await small.operate(mid, "create_disk", spec={"machine_id": mid, "generation": 1})
    assert (ended["state"], ended["error"]["code"]) == ("failed", "disk_full")


async def test_room_is_kept_for_the_memory_of_all_that_run_whoever_comes_and_whoever_restarts(small_folder: Path,
                                                                                           tmp_path: Path):  # 018
    """So every rest has room. What is put to rest, or ends, gives its room to others."""
    subprocess.run(["mount", "-o", "remount,size=240m", str(small_folder)], check=True)
    async with running_hostd(folder=small_folder, log_file=tmp_path / "log", module="tests.upstairs.sleepy") as hostd:
        async def promised_mib() -> int:
            return int((await hostd.call("GET", "/v1/host")).json["capacity"]["disk_promised_bytes"]) // MIB

        async def refused_at(kind: str, machine_id: str, mib: int = 64) -> str:
            asked = {"machine_id": machine_id, "generation": 1, "shape": {"memory_mib": mib}}
            ended = await hostd.operate(machine_id, kind, spec=asked)
            return str((ended["error"] or {}).get("detail", ""))

        small = {"shape": {"memory_mib": 64}}
        one = await hostd.machine(**small)
        assert await promised_mib() == 64
        greedy, other = new_id(), new_id()
        assert await refused_at("create_disk", greedy, 96) == "" == await refused_at("create_disk", other)
        assert "to be put to rest it may need 192 MiB" in await refused_at("boot", greedy, 192)
        assert await promised_mib() == 64, "a boot that was refused keeps no room from others"
        assert await refused_at("boot", other) == "" and await promised_mib() == 128
        fresh, ballast = new_id(), small_folder / "ballast"
        ballast.write_bytes(bytes(60 * MIB))
        assert "needs" in await refused_at("create_disk", fresh), "a new disk is not made of another's room"
        ballast.unlink()
        hostd.kill9()
        await hostd.start()
        assert await promised_mib() == 128, "another hostd keeps what the former one promised"
        assert (await hostd.operate(one, "park"))["state"] == "done"

        async def given_back() -> bool:
            return await promised_mib() == 64

        await eventually(given_back, "the room of the one that sleeps is given back")
        assert await refused_at("create_disk", fresh) == ""
        await hostd.operate(other, "kill")
        assert await promised_mib() == 0


async def test_a_new_exec_is_refused_and_one_that_runs_waits_for_space_and_loses_no_byte(small: Hostd):
    mid = await small.machine()
    command = "for i in $(seq 1 60); do head -c 50000 /dev/zero | tr '\\0' x; sleep 0.02; done; echo END >&2; exit 7"
    record = await small.exec(mid, command, background=True, max_output_bytes=8 * MIB)
    path = f"/v1/machines/{mid}/execs/{record['id']}"

    async def some() -> bool:
        return len((await small.call("GET", f"{path}/output")).body) > 0

    await eventually(some, "output flows")
    ballast = fill(small.folder)

    async def held_back() -> bool:
        return "exec.waits_for_space" in small.log

    await eventually(held_back, "the exec is held back")
    refused = await small.call(
        "POST",
        f"/v1/machines/{mid}/execs",
        json={"exec_id": new_id(), "command": "true", "stdin": "more than the last page holds" * 1000},
    )
    assert (refused.status, refused.json["code"]) == (507, "disk_full")
    assert (await small.call("GET", path)).json["state"] == "running"
    ballast.unlink()
    ended = await small.end_of(mid, record["id"])
    assert ended["outcome"] == {"kind": "exited", "code": 7} and ended["stderr"] == "END\n"
    whole = (await small.call("GET", f"{path}/output")).body
    assert hashlib.sha256(whole).hexdigest() == hashlib.sha256(b"x" * 3_000_000).hexdigest()
    assert (await small.exec(mid, "echo ok"))["stdout"] == "ok\n"


# -- in the middle -----------------------------------------------------------------------------------------------------

BLOB_KIB = 600
#: What is left free, in KiB: from not a byte for a note to enough for everything.
LEFT_KIB = (0, 4, 8, 16, 64, 256, 512, BLOB_KIB + 8, BLOB_KIB + 16, 16 * 1024)


@pytest_asyncio.fixture
async def unsuspecting(small_folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hostd]:
    """It believes that there is room for everything: the kernel alone says no, in the middle of the work."""
    monkeypatch.setattr(space, "free_bytes", lambda _folder: 1 << 50)
    monkeypatch.setattr(fake, "FakeMachine", SleepyMachine)
    async with inside(small_folder, SleepyDriver) as hostd:
        yield hostd
        (small_folder / "ballast").unlink(missing_ok=True)


@pytest.mark.parametrize("kind", ["park", "capture", "clone", "rollback"])
async def test_whenever_space_runs_out_the_machine_is_what_it_was_and_the_error_names_it(unsuspecting: Hostd,
                                                                                        kind: str):
    """Standby, checkpoint, fork and rollback, each with less and less on the host's disk."""
    hostd, mid = unsuspecting, await unsuspecting.machine(shape={"memory_mib": 64})
    await put(hostd, mid, "blob", "x" * BLOB_KIB * 1024)
    await hostd.operate(mid, "capture", checkpoint_id="c", memory=False)
    await put(hostd, mid, "file", "kept")
    ends, pids = [], body_pids(hostd, mid)
    for left in LEFT_KIB:
        ballast = fill(hostd.folder)
        os.truncate(ballast, ballast.stat().st_size - left * 1024)
        asked_of = new_id() if kind == "clone" else mid
        ended = await asked(hostd, asked_of, mid, kind)
        ballast.unlink()
        ends.append(ended)
        if ended == "done":
            break
        assert ended == "disk_full", (left, ended)
        await nothing_remains(hostd.state, left)
        assert asked_of == mid or not home(hostd, asked_of).exists()
        seen = await hostd.observe(mid)
        assert (seen["phase"], seen["operation"]) == ("running", None)
        assert [row["checkpoint_id"] for row in seen["checkpoints"]] == ["c"]
        assert body_pids(hostd, mid) == pids and await read(hostd, mid, "file") == "kept"
        assert (await hostd.exec(mid, "wc -c < blob"))["stdout"].strip() == str(BLOB_KIB * 1024)
    assert ends[-1] == "done" and len(ends) >= 4, ends
    if kind == "park":
        ballast = fill(hostd.folder)
        assert await asked(hostd, mid, mid, "boot") == "disk_full"
        ballast.unlink()
        assert (await hostd.observe(mid))["phase"] == "parked", "and goes on sleeping"
        assert await asked(hostd, mid, mid, "boot") == "done" and await read(hostd, mid, "file") == "kept"


async def asked(hostd: Hostd, machine_id: str, source: str, kind: str) -> str:
    """"done", or the code of the refusal, wherever it was met."""
    more: dict[str, Any] = {"capture": {"checkpoint_id": "new", "memory": True},
                            "rollback": {"checkpoint_id": "c", "memory": False},
                            "clone": {"source": {"machine_id": source, "checkpoint_id": "c"}, "memory": False,
                                      "spec": {"machine_id": machine_id, "generation": 1}}}.get(kind, {})
    operation_id = new_id()
    answer = await hostd.call("POST", f"/v1/machines/{machine_id}/operations", json={
        "operation_id": operation_id, "kind": kind, "generation": 1, **more})
    if answer.status != 202:
        return str(answer.json["code"])
    ended = await hostd.operation_end(machine_id, operation_id)
    return str(ended["error"]["code"]) if ended["error"] else str(ended["state"])
