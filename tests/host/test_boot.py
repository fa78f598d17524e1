"""A boot that fails at any stage leaves nothing and can be repeated; links that break are opened again."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from sandboxes.drivers.base import MachineHome
from sandboxes.errors import AgentLost
from sandboxes.guest.link import GuestLink
from sandboxes.host import boot as boot_module
from sandboxes.host import running as running_module
from tests.host.client import body_pids, eventually, new_folder, new_id
from tests.host.inside import Inside, inside

STAGES = [
    "prepare",
    "launch disk",
    "launch memory",
    "launch agent",
    "launch dead",
    "open",
    "resume",
    "fit_disk",
    "attach",
]


@pytest_asyncio.fixture
async def hostd() -> AsyncIterator[Inside]:
    folder = new_folder()
    async with inside(folder) as running:
        yield running
    shutil.rmtree(folder, ignore_errors=True)


def break_link_at(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent stops answering at one call (or never greets)."""
    real_request, real_open = GuestLink.request, GuestLink.open

    async def request(self: GuestLink, name: str, *args: Any, **kwargs: Any) -> Any:
        if name == method:
            raise AgentLost("broken by the test")
        return await real_request(self, name, *args, **kwargs)

    async def opened(*args: Any, **kwargs: Any) -> GuestLink:
        if method == "open":
            raise AgentLost("broken by the test")
        return await real_open(*args, **kwargs)

    monkeypatch.setattr(GuestLink, "request", request)
    monkeypatch.setattr(GuestLink, "open", staticmethod(opened))


@pytest.mark.parametrize("stage", STAGES)
async def test_a_boot_that_fails_at_any_stage_leaves_nothing_and_the_next_one_works(
    hostd: Inside, stage: str, monkeypatch: pytest.MonkeyPatch
):
    mid = new_id()
    spec = {"machine_id": mid, "generation": 1}
    await hostd.operate(mid, "create_disk", spec=spec)
    await hostd.call("GET", f"/v1/machines/{mid}")
    hostd.breakable.broken = stage
    break_link_at(stage, monkeypatch)
    ended = await hostd.operate(mid, "boot", spec=spec)
    assert ended["state"] == "failed", ended
    assert ended["error"]["code"] in ("step_failed", "agent_lost") and ended["error"]["detail"]
    seen = await hostd.observe(mid)
    assert (seen["phase"], seen["end_reason"], seen["operation"]) == ("stopped", "boot_failed", None)
    assert body_pids(hostd, mid) == []
    assert hostd.machines.bodies == {} and hostd.machines.reserved == {}
    home = hostd.machines.home(mid)
    assert not (home.run / "agent.sock").exists() and not (home.path / "driver" / "body.json").exists()
    assert await hostd.facts(mid, "machine.running") == []
    monkeypatch.undo()
    hostd.breakable.broken = ""
    assert (await hostd.operate(mid, "boot", spec=spec))["state"] == "done"
    assert (await hostd.exec(mid, "echo up"))["stdout"] == "up\n"


async def test_a_disk_that_cannot_be_made_leaves_nothing(hostd: Inside):
    mid = new_id()
    hostd.breakable.broken = "create_disk"
    ended = await hostd.operate(mid, "create_disk", spec={"machine_id": mid, "generation": 1})
    assert ended["error"]["code"] == "step_failed"
    assert (await hostd.observe(mid))["phase"] == "absent"
    assert not hostd.machines.home(mid).disk.exists()


async def test_a_destroy_that_fails_can_be_repeated(hostd: Inside):
    mid = await hostd.machine()
    hostd.breakable.broken = "destroy"
    assert (await hostd.operate(mid, "destroy"))["state"] == "failed"
    assert (await hostd.observe(mid))["phase"] == "stopped"
    hostd.breakable.broken = ""
    assert (await hostd.operate(mid, "destroy"))["state"] == "done"
    assert not hostd.machines.home(mid).path.exists()


