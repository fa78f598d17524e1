"""A real machine's standby, checkpoints, rollback and clones through hostd's own door: memory, processes, identity."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from sandboxes.linux import checksums
from tests.host.client import Hostd, clear_away, eventually, new_folder, new_id
from tests.host.test_pasts_killed import MOST_STEPS, dies_in
from tests.remains import nothing_remains

pytestmark = pytest.mark.vm
UP_S = 900.0
#: The time is told to a machine by a message, which a busy host may deliver late; a rest is longer than that by far.
LATE_S, RESTS_S = 5.0, 12.0
COUNTER = "n=0; while :; do n=$((n+1)); echo $n; echo $n > counter; sleep 0.1; done"


@pytest.fixture(scope="module")
def made(cache: Path) -> Iterator[Hostd]:
    """One hostd that can be told at which step to die, and one template, for all tests of this file."""
    hostd = Hostd(new_folder(), "qemu", cache)
    hostd.module, hostd.env = "tests.host.dying", {"BERTH_DIES_AT": str(hostd.folder / "armed")}

    async def begin() -> None:
        await hostd.start(UP_S)
        await hostd.close()

    try:
        asyncio.run(begin())
        yield hostd
    finally:
        asyncio.run(clear_away(hostd))
        shutil.rmtree(hostd.folder, ignore_errors=True)


@pytest_asyncio.fixture
async def hostd(made: Hostd) -> AsyncIterator[Hostd]:
    """Its machines are gone afterwards, and nothing is left of them."""
    yield made
    try:
        for machine in (await made.call("GET", "/v1/machines")).json["results"]:
            await made.operate(machine["machine_id"], "destroy", machine["generation"])
        await nothing_remains(made.state, but="template")
    finally:
        await made.close()


async def counting(hostd: Hostd, name: str = "box") -> tuple[str, str]:
    """A machine in which an exec counts, and that exec."""
    mid = new_id()
    await done(hostd, mid, "create_disk", 1, spec=spec(mid, 1, name))
    await done(hostd, mid, "boot", 1)
    counter = (await hostd.exec(mid, COUNTER, background=True))["id"]
    await counted(hostd, mid)
    return mid, counter


async def done(hostd: Hostd, machine_id: str, kind: str, generation: int, **more: Any) -> dict[str, Any]:
    operation_id = new_id()
    body = {"operation_id": operation_id, "kind": kind, "generation": generation, "grace_s": 60, **more}
    answer = await hostd.call("POST", f"/v1/machines/{machine_id}/operations", json=body)
    assert answer.status == 202, answer.body
    ended = await hostd.operation_end(machine_id, operation_id, UP_S)
    assert ended["state"] == "done", (kind, ended, hostd.log[-4000:])
    return ended["result"] or {}


def spec(machine_id: str, generation: int, name: str, disk_gib: int = 4) -> dict[str, Any]:
    return {"machine_id": machine_id, "generation": generation, "hostname": name, "disk_gib": disk_gib}


async def text(hostd: Hostd, machine_id: str, command: str, user: str = "user") -> str:
    record = await hostd.exec(machine_id, command, user=user, wait_s=120)
    assert record["outcome"] == {"kind": "exited", "code": 0}, (record, hostd.log[-3000:])
    return record["stdout"].strip()


async def counted(hostd: Hostd, machine_id: str) -> int:
    """Looked at again where it is being written."""
    return int(await text(hostd, machine_id, 'until [ "$n" ]; do sleep 0.1; n=$(cat counter || :); done; echo "$n"'))


async def lines_of(hostd: Hostd, machine_id: str, exec_id: str) -> list[int]:
    raw = (await hostd.call("GET", f"/v1/machines/{machine_id}/execs/{exec_id}/output?stream=stdout&offset=0")).body
    return [int(word) for word in raw.decode().rpartition("\n")[0].split()]


async def phase(hostd: Hostd, machine_id: str) -> str:
    return (await hostd.observe(machine_id))["phase"]


async def test_a_machine_rests_wakes_goes_back_and_is_cloned_with_all_that_runs_in_it(hostd: Hostd):
    mid, counter = await counting(hostd, "first")
    await text(hostd, mid, "mkdir -p /etc/ssh; echo old > /etc/ssh/ssh_host_ed25519_key; sync", user="root")
    await rests_and_wakes(hostd, mid, counter)
    await goes_back(hostd, mid, counter)
    clones = await is_cloned(hostd, mid, counter)
    await boots_cold_from_a_damaged_image(hostd, mid)
    # Forgotten: only what nobody else needs is freed.
    assert (await done(hostd, mid, "drop", 4, checkpoint_id="point"))["freed_bytes"] >= 0
    assert (await hostd.observe(mid))["checkpoints"] == []
    assert await text(hostd, clones[0], "cat counter")


async def rests_and_wakes(hostd: Hostd, mid: str, counter: str) -> None:
    """hostd is killed meanwhile; the same exec goes on, byte for byte."""
    clocks = await clocks_of(hostd, mid)
    parked = await done(hostd, mid, "park", 1)
    rested_from = time.monotonic()
    assert parked["consistency"] == "clean" and parked["memory_bytes"] > 0
    assert await phase(hostd, mid) == "parked"
    hostd.kill9()
    await hostd.start(UP_S)
    assert await phase(hostd, mid) == "parked"
    before = await lines_of(hostd, mid, counter)
    await asyncio.sleep(max(0.0, rested_from + RESTS_S - time.monotonic()))
    rested_s = time.monotonic() - rested_from
    await done(hostd, mid, "boot", 2, spec=spec(mid, 2, "first"))
    wall_s, uptime_s = [now - then for now, then in zip(await clocks_of(hostd, mid), clocks, strict=True)]
    assert wall_s - uptime_s > rested_s - LATE_S, "timers did not run meanwhile, and the wall clock is right"
    await eventually(lambda: longer(hostd, mid, counter, len(before) + 5), "it goes on counting", 60)
    now = await lines_of(hostd, mid, counter)
    assert now == list(range(1, len(now) + 1))
    assert not (hostd.state / "machines" / mid / ".standby.used").exists()


async def clocks_of(hostd: Hostd, mid: str) -> tuple[float, float]:
    """The guest's wall clock, which is between the host's before and after, and its uptime."""
    before = time.time()
    wall, uptime = (await text(hostd, mid, "date +%s.%N; cut -d' ' -f1 /proc/uptime")).split()
    assert before - LATE_S < float(wall) < time.time() + 0.2, "the clock is right before the first command runs"
    return float(wall), float(uptime)


async def goes_back(hostd: Hostd, mid: str, counter: str) -> None:
    """A checkpoint of the running machine; what comes after is taken back in place."""
    result = await done(hostd, mid, "capture", 2, checkpoint_id="point", memory=True)
    assert result["memory"] and result["consistency"] == "clean" and result["pause_ms"] > 0
    assert await done(hostd, mid, "capture", 2, checkpoint_id="point", memory=True) == result
    at_point = await counted(hostd, mid)
    await text(hostd, mid, "echo later > later; sync")
    after = (await hostd.exec(mid, "sleep 600", background=True))["id"]
    assert await done(hostd, mid, "rollback", 3, checkpoint_id="point", memory=True, boot=True,
                      spec=spec(mid, 3, "first")) == {"parked": True}
    assert await text(hostd, mid, "ls") == "counter"
    assert await counted(hostd, mid) < at_point + 50
    for exec_id in (counter, after):
        record = (await hostd.call("GET", f"/v1/machines/{mid}/execs/{exec_id}")).json
        assert record["outcome"] == {"kind": "lost", "reason": "rolled_back"}
    running = (await hostd.call("GET", f"/v1/machines/{mid}/execs?state=running")).json["results"]
    assert [record["continued_from"] for record in running] == [counter]
    await eventually(lambda: longer(hostd, mid, running[0]["id"], 5), "it goes on counting", 60)
    seen = await lines_of(hostd, mid, running[0]["id"])
    assert seen == list(range(seen[0], seen[0] + len(seen)))


async def is_cloned(hostd: Hostd, mid: str, counter: str) -> list[str]:
    """Clones of the point, beside the machine: other names, other randomness, the same processes."""
    clones = [new_id(), new_id()]
    for number, clone in enumerate(clones):
        source = {"machine_id": mid, "checkpoint_id": "point"}
        made = await done(hostd, clone, "clone", 1, source=source, memory=True, spec=spec(clone, 1, f"c{number}"))
        assert made == {"parked": True}
        await done(hostd, clone, "boot", 1)
    words = "hostname; cat /etc/machine-id; head -c 16 /dev/urandom | sha256sum | cut -c 1-32; cat /etc/hosts"
    said = [(await text(hostd, each, words)).split() for each in (mid, *clones)]
    assert [each[0] for each in said] == ["first", "c0", "c1"]
    for column in (1, 2):
        assert len({each[column] for each in said}) == 3
    for clone in clones:
        assert await text(hostd, clone, "cat /etc/ssh/ssh_host_ed25519_key || echo gone", user="root") != "old"
        rows = (await hostd.call("GET", f"/v1/machines/{clone}/execs?state=running")).json["results"]
        assert [row["continued_from"] for row in rows] == [counter]
    assert await text(hostd, mid, "cat /etc/ssh/ssh_host_ed25519_key", user="root") == "old"
    return clones


async def boots_cold_from_a_damaged_image(hostd: Hostd, mid: str) -> None:
    await text(hostd, mid, "echo kept > kept; sync")
    await done(hostd, mid, "park", 3)
    pages = hostd.state / "machines" / mid / "standby" / "pages-1"
    with pages.open("r+b") as file:
        file.seek(pages.stat().st_size // 2)
        file.write(b"damage")
    await done(hostd, mid, "boot", 4, spec=spec(mid, 4, "first"))
    facts = await hostd.facts(mid, "machine.memory_dropped")
    assert [fact["data"] for fact in facts] == [{"reason": "memory_image_damaged"}]
    assert await text(hostd, mid, "cat kept") == "kept"


async def longer(hostd: Hostd, machine_id: str, exec_id: str, wanted: int) -> bool:
    return len(await lines_of(hostd, machine_id, exec_id)) >= wanted


async def counts_on(hostd: Hostd, mid: str, counter: str) -> None:
    """The same process, and not a line of what it says is lost or said twice."""
    seen = len(await lines_of(hostd, mid, counter))
    await eventually(lambda: longer(hostd, mid, counter, seen + 3), f"it counts on: {hostd.log[-3000:]}", 90)
    lines = await lines_of(hostd, mid, counter)
    assert lines == list(range(lines[0], lines[0] + len(lines)))


async def test_hostd_killed_in_the_middle_of_a_rest_or_a_wake_loses_neither_memory_nor_files(hostd: Hostd):
    mid, counter = await counting(hostd)
    # (operation, the step at which hostd dies, what the next one finds)
    for generation, (kind, where, at, phase_then) in enumerate([
        ("park", f"{mid}/standby", 1, "running"),       # all is written, nothing has its name: it goes on
        ("capture", "checkpoints", 4, "running"),
        ("park", "machine.json", 2, "parked"),          # named, and not yet noted
        ("boot", ".standby.used", 1, "parked"),         # the body runs, and is not yet the machine
        ("boot", "machine.json", 3, "running"),         # it is, and that was not yet noted
    ], start=2):
        more = {"spec": spec(mid, generation, "box")} if kind == "boot" else {}
        if kind == "capture":
            more = {"checkpoint_id": "cut", "memory": True}
        said = await dies_in(hostd, mid, kind, generation, at, where, grace_s=60, **more)
        assert said and await phase(hostd, mid) == phase_then, (kind, said, hostd.log[-3000:])
        if phase_then == "running":
            await counts_on(hostd, mid, counter)
        await nothing_remains(hostd.state, said)


async def test_hostd_killed_at_any_step_of_a_rollback_with_memory_leaves_one_of_two_pasts(
        hostd: Hostd, request: pytest.FixtureRequest):
    """What it was, what it was to become, or that one's disk alone; and the same rollback repeated succeeds. Every step
    in a soak (and on the fake driver), else every fourth.
    """
    stride = 1 if request.config.getoption("--soak") else 4
    mid, _counter = await counting(hostd)
    await done(hostd, mid, "capture", 1, checkpoint_id="point", memory=True)
    generation, found = 1, []
    while True:
        generation += 1
        await done(hostd, mid, "boot", generation, spec=spec(mid, generation, "box"))
        await text(hostd, mid, "echo later > later; sync")
        said = await dies_in(hostd, mid, "rollback", generation, 1 + stride * len(found), mid,
                             checkpoint_id="point", memory=True)
        if not said:
            break
        now = await phase(hostd, mid)
        found.append(now)
        assert len(found) < MOST_STEPS, said
        await nothing_remains(hostd.state, said)
        await is_one_of_two_pasts(hostd, mid, generation, now, said)
    assert len(found) >= 12 // stride and {"running", "parked"} <= set(found), found
    assert stride > 1 or "stopped" in found, found
    assert found == sorted(found, key=["running", "stopped", "parked"].index), "once it has gone back it has gone back"
    assert await phase(hostd, mid) == "parked"
    await is_one_of_two_pasts(hostd, mid, generation, "parked", "whole")


async def is_one_of_two_pasts(hostd: Hostd, mid: str, generation: int, now: str, said: str) -> None:
    if now == "stopped":
        again = await done(hostd, mid, "rollback", generation, checkpoint_id="point", memory=True)
        assert again == {"parked": True}
    await done(hostd, mid, "boot", generation, spec=spec(mid, generation, "box"))
    assert await text(hostd, mid, "ls") == ("counter\nlater" if now == "running" else "counter"), said
    rows = (await hostd.call("GET", f"/v1/machines/{mid}/execs?state=running")).json["results"]
    assert len(rows) == 1 and (now == "running" or rows[0]["continued_from"]), said
    await counts_on(hostd, mid, rows[0]["id"])


async def test_what_rests_can_be_captured_stopped_and_gone_back_to_and_a_bad_image_is_given_up(hostd: Hostd):
    mid, counter = await counting(hostd)
    await held_awake_from_inside(hostd, mid)
    for number in range(9):
        await done(hostd, mid, "capture", 1, checkpoint_id=f"deep{number}", memory=False)
    assert (await hostd.observe(mid))["chain_depth"] == 10
    await done(hostd, mid, "park", 1)
    seen = await hostd.observe(mid)
    assert seen["memory_image_bytes"] > 0 and seen["work"] is None

    async def short() -> bool:
        return (await hostd.observe(mid))["chain_depth"] == 2

    await eventually(short, "the chain is shortened while nobody wants anything of it")
    await is_read_and_captured_at_rest(hostd, mid, counter)
    running = await is_given_up_and_gone_back_to(hostd, mid, counter)
    await gives_up_an_image_that_qemu_does_not_take(hostd, mid, running)
    await done(hostd, mid, "park", 4)
    await done(hostd, mid, "shutdown", 4)
    assert await phase(hostd, mid) == "stopped"
    assert not (hostd.state / "machines" / mid / "standby").exists()
    await names_a_disk_that_nobody_can_read(hostd, mid)


#: As root, so that not even what is kept for root is left: no byte, and hardly an inode.
FILL = """cd /root && n=0; for size in 1000M 100M 10M 1M 64K 4K; do while fallocate -l $size fill-$n 2>/dev/null; do
n=$((n+1)); done; rm -f fill-$n; done; df --output=avail / | tail -1"""
#: Each row's sum is in the row: half a transaction would show.
ROWS = """
import sqlite3, time
base = sqlite3.connect("rows.db", isolation_level=None)
base.execute("create table if not exists rows (n integer primary key, text text)")
base.execute("create table if not exists counts (of text primary key, n integer)")
while True:
    base.execute("begin")
    base.execute("insert into rows (text) values (hex(randomblob(500)))")
    base.execute("insert or replace into counts select 'rows', count(*) from rows")
    base.execute("commit")
