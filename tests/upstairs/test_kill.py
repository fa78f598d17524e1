"""A worker dies between any two steps of any plan, and nothing is left over: no machine, disk, lease or row that
nobody owns; and what was wanted becomes true all the same.

Every boundary of every plan is killed once in this process (the fake driver, a real hostd); a real SIGKILL of a real
process is dealt at several of them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from sandboxes import errors, signals
from sandboxes.hostlink import HostLink
from sandboxes.lifecycle import OperationKind
from sandboxes.models import Lease, PlanRun, Sandbox
from tests.remains import leases_left, nothing_remains
from tests.upstairs.conftest import actor, converge, make, person
from tests.upstairs.hostd import Hostd
from workspaces import reconcile, services
from workspaces.models import Event, User, Workspace

#: Longer than any plan takes here; hostd lets nobody wait longer than ten seconds.
ONE_SLICE_S = 9.0


class WorkerDied(BaseException):
    """As SystemExit: nothing between here and the top catches it, so no cleaning up is done by the dying."""


@contextmanager
def dying_at(number: int) -> Iterator[list[str]]:
    """The worker dies at the n-th boundary; the list keeps the boundaries that were passed."""
    passed: list[str] = []

    def receiver(sender: Any, name: str, **_: Any) -> None:
        passed.append(name)
        if len(passed) == number:
            raise WorkerDied(name)

    signals.boundary.connect(receiver, weak=False)
    try:
        yield passed
    finally:
        signals.boundary.disconnect(receiver)


def die_and_converge(workspace_id: str, number: int) -> tuple[Workspace | None, bool]:
    """(the workspace at rest, whether that boundary exists)."""
    died = False
    with dying_at(number) as passed:
        try:
            converge(workspace_id)
        except WorkerDied:
            died = True
    assert died == (len(passed) >= number)
    # What the dead worker held comes free when its time is over.
    Lease.objects.filter(expires_at__gt=timezone.now()).update(expires_at=timezone.now() - timedelta(seconds=1))
    PlanRun.objects.update(next_try_at=None)
    return converge(workspace_id), died


def each_boundary(prepare: Callable[[], Workspace], check: Callable[[Workspace | None, str], None]) -> int:
    """Kills at boundary 1, 2, 3, … until the plan gets through alive. Returns how many there were.

    A plan is carried out in one slice here, however slow the machine: a second slice that finds its goal reached has
    nothing left to do, and would pass fewer boundaries.
    """
    number = 0
    while True:
        number += 1
        workspace = prepare()
        with pytest.MonkeyPatch.context() as patience:
            patience.setattr(reconcile, "BUDGET_S", ONE_SLICE_S)
            found, died = die_and_converge(workspace.pk, number)
        check(found, workspace.pk)
        assert Lease.objects.filter(machine_id=workspace.pk, expires_at__isnull=False).count() == 0
        assert PlanRun.objects.filter(machine_id=workspace.pk, state__in=["running", "undoing"]).count() == 0
        if not died:
            return number - 1
        assert number < 60


@pytest.fixture
def named(ann: User) -> Callable[[], Workspace]:
    names = iter(range(1000))
    return lambda: make(ann, f"box {next(names)}")


def no_phantoms(hostd: Hostd) -> None:
    known = set(Workspace.objects.values_list("pk", flat=True))
    assert set(hostd.live()) <= known, "a machine that nobody owns"
    assert set(Sandbox.objects.values_list("pk", flat=True)) <= known
    assert leases_left() == []
    asyncio.run(nothing_remains(hostd.folder / "state"))


@pytest.mark.django_db
def test_a_worker_killed_at_any_boundary_of_create_leaves_one_running_machine(hostd: Hostd, named: Any) -> None:
    def check(found: Workspace | None, workspace_id: str) -> None:
        assert found is not None and found.state == "running"
        assert hostd.phase(workspace_id) == "running"
        kinds = list(Event.objects.filter(workspace=found).values_list("kind", flat=True))
        assert kinds == ["workspace.creating", "workspace.running"]
        no_phantoms(hostd)
        hostd.clear()
        Sandbox.objects.all().delete()
        Workspace.objects.all().delete()

    assert each_boundary(named, check) >= 10


@pytest.mark.django_db
def test_a_worker_killed_at_any_boundary_of_stop_start_or_purge_changes_nothing_of_the_outcome(
        hostd: Hostd, named: Any, ann: User) -> None:
    def up() -> Workspace:
        workspace = named()
        return converge(workspace.pk)

    def stopping() -> Workspace:
        return services.stop(actor(ann), up())[0]

    def starting() -> Workspace:
        workspace = stopping()
        converge(workspace.pk)
        return services.start(actor(ann), workspace)[0]

    def purging() -> Workspace:
        return services.delete(actor(ann), up(), purge=True)[0]

    def is_in(state: str) -> Callable[[Workspace | None, str], None]:
        def check(found: Workspace | None, workspace_id: str) -> None:
            assert found is not None and found.state == state == hostd.phase(workspace_id)
            no_phantoms(hostd)
        return check

    def is_gone(found: Workspace | None, workspace_id: str) -> None:
        assert found is None and workspace_id not in hostd.live()
        assert not [p for p in hostd.folders_with_disks() if workspace_id in p]
        no_phantoms(hostd)

    assert each_boundary(stopping, is_in("stopped")) >= 5
    assert each_boundary(starting, is_in("running")) >= 5
    assert each_boundary(purging, is_gone) >= 5


@pytest.mark.django_db
def test_a_create_that_fails_takes_everything_back_even_when_its_worker_dies_meanwhile(
        hostd: Hostd, named: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    start = HostLink.start_operation

    def failing(self: HostLink, machine_id: str, operation_id: str, kind: OperationKind, *args: Any, **kw: Any) -> Any:
        if kind is OperationKind.BOOT:
            raise errors.StepFailed("the kernel is missing")
        return start(self, machine_id, operation_id, kind, *args, **kw)

    monkeypatch.setattr(HostLink, "start_operation", failing)

    def check(found: Workspace | None, workspace_id: str) -> None:
        while found is not None and found.state == "creating":  # its pauses are skipped, not waited for
            PlanRun.objects.update(next_try_at=None)
            reconcile.reconcile(workspace_id)
            found = Workspace.objects.get(pk=workspace_id)
        assert found is not None and (found.state, found.state_reason) == ("failed", "step_failed")
        assert found.failed_detail == "the kernel is missing"
        assert workspace_id not in hostd.live() and not [p for p in hostd.folders_with_disks() if workspace_id in p]
        assert Sandbox.objects.get(pk=workspace_id).host is None

    def prepare() -> Workspace:
        workspace = named()
        PlanRun.objects.update(next_try_at=None)
        return workspace

    number = 0
    while True:
        number += 1
        workspace = prepare()
        died = False
        with dying_at(number):
            try:
                for _ in range(12):
                    reconcile.reconcile(workspace.pk)
                    PlanRun.objects.update(next_try_at=None)
            except WorkerDied:
                died = True
        Lease.objects.filter(expires_at__gt=timezone.now()).update(expires_at=timezone.now() - timedelta(seconds=1))
        check(Workspace.objects.get(pk=workspace.pk), workspace.pk)
        if not died:
            break
    assert number > 12


KILLED = """
import os, signal, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
from django.conf import settings
settings.DATABASES["default"]["NAME"] = sys.argv[1]
import django; django.setup()
from sandboxes import signals
from workspaces import reconcile, wake
wake.ring = lambda workspace_id: None
passed = 0
def receiver(sender, name, **_):
    global passed
    passed += 1
    if passed == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
