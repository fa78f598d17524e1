"""Standby, checkpoints, going back and forks become truth on a real hostd: what is kept, undone and told."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from sandboxes import errors
from sandboxes.hostlink import HostLink
from sandboxes.lifecycle import OperationKind
from sandboxes.models import PlanRun
from tests.upstairs.conftest import Api, actor, converge, make
from tests.upstairs.hostd import Hostd
from workspaces import checkpoints, reconcile, restores, retention, services
from workspaces.actors import Actor
from workspaces.api.errors import Problem
from workspaces.models import Checkpoint, Event, User, Workspace

pytestmark = pytest.mark.django_db


def kinds(workspace: Workspace, after: int = 0) -> list[str]:
    rows = Event.objects.filter(workspace=workspace, seq__gt=after).order_by("seq")
    return list(rows.values_list("kind", flat=True))


def last(workspace: Workspace, kind: str) -> Event:
    found = Event.objects.filter(workspace=workspace, kind=kind).order_by("-seq").first()
    assert found is not None, kinds(workspace)
    return found


def seq(workspace: Workspace) -> int:
    return Workspace.objects.get(pk=workspace.pk).event_seq


def home(hostd: Hostd, workspace: Workspace) -> Path:
    """The fake driver's disk is a folder: what is written here is on the machine's disk."""
    return hostd.folder / "state" / "machines" / workspace.pk / "disk" / "root" / "home" / "user"


def taken(user: User, workspace: Workspace, name: str = "", **fields: Any) -> Checkpoint:
    made = checkpoints.create(actor(user), workspace, {"name": name, **fields})
    converge(workspace.pk)
    made.refresh_from_db()
    assert made.state == "ready", made.state_reason
    return made


def failing(monkeypatch: pytest.MonkeyPatch, kind: OperationKind, error: errors.SandboxError) -> None:
    start = HostLink.start_operation

    def refuse(self: HostLink, machine_id: str, operation_id: str, asked: OperationKind, *args: Any, **kw: Any) -> Any:
        if asked is kind:
            raise error
        return start(self, machine_id, operation_id, asked, *args, **kw)

    monkeypatch.setattr(HostLink, "start_operation", refuse)


def worn_out(workspace: Workspace) -> Workspace:
    """Reconciled until it rests, its pauses skipped instead of waited for."""
    for _ in range(40):
        PlanRun.objects.update(next_try_at=None)
        if reconcile.reconcile(workspace.pk) is reconcile.Again.NO:
            return Workspace.objects.get(pk=workspace.pk)
    raise AssertionError("it does not come to rest")


# -- standby ----------------------------------------------------------------------------------------------------------


def test_standby_keeps_the_memory_and_a_first_call_wakes_it_and_is_named(box: Workspace, ann: User,
                                                                        sleepy: Hostd) -> None:
    services.standby(actor(ann), box)
    assert Workspace.objects.get(pk=box.pk).state == "parking"
    assert converge(box.pk).state == "standby" and sleepy.phase(box.pk) == "parked"
    bot = Actor(type="token", name="ci-bot", user_id=ann.pk)
    services.wake(Workspace.objects.get(pk=box.pk), bot, "exec")
    assert converge(box.pk).state == "running" and sleepy.phase(box.pk) == "running"
    assert kinds(box)[2:] == ["workspace.parking", "workspace.standby", "workspace.waking", "workspace.running"]
    assert last(box, "workspace.running").cause == "woken by exec from token ci-bot"
    assert last(box, "workspace.standby").cause == "standby by ann"


def test_standby_twice_is_already_so_and_a_stopped_one_has_nothing_to_keep(box: Workspace, ann: User) -> None:
    services.standby(actor(ann), box)
    converge(box.pk)
    api = Api(ann)
    assert api("POST", f"workspaces/{box.pk}/standby").status_code == 200
    services.stop(actor(ann), box)
    assert converge(box.pk).state == "stopped"
    refused = api("POST", f"workspaces/{box.pk}/standby")
    assert (refused.status_code, refused.json()["reason"]) == (409, "stopped")


def test_a_host_without_memory_images_refuses_standby_and_the_idle_rule_falls_back_to_stop(running: Workspace,
                                                                                           ann: User) -> None:
    with pytest.raises(Problem) as refused:
        services.standby(actor(ann), running)
    assert refused.value.extra["reason"] == "no_memory_images"
    with pytest.raises(Problem) as refused:
        checkpoints.create(actor(ann), running, {"memory": True})
    assert refused.value.extra["reason"] == "no_memory_images"
    assert taken(ann, running).memory is False, "without being asked for memory it takes what there is"
    services.put_to_rest(actor(ann), running, cause="idle")
    assert converge(running.pk).state == "stopped"


def test_stop_of_a_sleeping_one_discards_its_memory(box: Workspace, ann: User, sleepy: Hostd) -> None:
    services.standby(actor(ann), box)
    converge(box.pk)
    services.stop(actor(ann), box)
    assert converge(box.pk).state == "stopped" and sleepy.phase(box.pk) == "stopped"


def test_a_wake_that_comes_before_the_park_is_done_is_obeyed(box: Workspace, ann: User) -> None:
    services.standby(actor(ann), box)
    reconcile.reconcile(box.pk)
    services.wake(Workspace.objects.get(pk=box.pk), actor(ann), "file")
    assert converge(box.pk).state == "running"


def test_a_damaged_memory_starts_from_the_disk_and_an_event_says_so(box: Workspace, ann: User, sleepy: Hostd) -> None:
    from sandboxes import machines
    from sandboxes.models import Host
    from workspaces import courier

    (home(sleepy, box) / "kept").write_text("1")
    services.standby(actor(ann), box)
    converge(box.pk)
    (sleepy.folder / "state" / "machines" / box.pk / "standby" / "memory").write_text("torn")
    services.start(actor(ann), box)
    assert converge(box.pk).state == "running"
    assert (home(sleepy, box) / "kept").read_text() == "1"
    host = Host.objects.get()
    while (answer := machines.link(host).feed(host.feed_seq, 0))["facts"]:
        courier.take_in(host, answer)
    assert last(box, "workspace.memory_dropped").data["reason"] == "memory_image_damaged"


def test_memories_of_another_kind_of_host_start_from_the_disk_each_time_and_are_not_tried_for_ever(
        box: Workspace, ann: User, sleepy: Hostd) -> None:
    """Field case 022: the host was upgraded while it slept."""
    from sandboxes import machines
    from sandboxes.models import Host
    from workspaces import courier

    (home(sleepy, box) / "file").write_text("one")
    v1 = taken(ann, box, "v1", memory=True)
    services.standby(actor(ann), box)
    converge(box.pk)
    for image in (sleepy.folder / "state" / "machines" / box.pk).glob("**/memory"):
        image.write_text("foreign")
    services.start(actor(ann), box)
    assert converge(box.pk).state == "running"
    (home(sleepy, box) / "file").write_text("two")
    v1.refresh_from_db()
    assert not v1.memory_usable, "it is known before anybody restores it"
    restores.restore(actor(ann), v1)
    assert converge(box.pk).state == "running"
    assert (home(sleepy, box) / "file").read_text() == "one"
    host = Host.objects.get()
    while (answer := machines.link(host).feed(host.feed_seq, 0))["facts"]:
        courier.take_in(host, answer)
    assert last(box, "workspace.memory_dropped").data["reason"] == "memory_image_unfit"
    assert "workspace.failed" not in kinds(box)


def test_a_standby_that_fails_leaves_it_running_and_says_why(box: Workspace, ann: User, sleepy: Hostd,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, OperationKind.PARK, errors.DiskFull("3 MiB are missing"))
    services.standby(actor(ann), box)
    found = worn_out(box)
    assert (found.state, found.intent, found.state_reason) == ("running", "running", "standby failed: disk_full")
    assert last(box, "workspace.standby_failed").data == {"reason": "disk_full", "detail": "3 MiB are missing"}
    assert sleepy.phase(box.pk) == "running"


def test_draining_parks_and_opening_the_host_wakes_again(box: Workspace, sleepy: Hostd) -> None:
    from django.core.management import call_command

    from sandboxes import machines

    call_command("berth_drain")
    rested = Workspace.objects.get(pk=box.pk)
    assert (rested.intent, rested.state, rested.state_reason) == ("running", "standby", "host_draining")
    assert converge(box.pk).state == "standby"
    machines.register_host("local", "local", sleepy.address)
    assert box.pk in reconcile.sweep()
    assert converge(box.pk).state == "running"


def test_draining_stops_what_cannot_be_parked(box: Workspace, sleepy: Hostd, monkeypatch: pytest.MonkeyPatch) -> None:
    from sandboxes import machines

    failing(monkeypatch, OperationKind.PARK, errors.DiskFull("full"))
    machines.drain_hosts()
    assert worn_out(box).state == "stopped" and sleepy.phase(box.pk) == "stopped"
    assert "workspace.standby_failed" in kinds(box)


# -- checkpoints ------------------------------------------------------------------------------------------------------


def test_a_checkpoint_of_a_running_one_is_measured_and_the_workspace_never_leaves_running(box: Workspace,
                                                                                          ann: User) -> None:
    before = seq(box)
    made = taken(ann, box, "v1")
    assert (made.memory, made.memory_usable, made.consistency, made.parent) == (True, True, "clean", "")
    assert made.pause_ms is not None and made.disk_bytes is not None and made.memory_bytes > 0
    assert kinds(box, before) == ["checkpoint.created", "checkpoint.ready"]
    second = taken(ann, box, "v2", memory=False)
    assert (second.memory, second.parent) == (False, made.pk)
    assert Workspace.objects.get(pk=box.pk).head_checkpoint == second.pk


def test_a_checkpoint_of_a_sleeping_and_of_a_stopped_one_wakes_neither(box: Workspace, ann: User,
                                                                      sleepy: Hostd) -> None:
    services.standby(actor(ann), box)
    converge(box.pk)
    assert taken(ann, box).memory is True and sleepy.phase(box.pk) == "parked"
    services.stop(actor(ann), box)
    converge(box.pk)
    assert taken(ann, box).memory is False and sleepy.phase(box.pk) == "stopped"
    with pytest.raises(Problem) as refused:
        checkpoints.create(actor(ann), box, {"memory": True})
    assert refused.value.extra["reason"] == "not_running"


def test_a_checkpoint_asked_for_while_it_is_made_waits_for_it(sleepy: Hostd, ann: User) -> None:
    workspace = make(ann)
    made = checkpoints.create(actor(ann), workspace, {})
    assert converge(workspace.pk).state == "running"
    made.refresh_from_db()
    assert (made.state, made.memory) == ("ready", True)


def test_a_failed_checkpoint_harms_nobody_and_frees_its_name(box: Workspace, ann: User, sleepy: Hostd,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    """Field cases 056 and 095."""
    with monkeypatch.context() as patch:
        failing(patch, OperationKind.CAPTURE, errors.DiskFull("no space"))
        made = checkpoints.create(actor(ann), box, {"name": "v1"})
        assert worn_out(box).state == "running" and sleepy.phase(box.pk) == "running"
    made.refresh_from_db()
    assert (made.state, made.state_reason) == ("failed", "disk_full")
    assert last(box, "checkpoint.failed").data["detail"] == "no space"
    assert "workspace.failed" not in kinds(box)
    assert taken(ann, box, "v1").pk != made.pk


NAMES = ["v1", "V1", "a b", "🚀", "../x", "12345678901234567890", "x" * 255, "e" * 20]


def test_names_are_reusable_and_unique_and_storage_never_knows_them(box: Workspace, ann: User, sleepy: Hostd) -> None:
    """Field case 147."""
    api, path = Api(ann), f"workspaces/{box.pk}/checkpoints"
    for name in NAMES:
        assert api("POST", path, {"name": name}).json()["name"] == name
        again = api("POST", path, {"name": name})
        assert (again.status_code, again.json()["code"]) == (409, "name_taken")
    assert api("POST", path, {"name": "x" * 256}).status_code == 400
    first = api("GET", f"{path}?name=v1").json()["results"][0]
    assert api("DELETE", f"{path}/{first['id']}").status_code == 204
    second = api("POST", path, {"name": "v1"}).json()
    assert [row["id"] for row in api("GET", f"{path}?name=v1").json()["results"]] == [second["id"]]
    converge(box.pk)
    kept = hostd_checkpoints(sleepy, box)
    assert kept == set(Checkpoint.objects.values_list("pk", flat=True)) and len(kept) == len(NAMES)


def hostd_checkpoints(hostd: Hostd, workspace: Workspace) -> set[str]:
    return {one["checkpoint_id"] for one in hostd.get(f"/v1/machines/{workspace.pk}")["checkpoints"]}


def test_deleting_is_never_refused_and_heals_the_tree(box: Workspace, ann: User, sleepy: Hostd) -> None:
    """Field case 117."""
    c1, c2, c3 = (taken(ann, box, name) for name in ("c1", "c2", "c3"))
    checkpoints.delete(actor(ann), c2)
    with pytest.raises(Problem) as refused:
        checkpoints.delete(actor(ann), c2)
    assert refused.value.code == "not_found", "twice is once"
    assert Checkpoint.objects.get(pk=c3.pk).parent == c1.pk
    capturing = checkpoints.create(actor(ann), box, {"name": "c4"})
    checkpoints.delete(actor(ann), capturing)
    checkpoints.delete(actor(ann), c3)
    converge(box.pk)
    assert hostd_checkpoints(sleepy, box) == {c1.pk}
    assert list(Checkpoint.objects.values_list("pk", flat=True)) == [c1.pk]
    assert Workspace.objects.get(pk=box.pk).head_checkpoint == c1.pk
    restores.restore(actor(ann), c1)
    assert converge(box.pk).state == "running"


def test_a_checkpoint_that_nobody_names_is_swept_from_its_host(box: Workspace, ann: User, sleepy: Hostd) -> None:
    made = taken(ann, box)
    Checkpoint.objects.all().delete()
    converge(box.pk)
    converge(box.pk)
    assert hostd_checkpoints(sleepy, box) == set(), made.pk


def test_expired_checkpoints_go_and_people_may_say_when(box: Workspace, ann: User) -> None:
    made = taken(ann, box, "v1")
    api, path = Api(ann), f"workspaces/{box.pk}/checkpoints/{made.pk}"
    soon = "2031-01-01T00:00:00Z"
    changed = api("PATCH", path, {"name": "v2", "comment": "why", "expires_at": soon}).json()
    assert (changed["name"], changed["comment"], changed["expires_at"]) == ("v2", "why", soon)
    late = timezone.now() + timedelta(days=4000)
    for now in (timezone.now(), late, late + timedelta(days=30)):
        assert api("GET", path).status_code == 200, "it is told of before it goes"
        retention.run(now)
    assert api("GET", path).status_code == 404
    assert last(box, "checkpoint.deleted").data["because"] == "expired"


# -- going back -------------------------------------------------------------------------------------------------------


def test_a_restore_is_in_place_and_can_be_undone(box: Workspace, ann: User, sleepy: Hostd) -> None:
    """Field case 102."""
    (home(sleepy, box) / "file").write_text("one")
    v1 = taken(ann, box, "v1")
    (home(sleepy, box) / "file").write_text("two")
    before = seq(box)
    row, safety = restores.restore(actor(ann), v1)
    assert row.state == "restoring" and row.pk == box.pk
    assert converge(box.pk).state == "running"
    assert (home(sleepy, box) / "file").read_text() == "one"
    assert Workspace.objects.get(pk=box.pk).head_checkpoint == v1.pk
    assert kinds(box, before) == [
        "checkpoint.created", "workspace.restoring", "checkpoint.ready", "workspace.restored", "workspace.running"]
    assert last(box, "workspace.restored").data == {"checkpoint": v1.pk, "safety_checkpoint": safety, "memory": True}
    assert last(box, "workspace.restored").actor_name == "ann"
    kept = Checkpoint.objects.get(pk=safety)
    assert (kept.kind, kept.parent, kept.comment) == ("safety", v1.pk, "before going back to 'v1'")
    restores.restore(actor(ann), kept)
    assert converge(box.pk).state == "running"
    assert (home(sleepy, box) / "file").read_text() == "two"


def test_a_restore_without_memory_starts_what_ran(box: Workspace, ann: User, sleepy: Hostd) -> None:
    v1 = taken(ann, box, memory=False)
    (home(sleepy, box) / "late").write_text("x")
    restores.restore(actor(ann), v1)
    assert converge(box.pk).state == "running" and not (home(sleepy, box) / "late").exists()
    assert last(box, "workspace.restored").data["memory"] is False


@pytest.mark.parametrize(("sleeps", "memory", "ends"), [
    ("standby", True, "standby"), ("stopped", True, "standby"), ("standby", False, "stopped"),
    ("stopped", False, "stopped")])
def test_what_slept_stays_asleep(box: Workspace, ann: User, sleepy: Hostd, sleeps: str, memory: bool,
                                 ends: str) -> None:
    (home(sleepy, box) / "file").write_text("one")
    v1 = taken(ann, box, memory=memory)
    (home(sleepy, box) / "file").write_text("two")
    (services.standby if sleeps == "standby" else services.stop)(actor(ann), box)
    assert converge(box.pk).state == sleeps
    restores.restore(actor(ann), v1)
    assert converge(box.pk).state == ends
    assert (home(sleepy, box) / "file").read_text() == "one"
    services.start(actor(ann), box)
    assert converge(box.pk).state == "running"


def test_a_failed_restore_leaves_all_as_it_was_and_is_never_terminal(box: Workspace, ann: User, sleepy: Hostd,
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    """Field case 007."""
    v1 = taken(ann, box, "v1")
    (home(sleepy, box) / "file").write_text("now")
    since = sleepy.get(f"/v1/machines/{box.pk}")["running_since"]
    with monkeypatch.context() as patch:
        failing(patch, OperationKind.ROLLBACK, errors.StepFailed("the layer is unreadable"))
        restores.restore(actor(ann), v1)
        found = worn_out(box)
    assert (found.state, found.state_reason) == ("running", "restore failed: step_failed")
    assert (home(sleepy, box) / "file").read_text() == "now"
    assert sleepy.get(f"/v1/machines/{box.pk}")["running_since"] == since, "it has not even been restarted"
    said = last(box, "workspace.restore_failed").data
    assert (said["checkpoint"], said["reason"], said["detail"]) == (v1.pk, "step_failed", "the layer is unreadable")
    restores.restore(actor(ann), v1)
    assert converge(box.pk).state == "running" and not (home(sleepy, box) / "file").exists()


def test_without_a_safety_checkpoint_there_is_no_restore_unless_it_was_declined(
        box: Workspace, ann: User, sleepy: Hostd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Field case 102."""
    v1 = taken(ann, box)
    (home(sleepy, box) / "file").write_text("now")
    with monkeypatch.context() as patch:
        failing(patch, OperationKind.CAPTURE, errors.DiskFull("full"))
        restores.restore(actor(ann), v1)
        assert worn_out(box).state == "running"
        assert last(box, "workspace.restore_failed").data["reason"] == "safety_checkpoint_failed"
        assert (home(sleepy, box) / "file").exists()
        row, safety = restores.restore(actor(ann), v1, safety=False)
        assert safety == ""
        assert worn_out(row).state == "running"
    assert not (home(sleepy, box) / "file").exists()


