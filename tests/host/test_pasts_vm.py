"""A real machine's standby, checkpoints, rollback and clones through hostd's own door: memory, processes, identity."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sandboxes.linux import checksums
from tests.host.client import Hostd, eventually, new_id, running_hostd
from tests.host.test_checkpoints import left_overs
from tests.host.test_pasts_killed import dies_in, mortal

pytestmark = pytest.mark.vm
UP_S = 900.0
COUNTER = "n=0; while :; do n=$((n+1)); echo $n; echo $n > counter; sleep 0.1; done"


async def done(hostd: Hostd, machine_id: str, kind: str, generation: int, **more: Any) -> dict[str, Any]:
    operation_id = new_id()
    body = {"operation_id": operation_id, "kind": kind, "generation": generation, "grace_s": 60, **more}
    answer = await hostd.call("POST", f"/v1/machines/{machine_id}/operations", json=body)
    assert answer.status == 202, answer.body
    ended = await hostd.operation_end(machine_id, operation_id, UP_S)
    assert ended["state"] == "done", (kind, ended, hostd.log[-4000:])
    return ended["result"] or {}


def spec(machine_id: str, generation: int, name: str) -> dict[str, Any]:
    return {"machine_id": machine_id, "generation": generation, "hostname": name, "disk_gib": 4}


async def text(hostd: Hostd, machine_id: str, command: str, user: str = "user") -> str:
    record = await hostd.exec(machine_id, command, user=user, wait_s=120)
    assert record["outcome"] == {"kind": "exited", "code": 0}, (record, hostd.log[-3000:])
    return record["stdout"].strip()


async def counted(hostd: Hostd, machine_id: str) -> int:
    return int(await text(hostd, machine_id, "until [ -s counter ]; do sleep 0.1; done; cat counter"))


async def lines_of(hostd: Hostd, machine_id: str, exec_id: str) -> list[int]:
    raw = (await hostd.call("GET", f"/v1/machines/{machine_id}/execs/{exec_id}/output?stream=stdout&offset=0")).body
    return [int(word) for word in raw.decode().rpartition("\n")[0].split()]


async def phase(hostd: Hostd, machine_id: str) -> str:
    return (await hostd.observe(machine_id))["phase"]


async def test_a_machine_rests_wakes_goes_back_and_is_cloned_with_all_that_runs_in_it(cache: Path):
    async with running_hostd("qemu", images=cache) as hostd:
        mid = new_id()
        await done(hostd, mid, "create_disk", 1, spec=spec(mid, 1, "first"))
        await done(hostd, mid, "boot", 1)
        counter = (await hostd.exec(mid, COUNTER, background=True))["id"]
        await counted(hostd, mid)
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
    parked = await done(hostd, mid, "park", 1)
    assert parked["consistency"] == "clean" and parked["memory_bytes"] > 0
    assert await phase(hostd, mid) == "parked"
    hostd.kill9()
    await hostd.start(UP_S)
    assert await phase(hostd, mid) == "parked"
    before = await lines_of(hostd, mid, counter)
    await done(hostd, mid, "boot", 2, spec=spec(mid, 2, "first"))
    await eventually(lambda: longer(hostd, mid, counter, len(before) + 5), "it goes on counting", 60)
    now = await lines_of(hostd, mid, counter)
    assert now == list(range(1, len(now) + 1))
    assert not (hostd.state / "machines" / mid / ".standby.used").exists()


async def goes_back(hostd: Hostd, mid: str, counter: str) -> None:
    """A checkpoint of the running machine; what comes after is taken back in place."""
    result = await done(hostd, mid, "capture", 2, checkpoint_id="point", memory=True)
    assert result["memory"] and result["consistency"] == "clean" and result["pause_ms"] > 0
    assert await done(hostd, mid, "capture", 2, checkpoint_id="point", memory=True) == result
    at_point = await counted(hostd, mid)
    await text(hostd, mid, "echo later > later; sync")
    after = (await hostd.exec(mid, "sleep 600", background=True))["id"]
    assert await done(hostd, mid, "rollback", 3, checkpoint_id="point", memory=True) == {"parked": True}
    await done(hostd, mid, "boot", 3, spec=spec(mid, 3, "first"))
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
    pages = hostd.state / "machines" / mid / "standby" / "pages"
    with pages.open("r+b") as file:
        file.seek(pages.stat().st_size // 2)
        file.write(b"damage")
    await done(hostd, mid, "boot", 4, spec=spec(mid, 4, "first"))
    facts = await hostd.facts(mid, "machine.memory_dropped")
    assert [fact["data"] for fact in facts] == [{"reason": "memory_image_damaged"}]
    assert await text(hostd, mid, "cat kept") == "kept"


async def longer(hostd: Hostd, machine_id: str, exec_id: str, wanted: int) -> bool:
    return len(await lines_of(hostd, machine_id, exec_id)) >= wanted


async def test_hostd_killed_in_the_middle_of_a_rest_a_wake_and_a_rollback_loses_neither_memory_nor_files(cache: Path):
    async with mortal("qemu", images=cache) as hostd:
        mid = new_id()
        await done(hostd, mid, "create_disk", 1, spec=spec(mid, 1, "box"))
        await done(hostd, mid, "boot", 1)
        counter = (await hostd.exec(mid, COUNTER, background=True))["id"]

        async def counts_on() -> None:
            seen = len(await lines_of(hostd, mid, counter))
            await eventually(lambda: longer(hostd, mid, counter, seen + 3), f"it counts on: {hostd.log[-3000:]}", 90)
            lines = await lines_of(hostd, mid, counter)
            assert lines == list(range(1, len(lines) + 1))

        await counts_on()
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
            assert left_overs(hostd, mid) in ([], [".standby.used"]), said
            if phase_then == "running":
                await counts_on()
                await eventually(lambda: no_left_overs(hostd, mid), "the wake is settled", 60)

        await done(hostd, mid, "capture", 7, checkpoint_id="point", memory=True)
        await text(hostd, mid, "echo later > later; sync")
        said = await dies_in(hostd, mid, "rollback", 8, 1, f"{mid}/standby", checkpoint_id="point", memory=True)
        assert said and await phase(hostd, mid) == "stopped", "the disk is swapped, its memory was not yet named"
        assert await done(hostd, mid, "rollback", 9, checkpoint_id="point", memory=True) == {"parked": True}
        await done(hostd, mid, "boot", 9, spec=spec(mid, 9, "box"))
        assert await text(hostd, mid, "ls") == "counter"
        rows = (await hostd.call("GET", f"/v1/machines/{mid}/execs?state=running")).json["results"]
        assert [row["continued_from"] for row in rows] == [counter]


async def no_left_overs(hostd: Hostd, machine_id: str) -> bool:
    return not left_overs(hostd, machine_id)


async def test_what_rests_can_be_captured_stopped_and_gone_back_to_and_a_bad_image_is_given_up(cache: Path):
    async with running_hostd("qemu", images=cache) as hostd:
        mid = new_id()
        await done(hostd, mid, "create_disk", 1, spec=spec(mid, 1, "box"))
        await done(hostd, mid, "boot", 1)
        counter = (await hostd.exec(mid, COUNTER, background=True))["id"]
        await counted(hostd, mid)
        await held_awake_from_inside(hostd, mid)
        for number in range(9):
            await done(hostd, mid, "capture", 1, checkpoint_id=f"deep{number}", memory=False)
        assert (await hostd.observe(mid))["chain_depth"] == 10
        await done(hostd, mid, "park", 1)
        seen = await hostd.observe(mid)
        assert seen["chain_depth"] == 2 and seen["memory_image_bytes"] > 0 and seen["work"] is None
        await is_read_and_captured_at_rest(hostd, mid, counter)
        running = await is_given_up_and_gone_back_to(hostd, mid, counter)
        await gives_up_an_image_that_qemu_does_not_take(hostd, mid, running)
        await done(hostd, mid, "park", 4)
        await done(hostd, mid, "shutdown", 4)
        assert await phase(hostd, mid) == "stopped"
        assert not (hostd.state / "machines" / mid / "standby").exists()


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
