"""Quotas: what counts, what does not, exactly n, and a refusal that says which limit and what makes it up."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxes.models import Sandbox
from tests.upstairs.conftest import Api, actor, make, person
from tests.upstairs.test_parallel import at_once
from workspaces import checkpoints, forks, policies, quota, services
from workspaces.api.errors import Problem
from workspaces.models import Checkpoint, Event, User, Workspace
from workspaces.policy import QUOTAS, Amount, excess

amounts = st.builds(Amount, **{kind: st.integers(0, 20) for kind in QUOTAS})
limits = st.fixed_dictionaries({kind: st.none() | st.integers(0, 30) for kind in QUOTAS})


@given(limits, amounts, amounts)
@settings(max_examples=500, deadline=None)
def test_what_is_let_through_never_ends_above_a_limit_it_adds_to(most: dict[str, int | None], used: Amount,
                                                                 wanted: Amount) -> None:
    broken = excess(most, used, wanted)
    after = used.plus(wanted)
    over = [kind for kind in QUOTAS if (limit := most[kind]) is not None and getattr(wanted, kind) > 0
            and getattr(after, kind) > limit]
    assert (broken.kind if broken else None) == (over[0] if over else None)


@given(amounts, st.integers(0, 20))
def test_many_is_the_sum_of_each(one: Amount, count: int) -> None:
    assert quota.total([one] * count) == one.times(count)


def limit(root: User, **kinds: int | None) -> None:
    policies.put(actor(root), "user:ann", {kind: {"value": value} for kind, value in kinds.items()})


def settle(workspace: Workspace, intent: str, state: str, **more: Any) -> Workspace:
    Workspace.objects.filter(pk=workspace.pk).update(intent=intent, state=state, **more)
    return Workspace.objects.get(pk=workspace.pk)


@pytest.mark.parametrize("kind, per_one", [("workspaces", 1), ("running", 1), ("cpus", 1), ("memory_mib", 512),
                                           ("disk_gib", 10)])
def test_exactly_n_are_made_and_the_next_is_told_why_not(api: Api, ann: User, root: User, kind: str,
                                                         per_one: int) -> None:
    """Field case 113."""
    limit(root, **{kind: 3 * per_one})
    answers = [api("POST", "workspaces", {"name": f"b{n}"}) for n in range(5)]
    assert [a.status_code for a in answers] == [201, 201, 201, 403, 403]
    said = answers[3].json()
    assert said["code"] == "quota_exceeded" and kind in said["detail"]
    assert said["quota"] == {"kind": kind, "limit": 3 * per_one, "used": 3 * per_one, "wanted": per_one}
    assert {one["name"] for one in said["counted"]} == {"b0", "b1", "b2"}
    me = api("GET", "me").json()
    assert (me["quota"][kind], me["used"][kind]) == (3 * per_one, 3 * per_one)
    assert Workspace.objects.count() == 3, "nobody who was refused left a row"


def test_each_state_counts_for_what_it_costs(ann: User) -> None:
    cost = {
        ("running", "running", ""): (1, 1), ("running", "waking", ""): (1, 1), ("running", "restoring", ""): (1, 1),
        ("stopped", "stopping", ""): (1, 1), ("standby", "parking", ""): (1, 1), ("standby", "standby", ""): (1, 0),
        ("stopped", "stopped", ""): (1, 0), ("running", "failed", "machine_died"): (1, 0),
        ("deleted", "deleting", ""): (0, 0), ("deleted", "deleted", ""): (0, 0)}
    workspace = make(ann, cpus=2)
    for (intent, state, failed), (places, power) in cost.items():
        row = settle(workspace, intent, state, failed_reason=failed)
        used = quota.used_by(ann)
        assert (used.workspaces, used.running, used.cpus, used.memory_mib, used.disk_gib) == (
            places, power, 2 * power, 512 * power, 10 * places), (intent, state)
        assert quota.counts_power(row) == bool(power)


def test_a_limit_below_the_present_use_takes_nothing_away_and_lets_nothing_grow(api: Api, ann: User,
                                                                                root: User) -> None:
    one = make(ann, "one")
    two = settle(make(ann, "two"), "stopped", "stopped")
    limit(root, workspaces=1, running=1, disk_gib=5)
    assert api("PATCH", f"workspaces/{one.pk}", {"labels": {"a": "b"}}).status_code == 200
    assert api("POST", f"workspaces/{one.pk}/restart", {}).status_code == 202
    assert api("POST", f"workspaces/{two.pk}/start", {}).json()["quota"]["kind"] == "running"
    grown = api("PATCH", f"workspaces/{two.pk}", {"disk_gib": 11})
    assert grown.json()["quota"] == {"kind": "disk_gib", "limit": 5, "used": 20, "wanted": 1}


def test_every_door_to_a_running_machine_is_counted(ann: User, root: User) -> None:
    """Field case 087: a wake by any call, a start, a restart after a failure."""
    make(ann, "busy")
    limit(root, running=1)
    for state in (("standby", "standby", ""), ("stopped", "stopped", ""), ("running", "failed", "machine_died")):
        row = settle(make_stopped(ann, root, state[1]), state[0], state[1], failed_reason=state[2])
        for door in (lambda row=row: services.start(actor(ann), row), lambda row=row: services.restart(actor(ann), row),
                     lambda row=row: services.wake(row, actor(ann), "terminal")):
            with pytest.raises(Problem) as refused:
                door()
            assert refused.value.code == "quota_exceeded" and refused.value.extra["quota"]["kind"] == "running"


def make_stopped(ann: User, root: User, name: str) -> Workspace:
    limit(root, running=9)
    row = settle(make(ann, name), "stopped", "stopped")
    limit(root, running=1)
    return row


def point(workspace: Workspace, **said: Any) -> Checkpoint:
    return Checkpoint.objects.create(workspace=workspace, kind="manual", state="ready", actor_type="user",
                                     actor_name="ann", **said)


def test_checkpoints_count_with_the_blocks_that_they_alone_hold(api: Api, ann: User, root: User) -> None:
    workspace = make(ann)
    point(workspace, disk_bytes=2**30, memory_bytes=1)
    gone = point(workspace, disk_bytes=2**40)
    Checkpoint.objects.filter(pk=gone.pk).update(state="failed")
    used = quota.used_by(ann)
    assert (used.checkpoints, used.disk_gib) == (1, 12), "a started GiB counts as one"
    limit(root, checkpoints=2)
    assert api("POST", f"workspaces/{workspace.pk}/checkpoints", {"name": "a"}).status_code == 201
    refused = api("POST", f"workspaces/{workspace.pk}/checkpoints", {"name": "b"}).json()
    assert refused["quota"] == {"kind": "checkpoints", "limit": 2, "used": 2, "wanted": 1}
    assert {one["workspace"] for one in refused["counted"]} == {workspace.pk}
    services.delete(actor(ann), workspace)
    assert quota.used_by(ann).checkpoints == 0


def test_a_layer_that_forks_share_is_charged_once_to_the_checkpoint_that_holds_it(ann: User) -> None:
    workspace = make(ann)
    origin = point(workspace, disk_bytes=3 * 2**30, memory_bytes=0, shape=checkpoints.shape_of(workspace))
    before = quota.used_by(ann)
    made = forks.fork(actor(ann), workspace, "copy", 3, origin)
    after = quota.used_by(ann)
    assert (before.disk_gib, before.checkpoints) == (13, 1)
    disks = sum(one.disk_gib for one in made)
    assert (after.disk_gib, after.checkpoints) == (13 + disks, 1), "their disks, and no copy of the layer"


def test_what_is_really_stored_is_told_in_total_the_trash_included(api: Api, ann: User, bob: User) -> None:
    rows = [make(ann, "a"), make(ann, "b"), make(bob, "c")]
    for number, row in enumerate(rows):
        Sandbox.objects.create(pk=row.pk, disk_used_bytes=10**number if number else None)
    Sandbox.objects.filter(pk=rows[0].pk).update(disk_used_bytes=7)
    services.delete(actor(ann), rows[1])
    assert api("GET", "me").json()["disk_used_bytes"] == 17


def test_no_limit_is_no_limit(api: Api, root: User, settings: Any) -> None:
    settings.QUOTA_WORKSPACES = 0
    assert api("POST", "workspaces", {"name": "a"}).status_code == 403
    limit(root, workspaces=None)
    assert api("POST", "workspaces", {"name": "a"}).status_code == 201
    assert api("GET", "me").json()["quota"]["workspaces"] is None


@pytest.mark.django_db(transaction=True)
def test_parallel_wakes_and_checkpoints_never_pass_the_limit() -> None:
    """Field case 047."""
    ann, root = person("ann"), person("root", admin=True)
    boxes = [settle(make(ann, f"b{n}"), "standby", "standby") for n in range(8)]
    limit(root, running=3, checkpoints=4)
    woken = at_once(8, lambda n: services.wake(boxes[n], actor(ann), "exec"))
    assert sum(isinstance(r, Workspace) for r in woken) == 3, woken
    assert Workspace.objects.filter(intent="running").count() == 3
    taken = at_once(12, lambda n: checkpoints.create(actor(ann), boxes[n % 8], {"name": f"c{n}", "memory": False}))
    assert sum(isinstance(r, Checkpoint) for r in taken) == 4, taken
    assert {r.code for r in (*woken, *taken) if isinstance(r, Problem)} == {"quota_exceeded"}
    assert Event.objects.filter(kind="checkpoint.created").count() == 4
