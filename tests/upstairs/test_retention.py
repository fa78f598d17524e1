"""Retention: never early, never without notice, never the last of what something needs; under clocks that jump, late
looks and changing policies. And that it does happen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.upstairs.conftest import Api, actor, make
from tests.upstairs.laid_down import DAY, HOUR, MINUTE, notices_of, turns
from workspaces import checkpoints, policies, retention, services
from workspaces.counting import Count, Marks, look
from workspaces.models import Event, User, Workspace
from workspaces.models_policy import Job, Tally
from workspaces.retention_rule import (
    LADDER,
    Do,
    Notice,
    next_step,
    purge_notice_due,
)

NOON = datetime(2031, 5, 1, 12, tzinfo=UTC)


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


# -- end to end -----------------------------------------------------------------------------------------------------


def fresh(workspace: Workspace) -> Workspace:
    return Workspace.objects.get(pk=workspace.pk)


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
