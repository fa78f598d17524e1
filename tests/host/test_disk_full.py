"""A host without space refuses by name, before and during work, and loses nothing. On a small disk of its own."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.host.client import Hostd, eventually, new_folder, new_id, running_hostd

MIB = 1024 * 1024


@pytest_asyncio.fixture
async def small(tmp_path: Path) -> AsyncIterator[Hostd]:
    """A hostd whose state lives on 192 MiB."""
    folder = new_folder()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=192m,mode=0700", "tmpfs", str(folder)], check=True)
    try:
        async with running_hostd(folder=folder, log_file=tmp_path / "log") as hostd:
            yield hostd
            (folder / "ballast").unlink(missing_ok=True)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()


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
