"""Operations: started, then observed, once for each id, fenced by generation; a failed boot leaves nothing."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from tests.host.client import Hostd, body_pids, eventually, kill_body, new_id


def spec(machine_id: str, generation: int = 1, **more: Any) -> dict[str, Any]:
    return {"machine_id": machine_id, "generation": generation, **more}


async def test_a_machine_goes_from_absent_to_running_to_stopped_to_absent(hostd: Hostd):
    mid = new_id()
    assert (await hostd.observe(mid))["phase"] == "absent"
    await hostd.operate(mid, "create_disk", spec=spec(mid, env={"A": "b"}))
    seen = await hostd.observe(mid)
    assert (seen["phase"], seen["spec"]["env"], seen["operation"]) == ("stopped", {"A": "b"}, None)
    await hostd.operate(mid, "boot", spec=spec(mid, env={"A": "b"}))
    seen = await hostd.observe(mid)
    assert seen["phase"] == "running" and seen["running_since"] and seen["disk_used_bytes"] > 0
    assert (await hostd.exec(mid, "echo $A"))["stdout"] == "b\n"
    await hostd.call("PUT", f"/v1/machines/{mid}/files/content?path=/home/user/kept", data=b"kept")
    assert (await hostd.operate(mid, "shutdown"))["state"] == "done"
    assert (await hostd.observe(mid))["phase"] == "stopped"
    assert body_pids(hostd, mid) == []
    await hostd.operate(mid, "boot")
    assert (await hostd.exec(mid, "cat /home/user/kept"))["stdout"] == "kept"
    await hostd.operate(mid, "destroy")
    seen = await hostd.observe(mid)
    assert (seen["phase"], seen["generation"], seen["spec"]) == ("absent", 1, None)
    assert body_pids(hostd, mid) == [] and not (hostd.state / "machines" / mid).exists()
    kinds = [fact["kind"] for fact in await hostd.facts(mid) if fact["kind"].startswith("machine")]
    assert kinds == ["machine.running", "machine.stopped"] * 2


async def test_every_operation_that_is_already_so_succeeds(hostd: Hostd, machine: str):
    boots = len(await hostd.facts(machine, "machine.running"))
    pids = body_pids(hostd, machine)
    for kind in ("create_disk", "boot", "boot"):
        assert (await hostd.operate(machine, kind))["state"] == "done"
    assert body_pids(hostd, machine) == pids and len(await hostd.facts(machine, "machine.running")) == boots
    for kind in ("shutdown", "shutdown", "kill", "destroy", "destroy", "kill", "shutdown"):
        assert (await hostd.operate(machine, kind))["state"] == "done", kind
    assert (await hostd.observe(machine))["phase"] == "absent"


async def test_the_same_id_is_the_same_operation_also_for_the_next_hostd(hostd: Hostd, machine: str):
    asked = {"operation_id": new_id(), "kind": "kill", "generation": 1}
    path = f"/v1/machines/{machine}/operations"
    answers = await asyncio.gather(*(hostd.call("POST", path, json=asked) for _ in range(5)))
    assert {answer.status for answer in answers} == {202}
    first = await hostd.operation_end(machine, asked["operation_id"])
    assert first["state"] == "done"
    assert len(await hostd.facts(machine, "machine.stopped")) == 1
    await hostd.operate(machine, "boot")
    hostd.kill9()
    await hostd.start()
    assert (await hostd.call("POST", path, json=asked)).json == first
    assert (await hostd.observe(machine))["phase"] == "running"


async def test_an_older_generation_is_refused_even_after_restart_and_destroy(hostd: Hostd):
    machine = await hostd.machine(generation=7)
    stale = {"operation_id": new_id(), "kind": "kill", "generation": 6}
    for step in ("now", "after a restart", "after destroy"):
        if step == "after a restart":
            hostd.kill9()
            await hostd.start()
        if step == "after destroy":
            await hostd.operate(machine, "destroy", 7)
        answer = await hostd.call("POST", f"/v1/machines/{machine}/operations", json=stale)
        assert (answer.status, answer.json["code"]) == (409, "stale_generation"), step
    answer = await hostd.call("GET", f"/v1/machines/{machine}/operations/{stale['operation_id']}")
    assert answer.json["code"] == "not_found"


async def test_a_second_operation_is_busy_but_kill_ends_a_slow_shutdown(hostd: Hostd, machine: str):
    for pid in body_pids(hostd, machine):
        os.kill(pid, 19)
    slow = {"operation_id": new_id(), "kind": "shutdown", "generation": 1, "grace_s": 600}
    path = f"/v1/machines/{machine}/operations"
    assert (await hostd.call("POST", path, json=slow)).status == 202
    busy = await hostd.call("POST", path, json={"operation_id": new_id(), "kind": "boot", "generation": 1})
    assert (busy.status, busy.json["code"]) == (409, "busy")
    killed = await hostd.operate(machine, "kill")
    assert killed["state"] == "done"
    assert (await hostd.operation_end(machine, slow["operation_id"]))["error"]["code"] == "superseded"
    seen = await hostd.observe(machine)
    assert (seen["phase"], seen["end_reason"]) == ("stopped", "killed")


async def test_a_shutdown_that_the_guest_does_not_answer_ends_by_force_after_its_grace(hostd: Hostd, machine: str):
    for pid in body_pids(hostd, machine):
        os.kill(pid, 19)
    ended = await hostd.operate(machine, "shutdown", grace_s=0.5)
    assert ended["state"] == "done"
    assert (await hostd.observe(machine))["end_reason"] == "killed_after_grace"
    assert body_pids(hostd, machine) == []


async def test_what_ran_when_hostd_died_reads_interrupted_and_can_be_repeated(hostd: Hostd, machine: str):
    for pid in body_pids(hostd, machine):
        os.kill(pid, 19)
    asked = {"operation_id": new_id(), "kind": "shutdown", "generation": 1, "grace_s": 600}
    await hostd.call("POST", f"/v1/machines/{machine}/operations", json=asked)
    hostd.kill9()
    await hostd.start()
    ended = await hostd.operation_end(machine, asked["operation_id"])
    assert (ended["state"], ended["error"]["code"]) == ("failed", "interrupted")
    assert (await hostd.observe(machine))["phase"] == "running"
    assert (await hostd.operate(machine, "shutdown", grace_s=0.2))["state"] == "done"


async def test_a_body_killed_from_outside_is_seen_and_its_execs_are_lost(hostd: Hostd, machine: str):
    running = await hostd.exec(machine, "echo before; sleep 600", background=True)
    path = f"/v1/machines/{machine}/execs/{running['id']}"
    await eventually(lambda: has_output(hostd, path, b"before\n"), "output arrives")
    waiting = asyncio.create_task(hostd.call("GET", f"{path}?wait_s=60"))
    kill_body(hostd, machine)
    record = (await asyncio.wait_for(waiting, 50)).json
    assert record["outcome"] == {"kind": "lost", "reason": "machine_died"}
    assert record["stdout"] == "before\n"
    seen = await hostd.observe(machine)
    assert (seen["phase"], seen["end_reason"]) == ("dead", "killed:SIGKILL")
    died = await eventually(lambda: hostd.facts(machine, "machine.died"), "the fact is told")
    assert [fact["data"] for fact in died] == [{"reason": "killed:SIGKILL"}]
    refused = await hostd.call("POST", f"/v1/machines/{machine}/execs", json={"exec_id": new_id(), "command": "true"})
    assert (refused.status, refused.json["code"], refused.json["reason"]) == (409, "not_running", "dead")
    assert (await hostd.operate(machine, "boot"))["state"] == "done"
    assert (await hostd.exec(machine, "echo again"))["stdout"] == "again\n"


async def has_output(hostd: Hostd, path: str, expected: bytes) -> bool:
    return expected in (await hostd.call("GET", f"{path}/output")).body


async def test_a_body_that_died_while_hostd_was_away_is_said_to_be_dead(hostd: Hostd, machine: str):
    running = await hostd.exec(machine, "sleep 600", background=True)
    hostd.kill9()
    kill_body(hostd, machine)
    await hostd.start()
    assert (await hostd.observe(machine))["phase"] == "dead"
    assert (await hostd.observe(machine))["end_reason"] == "unknown"
    assert len(await hostd.facts(machine, "machine.died")) == 1
    record = (await hostd.call("GET", f"/v1/machines/{machine}/execs/{running['id']}")).json
    assert record["outcome"] == {"kind": "lost", "reason": "machine_died"}


async def test_a_body_that_went_with_its_host_is_nobodys_failure(hostd: Hostd, machine: str):
    hostd.kill9()
    kill_body(hostd, machine)
    (hostd.state / "boot.json").write_text('{"boot_id": "of-another-kernel"}')
    await hostd.start()
    assert (await hostd.observe(machine))["end_reason"] == "host_rebooted"


async def test_a_terminated_hostd_leaves_its_machines_running(hostd: Hostd, machine: str):
    running = await hostd.exec(machine, "sleep 1; echo survived", background=True)
    pids = body_pids(hostd, machine)
    hostd.stop()
    assert hostd.process is not None and hostd.process.returncode == 0
    assert set(body_pids(hostd, machine)) & set(pids)
    await hostd.start()
    assert (await hostd.observe(machine))["phase"] == "running"
    record = await hostd.end_of(machine, running["id"])
    assert (record["stdout"], record["outcome"]) == ("survived\n", {"kind": "exited", "code": 0})


async def test_a_second_hostd_over_the_same_state_refuses_to_start(hostd: Hostd):
    second = Hostd(hostd.folder)
    with pytest.raises(AssertionError, match="already_there"):
        second.socket = hostd.folder / "other.sock"
        await second.start()
    await second.close()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "kind"),
        ({"kind": "explode"}, "kind"),
        ({"generation": -1}, "generation"),
        ({"generation": "1"}, "generation"),
        ({"operation_id": ""}, "operation_id"),
        ({"surprise": 1}, "surprise"),
        ({"spec": []}, "spec"),
        ({"spec": {"machine_id": "other", "generation": 1}}, "spec"),
        ({"spec": {}}, "spec"),
        ({"spec": {"machine_id": "M", "generation": 1, "disk_gib": 0}}, "spec"),
        ({"spec": {"machine_id": "M", "generation": 1, "shape": {"cpus": "many"}}}, "spec"),
        ({"spec": {"machine_id": "M", "generation": 1, "env": {"A=B": ""}}}, "spec"),
        ({"grace_s": -1}, "grace_s"),
        ({"grace_s": True}, "grace_s"),
    ],
)
async def test_a_malformed_operation_names_the_field_that_is_wrong(
    steady: tuple[Hostd, str], body: dict[str, Any], field: str
):
    hostd = steady[0]
    whole = {"operation_id": "o", "kind": "boot", "generation": 1}
    asked = {} if not body else {**whole, **body}
    answer = await hostd.call("POST", "/v1/machines/M/operations", json=asked)
    assert (answer.status, answer.json["code"]) == (400, "invalid")
    assert field in answer.json["errors"]
    assert (await hostd.observe("M"))["operation"] is None


async def test_a_boot_without_a_disk_is_a_conflict_and_a_shape_too_big_has_no_capacity(hostd: Hostd):
    mid = new_id()
    ended = await hostd.operate(mid, "boot", spec=spec(mid))
    assert ended["error"]["code"] == "conflict"
    await hostd.operate(mid, "create_disk", spec=spec(mid))
    for shape in ({"memory_mib": 4_000_000}, {"cpus": 200}):
        ended = await hostd.operate(mid, "boot", spec=spec(mid, shape=shape))
        assert ended["error"]["code"] == "no_capacity" and ended["error"]["retry_after_s"]
    assert (await hostd.call("GET", "/v1/host")).json["used"]["machines"] == 0


async def test_the_host_tells_what_it_has_and_what_is_spoken_for(hostd: Hostd, machine: str):
    host = (await hostd.call("GET", "/v1/host")).json
    assert host["capabilities"]["driver"] == "fake" and host["images"] == {"default": "fake"}
    assert host["used"] == {"cpus": 1, "machines": 1, "memory_mib": 512}
    assert host["feed_seq"] >= 1 and host["capacity"]["memory_mib"] > 0
    listed = (await hostd.call("GET", "/v1/machines")).json["results"]
    assert [one["machine_id"] for one in listed] == [machine]
    assert (await hostd.call("GET", f"/v1/machines/{machine}/metrics")).json["now"]["memory_total_bytes"] > 0