def test_a_second_restore_is_refused_while_one_is_under_way(box: Workspace, ann: User) -> None:
    v1, api = taken(ann, box), Api(ann)
    path = f"workspaces/{box.pk}/checkpoints/{v1.pk}/restore"
    first = api("POST", path, {}, Idempotency_Key="k")
    assert first.status_code == 202 and first.json()["safety_checkpoint"] and first.json()["state"] == "restoring"
    refused = api("POST", path, {})
    assert (refused.status_code, refused.json()["reason"]) == (409, "restoring")
    same = api("POST", path, {}, Idempotency_Key="k").json()
    assert same["safety_checkpoint"] == first.json()["safety_checkpoint"]
    assert converge(box.pk).state == "running"


def test_a_restore_during_standby_and_a_stop_or_delete_during_a_restore_are_obeyed(box: Workspace, ann: User,
                                                                                  sleepy: Hostd) -> None:
    v1 = taken(ann, box)
    services.standby(actor(ann), box)
    reconcile.reconcile(box.pk)
    restores.restore(actor(ann), v1)
    assert converge(box.pk).state == "standby"
    restores.restore(actor(ann), v1)
    reconcile.reconcile(box.pk)
    services.stop(actor(ann), box)
    assert converge(box.pk).state == "stopped"
    services.start(actor(ann), box)
    converge(box.pk)
    restores.restore(actor(ann), v1)
    services.delete(actor(ann), box)
    assert converge(box.pk).state == "deleted"
    services.undelete(actor(ann), box)
    assert converge(box.pk).state in ("stopped", "standby")


