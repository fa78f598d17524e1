"""Intent becomes truth on a real hostd: create, stop, start, restart, delete, death, and hosts that are away."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from sandboxes import machines
from sandboxes.models import Lease, PlanRun, Sandbox
from sandboxes.plans import lease
from tests.upstairs.conftest import actor, converge, eventually, make
from tests.upstairs.hostd import Hostd
from workspaces import reconcile, services, tasks
from workspaces.models import Event, User, Workspace

pytestmark = pytest.mark.django_db


def kinds(workspace: Workspace) -> list[str]:
    return list(Event.objects.filter(workspace=workspace).order_by("seq").values_list("kind", flat=True))


def test_a_created_workspace_runs_and_says_so_in_two_events(running: Workspace, hostd: Hostd) -> None:
    assert hostd.phase(running.pk) == "running"
    assert kinds(running) == ["workspace.creating", "workspace.running"]
    assert Sandbox.objects.get(pk=running.pk).booted_generation == running.generation


def test_stop_start_and_restart_end_in_the_state_asked_for(running: Workspace, ann: User, hostd: Hostd) -> None:
    services.stop(actor(ann), running)
    assert converge(running.pk).state == "stopped"
    assert hostd.phase(running.pk) == "stopped"
    services.start(actor(ann), running)
    assert converge(running.pk).state == "running"
    body = hostd.get(f"/v1/machines/{running.pk}")["running_since"]
    services.restart(actor(ann), running)
    assert converge(running.pk).state == "running"
    assert hostd.get(f"/v1/machines/{running.pk}")["running_since"] > body
    assert kinds(running)[2:] == ["workspace.stopping", "workspace.stopped", "workspace.waking", "workspace.running",
                                  "workspace.waking", "workspace.running"]


def test_a_start_that_comes_while_stopping_is_obeyed(running: Workspace, ann: User) -> None:
    services.stop(actor(ann), running)
    reconcile.reconcile(running.pk)
    services.start(actor(ann), running)
    assert converge(running.pk).state == "running"


def test_delete_goes_to_the_trash_and_undelete_brings_it_back_stopped(running: Workspace, ann: User,
                                                                      hostd: Hostd) -> None:
    services.delete(actor(ann), running)
    assert converge(running.pk).state == "deleted"
    assert hostd.phase(running.pk) == "stopped", "the disk is kept for the time of grace"
    services.undelete(actor(ann), running)
    assert converge(running.pk).state == "stopped"
    services.start(actor(ann), running)
    assert converge(running.pk).state == "running"


def test_a_purge_leaves_nothing_anywhere(running: Workspace, ann: User, hostd: Hostd) -> None:
    services.delete(actor(ann), running, purge=True)
    assert converge(running.pk) is None
    assert running.pk not in hostd.live()
    assert not [p for p in hostd.folders_with_disks() if running.pk in p]
    for model, column in ((Sandbox, "machine_id"), (PlanRun, "machine_id"), (Lease, "machine_id"),
                          (Event, "workspace_id")):
        assert not model.objects.filter(**{column: running.pk}).exists()


def test_the_trash_is_emptied_when_its_time_has_come(running: Workspace, ann: User, bell: list[str]) -> None:
    services.delete(actor(ann), running)
    converge(running.pk)
    assert running.pk not in reconcile.sweep()
    Workspace.objects.filter(pk=running.pk).update(purge_at=timezone.now() - timedelta(seconds=1))
    assert running.pk in reconcile.sweep()
    assert converge(running.pk) is None


def body_pid(hostd: Hostd, machine_id: str) -> int:
    """The fake driver keeps its body's pid in a record beside the disk."""
    import json

    record = Path(hostd.folder / "state" / "machines" / machine_id / "driver" / "body.json")
    return int(json.loads(record.read_text())["pid"])


