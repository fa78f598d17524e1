"""The state machine, asked everything: every combination of facts has an answer, and delete always wins."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxes.lifecycle import Phase
from workspaces.state import LIVE, Answer, Command, Facts, Next, next_plan, permit, visible

STATES = {"creating", "running", "standby", "stopped", "failed", "deleted", "waking", "parking", "stopping",
          "restoring", "deleting"}
INTENTS = ("running", "standby", "stopped", "deleted")

any_facts = st.builds(
    Facts, intent=st.sampled_from(INTENTS), generation=st.integers(1, 3), phase=st.sampled_from(list(Phase)),
    booted_generation=st.integers(0, 3), failed_reason=st.sampled_from(["", "machine_died", "disk_full"]),
    end_reason=st.sampled_from(["", "exited", "powered_off", "host_restarted"]), was_running=st.booleans(),
    has_sandbox=st.booleans(), purge_due=st.booleans(),
    open_plan=st.sampled_from(["", "create", "clone", "start", "stop", "kill", "park", "capture", "rollback", "purge"]),
    stage=st.sampled_from(["", "disk"]), trouble=st.sampled_from(["", "host_unreachable"]), host_open=st.booleans(),
    under_way=st.sampled_from(["", "park", "boot"]), can_park=st.booleans(), park_failed=st.booleans(),
    capture=st.sampled_from(["", "c1"]), restore=st.sampled_from(["", "c2"]), disk_lost=st.booleans(),
    origin=st.sampled_from(["", "waiting", "ready", "lost"]), drop=st.sampled_from(["", "c3"]))
CHANGING = ("creating", "waking", "parking", "stopping", "restoring", "deleting")


@given(any_facts)
@settings(max_examples=500, deadline=None)
def test_every_combination_of_facts_has_a_visible_state_and_a_next_plan(facts: Facts) -> None:
    state, reason = visible(facts)
    assert state in STATES and isinstance(reason, str)
    assert isinstance(next_plan(facts), Next)


@given(any_facts)
@settings(max_examples=500, deadline=None)
def test_a_deleted_workspace_is_never_started_and_always_seen_as_such(facts: Facts) -> None:
    gone = Facts(**{**facts.__dict__, "intent": "deleted"})
    assert visible(gone)[0] in ("deleting", "deleted")
    assert next_plan(gone) in (Next.NOTHING, Next.STOP, Next.KILL, Next.PURGE, Next.FORGET, Next.DROP)
    if gone.purge_due:
        assert next_plan(gone) is (Next.PURGE if gone.has_sandbox else Next.FORGET)


@given(any_facts)
@settings(max_examples=500, deadline=None)
def test_a_body_that_should_not_run_is_never_left_alone(facts: Facts) -> None:
    unwanted = facts.intent != "running" or facts.failed_reason or not facts.host_open
    if facts.phase in LIVE and unwanted and not facts.capture and not facts.restore:
        carried_on = (Next.START, Next.CREATE, Next.CLONE) if facts.phase is Phase.STARTING else ()
        assert next_plan(facts) in (Next.STOP, Next.KILL, Next.PARK, Next.PURGE, Next.FORGET, *carried_on)


@given(any_facts)
@settings(max_examples=500, deadline=None)
def test_a_state_that_says_changing_has_something_to_do(facts: Facts) -> None:
    """No pending state sticks: where people see change, reconcile has a next step."""
    if visible(facts)[0] in CHANGING:
        assert next_plan(facts) not in (Next.NOTHING, Next.DROP)


def test_every_command_in_every_state_has_one_of_three_answers_and_delete_is_never_refused() -> None:
    flags = (False, True)
    for intent, failed, command, can_park, restoring in itertools.product(
            INTENTS, ("", "machine_died", "disk_full"), Command, flags, flags):
        said = permit(intent, failed, command, can_park=can_park, restoring=restoring)
        assert isinstance(said.answer, Answer)
        assert (said.answer is Answer.REFUSED) == bool(said.reason)
        if command is Command.DELETE:
            assert said.answer is not Answer.REFUSED


#: phase, and whether its memory is kept, after a plan that gets through. Steps of an ideal host.
AFTER = {Next.CREATE: Phase.RUNNING, Next.CLONE: Phase.RUNNING, Next.START: Phase.RUNNING, Next.PARK: Phase.PARKED,
         Next.STOP: Phase.STOPPED, Next.KILL: Phase.STOPPED, Next.DISCARD: Phase.STOPPED}


def carried_out(facts: Facts, done: Next) -> Facts:
    """What is true when a plan has come to its end, or a note was made, on a host where everything works."""
    changed: dict[str, object] = {"open_plan": "", "under_way": "", "end_reason": ""}
    if done in AFTER:
        changed |= {"phase": AFTER[done], "origin": ""}
    if done in (Next.CREATE, Next.CLONE, Next.START):
        changed |= {"booted_generation": facts.generation, "was_running": True}
    elif done is Next.CAPTURE:
        changed |= {"capture": ""}
    elif done is Next.ROLLBACK:
        asleep = facts.capture == "" and facts.can_park
        changed |= {"restore": "", "phase": Phase.PARKED if asleep else Phase.STOPPED,
                    "booted_generation": facts.generation}
    elif done is Next.DROP:
        changed |= {"drop": ""}
    elif done is Next.PURGE:
        changed |= {"has_sandbox": False, "phase": Phase.ABSENT}
    elif done is Next.ABANDON:
        changed |= {"capture": ""} if facts.capture else {"restore": ""}
    elif done in (Next.NOTE_DEATH, Next.NOTE_DISK_LOST, Next.NOTE_ORIGIN_LOST):
        changed |= {"failed_reason": done.value}
    elif done in (Next.NOTE_POWER_OFF, Next.NOTE_MEMORY_LOST):
        changed |= {"intent": "stopped"}
    return Facts(**{**facts.__dict__, **changed})


@given(any_facts)
@settings(max_examples=1000, deadline=None)
def test_every_state_settles_in_a_few_plans_and_in_what_was_wanted(facts: Facts) -> None:
    now = facts
    for _ in range(10):
        wanted = next_plan(now)
        if wanted in (Next.NOTHING, Next.FORGET, Next.AWAIT_ORIGIN):
            break
        now = carried_out(now, wanted)
    else:
        raise AssertionError(f"it never settles: {facts} is at {now}")
    state = visible(now)[0]
    if wanted is not Next.AWAIT_ORIGIN:
        assert state not in CHANGING or wanted is Next.FORGET
    if now.intent == "running" and not now.failed_reason and now.host_open and wanted is Next.NOTHING:
        assert state == "running" and now.phase is Phase.RUNNING
    if now.intent == "standby" and not now.failed_reason and now.host_open and wanted is Next.NOTHING:
        assert state == "standby"


def test_a_memory_at_rest_is_never_thrown_away_but_by_a_stop_or_a_restart() -> None:
    for intent, phase_of, host_open, failed in itertools.product(
            ("running", "standby", "deleted"), (Phase.PARKED,), (False, True), ("", "no_capacity")):
        facts = Facts(intent=intent, generation=1, booted_generation=1, phase=phase_of, host_open=host_open,
                      failed_reason=failed)
        assert next_plan(facts) is not Next.DISCARD
    assert next_plan(Facts(intent="stopped", generation=1, phase=Phase.PARKED)) is Next.DISCARD
    assert next_plan(Facts(intent="running", generation=2, booted_generation=1, phase=Phase.PARKED)) is Next.DISCARD


def test_a_wake_that_comes_while_parking_lets_it_park_and_then_wakes_it() -> None:
    late = Facts(intent="running", generation=1, booted_generation=1, phase=Phase.RUNNING, under_way="park",
                 was_running=True)
    assert next_plan(late) is Next.PARK and visible(late)[0] == "waking"
    assert next_plan(carried_out(late, Next.PARK)) is Next.START


def test_a_checkpoint_comes_before_the_stop_that_was_asked_for_after_it() -> None:
    facts = Facts(intent="stopped", generation=1, booted_generation=1, phase=Phase.RUNNING, capture="c", restore="r")
    assert next_plan(facts) is Next.CAPTURE
    assert next_plan(carried_out(facts, Next.CAPTURE)) is Next.ROLLBACK


def test_a_rollback_that_is_under_way_is_carried_on_whatever_its_host_is_at() -> None:
    for phase in set(Phase) - {Phase.ABSENT, Phase.DESTROYED}:
        facts = Facts(intent="running", generation=1, booted_generation=1, phase=phase, restore="r",
                      open_plan="rollback")
        assert next_plan(facts) is Next.ROLLBACK and visible(facts)[0] == "restoring"


def test_a_lost_disk_is_named_and_never_made_anew_in_silence() -> None:
    lost = Facts(intent="running", generation=1, booted_generation=1, phase=Phase.ABSENT, disk_lost=True)
    assert next_plan(lost) is Next.NOTE_DISK_LOST


def test_draining_keeps_memory_where_it_can_and_ends_bodies_where_not() -> None:
    running = Facts(intent="running", generation=1, booted_generation=1, phase=Phase.RUNNING, host_open=False)
    assert next_plan(running) is Next.PARK and visible(running) == ("parking", "host_draining")
    assert next_plan(Facts(**{**running.__dict__, "park_failed": True})) is Next.STOP
    assert next_plan(Facts(**{**running.__dict__, "can_park": False})) is Next.STOP
    assert visible(carried_out(running, Next.PARK)) == ("standby", "host_draining")


def test_a_start_is_accepted_while_stopping_and_a_failure_can_be_started_again() -> None:
    assert permit("stopped", "", Command.START).answer is Answer.ACCEPTED
    assert permit("running", "machine_died", Command.START).answer is Answer.ACCEPTED
    assert permit("running", "disk_full", Command.START).answer is Answer.ACCEPTED


def test_a_call_wakes_what_died_but_does_not_retry_a_broken_start_for_ever() -> None:
    assert permit("running", "machine_died", Command.WAKE).answer is Answer.ACCEPTED
    assert permit("running", "disk_full", Command.WAKE) == permit("running", "no_capacity", Command.WAKE)
    assert permit("running", "disk_full", Command.WAKE).reason == "failed"


def test_standby_is_refused_with_a_reason_where_no_memory_can_be_kept() -> None:
    assert permit("running", "", Command.STANDBY).answer is Answer.ACCEPTED
    assert permit("running", "", Command.STANDBY, can_park=False).reason == "no_memory_images"
    assert permit("stopped", "", Command.STANDBY).reason == "stopped"
    assert permit("running", "machine_died", Command.STANDBY).reason == "failed"


def test_one_restore_at_a_time() -> None:
    assert permit("running", "", Command.RESTORE, restoring=True).reason == "restoring"
    assert permit("running", "disk_full", Command.RESTORE).answer is Answer.ACCEPTED, "it is a way out of a failure"


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