async def test_a_kill_takes_over_from_a_boot_at_its_next_step_and_nothing_is_left(
    hostd: Inside, monkeypatch: pytest.MonkeyPatch
):
    mid = new_id()
    spec = {"machine_id": mid, "generation": 1}
    await hostd.operate(mid, "create_disk", spec=spec)
    reached, go_on = asyncio.Event(), asyncio.Event()
    real = boot_module._awaken

    async def slow(*args: Any) -> None:
        reached.set()
        await go_on.wait()
        await real(*args)

    monkeypatch.setattr(boot_module, "_awaken", slow)
    path = f"/v1/machines/{mid}/operations"
    boot, kill = new_id(), new_id()
    await hostd.call("POST", path, json={"operation_id": boot, "kind": "boot", "generation": 1, "spec": spec})
    await asyncio.wait_for(reached.wait(), 60)
    assert (await hostd.observe(mid))["operation"]["stage"] == "agent"
    refused = await hostd.call("POST", f"/v1/machines/{mid}/execs", json={"exec_id": new_id(), "command": "true"})
    assert (refused.json["code"], refused.json["reason"]) == ("not_running", "starting")
    accepted = await hostd.call("POST", path, json={"operation_id": kill, "kind": "kill", "generation": 2})
    assert accepted.status == 202 and accepted.json["state"] == "running"
    go_on.set()
    assert (await hostd.operation_end(mid, kill))["state"] == "done"
    assert (await hostd.operation_end(mid, boot))["error"]["code"] == "superseded"
    assert body_pids(hostd, mid) == [] and (await hostd.observe(mid))["phase"] == "stopped"
    assert await hostd.facts(mid, "machine.running") == []


async def test_nothing_ends_a_destroy(hostd: Inside, monkeypatch: pytest.MonkeyPatch):
    mid = await hostd.machine()
    reached, go_on = asyncio.Event(), asyncio.Event()
    real = hostd.breakable.destroy

    async def slow(home: MachineHome) -> None:
        reached.set()
        await go_on.wait()
        await real(home)

    monkeypatch.setattr(hostd.breakable, "destroy", slow)
    path = f"/v1/machines/{mid}/operations"
    destroy = new_id()
    await hostd.call("POST", path, json={"operation_id": destroy, "kind": "destroy", "generation": 1})
    await asyncio.wait_for(reached.wait(), 60)
    for kind in ("kill", "destroy", "boot"):
        answer = await hostd.call("POST", path, json={"operation_id": new_id(), "kind": kind, "generation": 9})
        assert answer.json["code"] == "busy"
    go_on.set()
    assert (await hostd.operation_end(mid, destroy))["state"] == "done"


async def test_execs_and_terminals_go_on_over_a_link_that_broke(hostd: Inside):
    mid = await hostd.machine()
    count = "for i in 1 2 3 4 5 6 7 8; do echo $i; echo e$i >&2; sleep 0.1; done; exit 5"
    waiting = asyncio.create_task(hostd.exec(mid, count))
    body = hostd.machines.bodies[mid]
    for _ in range(3):
        await eventually(lambda: some_output(hostd, mid), "it runs")
        link = body._link
        assert link is not None
        link._writer.transport.abort()
        await eventually(partial(linked_anew, body, link), "a new link")
    record = await asyncio.wait_for(waiting, 30)
    assert record["outcome"] == {"kind": "exited", "code": 5}
    assert record["stdout"] == "".join(f"{i}\n" for i in range(1, 9))
    assert record["stderr"] == "".join(f"e{i}\n" for i in range(1, 9))
    assert (await hostd.exec(mid, "echo after"))["stdout"] == "after\n"


async def some_output(hostd: Inside, mid: str) -> bool:
    running = hostd.machines.execs(mid).running
    return any(one.tape.total > 0 for one in running.values()) or not running


async def linked_anew(body: Any, old: GuestLink) -> bool:
    return body._link is not None and body._link is not old and not body._link.closed.is_set()


async def test_an_exec_that_the_agent_no_longer_knows_is_lost_and_never_called_a_success(hostd: Inside):
    """Field case 052."""
    mid = await hostd.machine()
    record = await hostd.exec(mid, "echo here; sleep 600", background=True)
    await eventually(lambda: some_output(hostd, mid), "it runs")
    body = hostd.machines.bodies[mid]
    assert body._link is not None
    await body._link.request("exec.kill", {"exec_id": record["id"], "reason": "killed"})
    running = hostd.machines.execs(mid).running.get(record["id"])
    ended = await hostd.end_of(mid, record["id"])
    assert running is None or running.record.ended is not None
    assert ended["outcome"] == {"kind": "killed", "by": "unknown"} and ended["stdout"] == "here\n"
    assert (await hostd.call("DELETE", f"/v1/machines/{mid}/execs/{record['id']}")).json == ended


async def test_a_guest_that_misspeaks_is_not_believed(hostd: Inside):
    from sandboxes.host.running import outcome_of

    for said in (
        None,
        {},
        {"kind": "exited"},
        {"kind": "exited", "code": "0"},
        {"kind": "won"},
        [],
        {"kind": "signaled", "signal": 9},
    ):
        assert outcome_of(said) == {"kind": "lost", "reason": "agent_misspoke"}