def test_a_machine_that_dies_is_failed_with_a_reason_and_start_brings_it_back(running: Workspace, ann: User,
                                                                              hostd: Hostd) -> None:
    os.kill(body_pid(hostd, running.pk), signal.SIGKILL)
    eventually("hostd sees the death", lambda: hostd.phase(running.pk) == "dead")
    assert running.pk in reconcile.sweep(), "the sweep finds it without any fact having come"
    dead = converge(running.pk)
    assert (dead.state, dead.state_reason) == ("failed", "machine_died")
    assert kinds(running)[2:] == ["workspace.failed"], "one event says it; nothing was waking meanwhile"
    services.start(actor(ann), dead)
    assert converge(running.pk).state == "running"


def test_a_call_wakes_a_machine_that_died(running: Workspace, ann: User, hostd: Hostd) -> None:
    os.kill(body_pid(hostd, running.pk), signal.SIGKILL)
    eventually("hostd sees the death", lambda: hostd.phase(running.pk) == "dead")
    converge(running.pk)
    services.wake(Workspace.objects.get(pk=running.pk), actor(ann), "exec")
    assert converge(running.pk).state == "running"


def test_a_host_that_is_away_is_named_and_delete_wins_when_it_returns(hostd: Hostd, ann: User) -> None:
    workspace = make(ann)
    hostd.kill()
    try:
        assert reconcile.reconcile(workspace.pk) is reconcile.Again.LATER
        seen = Workspace.objects.get(pk=workspace.pk)
        assert (seen.state, seen.state_reason) == ("creating", "host_unreachable")
        services.delete(actor(ann), workspace, purge=True)
        assert reconcile.reconcile(workspace.pk) is reconcile.Again.LATER
        assert Workspace.objects.get(pk=workspace.pk).state == "deleting"
    finally:
        hostd.start()
    PlanRun.objects.update(next_try_at=None)
    assert converge(workspace.pk) is None
    assert workspace.pk not in hostd.live()


def test_a_start_that_never_gets_through_fails_by_itself_and_can_be_retried(hostd: Hostd, ann: User) -> None:
    workspace = make(ann)
    hostd.kill()
    try:
        reconcile.reconcile(workspace.pk)
        PlanRun.objects.update(next_try_at=None, deadline_at=timezone.now() - timedelta(seconds=1))
        for _ in range(20):
            reconcile.reconcile(workspace.pk)
            PlanRun.objects.update(next_try_at=None)
        seen = Workspace.objects.get(pk=workspace.pk)
        assert (seen.state, seen.state_reason) == ("failed", "host_unreachable")
    finally:
        hostd.start()
    services.start(actor(ann), workspace)
    assert converge(workspace.pk).state == "running"


def test_without_a_host_a_create_fails_with_no_capacity(ann: User) -> None:
    workspace = make(ann)
    for _ in range(10):
        reconcile.reconcile(workspace.pk)
        PlanRun.objects.update(next_try_at=None)
    seen = Workspace.objects.get(pk=workspace.pk)
    assert (seen.state, seen.state_reason, seen.failed_detail) == ("failed", "no_capacity", "no host is registered")


def test_a_doubled_task_finds_the_lease_taken_and_leaves_the_bell_rung(running: Workspace) -> None:
    grant = lease.take(running.pk)
    assert reconcile.reconcile(running.pk) is reconcile.Again.NO
    assert lease.release(grant) is True, "who holds it is told that somebody asked"


def test_a_redelivered_task_has_one_effect(hostd: Hostd, ann: User, bell: list[str]) -> None:
    """Field case 003: the same message any number of times is one machine, one create, one event of each kind."""
    workspace = make(ann)
    for _ in range(6):
        tasks.reconcile(workspace.pk)
    converge(workspace.pk)
    for _ in range(3):
        tasks.reconcile(workspace.pk)
    assert hostd.live().count(workspace.pk) == 1
    assert PlanRun.objects.filter(machine_id=workspace.pk).count() == 1
    assert kinds(workspace) == ["workspace.creating", "workspace.running"]


def test_a_worker_that_lost_its_lease_writes_nothing_more(hostd: Hostd, ann: User) -> None:
    workspace = make(ann)
    old = lease.take(workspace.pk)
    Lease.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    new = lease.take(workspace.pk)
    assert new.fence > old.fence and new.after_crash
    with pytest.raises(machines.LeaseLost):
        machines.carry_out("create", reconcile.spec_of(workspace), old, 0)
    assert not PlanRun.objects.filter(machine_id=workspace.pk).exists()