"""
CHECK_ROWS = """
import sqlite3
base = sqlite3.connect("rows.db")
print(base.execute("pragma integrity_check").fetchone()[0],
      base.execute("select (select count(*) from rows) = coalesce((select n from counts), 0)").fetchone()[0])
"""


async def test_disks_alone_are_whole_under_load_and_a_full_one_locks_nobody_out(hostd: Hostd):
    """Checkpoints without memory while a database writes; then a guest without a free byte, and its enlarging."""
    mid, _counter = await counting(hostd)
    await hostd.exec(mid, ["python3", "-c", ROWS], background=True)
    await text(hostd, mid, "until [ $(stat -c %s rows.db || echo 0) -gt 50000 ]; do sleep 0.1; done")
    points = [f"busy{number}" for number in range(3)]
    for point in points:
        taken = await done(hostd, mid, "capture", 1, checkpoint_id=point, memory=False)
        assert taken["consistency"] == "clean"
    for generation, point in enumerate(points, start=2):
        await done(hostd, mid, "rollback", generation, checkpoint_id=point, memory=False)
        await done(hostd, mid, "boot", generation, spec=spec(mid, generation, "box"))
        assert (await hostd.exec(mid, ["python3", "-c", CHECK_ROWS]))["stdout"] == "ok 1\n"
    assert await text(hostd, mid, FILL, user="root") == "0"
    await done(hostd, mid, "park", 5)
    await done(hostd, mid, "boot", 5, spec=spec(mid, 5, "box"))
    await done(hostd, mid, "capture", 5, checkpoint_id="full", memory=True)
    refused = await hostd.call("PUT", f"/v1/machines/{mid}/files/content?path=/home/user/x", data=b"x" * 100_000)
    assert refused.json["code"] == "guest_disk_full"
    listed = await hostd.call("GET", f"/v1/machines/{mid}/files?path=/home/user")
    assert "/home/user/rows.db" in {row["path"] for row in listed.json["entries"]}
    await done(hostd, mid, "rollback", 6, checkpoint_id="full", memory=True)
    await done(hostd, mid, "boot", 6, spec=spec(mid, 6, "box", disk_gib=6))
    assert int(await text(hostd, mid, "df --output=avail -BM / | tail -1 | tr -d M")) > 1500, "enlarged in its sleep"
    assert (await hostd.call("DELETE", f"/v1/machines/{mid}/files?path=/home/user/rows.db")).status == 204
    await done(hostd, mid, "shutdown", 6)
    await done(hostd, mid, "boot", 7, spec=spec(mid, 7, "box", disk_gib=6))
    assert await text(hostd, mid, "cat counter")


async def names_a_disk_that_nobody_can_read(hostd: Hostd, mid: str) -> None:
    """Which files make it was cut short, both copies. Everything else goes on, and a checkpoint of it heals it."""
    hostd.kill9()
    disk = hostd.state / "machines" / mid / "disk"
    for path in (disk / "chain.json", disk / "chain-copy.json"):
        path.write_bytes(path.read_bytes()[:9])
    await hostd.start(UP_S)
    assert [row["machine_id"] for row in (await hostd.call("GET", "/v1/machines")).json["results"]] == [mid]
    assert ((await hostd.observe(mid))["phase"], (await hostd.observe(mid))["chain_depth"]) == ("stopped", 0)
    for kind, more in (("boot", {"spec": spec(mid, 5, "box")}), ("capture", {"checkpoint_id": "n", "memory": False})):
        ended = await hostd.operate(mid, kind, 5, **more)
        assert (ended["state"], ended["error"]["code"]) == ("failed", "disk_unreadable"), ended
    assert await done(hostd, mid, "rollback", 5, checkpoint_id="rest", memory=False) == {"parked": False}
    await done(hostd, mid, "boot", 5, spec=spec(mid, 5, "box"))
    assert await text(hostd, mid, "cat counter")


async def held_awake_from_inside(hostd: Hostd, mid: str) -> None:
    held = await text(hostd, mid, "berth-hold --reason 'a build' --ttl 60 >/dev/null && berth-hold --list")
    assert held.split("\t")[2] == "a build"
    assert await text(hostd, mid, "berth-hold --reason x -- sh -c 'berth-hold --list | wc -l'") == "2"
    assert await text(hostd, mid, "cat /run/berth-epoch") == "1"


async def is_read_and_captured_at_rest(hostd: Hostd, mid: str, counter: str) -> None:
    # While it rests: its execs are readable, new ones are not taken, a checkpoint is a second name.
    assert (await hostd.call("GET", f"/v1/machines/{mid}/execs/{counter}")).json["state"] == "running"
    refused = await hostd.call("POST", f"/v1/machines/{mid}/execs", json={"exec_id": new_id(), "command": "true"})
    assert (refused.json["code"], refused.json["reason"]) == ("not_running", "parked")
    refused = await hostd.call("DELETE", f"/v1/machines/{mid}/execs/{counter}")
    assert (refused.json["code"], refused.json["reason"]) == ("not_running", "parked")
    result = await done(hostd, mid, "capture", 1, checkpoint_id="rest", memory=True)
    assert result["memory"] and result["pause_ms"] == 0 and result["consistency"] == "clean"
    assert not (await done(hostd, mid, "capture", 1, checkpoint_id="disk", memory=False))["memory"]
    usable = {row["checkpoint_id"]: row["memory_usable"] for row in (await hostd.observe(mid))["checkpoints"]}
    assert usable["rest"] and not usable["disk"] and not usable["deep0"]


async def is_given_up_and_gone_back_to(hostd: Hostd, mid: str, counter: str) -> str:
    """The disk as it was, what ran is lost and says so; the checkpoint has it still."""
    await done(hostd, mid, "discard_memory", 1)
    record = (await hostd.call("GET", f"/v1/machines/{mid}/execs/{counter}")).json
    assert record["outcome"] == {"kind": "lost", "reason": "memory_discarded"}
    await done(hostd, mid, "boot", 2, spec=spec(mid, 2, "box"))
    assert await text(hostd, mid, "pgrep -c sleep || true") == "0"
    assert await done(hostd, mid, "rollback", 3, checkpoint_id="rest", memory=True) == {"parked": True}
    await done(hostd, mid, "boot", 3, spec=spec(mid, 3, "box"))
    assert await text(hostd, mid, "cat /run/berth-epoch") == "3", "what keeps its own randomness can see it"
    rows = (await hostd.call("GET", f"/v1/machines/{mid}/execs?state=running")).json["results"]
    assert [row["continued_from"] for row in rows] == [counter]
    return str(rows[0]["id"])


async def gives_up_an_image_that_qemu_does_not_take(hostd: Hostd, mid: str, running: str) -> None:
    """It is whole by its own checksums: tried again, then given up for the same disk."""
    await text(hostd, mid, "echo kept > kept; sync")
    await done(hostd, mid, "park", 3)
    spoil(hostd.state / "machines" / mid / "standby")
    for _ in range(2):
        failed = await hostd.operate(mid, "boot", 4, spec=spec(mid, 4, "box"))
        assert (failed["state"], await phase(hostd, mid)) == ("failed", "parked")
    await done(hostd, mid, "boot", 4)
    facts = await hostd.facts(mid, "machine.memory_dropped")
    assert [fact["data"] for fact in facts] == [{"reason": "memory_image_unusable"}]
    assert await text(hostd, mid, "cat kept") == "kept"
    record = (await hostd.call("GET", f"/v1/machines/{mid}/execs/{running}")).json
    assert record["outcome"] == {"kind": "lost", "reason": "memory_dropped"}


def spoil(standby: Path) -> None:
    """The device state is another, and the image says so itself: only QEMU can tell that it is none."""
    (standby / "device.state").unlink()
    (standby / "device.state").write_bytes(b"not a device state")
    image = json.loads((standby / "image.json").read_text())
    image["checksums"]["device.state"] = checksums.of_file(standby / "device.state")
    (standby / "image.json").write_text(json.dumps(image))