async def test_waiting_operations_and_feeds_hold_nobody_up(hostd: Inside):
    """Field case 004: a hundred long polls, and a call between them."""
    mid = await hostd.machine()
    host = (await hostd.call("GET", "/v1/host")).json
    seq = (await hostd.call("GET", f"/v1/feed?after={host['feed_seq']}")).json["next"]
    polls = [asyncio.create_task(hostd.call("GET", f"/v1/feed?after={seq}&wait_s=30")) for _ in range(50)]
    polls += [asyncio.create_task(hostd.exec(mid, "cat", stdin_open=True, wait_s=30)) for _ in range(20)]
    await eventually(lambda: all_run(hostd, mid, 20), "all wait")
    record = await hostd.exec(mid, "echo between")
    assert record["stdout"] == "between\n"
    for exec_id in list(hostd.machines.execs(mid).running):
        assert (
            await hostd.call("POST", f"/v1/machines/{mid}/execs/{exec_id}/stdin?eof=true", data=b"x\n")
        ).status == 200
    for answer in await asyncio.gather(*polls):
        assert answer["outcome"]["kind"] == "exited" if isinstance(answer, dict) else answer.json["facts"]


async def all_run(hostd: Inside, mid: str, count: int) -> bool:
    return sum(one.record.state == "running" for one in hostd.machines.execs(mid).running.values()) >= count


async def test_a_new_exec_while_the_agent_is_away_is_refused_as_agent_lost_and_leaves_no_record(
    hostd: Inside, monkeypatch: pytest.MonkeyPatch
):
    mid = await hostd.machine()
    body = hostd.machines.bodies[mid]
    monkeypatch.setattr(running_module, "LINK_S", 0.2)
    link = body._link
    assert link is not None
    break_link_at("open", monkeypatch)
    link._writer.transport.abort()
    await eventually(partial(link_is_away, body), "the link is gone")
    exec_id = new_id()
    asked = {"exec_id": exec_id, "command": "echo hi"}
    answer = await hostd.call("POST", f"/v1/machines/{mid}/execs", json=asked)
    assert (answer.status, answer.json["code"]) == (502, "agent_lost") and answer.json["retry_after_s"]
    monkeypatch.undo()
    await eventually(partial(linked_anew, body, link), "a new link")
    assert (await hostd.call("POST", f"/v1/machines/{mid}/execs", json=asked)).json["stdout"] == "hi\n"


async def link_is_away(body: Any) -> bool:
    return body._link is None


async def test_only_the_newest_ended_execs_are_kept_by_number_and_by_bytes(hostd: Inside):
    """Field case 018."""
    mid = await hostd.machine()
    execs = hostd.machines.execs(mid)
    execs._kept = 5
    ids = [(await hostd.exec(mid, f"echo {number}"))["id"] for number in range(9)]
    listed = (await hostd.call("GET", f"/v1/machines/{mid}/execs")).json["results"]
    assert [record["id"] for record in listed] == ids[:3:-1]
    execs._kept_bytes = 250_000
    big = [(await hostd.exec(mid, "head -c 100000 /dev/zero"))["id"] for _ in range(4)]
    listed = (await hostd.call("GET", f"/v1/machines/{mid}/execs")).json["results"]
    assert [record["id"] for record in listed] == big[:1:-1]
    folder = hostd.machines.registry.folder_of(mid) / "execs"
    assert sum(path.stat().st_size for path in folder.iterdir()) < 250_000 + 10_000
    assert (await hostd.call("GET", f"/v1/machines/{mid}/execs/{ids[0]}")).json["code"] == "not_found"


async def test_what_runs_may_not_promise_more_output_than_a_machine_may_keep(hostd: Inside):
    mid = await hostd.machine()
    for _ in range(16):
        await hostd.exec(mid, "sleep 600", background=True, max_output_bytes=64 * 1024**2)
    asked = {"exec_id": new_id(), "command": "true", "max_output_bytes": 1}
    refused = await hostd.call("POST", f"/v1/machines/{mid}/execs", json=asked)
    assert (refused.status, refused.json["code"]) == (409, "busy") and refused.json["retry_after_s"]
    first = (await hostd.call("GET", f"/v1/machines/{mid}/execs?limit=1")).json["results"][0]["id"]
    await hostd.call("DELETE", f"/v1/machines/{mid}/execs/{first}")
    assert (await hostd.call("POST", f"/v1/machines/{mid}/execs", json=asked)).status == 200
