"""Many at once: quotas hold, events have no gaps, the same key makes one object, a lease has one holder."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections

from sandboxes.models import Lease
from sandboxes.plans import lease
from tests.upstairs.conftest import Api, actor, make, person
from workspaces import events, services
from workspaces.api.errors import Problem
from workspaces.models import AccessToken, Event, Workspace

pytestmark = pytest.mark.django_db(transaction=True)


def at_once(count: int, work: Callable[[int], Any]) -> list[Any]:
    """`work` in that many threads that start together; what each gave, or the exception it raised."""
    gate = threading.Barrier(count)
    results: list[Any] = [None] * count

    def one(number: int) -> None:
        try:
            gate.wait()
            results[number] = work(number)
        except Exception as error:  # handed to the test
            results[number] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=one, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_fifty_parallel_creates_at_the_quota_make_exactly_as_many_as_allowed(settings: Any) -> None:
    """Field case 047."""
    settings.QUOTA_WORKSPACES, settings.QUOTA_CPUS = 5, 100
    ann = person("ann")
    results = at_once(50, lambda n: make(ann, f"box {n}"))
    made = [r for r in results if isinstance(r, Workspace)]
    refused = [r for r in results if isinstance(r, Problem)]
    assert (len(made), len(refused)) == (5, 45), [r for r in results if not isinstance(r, Workspace | Problem)]
    assert {r.code for r in refused} == {"quota_exceeded"}
    assert Workspace.objects.count() == 5


def test_parallel_starts_do_not_exceed_the_processors_one_may_have(settings: Any) -> None:
    ann = person("ann")
    for n in range(8):
        services.stop(actor(ann), make(ann, f"box {n}"))
    Workspace.objects.update(state="stopped")
    settings.QUOTA_CPUS = 3
    boxes = list(Workspace.objects.all())
    results = at_once(8, lambda n: services.start(actor(ann), boxes[n]))
    assert sum(isinstance(r, tuple) for r in results) == 3
    assert Workspace.objects.filter(intent="running").count() == 3


def test_events_of_twenty_threads_have_no_gap_and_no_double() -> None:
    workspace = make(person("ann"))
    results = at_once(20, lambda n: [events.append(workspace, "test.happened", data={"n": n}).seq for _ in range(5)])
    assert sorted(seq for seqs in results for seq in seqs) == list(range(2, 102))
    assert list(Event.objects.order_by("seq").values_list("seq", flat=True)) == list(range(1, 102))


def test_one_idempotency_key_sent_ten_times_at_once_makes_one_object() -> None:
    api = Api(person("ann"))
    answers = at_once(10, lambda n: api("POST", "workspaces", {"name": "box"}, Idempotency_Key="same"))
    assert {a.status_code for a in answers} == {201}, [a.content for a in answers]
    assert len({a.json()["id"] for a in answers}) == 1 and Workspace.objects.count() == 1
    assert sum("Idempotency-Replayed" in a for a in answers) == 9


def test_the_same_name_asked_for_ten_times_at_once_is_given_once() -> None:
    ann = person("ann")
    results = at_once(10, lambda n: make(ann, "box"))
    assert sum(isinstance(r, Workspace) for r in results) == 1
    assert {r.code for r in results if isinstance(r, Problem)} == {"name_taken"}


def test_commands_already_satisfied_five_times_at_once_change_one_thing() -> None:
    """Field case 137."""
    ann = person("ann")
    workspace = make(ann)
    before = workspace.generation
    results = at_once(5, lambda n: services.stop(actor(ann), workspace))
    assert all(isinstance(r, tuple) for r in results), results
    assert Workspace.objects.get().generation == before + 1
    assert Event.objects.filter(kind="workspace.stopped").count() == 1


def test_a_lease_has_one_holder_and_each_grant_a_higher_fence() -> None:
    grants = [g for g in at_once(12, lambda n: lease.take("m" * 20)) if g is not None]
    assert len(grants) == 1
    assert lease.release(grants[0]) is True, "the others rang"
    assert lease.take("m" * 20).fence == grants[0].fence + 1
    assert Lease.objects.count() == 1


def test_a_token_used_by_many_at_once_notes_its_use(settings: Any) -> None:
    api = Api(person("ann"))
    assert {a.status_code for a in at_once(8, lambda n: api("GET", "me"))} == {200}
    assert AccessToken.objects.get().last_used_at is not None
