"""Facts become events, each exactly once, whatever is restarted or lost in between."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from sandboxes import machines
from sandboxes.models import Host
from tests.upstairs.conftest import eventually, make, person
from tests.upstairs.hostd import Hostd
from workspaces import bounds, courier, events, ids
from workspaces.models import Event, User, Workspace

pytestmark = pytest.mark.django_db


def fact(seq: int, workspace: Workspace, kind: str = "exec.ended", **data: Any) -> dict[str, Any]:
    return {"seq": seq, "at": "2026-01-01T00:00:00.000Z", "kind": kind, "machine_id": workspace.pk, "generation": 1,
            "actor": {"type": "token", "name": "ci"}, "data": data}


@pytest.fixture
def host(db: None) -> Host:
    return Host.objects.create(pk="h", name="h", address="unix:/nowhere")


def test_facts_become_events_with_their_own_time_and_actor(host: Host, ann: User) -> None:
    workspace = make(ann)
    courier.take_in(host, {"facts": [fact(1, workspace, command="true", outcome={"kind": "exited", "code": 0})],
                           "next": 1})
    event = Event.objects.get(kind="exec.ended")
    assert (event.seq, event.actor_name, event.at.year) == (2, "ci", 2026)
    assert event.data["outcome"] == {"kind": "exited", "code": 0}
    assert Host.objects.get().feed_seq == 1


def test_events_and_the_place_in_the_feed_are_written_together_or_not_at_all(
        host: Host, ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = make(ann)
    answer = {"facts": [fact(1, workspace), fact(2, workspace)], "next": 2}
    append, calls = events.append, []

    def failing(*args: Any, **kw: Any) -> Any:
        calls.append(args)
        if len(calls) == 2:
            raise RuntimeError("the database went away")
        return append(*args, **kw)

    monkeypatch.setattr(events, "append", failing)
    with pytest.raises(RuntimeError):
        courier.take_in(host, answer)
    assert Event.objects.filter(kind="exec.ended").count() == 0 and Host.objects.get().feed_seq == 0
    monkeypatch.setattr(events, "append", append)
    courier.take_in(Host.objects.get(), answer)
    assert Event.objects.filter(kind="exec.ended").count() == 2 and Host.objects.get().feed_seq == 2


def test_a_machines_fact_rings_the_bell_and_a_gap_rings_all(host: Host, ann: User, bell: list[str]) -> None:
    from sandboxes.models import Sandbox

    one, two = make(ann, "one"), make(ann, "two")
    for workspace in (one, two):
        Sandbox.objects.create(machine_id=workspace.pk, host=host)
    courier.take_in(host, {"facts": [fact(1, one, "machine.died", reason="killed")], "next": 1})
    assert bell == [one.pk]
    asked_for = [fact(number, two, kind) for number, kind in enumerate(sorted(courier.AWAITED), start=2)]
    courier.take_in(host, {"facts": asked_for, "next": 1 + len(asked_for)})
    assert bell == [one.pk], "whoever asked for it waits for it already"
    courier.take_in(host, {"facts": [], "next": 900, "gap": True})
    assert set(bell[1:]) == {one.pk, two.pk} and Host.objects.get().feed_seq == 900


def test_a_fact_about_nobodys_machine_is_passed_over(host: Host) -> None:
    stray = Workspace(pk=ids.new_id())
    courier.take_in(host, {"facts": [fact(1, stray)], "next": 1})
    assert Event.objects.count() == 0 and Host.objects.get().feed_seq == 1


def test_what_a_guest_says_is_bounded_before_it_is_kept(host: Host, ann: User) -> None:
    workspace = make(ann)
    courier.take_in(host, {"facts": [fact(1, workspace, command="x" * 10**6 + "\x00", path="a\ud800\x00b",
                                          many=list(range(10**4)))], "next": 1})
    data = Event.objects.get(kind="exec.ended").data
    assert len(data["command"]) == bounds.MAX_TEXT + 1 and data["path"] == "a?\ufffdb" and len(data["many"]) == 100


@pytest.mark.django_db(transaction=True)
def test_the_courier_outlives_hostds_restarts_and_writes_each_fact_once(running_hostd: Hostd) -> None:
    machines.register_host("local", "local", running_hostd.address)
    workspace = make(person("ann"))
    post = running_hostd.post
    spec = {"machine_id": workspace.pk, "generation": 1}
    for operation in ("create_disk", "boot"):
        post(f"/v1/machines/{workspace.pk}/operations", {"operation_id": operation, "kind": operation,
                                                         "generation": 1, "spec": spec})
        eventually(operation, lambda o=operation: running_hostd.get(
            f"/v1/machines/{workspace.pk}/operations/{o}?wait_s=5")["state"] == "done")
    Host.objects.update(feed_seq=running_hostd.get("/v1/host")["feed_seq"])
    stop = threading.Event()
    thread = threading.Thread(target=courier.follow, args=("local", stop))
    thread.start()
    try:
        for round_ in range(3):
            done = post(f"/v1/machines/{workspace.pk}/execs?wait_s=20", {"exec_id": ids.new_id(), "command": ["true"]})
            assert done["outcome"] == {"kind": "exited", "code": 0}, done
            wanted = round_ + 1
            eventually("the event", lambda w=wanted: Event.objects.filter(kind="exec.ended").count() >= w)
            running_hostd.kill()
            running_hostd.start()
    finally:
        stop.set()
        thread.join(timeout=60)
    assert Event.objects.filter(kind="exec.ended").count() == 3
    assert Event.objects.filter(kind="exec.started").count() == 3
    running_hostd.clear()
