"""Retention: never early, never without notice, never the last of what something needs; under clocks that jump, late
looks and changing policies. And that it does happen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core import mail
from django.core.management import call_command
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.upstairs.conftest import Api, actor, make
from workspaces import checkpoints, forecast, notices, policies, retention, services
from workspaces.counting import Count, Marks, look
from workspaces.models import Checkpoint, Event, User, Workspace
from workspaces.models_policy import Job, Tally
from workspaces.retention_rule import LADDER, Do, Notice, Point, next_step, purge_notice_due, surplus

NOON = datetime(2031, 5, 1, 12, tzinfo=UTC)
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)


# -- the rule, pure -------------------------------------------------------------------------------------------------

waits = st.none() | st.integers(3600, 6 * 3600) | st.integers(3600, 40 * 86400)
policies_over_time = st.lists(st.tuples(
    st.floats(1, 1200) | st.floats(1, 3 * 86400),                            # real seconds until the next look
    st.sampled_from([0, 0, 0, 0, -86400, 7200, 10**8]),  # a jump of the wall clock meanwhile
    st.fixed_dictionaries({"trash_after_s": waits, "notice_s": st.integers(0, 5 * 86400)}),
    st.booleans(),                                       # something else needs it then
), min_size=1, max_size=60)


@given(policies_over_time)
@settings(max_examples=600, deadline=None)
def test_nothing_goes_early_unannounced_before_what_was_announced_or_while_it_is_needed(looks: list[Any]) -> None:
    """The clock that counts is one that only this test sees."""
    wall, real = NOON, 0.0
    count = look(None, Marks("stopped:1"), wall, most=retention.MOST)
    notice: Notice | None = None
    told_real, lead_s, slack, slack_when_told = 0.0, 0.0, 0.0, 0.0
    for passed, jump, terms, needed in looks:
        wall, real = wall + timedelta(seconds=passed + jump), real + passed
        slack += retention.MOST.total_seconds() if jump > 0 else 0
        count = look(count, Marks("stopped:1"), wall, most=retention.MOST)
        step = next_step("stopped", count, terms, wall, notice=notice, referenced=needed)
        if step is None:
            assert terms["trash_after_s"] is None
        elif step.do is Do.NOTIFY:
            assert notice is None
            notice, told_real, slack_when_told = Notice(step.to, step.at, count.lag), real, slack
            lead_s = min(terms["notice_s"], terms["trash_after_s"])
            assert step.at - wall >= timedelta(seconds=lead_s)
        elif step.do is Do.ACT:
            assert notice is not None and not needed
            assert real >= terms["trash_after_s"] - slack - 0.01
            assert real - told_real >= lead_s - (slack - slack_when_told) - 0.01
            return


@given(st.integers(3600, 30 * 86400), st.integers(0, 30 * 86400), st.integers(1, 600))
@settings(max_examples=200, deadline=None)
def test_with_a_steady_clock_it_is_announced_in_time_and_goes_when_it_was_announced(after_s: int, notice_s: int,
                                                                                     gap_s: int) -> None:
    terms: dict[str, int | None] = {"trash_after_s": after_s, "notice_s": notice_s}
    due, lead = NOON + timedelta(seconds=after_s), timedelta(seconds=min(notice_s, after_s))
    count = Count(Marks("stopped:1"), NOON, NOON)
    before = next_step("stopped", count, terms, due - lead - timedelta(seconds=1))
    told = next_step("stopped", count, terms, due - lead)
    assert before is not None and before.do is Do.WAIT and told is not None
    assert (told.do, told.at) == (Do.NOTIFY, due)
    notice = Notice("deleted", told.at)
    for moment, do in ((due - timedelta(seconds=1), Do.WAIT), (due, Do.ACT), (due + timedelta(seconds=gap_s), Do.ACT)):
        step = next_step("stopped", count, terms, moment, notice=notice)
        assert step is not None and (step.do, step.at) == (do, due)


def test_a_clock_that_jumps_right_after_a_notice_takes_nothing_from_the_time_it_gives() -> None:
    """A policy made shorter: the count is long past its term, and only the notice holds it."""
    terms: dict[str, int | None] = {"trash_after_s": 3600, "notice_s": 3600}
    now = NOON + 5 * HOUR
    count = Count(Marks("stopped:1"), NOON, now)
    told = next_step("stopped", count, terms, now)
    assert told is not None and (told.do, told.at) == (Do.NOTIFY, now + HOUR)
    notice = Notice("deleted", told.at, count.lag)
    now += 365 * DAY
    for number in range(6):
        count = look(count, Marks("stopped:1"), now, most=retention.MOST)
        step = next_step("stopped", count, terms, now, notice=notice)
        assert step is not None and step.do is (Do.ACT if number == 5 else Do.WAIT)
        now += 10 * MINUTE


def test_what_is_needed_waits_and_what_never_goes_never_does() -> None:
    count, late = Count(Marks("stopped:1"), NOON, NOON), NOON + 999 * DAY
    notice = Notice("deleted", NOON)
    step = next_step("stopped", count, {"trash_after_s": 3600, "notice_s": 0}, late, notice=notice, referenced=True)
    assert step is not None and (step.do, step.blocked) == (Do.WAIT, True)
    assert next_step("stopped", count, {"trash_after_s": None, "notice_s": 0}, late) is None
    for state in ("running", "creating", "waking", "parking", "restoring", "deleted", "deleting"):
        assert state not in LADDER


def test_a_notice_of_something_else_counts_for_nothing() -> None:
    count = Count(Marks("stopped:1"), NOON, NOON)
    step = next_step("stopped", count, {"trash_after_s": 3600, "notice_s": 60}, NOON + DAY,
                     notice=Notice("stopped", NOON))
    assert step is not None and (step.do, step.at) == (Do.NOTIFY, NOON + DAY + MINUTE)


def test_the_end_of_the_trash_is_said_once_and_only_before_it() -> None:
    terms: dict[str, int | None] = {"notice_s": 3600}
    assert not purge_notice_due(NOON + 2 * HOUR, terms, None, NOON)
    assert purge_notice_due(NOON + HOUR, terms, None, NOON)
    assert not purge_notice_due(NOON + HOUR, terms, Notice("purged", NOON + HOUR), NOON)
    assert not purge_notice_due(NOON, terms, None, NOON) and not purge_notice_due(None, terms, None, NOON)


points = st.lists(st.builds(
    Point, id=st.uuids().map(str), kind=st.sampled_from(["manual", "auto", "auto", "safety"]),
    created_at=st.integers(-10**6, 10**6).map(lambda s: NOON + timedelta(seconds=s)),
    expires_at=st.none() | st.integers(-10**6, 10**6).map(lambda s: NOON + timedelta(seconds=s)),
    ready=st.booleans()), max_size=30, unique_by=lambda p: p.id)


@given(points, st.none() | st.integers(0, 6), st.none() | st.integers(60, 10**6), st.data())
@settings(max_examples=600, deadline=None)
def test_of_checkpoints_only_what_is_expired_or_crowded_out_goes_and_nothing_that_is_needed(
        found: list[Point], most: int | None, expiry_s: int | None, data: st.DataObject) -> None:
    needed = data.draw(st.sets(st.sampled_from([p.id for p in found]))) if found else set()
    gone = dict(surplus(found, {"auto": most, "safety": most}, expiry_s, NOON, needed))
    by_id = {p.id: p for p in found}
    for pk, because in gone.items():
        point = by_id[pk]
        assert point.ready and pk not in needed
        if because == "expired":
            ends = point.expires_at or point.created_at + timedelta(seconds=expiry_s or 0)
            assert ends <= NOON and (point.kind != "manual" or point.expires_at is not None)
        else:
            assert point.kind != "manual" and most is not None
            newer = [p for p in found if p.ready and p.kind == point.kind
                     and (p.created_at, p.id) > (point.created_at, pk)]
            assert len(newer) >= most
    for kind in ("auto", "safety"):
        kept = [p for p in found if p.ready and p.kind == kind and p.id not in gone and p.id not in needed]
        assert most is None or len(kept) <= max(most, kind == "safety")
    newest = max((p for p in found if p.ready and p.kind == "safety"), key=lambda p: (p.created_at, p.id), default=None)
    assert newest is None or gone.get(newest.id) != "kept_last"


# -- end to end -----------------------------------------------------------------------------------------------------


@pytest.fixture
def asleep(ann: User) -> Workspace:
    """Stopped, as far as its row knows; no host is needed."""
    row, _ = services.stop(actor(ann), make(ann))
    Workspace.objects.filter(pk=row.pk).update(state="stopped")
    return Workspace.objects.get(pk=row.pk)


@pytest.fixture
def short(root: User) -> None:
    policies.put(actor(root), "default", {
        "stop_after_s": {"value": 3600}, "trash_after_s": {"value": 7200}, "notice_s": {"value": 1800},
        "purge_after_s": {"value": 86400}})


def fresh(workspace: Workspace) -> Workspace:
    return Workspace.objects.get(pk=workspace.pk)


def turns(start: datetime, until: datetime, gap: timedelta = 3 * MINUTE) -> datetime:
    """A turn each few minutes; the instant at which the next would be."""
    now = start
    while now <= until:
        retention.run(now)
        now += gap
    return now


def notices_of(workspace: Workspace) -> list[dict[str, Any]]:
    return list(Event.objects.filter(workspace=workspace, kind="retention.notice").values_list("data", flat=True))


def test_stopped_goes_to_the_trash_after_its_notice_and_says_why(asleep: Workspace, short: None) -> None:
    start = timezone.now()
    now = turns(start, start + 89 * MINUTE)
    assert notices_of(asleep) == []
    now = turns(now, start + 119 * MINUTE)
    assert [one["to"] for one in notices_of(asleep)] == ["deleted"]
    assert fresh(asleep).intent == "stopped"
    turns(now, start + 123 * MINUTE)
    gone = fresh(asleep)
    assert (gone.intent, gone.cause) == ("deleted", "stopped for 2 h, by policy")
    last = Event.objects.filter(workspace=asleep).last()
    assert (last.kind, last.actor_type, last.cause) == ("workspace.deleted", "system", "stopped for 2 h, by policy")


def test_standby_is_stopped_first_and_counts_anew_from_there(asleep: Workspace, short: None) -> None:
    Workspace.objects.filter(pk=asleep.pk).update(intent="standby", state="standby")
    start = timezone.now()
    now = turns(start, start + 62 * MINUTE)
    row = fresh(asleep)
    assert (row.intent, row.cause) == ("stopped", "standby for 1 h, by policy")
    Workspace.objects.filter(pk=asleep.pk).update(state="stopped")
    now = turns(now, start + 170 * MINUTE)
    assert fresh(asleep).intent == "stopped"
    turns(now, start + 190 * MINUTE)
    assert fresh(asleep).intent == "deleted"
    assert [one["to"] for one in notices_of(asleep)] == ["stopped", "deleted"]


def test_whoever_starts_it_after_the_notice_has_it_and_the_notice_is_void(asleep: Workspace, short: None,
                                                                          ann: User) -> None:
    start = timezone.now()
    now = turns(start, start + 100 * MINUTE)
    assert len(notices_of(asleep)) == 1
    services.start(actor(ann), asleep)
    services.stop(actor(ann), asleep)
    Workspace.objects.filter(pk=asleep.pk).update(state="stopped")
    turns(now, start + 180 * MINUTE)
    assert fresh(asleep).intent == "stopped" and Tally.objects.get().notice_to == ""


def test_a_clock_set_forward_by_a_year_removes_nothing(asleep: Workspace, short: None) -> None:
    start = timezone.now()
    turns(start, start + 10 * MINUTE)
    later = start + 365 * DAY
    turns(later, later + 10 * MINUTE)
    assert fresh(asleep).intent == "stopped" and notices_of(asleep) == []


def test_a_policy_made_shorter_still_gives_its_notice(asleep: Workspace, root: User) -> None:
    start = timezone.now()
    now = turns(start, start + 5 * HOUR, 5 * MINUTE)
    policies.put(actor(root), "user:ann", {"trash_after_s": {"value": 3600}, "notice_s": {"value": 7200}})
    now = turns(now, now)
    assert [one["to"] for one in notices_of(asleep)] == ["deleted"]
    now = turns(now, now + 55 * MINUTE)
    assert fresh(asleep).intent == "stopped", "an hour's notice, as long as the term itself"
    turns(now, now + 10 * MINUTE)
    assert fresh(asleep).intent == "deleted"


def test_what_a_fork_still_needs_is_not_put_away(asleep: Workspace, short: None, ann: User) -> None:
    Workspace.objects.filter(pk=make(ann, "fork").pk).update(origin_machine=asleep.pk, origin_checkpoint="c" * 20)
    start = timezone.now()
    now = turns(start, start + 200 * MINUTE)
    assert fresh(asleep).intent == "stopped" and len(notices_of(asleep)) == 1
    Workspace.objects.filter(name="fork").update(has_begun=True)
    turns(now, now + 2 * MINUTE)
    assert fresh(asleep).intent == "deleted"


def test_a_failed_one_goes_the_same_way_and_a_drained_one_does_not(asleep: Workspace, short: None, ann: User) -> None:
    Workspace.objects.filter(pk=asleep.pk).update(intent="running", state="failed", failed_reason="machine_died")
    drained = make(ann, "drained")
    Workspace.objects.filter(pk=drained.pk).update(state="stopped", state_reason="host_draining")
    start = timezone.now()
    turns(start, start + 130 * MINUTE)
    assert fresh(asleep).intent == "deleted"
    assert fresh(drained).intent == "running", "its host rests, not its owner"


def test_the_trash_is_announced_once_and_what_was_ended_at_once_is_not(ann: User, short: None) -> None:
    kept, ended = make(ann, "kept"), make(ann, "ended")
    services.delete(actor(ann), kept)
    services.delete(actor(ann), ended, purge=True)
    purge_at = fresh(kept).purge_at
    assert purge_at is not None
    turns(purge_at - 40 * MINUTE, purge_at - 5 * MINUTE)
    said = notices_of(kept)
    assert [(one["to"], one["at"]) for one in said] == [("purged", purge_at.isoformat())]
    assert notices_of(ended) == [] and fresh(kept).purge_at == purge_at, "what was promised stands"


def test_two_schedulers_give_one_notice_and_make_one_delete(asleep: Workspace, short: None) -> None:
    """Field case 043."""
    start = timezone.now()
    for number in range(140):
        retention.run(start + number * MINUTE)
        retention.run(start + number * MINUTE + timedelta(seconds=1))
    assert len(notices_of(asleep)) == 1
    assert Event.objects.filter(workspace=asleep, kind="workspace.deleted").count() == 1
    assert Job.objects.get(pk="retention").expires_at is None


def test_notices_are_mailed_once_to_those_who_have_an_address(asleep: Workspace, short: None, ann: User,
                                                              settings: Any) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    ann.email = "ann@example.org"
    ann.save()
    start = timezone.now()
    now = turns(start, start + 100 * MINUTE)
    assert notices.mail(now) == 1 and notices.mail(now + HOUR) == 0
    letter = mail.outbox[0]
    assert letter.to == ["ann@example.org"] and asleep.pk in letter.body and "goes to the trash" in letter.body


def test_a_mail_that_fails_is_tried_again_and_without_a_server_none_is(asleep: Workspace, short: None, ann: User,
                                                                      settings: Any,
                                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    start = timezone.now()
    assert notices.mail(start) == 0
    settings.EMAIL_HOST = "mail.example.org"
    User.objects.filter(pk=ann.pk).update(email="ann@example.org")
    now = turns(start, start + 100 * MINUTE)

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("no route")

    with monkeypatch.context() as patch:
        patch.setattr(notices, "send_mail", refuse)
        assert notices.mail(now) == 0
    assert notices.mail(now + HOUR) == 1 and len(mail.outbox) == 1


def point(workspace: Workspace, kind: str, age: timedelta, **more: Any) -> Checkpoint:
    row = Checkpoint.objects.create(workspace=workspace, kind=kind, state="ready", actor_type="system",
                                    actor_name="test", **more)
    Checkpoint.objects.filter(pk=row.pk).update(created_at=timezone.now() - age)
    return row


def test_checkpoints_are_thinned_out_by_policy_with_an_event_each(asleep: Workspace, root: User) -> None:
    policies.put(actor(root), "default", {"checkpoint_keep_last": {"value": 2},
                                          "checkpoint_expiry_s": {"value": 10 * 86400}})
    kept = [point(asleep, "auto", n * HOUR) for n in (1, 2)]
    crowded = point(asleep, "auto", 3 * HOUR)
    own = point(asleep, "manual", 400 * DAY)
    ended = point(asleep, "manual", DAY, expires_at=timezone.now() - MINUTE)
    old = point(asleep, "safety", 11 * DAY)
    found, complete = forecast.forecast(policies.Book(), timezone.now(), 30 * DAY)
    assert complete and {one.id for one in found if one.at <= timezone.now()} == {crowded.pk, ended.pk, old.pk}
    retention.run()
    left = set(Checkpoint.objects.filter(dropped_at=None).values_list("pk", flat=True))
    assert left == {own.pk, *(one.pk for one in kept)}
    said = {one["checkpoint"]: one["because"] for one in
            Event.objects.filter(kind="checkpoint.deleted").values_list("data", flat=True)}
    assert said == {crowded.pk: "kept_last", ended.pk: "expired", old.pk: "expired"}


def test_the_end_of_ones_own_checkpoint_is_said_once_before_it_and_again_when_it_was_moved(asleep: Workspace,
                                                                                            root: User) -> None:
    policies.put(actor(root), "default", {"notice_s": {"value": 1800}})
    now = timezone.now()
    own = point(asleep, "manual", DAY, expires_at=now + HOUR, name="mine")
    turns(now, now + 27 * MINUTE)
    assert notices_of(asleep) == []
    turns(now + 31 * MINUTE, now + 55 * MINUTE)
    assert [(one["checkpoint"], one["at"]) for one in notices_of(asleep)] == [
        (own.pk, (now + HOUR).isoformat())]
    Checkpoint.objects.filter(pk=own.pk).update(expires_at=now + 2 * HOUR)
    turns(now + 58 * MINUTE, now + 118 * MINUTE)
    assert len([one for one in notices_of(asleep) if "checkpoint" in one]) == 2
    assert Checkpoint.objects.get(pk=own.pk).dropped_at is None
    turns(now + 121 * MINUTE, now + 124 * MINUTE)
    assert Checkpoint.objects.get(pk=own.pk).dropped_at is not None


def test_a_checkpoint_that_a_fork_begins_from_is_not_thinned_out(asleep: Workspace, ann: User) -> None:
    ended = point(asleep, "auto", 400 * DAY)
    Workspace.objects.filter(pk=make(ann, "fork").pk).update(origin_machine=asleep.pk, origin_checkpoint=ended.pk)
    retention.run()
    assert Checkpoint.objects.get(pk=ended.pk).dropped_at is None


def test_the_schedule_takes_a_checkpoint_of_what_was_worked_in_and_of_nothing_else(ann: User, root: User,
                                                                                    monkeypatch: pytest.MonkeyPatch
                                                                                    ) -> None:
    begun: list[str] = []
    monkeypatch.setattr(checkpoints, "scheduled", lambda row, every: begun.append(row.name) or row)
    now = timezone.now()
    for name, last in (("worked", now - MINUTE), ("quiet", now - 3 * HOUR), ("off", now - MINUTE)):
        row = make(ann, name)
        Workspace.objects.filter(pk=row.pk).update(state="running", intent="running" if name != "off" else "stopped",
                                                   last_activity_at=last, created_at=now - 2 * HOUR)
    assert retention.take_automatic(now) == 1 and begun == ["worked"]
    policies.put(actor(root), "user:ann", {"auto_checkpoints": {"value": 0}})
    assert retention.take_automatic(now + HOUR) == 0
    policies.put(actor(root), "user:ann", {"auto_checkpoint_interval_s": {"value": 4 * 3600}})
    assert retention.take_automatic(now + 2 * HOUR - MINUTE) == 0


def test_the_api_says_what_comes_next_at_rest(asleep: Workspace, short: None, ann: User) -> None:
    start = timezone.now()
    turns(start, start)
    coming = Api(ann)("GET", f"workspaces/{asleep.pk}").json()["next_transition"]
    assert (coming["to"], coming["because"]) == ("deleted", "trash_after")
    assert coming["at"] == (start + 2 * HOUR).isoformat().replace("+00:00", "Z")


def test_the_shell_lists_it_too(asleep: Workspace, short: None, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("berth_retention", "--user", "ann")
    said = capsys.readouterr().out
    assert asleep.pk in said and "deleted (trash_after_s)" in said and "purged" in said