def test_a_restore_is_a_way_out_of_a_failure(box: Workspace, ann: User, sleepy: Hostd) -> None:
    v1 = taken(ann, box)
    Workspace.objects.filter(pk=box.pk).update(failed_reason="disk_full", state="failed")
    restores.restore(actor(ann), v1)
    assert converge(box.pk).state == "running"


def test_a_checkpoint_deleted_while_it_is_restored_is_restored_and_then_gone(box: Workspace, ann: User,
                                                                            sleepy: Hostd) -> None:
    (home(sleepy, box) / "file").write_text("one")
    v1 = taken(ann, box)
    (home(sleepy, box) / "file").write_text("two")
    _, safety = restores.restore(actor(ann), v1)
    checkpoints.delete(actor(ann), v1)
    checkpoints.delete(actor(ann), Checkpoint.objects.get(pk=safety))
    assert converge(box.pk).state == "running"
    assert (home(sleepy, box) / "file").read_text() == "one"
    converge(box.pk)
    assert hostd_checkpoints(sleepy, box) == set()


def test_safety_checkpoints_are_bounded(box: Workspace, ann: User, settings: Any) -> None:
    settings.SAFETY_CHECKPOINTS_KEPT = 2
    v1 = taken(ann, box, "v1")
    for _ in range(4):
        restores.restore(actor(ann), v1)
        assert converge(box.pk).state == "running"
    kept = Checkpoint.objects.filter(kind="safety", dropped_at=None)
    assert kept.count() == 2 and Checkpoint.objects.filter(name="v1").exists()
