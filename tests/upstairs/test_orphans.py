"""Machines without an owner, owners without a machine, hosts that say nothing: found, named, and never made worse."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone

from sandboxes import machines
from sandboxes.hostlink import HostLink
from sandboxes.models import Host, Sandbox
from sandboxes.spec import MachineSpec
from tests.upstairs.conftest import Api, converge, eventually
from tests.upstairs.hostd import Hostd
from workspaces import reconcile
from workspaces.models import Event, User, Workspace

pytestmark = pytest.mark.django_db
STRAY = "s" * 20


def begin(hostd: Hostd, kind: str, generation: int = 1) -> None:
    spec = MachineSpec(machine_id=STRAY, generation=generation).to_json()
    hostd.post(f"/v1/machines/{STRAY}/operations",
               {"operation_id": uuid.uuid4().hex, "kind": kind, "generation": generation, "spec": spec})


def test_a_body_that_nobody_owns_is_ended_after_a_grace_and_its_disk_waits_for_an_admin(
        hostd: Hostd, root: User, capsys: pytest.CaptureFixture[str]) -> None:
    begin(hostd, "create_disk")
    eventually("it has a disk", lambda: hostd.phase(STRAY) == "stopped")
    begin(hostd, "boot")
    eventually("it runs", lambda: hostd.phase(STRAY) == "running")
    reconcile.sweep()
    assert hostd.phase(STRAY) == "running", "nobody is ended at first sight"
    assert [one["id"] for one in Api(root)("GET", "hosts").json()["results"][0]["strays"]] == [STRAY]
    Host.objects.update(strays={STRAY: (timezone.now() - timedelta(hours=1)).isoformat()})
    reconcile.sweep()
    eventually("its body is ended", lambda: hostd.phase(STRAY) == "stopped")
    reconcile.sweep()
    assert [path for path in hostd.folders_with_disks() if STRAY in path]
    call_command("berth_strays")
    assert STRAY in capsys.readouterr().out
    call_command("berth_strays", "--destroy", STRAY)
    eventually("it is gone", lambda: hostd.phase(STRAY) == "absent")
    reconcile.sweep()
    assert Host.objects.get().strays == {}


def test_what_is_somebodys_is_no_stray(running: Workspace, hostd: Hostd) -> None:
    reconcile.sweep()
    assert Host.objects.get().strays == {}
    with pytest.raises(Exception, match="nobody owns"):
        machines.destroy_stray(Host.objects.get(), running.pk)
    assert hostd.phase(running.pk) == "running"


def test_a_silent_host_is_not_a_dead_host(running: Workspace, hostd: Hostd) -> None:
    before = Event.objects.count()
    Host.objects.update(last_seen_at=timezone.now() - timedelta(minutes=5))
    hostd.pause()
    try:
        found = reconcile._silenced()
        assert running.pk in found
        for workspace_id in found:
            reconcile.reconcile(workspace_id)
        seen = Workspace.objects.get(pk=running.pk)
        assert (seen.state, seen.state_reason) == ("running", "host_unreachable")
        assert running.pk not in reconcile._silenced(), "it is said once"
    finally:
        hostd.go_on()
    assert running.pk in reconcile.sweep() | reconcile._silenced()
    seen = converge(running.pk)
    assert (seen.state, seen.state_reason) == ("running", "created")
    assert Event.objects.count() == before, "nothing has happened, so nothing is told"
    assert Sandbox.objects.get(pk=running.pk).phase == "running"


def test_a_guest_whose_agent_is_silent_is_named_and_left_alone(running: Workspace, hostd: Hostd,
                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    before = Event.objects.count()
    one, everyone = HostLink.observe, HostLink.machines
    with monkeypatch.context() as silent:
        silent.setattr(HostLink, "observe", lambda link, mid: {**one(link, mid), "condition": "agent_silent"})
        silent.setattr(HostLink, "machines", lambda link: [{**m, "condition": "agent_silent"} for m in everyone(link)])
        assert running.pk in reconcile.sweep()
        seen = converge(running.pk)
        assert (seen.state, seen.state_reason, seen.intent) == ("running", "agent_silent", "running")
        assert running.pk not in reconcile.sweep(), "it is said once"
    assert hostd.phase(running.pk) == "running"
    assert running.pk in reconcile.sweep()
    assert converge(running.pk).state_reason == "created"
    assert Event.objects.count() == before, "nothing was done to anybody"
