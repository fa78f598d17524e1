"""The idle rule: what counts as work, when a workspace goes to rest and when it never does, under clocks that jump,
hosts that say nothing, and two schedulers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxes.errors import HostUnreachable
from sandboxes.hostlink import HostLink
from sandboxes.models import Host
from tests.upstairs.conftest import Api, actor, converge, eventually
from tests.upstairs.hostd import Hostd
from workspaces import holds, idle, jobs, services
from workspaces.counting import MOST, Count, Marks, look
from workspaces.idle_rule import Do, Failed, Hold, Situation, verdict
from workspaces.models import Event, User, Workspace
from workspaces.models_policy import Job, Tally
from workspaces.tally import note_rested

NOON = datetime(2031, 5, 1, 12, tzinfo=UTC)
QUARTER = timedelta(minutes=15)
LOOK = timedelta(seconds=10)


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


# -- the rule, pure -------------------------------------------------------------------------------------------------


def situation(idle_for: timedelta = QUARTER, **said: Any) -> Situation:
    return Situation(Count(Marks("running:1"), NOON - idle_for, NOON), **said)


def test_a_quiet_workspace_goes_to_standby_after_its_time_and_not_a_moment_before() -> None:
    assert verdict(situation(), QUARTER, NOON).do is Do.STANDBY
    early = verdict(situation(QUARTER - seconds(1)), QUARTER, NOON)
    assert (early.do, early.to, early.at) == (Do.KEEP, "standby", NOON + seconds(1))


def test_without_memory_images_it_is_stopped() -> None:
    said = verdict(situation(keeps_memory=False), QUARTER, NOON)
    assert (said.do, said.to) == (Do.STOP, "stopped")


@pytest.mark.parametrize("said, because", [
    ({"running_execs": 1}, "exec"), ({"cpu_busy": True}, "cpu"), ({"observed": False}, "not_seen"),
    ({"holds": (Hold("training", NOON + seconds(60)),)}, "hold")])
def test_work_holds_and_silence_of_the_host_keep_it(said: dict[str, Any], because: str) -> None:
    """Field cases 029 and 107: however long nothing else was seen."""
    kept = verdict(situation(timedelta(days=3), **said), QUARTER, NOON)
    assert (kept.do, kept.because) == (Do.KEEP, because)
    assert kept.awake, "what keeps it is named"


def test_a_hold_that_ended_keeps_nothing_and_one_that_ends_is_when_it_rests() -> None:
    ended = situation(holds=(Hold("old", NOON - seconds(1)),))
    assert verdict(ended, QUARTER, NOON).do is Do.STANDBY
    held = verdict(situation(holds=(Hold("a", NOON + seconds(60)), Hold("b", NOON + seconds(90)))), QUARTER, NOON)
    assert (held.at, held.because) == (NOON + seconds(90), "hold")


def test_a_standby_that_failed_is_tried_again_later_each_time_and_never_later_than_in_four_hours() -> None:
    waits = [(Failed(times, NOON).again_at - NOON).total_seconds() / 60 for times in range(1, 9)]
    assert waits == [5, 10, 20, 40, 80, 160, 240, 240]
    assert Failed(10**6, NOON).again_at == NOON + timedelta(hours=4)
    failed = situation(timedelta(hours=1), failed=Failed(4, NOON - timedelta(minutes=39), "disk_full"))
    kept = verdict(failed, QUARTER, NOON)
    assert (kept.do, kept.at, kept.because) == (Do.KEEP, NOON + seconds(60), "standby_failed")
    assert (kept.awake[0].kind, kept.awake[0].until) == ("standby_failed", kept.at)
    assert "4 times" in kept.awake[0].detail and "disk_full" in kept.awake[0].detail
    assert verdict(failed, QUARTER, NOON + seconds(60)).do is Do.STANDBY
    back = situation(timedelta(hours=1), failed=Failed(4, NOON + timedelta(days=3)))
    assert verdict(back, QUARTER, NOON).do is Do.STANDBY, "a clock that went back keeps nothing awake for days"
    suspended = verdict(situation(owner_active=False, failed=Failed(1, NOON)), QUARTER, NOON)
    assert (suspended.do, suspended.to) == (Do.STOP, "stopped"), "a suspended owner's goes to rest without its memory"


def test_never_is_never_and_a_suspended_owner_is_at_once() -> None:
    assert verdict(situation(timedelta(days=9999)), None, NOON).do is Do.KEEP
    gone = verdict(situation(seconds(0), owner_active=False, running_execs=2), None, NOON)
    assert (gone.do, gone.because) == (Do.STANDBY, "owner_suspended")


moves = st.lists(st.tuples(
    st.floats(0, 40),                                            # real seconds until the next look
    st.one_of(st.just(0.0), st.floats(-7200, 7200)),             # how far the wall clock jumps meanwhile
    st.sampled_from([""] * 10 + ["touch", "work"]),              # what happens meanwhile
), min_size=1, max_size=80)


@given(moves, st.integers(60, 900))
@settings(max_examples=600, deadline=None)
def test_under_any_jumps_of_the_clock_nothing_rests_before_it_was_really_idle_for_its_time(
        steps: list[tuple[float, float, str]], after_s: int) -> None:
    """Field cases 107 and 043. The real time is known here, and to nobody in the rule."""
    wall, real, happened, slack = NOON, 0.0, 0.0, 0.0
    marks = Marks("running:1", activity=wall)
    count = look(None, marks, wall)
    for passed, jump, what in steps:
        if what:
            # It happens just after the last look, stamped by the clock as it was then.
            happened, slack = real, 0.0
            marks = Marks(marks.stage, wall if what == "touch" else marks.activity,
                          wall + seconds(0.001) if what == "work" else marks.work)
        wall, real = wall + seconds(passed + jump), real + passed
        # A jump may make at most one look's worth (MOST) count where less had passed.
        slack += MOST.total_seconds() if jump > 0 else 0
        count = look(count, marks, wall)
        if verdict(Situation(count), seconds(after_s), wall).do is not Do.KEEP:
            assert real - happened >= after_s - slack - 0.01


@given(st.lists(st.floats(1, 30), min_size=40, max_size=120), st.integers(60, 600))
@settings(max_examples=200, deadline=None)
def test_with_a_steady_clock_it_rests_at_the_first_look_after_its_time_and_the_instant_never_moves(
        gaps: list[float], after_s: int) -> None:
    """Field case 138: what is promised is computed once."""
    now = NOON
    count = look(None, Marks("running:1"), now)
    promised = count.at(seconds(after_s))
    for gap in gaps:
        now += seconds(gap)
        count = look(count, Marks("running:1"), now)
        assert count.at(seconds(after_s)) == promised
        assert (verdict(Situation(count), seconds(after_s), now).do is not Do.KEEP) == (now >= promised)


def test_a_control_plane_that_was_off_counts_nothing_of_its_absence() -> None:
    count = look(None, Marks("running:1"), NOON)
    later = look(count, Marks("running:1"), NOON + timedelta(hours=8))
    assert later.passed(NOON + timedelta(hours=8)) == MOST


def test_a_clock_that_is_set_back_counts_nothing_and_takes_nothing_away() -> None:
    count = look(look(None, Marks("running:1"), NOON), Marks("running:1"), NOON + seconds(50))
    back = NOON - timedelta(hours=3)
    later = look(count, Marks("running:1"), back)
    assert later.passed(back) == seconds(50)
    assert later.at(QUARTER) == back + QUARTER - seconds(50)


def test_every_periodic_job_is_a_task_and_a_queue_that_stood_still_runs_none_twice() -> None:
    from workspaces import tasks
    from workspaces.config.celery import app

    for name, entry in app.conf.beat_schedule.items():
        assert entry["task"] in app.tasks, name
        assert entry["options"]["expires"] <= entry["schedule"], name
    assert app.tasks["workspaces.idle"].name == tasks.idle.name


# -- end to end -----------------------------------------------------------------------------------------------------


class Work:
    """What the hosts say of work, as a test wants it."""

    def __init__(self) -> None:
        self.said: dict[str, Any] | None = {"last_work_at": None, "running_execs": 0, "cpu_busy": False, "holds": []}
        self.silent = False
        self.asked = 0


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Iterator[Work]:
    said, list_them, observe = Work(), HostLink.machines, HostLink.observe

    def machines(link: HostLink) -> list[dict[str, Any]]:
        said.asked += 1
        if said.silent:
            raise HostUnreachable("silent")
        return [{**one, "work": said.said} for one in list_them(link)]

    def one(link: HostLink, machine_id: str) -> dict[str, Any]:
        return {**observe(link, machine_id), "work": said.said}

    monkeypatch.setattr(HostLink, "machines", machines)
    monkeypatch.setattr(HostLink, "observe", one)
    yield said


def rounds(start: datetime, count: int, gap: timedelta = LOOK) -> datetime:
    """So many turns of the job; the instant of the last."""
    now = start
    for number in range(count):
        now = start + gap * number
        idle.run(now)
    return now


def now_of(workspace: Workspace) -> datetime:
    found = Workspace.objects.get(pk=workspace.pk).last_activity_at
    assert found is not None
    return found


def fresh(workspace: Workspace) -> Workspace:
    return Workspace.objects.get(pk=workspace.pk)


def test_an_idle_workspace_goes_to_rest_says_why_and_a_call_wakes_it(running: Workspace, ann: User, work: Work) -> None:
    start = now_of(running)
    rounds(start, 90)
    assert fresh(running).intent == "running", "14 min 50 s are not 15 min"
    rounds(start + QUARTER, 3)
    assert fresh(running).intent in ("standby", "stopped")
    rested = converge(running.pk)
    assert rested.state in ("standby", "stopped")
    assert rested.cause == "idle for 900 s, last: create"
    said = Event.objects.filter(workspace=running, kind__in=("workspace.parking", "workspace.stopping")).last()
    assert (said.actor_type, said.cause) == ("system", "idle for 900 s, last: create")
    services.wake(rested, actor(ann), "exec")
    assert converge(running.pk).state == "running"


def test_activity_an_exec_or_a_busy_processor_begins_the_count_anew(running: Workspace, work: Work) -> None:
    start = now_of(running)
    end = rounds(start, 85)
    Workspace.objects.filter(pk=running.pk).update(last_activity_at=end + seconds(5), last_activity_kind="terminal")
    end = rounds(end + LOOK, 85)
    work.said["running_execs"] = 1
    end = rounds(end + LOOK, 200)
    work.said.update(running_execs=0, cpu_busy=True)
    end = rounds(end + LOOK, 10)
    work.said["cpu_busy"] = False
    end = rounds(end + LOOK, 85)
    work.said["last_work_at"] = end.timestamp() + 1
    end = rounds(end + LOOK, 85)
    assert fresh(running).intent == "running"
    rounds(end + LOOK, 10)
    assert fresh(running).intent != "running"


def test_looking_at_it_does_not_keep_it_awake(running: Workspace, ann: User, work: Work) -> None:
    """Field case 072: lists, the page's own reads and status polls are no activity."""
    api, start = Api(ann), now_of(running)
    for number in range(93):
        for path in ("workspaces", f"workspaces/{running.pk}", f"workspaces/{running.pk}/events", "me"):
            assert api("GET", path).status_code == 200
        idle.run(start + LOOK * number)
    assert fresh(running).intent != "running"


