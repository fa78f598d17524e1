"""A worker dies between any two steps of a park, a capture, a rollback, a clone, a drop or a wake, and hostd dies in
the middle of each: nothing is left over, nothing is done twice to anybody's eyes, and what was wanted becomes true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from sandboxes import signals
from sandboxes.models import Lease, PlanRun
from tests.upstairs.conftest import actor, converge, make
from tests.upstairs.hostd import Hostd
from tests.upstairs.test_kill import each_boundary, no_phantoms
from tests.upstairs.test_moments import home, hostd_checkpoints, taken
from workspaces import checkpoints, forks, reconcile, restores, services
from workspaces.models import Checkpoint, Event, User, Workspace

pytestmark = pytest.mark.django_db


def names() -> Iterator[str]:
    return (f"box {n}" for n in range(10_000))


@pytest.fixture
def up(sleepy: Hostd, ann: User) -> Callable[[], Workspace]:
    """A running workspace with a file that says `one`, each time another."""
    given = names()

    def make_one() -> Workspace:
        found = converge(make(ann, next(given)).pk)
        assert found is not None
        (home(sleepy, found) / "file").write_text("one")
        return found
    return make_one


def nothing_half_made(hostd: Hostd, workspace: Workspace) -> None:
    """No folder that does not count, no operation under way, no checkpoint that upstairs does not know."""
    folder: Path = hostd.folder / "state" / "machines" / workspace.pk
    assert not [path for path in (*folder.glob(".*"), *folder.glob("checkpoints/.*"))]
    assert hostd.get(f"/v1/machines/{workspace.pk}")["operation"] is None
    named = Checkpoint.objects.filter(workspace=workspace, state="ready")
    assert hostd_checkpoints(hostd, workspace) == set(named.values_list("pk", flat=True))
    assert not Checkpoint.objects.filter(state="capturing").exists()
    no_phantoms(hostd)


def rests_in(hostd: Hostd, state: str, phase: str) -> Callable[[Workspace | None, str], None]:
    def check(found: Workspace | None, _workspace_id: str) -> None:
        assert found is not None and (found.state, hostd.phase(found.pk)) == (state, phase)
        nothing_half_made(hostd, found)
    return check


def test_a_worker_killed_at_any_boundary_of_a_park_or_a_wake_loses_no_memory(sleepy: Hostd, ann: User, up: Any) -> None:
    def parking() -> Workspace:
        return services.standby(actor(ann), up())[0]

    def waking() -> Workspace:
        workspace = parking()
        converge(workspace.pk)
        return services.start(actor(ann), workspace)[0]

    def discarding() -> Workspace:
        workspace = parking()
        converge(workspace.pk)
        return services.stop(actor(ann), workspace)[0]

    assert each_boundary(parking, rests_in(sleepy, "standby", "parked")) >= 5
    assert each_boundary(waking, rests_in(sleepy, "running", "running")) >= 5
    assert each_boundary(discarding, rests_in(sleepy, "stopped", "stopped")) >= 5


def test_a_worker_killed_at_any_boundary_of_a_capture_leaves_one_checkpoint_and_one_word_of_it(
        sleepy: Hostd, ann: User, up: Any) -> None:
    def capturing() -> Workspace:
        workspace = up()
        checkpoints.create(actor(ann), workspace, {"name": "v1"})
        return workspace

    def check(found: Workspace | None, workspace_id: str) -> None:
        rests_in(sleepy, "running", "running")(found, workspace_id)
        kinds = Event.objects.filter(workspace_id=workspace_id, kind__startswith="checkpoint.").order_by("seq")
        assert list(kinds.values_list("kind", flat=True)) == ["checkpoint.created", "checkpoint.ready"]
        assert Checkpoint.objects.get(workspace_id=workspace_id).pause_ms is not None

    assert each_boundary(capturing, check) >= 5


def test_a_worker_killed_at_any_boundary_of_a_restore_ends_in_the_past_that_was_asked_for(
        sleepy: Hostd, ann: User, up: Any) -> None:
    def restoring() -> Workspace:
        workspace = up()
        v1 = taken(ann, workspace, "v1")
        (home(sleepy, workspace) / "file").write_text("two")
        return restores.restore(actor(ann), v1)[0]

    def check(found: Workspace | None, workspace_id: str) -> None:
        rests_in(sleepy, "running", "running")(found, workspace_id)
        assert found is not None and (home(sleepy, found) / "file").read_text() == "one"
        assert Event.objects.filter(workspace_id=workspace_id, kind="workspace.restored").count() == 1
        assert Checkpoint.objects.filter(workspace_id=workspace_id, kind="safety").count() == 1

    assert each_boundary(restoring, check) >= 12


def test_a_worker_killed_at_any_boundary_of_a_clone_leaves_one_fork_and_its_source(sleepy: Hostd, ann: User,
                                                                                  up: Any) -> None:
    source = up()
    v1, given = taken(ann, source, "v1"), names()

    def cloning() -> Workspace:
        return forks.fork(actor(ann), source, f"fork of {next(given)}", checkpoint=v1)[0]

    def check(found: Workspace | None, workspace_id: str) -> None:
        rests_in(sleepy, "running", "running")(found, workspace_id)
        assert found is not None and (home(sleepy, found) / "file").read_text() == "one"
        assert sleepy.phase(source.pk) == "running"
        assert not PlanRun.objects.filter(machine_id=workspace_id, plan="discard"), "its memory was thrown away"

    assert each_boundary(cloning, check) >= 10


def test_a_worker_killed_at_any_boundary_of_a_drop_leaves_no_row_and_no_layer(sleepy: Hostd, ann: User,
                                                                             up: Any) -> None:
    def dropping() -> Workspace:
        workspace = up()
        checkpoints.delete(actor(ann), taken(ann, workspace, "v1"))
        return workspace

    def check(found: Workspace | None, workspace_id: str) -> None:
        rests_in(sleepy, "running", "running")(found, workspace_id)
        assert not Checkpoint.objects.filter(workspace_id=workspace_id).exists()

    assert each_boundary(dropping, check) >= 5


# -- hostd dies -------------------------------------------------------------------------------------------------------


@contextmanager
def hostd_killed_at(hostd: Hostd, wanted: str) -> Iterator[list[str]]:
    """kill -9 of hostd at that boundary, once; another one is there at once."""
    seen: list[str] = []

    def receiver(sender: Any, name: str, **_: Any) -> None:
        if name == wanted and name not in seen:
            hostd.kill()
            hostd.start()
        seen.append(name)

    signals.boundary.connect(receiver, weak=False)
    try:
        yield seen
    finally:
        signals.boundary.disconnect(receiver)


def patiently(workspace_id: str) -> Workspace | None:
    """As `converge`, with its pauses skipped: a hostd that was killed is back before anybody has waited."""
    for _ in range(60):
        PlanRun.objects.update(next_try_at=None)
        Lease.objects.filter(expires_at__lt=timezone.now() - timedelta(seconds=60)).delete()
        if reconcile.reconcile(workspace_id) is reconcile.Again.NO:
            return Workspace.objects.filter(pk=workspace_id).first()
    raise AssertionError(f"{workspace_id} does not come to rest")


@pytest.mark.parametrize("step", ["park", "capture", "rollback", "drop", "discard"])
@pytest.mark.parametrize("moment", ["noted", "acted", "verified"])
def test_a_hostd_killed_in_any_plan_is_made_good_by_the_next(sleepy: Hostd, ann: User, up: Any, step: str,
                                                            moment: str) -> None:
    workspace = up()
    v1 = taken(ann, workspace, "v1")
    (home(sleepy, workspace) / "file").write_text("two")
    goal = {"park": ("standby", "parked"), "discard": ("stopped", "stopped")}.get(step, ("running", "running"))
    if step in ("park", "discard"):
        services.standby(actor(ann), workspace)
    if step == "discard":
        patiently(workspace.pk)
        services.stop(actor(ann), workspace)
    if step == "capture":
        checkpoints.create(actor(ann), workspace, {"name": "v2"})
    if step == "rollback":
        restores.restore(actor(ann), v1)
    if step == "drop":
        checkpoints.delete(actor(ann), v1)
    with hostd_killed_at(sleepy, f"{step}:{moment}") as seen:
        found = patiently(workspace.pk)
    assert f"{step}:{moment}" in seen
    rests_in(sleepy, *goal)(found, workspace.pk)
    file = (home(sleepy, workspace) / "file").read_text()
    assert file == ("one" if step == "rollback" else "two")
    assert "workspace.failed" not in Event.objects.filter(workspace=workspace).values_list("kind", flat=True)


@pytest.mark.parametrize("moment", ["noted", "acted", "verified"])
def test_a_hostd_killed_while_it_clones_leaves_one_fork(sleepy: Hostd, ann: User, up: Any, moment: str) -> None:
    source = up()
    made = forks.fork(actor(ann), source, f"fork {moment}", checkpoint=taken(ann, source))[0]
    with hostd_killed_at(sleepy, f"clone:{moment}") as seen:
        found = patiently(made.pk)
    assert f"clone:{moment}" in seen
    rests_in(sleepy, "running", "running")(found, made.pk)
    assert (home(sleepy, made) / "file").read_text() == "one"