def test_draining_puts_machines_to_rest_and_keeps_what_was_wanted(running: Workspace, hostd: Hostd) -> None:
    from django.core.management import call_command

    call_command("berth_drain")
    rested = Workspace.objects.get(pk=running.pk)
    assert (rested.intent, rested.state, rested.state_reason) == ("running", "stopped", "host_draining")
    assert hostd.phase(running.pk) == "stopped"
    assert converge(running.pk).state == "stopped", "nothing starts while the host is draining"
    machines.register_host("local", "local", hostd.address)
    assert running.pk in reconcile.sweep()
    assert converge(running.pk).state == "running"


def test_a_full_disk_at_create_is_named_at_once_and_leaves_nothing(hostd: Hostd, ann: User,
                                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    from sandboxes import errors
    from sandboxes.hostlink import HostLink
    from sandboxes.lifecycle import OperationKind

    start = HostLink.start_operation

    def full(self: HostLink, machine_id: str, operation_id: str, kind: OperationKind, *args: object,
             **kw: object) -> object:
        if kind is OperationKind.CREATE_DISK:
            raise errors.DiskFull("the host has 3 MiB left")
        return start(self, machine_id, operation_id, kind, *args, **kw)

    workspace = make(ann)
    monkeypatch.setattr(HostLink, "start_operation", full)
    seen = converge(workspace.pk)
    assert (seen.state, seen.state_reason, seen.failed_detail) == ("failed", "disk_full", "the host has 3 MiB left")
    assert workspace.pk not in hostd.live() and Sandbox.objects.get(pk=workspace.pk).host is None
    monkeypatch.undo()
    services.start(actor(ann), seen)
    assert converge(workspace.pk).state == "running", "once there is space, start is the way out"


def test_a_frozen_host_holds_no_worker_and_is_named(running: Workspace, hostd: Hostd, ann: User) -> None:
    """Field cases 004 and 069: a host that takes calls and never answers."""
    services.stop(actor(ann), running)
    hostd.pause()
    try:
        assert reconcile.reconcile(running.pk) is reconcile.Again.LATER
        seen = Workspace.objects.get(pk=running.pk)
        assert (seen.state, seen.state_reason) == ("stopping", "host_unreachable")
    finally:
        hostd.go_on()
    PlanRun.objects.update(next_try_at=None)
    assert converge(running.pk).state == "stopped"


@pytest.mark.parametrize("moment", ["new", "failed", "stopped", "running", "starting"])
def test_delete_is_accepted_in_every_state_and_leaves_nothing(hostd: Hostd, ann: User, moment: str) -> None:
    """Field case 027."""
    workspace = make(ann)
    if moment == "starting":
        reconcile.BUDGET_S, kept = 0.0, reconcile.BUDGET_S
        try:
            reconcile.reconcile(workspace.pk)
        finally:
            reconcile.BUDGET_S = kept
    elif moment != "new":
        workspace = converge(workspace.pk)
    if moment == "failed":
        Workspace.objects.filter(pk=workspace.pk).update(failed_reason="machine_died", state="failed")
    if moment == "stopped":
        services.stop(actor(ann), workspace)
        converge(workspace.pk)
    services.delete(actor(ann), workspace, purge=True)
    assert converge(workspace.pk) is None
    assert workspace.pk not in hostd.live()


def test_a_guest_that_powers_off_is_a_stop_that_came_from_inside(running: Workspace, hostd: Hostd) -> None:
    os.kill(body_pid(hostd, running.pk), signal.SIGKILL)
    eventually("hostd sees the end", lambda: hostd.phase(running.pk) == "dead")
    Sandbox.objects.filter(pk=running.pk).update(phase="dead", end_reason="exited")
    reconcile._note(running.pk, reconcile.Next.NOTE_POWER_OFF)
    seen = Workspace.objects.get(pk=running.pk)
    assert (seen.intent, seen.state, seen.state_reason) == ("stopped", "stopped", "powered off from inside")
    assert converge(running.pk).state == "stopped", "nobody starts it again"
