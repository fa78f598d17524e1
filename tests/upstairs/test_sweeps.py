"""The periodic jobs over a thousand rows: a bounded number of questions, and no more acts than a turn has time for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.upstairs.conftest import actor
from workspaces import idle, jobs, notices, policies, retention
from workspaces.idle import Seen
from workspaces.models import Checkpoint, Event, User, Workspace
from workspaces.models_policy import Hold, Tally

pytestmark = pytest.mark.django_db
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


@pytest.fixture
def many(ann: User) -> Callable[[int, str], list[Workspace]]:
    def make(count: int, state: str) -> list[Workspace]:
        now = timezone.now()
        rows = Workspace.objects.bulk_create([
            Workspace(owner=ann, name=f"{state}-{count}-{number}", intent=state, state=state, was_running=True,
                      last_activity_at=now, last_activity_kind="exec") for number in range(count)])
        return list(rows)
    return make


def questions(job: Callable[[datetime], Any], now: datetime) -> int:
    with CaptureQueriesContext(connection) as asked:
        job(now)
    return len(asked)


def point(row: Workspace, kind: str, **more: Any) -> Checkpoint:
    return Checkpoint(workspace=row, kind=kind, state="ready", actor_type="system", actor_name="test", **more)


def test_a_look_at_a_thousand_running_ones_asks_a_bounded_number_of_questions(
        many: Callable[[int, str], list[Workspace]], monkeypatch: pytest.MonkeyPatch) -> None:
    now = timezone.now()
    rows = many(1000, "running")
    held = now + 9 * HOUR
    Hold.objects.bulk_create([Hold(workspace=row, reason="build", actor_type="user", actor_name="ann", created_at=now,
                                   expires_at=held) for row in rows[::2]])
    monkeypatch.setattr(idle, "ask_hosts", lambda: {row.pk: Seen(now, number % 3 == 0, number % 5 == 0, (), True)
                                                    for number, row in enumerate(rows)})
    first = questions(idle.run, now)
    later = [questions(idle.run, now + MINUTE * number) for number in range(1, 4)]
    assert Tally.objects.count() == 1000 and first < 60, first
    assert max(later) < 60, later


def test_a_turn_of_retention_over_a_thousand_at_rest_and_ten_thousand_checkpoints_asks_a_bounded_number_of_questions(
        many: Callable[[int, str], list[Workspace]]) -> None:
    now = timezone.now()
    rows = many(1000, "stopped")
    Checkpoint.objects.bulk_create([point(row, "auto", notice_because="kept_last", notice_at=now)
                                    for row in rows for _ in range(10)])
    Checkpoint.objects.bulk_create([point(row, "manual", expires_at=now + 999 * HOUR) for row in rows])
    first, second = questions(retention.run, now), questions(retention.run, now + 5 * MINUTE)
    assert max(first, second) < 60, (first, second)
    assert not Event.objects.exists() and not Checkpoint.objects.exclude(dropped_at=None).exists()


def test_the_schedule_and_the_post_ask_a_bounded_number_too(
        many: Callable[[int, str], list[Workspace]], settings: Any) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    now = timezone.now()
    rows = many(1000, "running")
    Checkpoint.objects.bulk_create([point(row, "auto") for row in rows])
    assert questions(retention.take_automatic, now + MINUTE) < 20
    assert questions(notices.mail, now + MINUTE) < 20


def test_what_comes_due_at_once_is_done_turn_by_turn_so_that_no_turn_holds_its_worker(
        many: Callable[[int, str], list[Workspace]], root: User, monkeypatch: pytest.MonkeyPatch) -> None:
    policies.put(actor(root), "default", {"trash_after_s": {"value": 3600}, "notice_s": {"value": 0}})
    now = timezone.now()
    many(30, "stopped")
    for _ in range(6):  # a look counts for ten minutes at most
        retention.run(now)
        now += 10 * MINUTE
    done = []
    with monkeypatch.context() as hurried:
        hurried.setattr(jobs, "BUDGET_S", -1.0)
        for number in range(3):
            retention.run(now + MINUTE * number)
            done.append(Event.objects.filter(kind__in=("retention.notice", "workspace.deleted")).count())
    assert done == [1, 2, 3], "the first of a turn always is done, however little time there is"
    retention.run(now + 4 * MINUTE)
    assert Event.objects.filter(kind="retention.notice").count() == 30
    retention.run(now + 5 * MINUTE)
    assert Workspace.objects.filter(intent="deleted").count() == 30
