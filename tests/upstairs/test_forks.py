"""Forks, automatic checkpoints, lost disks and the trash on a real hostd: nobody loses what nobody gave up."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.utils import timezone

from sandboxes import errors
from sandboxes.lifecycle import OperationKind
from tests.upstairs.conftest import Api, actor, converge, make
from tests.upstairs.hostd import Hostd
from tests.upstairs.test_moments import failing, home, taken, worn_out
from workspaces import checkpoints, forks, restores, services
from workspaces.actors import Actor
from workspaces.api.errors import Problem
from workspaces.models import Checkpoint, User, Workspace

pytestmark = pytest.mark.django_db


# -- forks ------------------------------------------------------------------------------------------------------------


def test_forks_of_a_live_one_share_its_moment_and_it_goes_on(box: Workspace, ann: User, sleepy: Hostd) -> None:
    (home(sleepy, box) / "file").write_text("one")
    before = sleepy.get(f"/v1/machines/{box.pk}")["running_since"]
    made = forks.fork(actor(ann), box, "copy", 3)
    assert [row.name for row in made] == ["copy-1", "copy-2", "copy-3"]
    for row in made:
        assert converge(row.pk).state == "creating", "there is no checkpoint yet to begin from"
    assert converge(box.pk).state == "running"
    for row in made:
        assert converge(row.pk).state == "running"
        assert (home(sleepy, row) / "file").read_text() == "one"
        assert sleepy.get(f"/v1/machines/{row.pk}")["spec"]["hostname"] == row.name
    assert sleepy.get(f"/v1/machines/{box.pk}")["running_since"] == before
    (home(sleepy, made[0]) / "file").write_text("mine")
    assert (home(sleepy, box) / "file").read_text() == "one"
    origin = Checkpoint.objects.get()
    assert (origin.kind, origin.memory) == ("auto", True)
    assert {Workspace.objects.get(pk=row.pk).head_checkpoint for row in made} == {origin.pk}


def test_a_fork_outlives_its_source_and_the_source_waits_for_it(box: Workspace, ann: User, sleepy: Hostd) -> None:
    v1 = taken(ann, box)
    made = forks.fork(actor(ann), box, "copy", checkpoint=v1)[0]
    checkpoints.delete(actor(ann), v1)
    services.delete(actor(ann), box, purge=True)
    assert converge(box.pk).state == "deleted", "it is not purged while somebody begins from it"
    assert converge(made.pk).state == "running"
    assert converge(box.pk) is None
    services.restart(actor(ann), made)
    assert converge(made.pk).state == "running"


def test_forks_are_counted_together_and_made_all_or_none(box: Workspace, ann: User, settings: Any) -> None:
    settings.QUOTA_WORKSPACES = 4
    api, path = Api(ann), f"workspaces/{box.pk}/fork"
    refused = api("POST", path, {"name": "copy", "count": 4})
    assert (refused.status_code, refused.json()["code"]) == (403, "quota_exceeded")
    assert Workspace.objects.count() == 1 and not Checkpoint.objects.exists()
    make(ann, "copy-2")
    taken_name = api("POST", path, {"name": "copy", "count": 2})
    assert (taken_name.status_code, taken_name.json()["code"]) == (409, "name_taken")
    assert Workspace.objects.count() == 2 and not Checkpoint.objects.exists()
    made = api("POST", path, {"name": "other", "count": 2}, Idempotency_Key="k")
    assert made.status_code == 201 and len(made.json()["results"]) == 2
    again = api("POST", path, {"name": "other", "count": 2}, Idempotency_Key="k")
    assert [row["id"] for row in again.json()["results"]] == [row["id"] for row in made.json()["results"]]
    assert api("POST", path, {"name": "x", "count": 21}).json()["errors"]["count"]
    assert api("POST", path, {"name": "x", "count": 0}).json()["errors"]["count"]


def test_a_fork_whose_checkpoint_fails_says_so_and_the_source_runs_on(box: Workspace, ann: User,
                                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        failing(patch, OperationKind.CAPTURE, errors.DiskFull("full"))
        made = forks.fork(actor(ann), box, "copy")[0]
        assert worn_out(box).state == "running"
    found = Workspace.objects.get(pk=made.pk)
    assert (found.state, found.state_reason) == ("failed", "checkpoint_failed")
    services.start(actor(ann), made)
    assert (converge(made.pk).state, Workspace.objects.get(pk=made.pk).state_reason) == ("failed", "checkpoint_lost")


def test_a_clone_that_fails_takes_everything_back(box: Workspace, ann: User, sleepy: Hostd,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    v1 = taken(ann, box)
    with monkeypatch.context() as patch:
        failing(patch, OperationKind.BOOT, errors.StepFailed("no"))
        made = forks.fork(actor(ann), box, "copy", checkpoint=v1)[0]
        found = worn_out(made)
    assert (found.state, found.state_reason) == ("failed", "step_failed")
    assert made.pk not in sleepy.live()
    services.start(actor(ann), made)
    assert converge(made.pk).state == "running", "its checkpoint is still there, and so is the way out"


def test_a_workspace_begins_from_a_checkpoint_with_its_shape_or_another(box: Workspace, ann: User,
                                                                       sleepy: Hostd) -> None:
    (home(sleepy, box) / "file").write_text("one")
    v1, api = taken(ann, box), Api(ann)
    same = api("POST", "workspaces", {"name": "same", "from_checkpoint": v1.pk}).json()
    other = api("POST", "workspaces", {"name": "other", "from_checkpoint": v1.pk, "cpus": 2, "disk_gib": 20}).json()
    assert (same["cpus"], other["cpus"], other["disk_gib"], other["head_checkpoint"]) == (1, 2, 20, v1.pk)
    for row, memory in ((same, True), (other, False)):
        assert converge(row["id"]).state == "running"
        found = Workspace.objects.get(pk=row["id"])
        assert (home(sleepy, found) / "file").read_text() == "one" and found.origin_memory is memory
    smaller = api("POST", "workspaces", {"name": "small", "from_checkpoint": v1.pk, "disk_gib": 5})
    assert smaller.status_code == 400 and "disk_gib" in smaller.json()["errors"]


# -- what nobody asked for by name ------------------------------------------------------------------------------------


def quiet(workspace: Workspace, since: timedelta = timedelta(hours=1), kind: str = "exec") -> Workspace:
    now = timezone.now()
    Workspace.objects.filter(pk=workspace.pk).update(created_at=now - timedelta(days=1), last_activity_at=now - since,
                                                     last_activity_kind=kind)
    return Workspace.objects.get(pk=workspace.pk)


def test_a_programs_step_after_a_quiet_time_has_a_point_just_before_it(box: Workspace, ann: User,
                                                                      settings: Any) -> None:
    bot = Actor(type="token", name="ci-bot", user_id=ann.pk)
    assert checkpoints.auto(box, bot) is None, "nothing was ever done in it"
    assert checkpoints.auto(quiet(box, timedelta(seconds=2)), bot) is None, "it is not quiet"
    assert checkpoints.auto(quiet(box), actor(ann)) is None, "a person knows what they do"
    settings.AUTO_CHECKPOINTS = False
    assert checkpoints.auto(quiet(box), bot) is None
    settings.AUTO_CHECKPOINTS = True
    made = checkpoints.auto(quiet(box), bot)
    assert made is not None and (made.kind, made.actor_name) == ("auto", "ci-bot")
    converge(box.pk)
    Checkpoint.objects.update(created_at=timezone.now() - timedelta(minutes=30))
    assert checkpoints.auto(quiet(box), bot) is None, "nothing changed since"
    assert checkpoints.auto(quiet(box, timedelta(minutes=10)), bot) is not None
    assert checkpoints.auto(quiet(box, timedelta(minutes=10)), bot) is None, "one has just been asked for"


def test_automatic_ones_are_kept_to_the_last_few_and_peoples_own_stay(box: Workspace, ann: User, settings: Any) -> None:
    settings.AUTO_CHECKPOINTS_KEPT = 2
    mine = taken(ann, box, "mine")
    for minutes in (50, 40, 30, 20):
        Checkpoint.objects.update(created_at=F("created_at") - timedelta(hours=2))
        assert checkpoints.scheduled(quiet(box, timedelta(minutes=minutes)), timedelta(hours=1)) is not None
        converge(box.pk)
    assert Checkpoint.objects.filter(kind="auto", dropped_at=None).count() == 2
    assert Checkpoint.objects.filter(pk=mine.pk).exists()


# -- what is lost -----------------------------------------------------------------------------------------------------


def test_a_lost_disk_is_named_and_only_a_person_begins_anew(box: Workspace, ann: User, sleepy: Hostd) -> None:
    import uuid

    sleepy.post(f"/v1/machines/{box.pk}/operations",
                {"operation_id": uuid.uuid4().hex, "kind": "destroy", "generation": box.generation})
    while sleepy.phase(box.pk) != "absent":
        pass
    lost = converge(box.pk)
    assert (lost.state, lost.state_reason) == ("failed", "disk_lost")
    with pytest.raises(Problem):
        services.wake(lost, actor(ann), "exec")
    services.start(actor(ann), lost)
    found = converge(box.pk)
    assert found.state == "running" and found.may_begin_anew is False


def test_checkpoints_survive_in_the_trash_and_go_with_the_purge(box: Workspace, ann: User, sleepy: Hostd) -> None:
    v1 = taken(ann, box, "v1")
    services.standby(actor(ann), box)
    converge(box.pk)
    services.delete(actor(ann), box)
    assert converge(box.pk).state == "deleted"
    api = Api(ann)
    assert [row["id"] for row in api("GET", f"workspaces/{box.pk}/checkpoints").json()["results"]] == [v1.pk]
    assert api("POST", f"workspaces/{box.pk}/checkpoints", {}).json()["reason"] == "deleted"
    services.undelete(actor(ann), box)
    assert converge(box.pk).state == "standby", "it lay there asleep, memory and all"
    restores.restore(actor(ann), v1)
    assert converge(box.pk).state == "standby"
    services.delete(actor(ann), box, purge=True)
    assert converge(box.pk) is None
    assert not Checkpoint.objects.exists() and not list(sleepy.folder.glob(f"state/machines/{box.pk}/checkpoints/*"))
