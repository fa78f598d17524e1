"""The state machine, asked everything: every combination of facts has an answer, and delete always wins."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxes.lifecycle import Phase
from workspaces.state import LIVE, Answer, Command, Facts, Next, next_plan, permit, visible

STATES = {"creating", "running", "standby", "stopped", "failed", "deleted", "waking", "parking", "stopping",
          "restoring", "deleting"}
INTENTS = ("running", "stopped", "deleted")

any_facts = st.builds(
    Facts, intent=st.sampled_from(INTENTS), generation=st.integers(1, 3), phase=st.sampled_from(list(Phase)),
    booted_generation=st.integers(0, 3), failed_reason=st.sampled_from(["", "machine_died", "disk_full"]),
    end_reason=st.sampled_from(["", "exited", "powered_off", "host_restarted"]), was_running=st.booleans(),
    has_sandbox=st.booleans(), purge_due=st.booleans(),
    open_plan=st.sampled_from(["", "create", "start", "stop", "kill", "purge"]),
    stage=st.sampled_from(["", "disk"]), trouble=st.sampled_from(["", "host_unreachable"]), host_open=st.booleans())


@given(any_facts)
@settings(max_examples=2000, deadline=None)
def test_every_combination_of_facts_has_a_visible_state_and_a_next_plan(facts: Facts) -> None:
    state, reason = visible(facts)
    assert state in STATES and isinstance(reason, str)
    assert isinstance(next_plan(facts), Next)


@given(any_facts)
@settings(max_examples=2000, deadline=None)
def test_a_deleted_workspace_is_never_started_and_always_seen_as_such(facts: Facts) -> None:
    gone = Facts(**{**facts.__dict__, "intent": "deleted"})
    assert visible(gone)[0] in ("deleting", "deleted")
    assert next_plan(gone) in (Next.NOTHING, Next.STOP, Next.KILL, Next.PURGE, Next.FORGET)
    if gone.purge_due:
        assert next_plan(gone) is (Next.PURGE if gone.has_sandbox else Next.FORGET)


@given(any_facts)
@settings(max_examples=2000, deadline=None)
def test_a_body_that_should_not_run_is_never_left_alone(facts: Facts) -> None:
    unwanted = facts.intent != "running" or facts.failed_reason or not facts.host_open
    if facts.phase in LIVE and unwanted:
        assert next_plan(facts) in (Next.STOP, Next.KILL, Next.PURGE, Next.FORGET)


@given(any_facts)
@settings(max_examples=2000, deadline=None)
def test_a_state_that_says_changing_has_something_to_do(facts: Facts) -> None:
    """No pending state sticks: where people see change, reconcile has a next step."""
    if visible(facts)[0] in ("creating", "waking", "stopping", "deleting"):
        assert next_plan(facts) is not Next.NOTHING


def test_every_command_has_an_answer_in_every_intent_and_delete_is_never_refused() -> None:
    for intent, failed, command in itertools.product(INTENTS, ("", "machine_died", "disk_full"), Command):
        said = permit(intent, failed, command)
        assert isinstance(said.answer, Answer)
        assert (said.answer is Answer.REFUSED) == bool(said.reason)
        if command is Command.DELETE:
            assert said.answer is not Answer.REFUSED


def test_a_start_is_accepted_while_stopping_and_a_failure_can_be_started_again() -> None:
    assert permit("stopped", "", Command.START).answer is Answer.ACCEPTED
    assert permit("running", "machine_died", Command.START).answer is Answer.ACCEPTED
    assert permit("running", "disk_full", Command.START).answer is Answer.ACCEPTED


def test_a_call_wakes_what_died_but_does_not_retry_a_broken_start_for_ever() -> None:
    assert permit("running", "machine_died", Command.WAKE).answer is Answer.ACCEPTED
    assert permit("running", "disk_full", Command.WAKE) == permit("running", "no_capacity", Command.WAKE)
    assert permit("running", "disk_full", Command.WAKE).reason == "failed"


def test_standby_is_refused_with_a_reason_while_hosts_keep_no_memory() -> None:
    assert permit("running", "", Command.STANDBY).reason == "not_available"


def test_a_restart_ends_the_older_body_first() -> None:
    older = Facts(intent="running", generation=2, phase=Phase.RUNNING, booted_generation=1)
    assert next_plan(older) is Next.STOP
    assert next_plan(Facts(intent="running", generation=2, phase=Phase.STOPPED, booted_generation=1)) is Next.START


def test_a_death_nobody_asked_for_is_noted_and_not_restarted_silently() -> None:
    dead = Facts(intent="running", generation=1, phase=Phase.DEAD, booted_generation=1, end_reason="killed:SIGKILL")
    assert next_plan(dead) is Next.NOTE_DEATH


def test_a_guest_that_powers_off_is_a_stop_and_a_host_that_went_down_is_a_start() -> None:
    off = Facts(intent="running", generation=1, phase=Phase.DEAD, booted_generation=1, end_reason="exited")
    assert next_plan(off) is Next.NOTE_POWER_OFF
    down = Facts(intent="running", generation=1, phase=Phase.DEAD, booted_generation=1, end_reason="host_restarted")
    assert next_plan(down) is Next.START