signals.boundary.connect(receiver, weak=False)
while reconcile.reconcile(sys.argv[2]) is not reconcile.Again.NO:
    pass
"""


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("number", [1, 4, 7, 11])
def test_a_worker_process_that_is_sigkilled_is_made_good_by_the_next(running_hostd: Hostd, number: int) -> None:
    from sandboxes import machines

    machines.register_host("local", "local", running_hostd.address)
    workspace = make(person("ann"))
    done = subprocess.run([sys.executable, "-c", KILLED, str(connection.settings_dict["NAME"]), workspace.pk,
                           str(number)], env=dict(os.environ), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert reconcile.reconcile(workspace.pk) is reconcile.Again.NO, "the dead worker's lease is still good"
    Lease.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert workspace.pk in reconcile.sweep()
    assert converge(workspace.pk).state == "running"
    assert running_hostd.live() == [workspace.pk]
    running_hostd.clear()


@pytest.mark.django_db
def test_a_plan_that_kills_its_worker_each_time_stops_some_day(hostd: Hostd, ann: User) -> None:
    """Field case 044: a poison task does not take all workers down for ever."""
    workspace = make(ann)

    def poison(sender: Any, name: str, **_: Any) -> None:
        if name == "boot:noted":  # before hostd is asked, so that no boot gets through behind its worker's back
            raise WorkerDied(name)

    signals.boundary.connect(poison, weak=False)
    try:
        deaths = 0
        for _ in range(60):
            if Workspace.objects.get(pk=workspace.pk).state == "failed":
                break
            try:
                reconcile.reconcile(workspace.pk)
            except WorkerDied:
                deaths += 1
            Lease.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    finally:
        signals.boundary.disconnect(poison)
    assert Workspace.objects.get(pk=workspace.pk).state_reason == "worker_lost"
    assert 3 < deaths < 20
    assert workspace.pk not in hostd.live()