def test_a_hold_keeps_it_and_its_end_does_not(running: Workspace, ann: User, work: Work,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    start = now_of(running)
    monkeypatch.setattr("workspaces.holds.timezone.now", lambda: start)
    holds.add(actor(ann), running, "training", 3600)
    rounds(start, 340)
    assert fresh(running).intent == "running"
    rounds(start + seconds(3600), 2)
    assert fresh(running).intent != "running"
    kinds = list(Event.objects.filter(workspace=running, kind__startswith="hold.").values_list("kind", flat=True))
    assert kinds == ["hold.added", "hold.expired"]


def test_a_guests_hold_counts_is_capped_and_cannot_be_renewed_past_its_cap(running: Workspace, ann: User, work: Work,
                                                                           root: User) -> None:
    from workspaces import policies

    policies.put(actor(root), "default", {"max_hold_s": {"value": 1800}})
    start = now_of(running)
    for number in range(170):
        now = start + LOOK * number
        work.said["holds"] = [{"reason": "build", "expires_at": now.timestamp() + 3600, "from": "guest"}]
        idle.run(now)
    assert fresh(running).intent == "running"
    for number in range(170, 185):
        idle.run(start + LOOK * number)
    assert fresh(running).intent != "running", "half an hour is the most, however often it is said"


def test_a_host_that_is_silent_keeps_everything(running: Workspace, work: Work) -> None:
    work.silent = True
    end = rounds(now_of(running), 120)
    assert fresh(running).intent == "running"
    work.silent = False
    end = rounds(end + LOOK, 85)
    assert fresh(running).intent == "running", "it counts from when its host was heard again"
    rounds(end + LOOK, 10)
    assert fresh(running).intent != "running"


def test_an_older_host_that_says_nothing_of_work_keeps_everything(running: Workspace, work: Work) -> None:
    work.said = None
    rounds(now_of(running), 120)
    assert fresh(running).intent == "running"


def test_what_begins_between_the_look_and_the_act_is_seen(running: Workspace, work: Work,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    start = now_of(running)
    rounds(start, 90)
    observe = HostLink.observe

    def meanwhile(link: HostLink, machine_id: str) -> dict[str, Any]:
        return {**observe(link, machine_id), "work": {**work.said, "running_execs": 1}}

    monkeypatch.setattr(HostLink, "observe", meanwhile)
    rounds(start + QUARTER, 3)
    assert fresh(running).intent == "running"
    monkeypatch.setattr(HostLink, "observe", observe)

    def used(row: Workspace, *_: Any) -> bool:
        Workspace.objects.filter(pk=row.pk).update(last_activity_at=start + QUARTER, last_activity_kind="exec")
        return False

    monkeypatch.setattr(idle, "_works_after_all", used)
    Tally.objects.update(since=start)
    rounds(start + QUARTER + LOOK * 3, 1)
    assert fresh(running).intent == "running", "the stamp that came is seen under the row's lock"
    assert fresh(running).last_activity_at == start + QUARTER, "it came to the very last look"


def test_two_schedulers_make_one_turn_and_a_frozen_one_changes_nothing_more(running: Workspace, work: Work) -> None:
    """Field case 043."""
    assert idle.run(NOON) == 0 and work.asked == 1
    idle.run(NOON + seconds(1))
    assert work.asked == 1, "the other scheduler's turn a second later is not due"
    turn = jobs.begin("idle", idle.EVERY, NOON + seconds(10))
    assert turn is not None and turn.still_ours()
    idle.run(NOON + seconds(20))
    assert work.asked == 1, "one that is under way is not doubled"
    later = NOON + seconds(10) + jobs.LIFETIME
    assert idle.run(later) == 0 and work.asked == 2, "one that was killed is taken over"
    assert not turn.still_ours(), "and does nothing when it comes back"
    jobs.end(turn)
    assert jobs.begin("idle", idle.EVERY, NOON - timedelta(hours=1)) is not None, "a clock that went back stops nothing"
    assert Job.objects.count() == 1


def test_a_suspended_owners_machines_go_to_rest_at_the_next_look(running: Workspace, ann: User, work: Work) -> None:
    """Field case 105: with an exec running and a hold on it, too."""
    work.said["running_execs"] = 3
    holds.add(actor(ann), running, "mine", 3600)
    ann.is_active = False
    ann.save()
    idle.run(NOON)
    assert fresh(running).intent != "running" and fresh(running).cause == "owner suspended"


def test_each_workspaces_own_wish_is_obeyed(running: Workspace, hostd: Hostd, work: Work) -> None:
    Workspace.objects.filter(pk=running.pk).update(idle={"standby_after_s": 0})
    end = rounds(now_of(running), 120)
    assert fresh(running).intent == "running"
    Workspace.objects.filter(pk=running.pk).update(idle={"standby_after_s": 60})
    rounds(end + LOOK, 2)
    assert fresh(running).intent != "running"


def test_where_hosts_keep_memory_it_is_standby_that_is_wanted(running: Workspace, work: Work) -> None:
    host = Host.objects.get()
    Host.objects.update(capabilities={**host.capabilities, "memory_images": True})
    rounds(now_of(running), 93)
    assert fresh(running).intent == "standby"


def test_a_standby_that_fails_again_and_again_is_asked_for_less_and_less_and_says_so(
        running: Workspace, ann: User, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    Host.objects.update(capabilities={**Host.objects.get().capabilities, "memory_images": True})
    Workspace.objects.filter(pk=running.pk).update(idle={"standby_after_s": 60})
    now, tried = now_of(running), []
    for _ in range(5400 // 10):
        now += LOOK
        monkeypatch.setattr("workspaces.services.timezone.now", lambda now=now: now)
        idle.run(now)
        row = fresh(running)
        if row.intent == "standby":
            tried.append((now - now_of(running)).total_seconds())
            services.note_standby_failed(row, "disk_full", "no space is left")
            Workspace.objects.filter(pk=row.pk).update(state="running")
    gaps = [round((after - before) / 60) for before, after in pairwise(tried)]
    assert gaps == [5, 10, 20, 40], tried
    said = Api(ann)("GET", f"workspaces/{running.pk}").json()
    assert [one["kind"] for one in said["awake_because"]] == ["standby_failed"]
    assert "disk_full" in said["awake_because"][0]["detail"]
    note_rested(running.pk)
    assert Tally.objects.get().rest_failures == 0


def test_a_real_exec_on_a_real_host_keeps_it_and_its_end_lets_it_go(running: Workspace, hostd: Hostd) -> None:
    """Field case 029: nothing is patched here; a silent command of 20 minutes by the job's clock."""
    place = f"/v1/machines/{running.pk}"
    started = hostd.post(f"{place}/execs?wait_s=0", {"exec_id": "e" * 20, "command": ["sleep", "600"],
                                                     "background": True})
    assert started["state"] in ("starting", "running"), started
    eventually("the host sees work", lambda: hostd.get(place)["work"]["running_execs"] == 1)
    end = rounds(now_of(running), 130)
    assert fresh(running).intent == "running" and Tally.objects.get().running_execs == 1
    hostd.post(f"{place}/execs/{'e' * 20}/signal", {"signal": "SIGKILL"})
    eventually("the host sees no work", lambda: hostd.get(place)["work"]["running_execs"] == 0)
    end = rounds(end + LOOK, 85)
    assert fresh(running).intent == "running", "the count begins where the work ended"
    rounds(end + LOOK, 10)
    assert fresh(running).intent != "running"
    assert converge(running.pk).state in ("standby", "stopped")


def test_a_hold_from_inside_is_heard_from_the_host(running: Workspace, hostd: Hostd) -> None:
    """`berth-hold` itself, in a real guest of the fake driver."""
    place = f"/v1/machines/{running.pk}"
    asked = hostd.post(f"{place}/execs?wait_s=30", {
        "exec_id": "f" * 20, "user": "root", "command": "BERTH_HOLD_SOCKET=/mnt/hold.sock PYTHONPATH=/srv python3 -m "
                                        "sandboxes.guest.agent.holdclient --reason build --ttl 3600"})
    assert asked["outcome"] == {"kind": "exited", "code": 0}, asked["stderr"]
    eventually("the host has heard it", lambda: hostd.get(place)["work"]["holds"], 60)
    end = rounds(now_of(running), 300)
    assert fresh(running).intent == "running"
    hold = Workspace.objects.get().holds.get()
    assert (hold.reason, hold.source) == ("build", "guest")
    rounds(end + LOOK, 70)
    assert fresh(running).intent != "running", "its hour is over"
