"""Checkpoints and how long they are kept: none goes before its notice, nor while it is needed. The rule over a fake
clock, then end to end."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.upstairs.conftest import actor, make
from tests.upstairs.laid_down import DAY, HOUR, MINUTE, notices_of, point, turns
from workspaces import checkpoints, forecast, policies
from workspaces.actors import SYSTEM
from workspaces.models import Checkpoint, Event, User, Workspace
from workspaces.retention_rule import Do, End, Keeping, Point, Told, end_by_time, ends

NOON = datetime(2031, 5, 1, 12, tzinfo=UTC)


class Kept:
    """A workspace's checkpoints over time, as retention sees them, and what must be true of each that goes."""

    def __init__(self, keeping: Keeping) -> None:
        self.keeping, self.now = keeping, NOON
        self.told_when: dict[str, datetime] = {}
        self.points: dict[str, Point] = {}

    def add(self, kind: str, life_s: int | None) -> None:
        ends_at = None if life_s is None else self.now + timedelta(seconds=life_s)
        point = Point(f"{len(self.told_when)}-{len(self.points)}-{self.now.timestamp()}", kind, self.now, ends_at)
        self.points[point.id] = point

    def look(self, needed: set[str]) -> None:
        listed = sorted(self.points.values(), key=lambda p: (p.created_at, p.id))
        for end in ends(listed, self.keeping, self.now, needed):
            point = self.points[end.id]
            if end.do is Do.WAIT:
                assert end.at is not None and end.at > self.now
            elif end.do is Do.NOTIFY:
                self.points[end.id] = replace(point, told=Told(end.because, end.at or self.now))
                self.told_when[end.id] = self.now
            else:
                self._may_go(point, end, listed, needed)
                del self.points[end.id]

    def _may_go(self, point: Point, end: End, listed: list[Point], needed: set[str]) -> None:
        assert point.id not in needed
        told_when = self.told_when[point.id]
        assert told_when < self.now, "said before, and not by the same look"
        same = [p for p in listed if p.kind == point.kind and p.id != point.id]
        if end.because == "expired":
            at = end_by_time(point, self.keeping)
            assert at is not None and at <= self.now
            life = (at - point.created_at).total_seconds()
            lead = timedelta(seconds=min(self.keeping.notice_s, life))
            assert self.now - told_when >= lead or told_when < at <= self.now, "the notice gave its time"
        else:
            assert point.kind != "manual"
            most = self.keeping.last[point.kind]
            newer = [p for p in same if p.created_at >= point.created_at]
            assert most is not None and len(newer) >= max(most, 1 if point.kind == "safety" else 0)


happenings = st.lists(st.tuples(
    st.integers(1, 40_000),                                                # seconds until then
    st.sampled_from(["manual", "auto", "auto", "auto", "safety", ""]),     # what is taken
    st.none() | st.integers(0, 90_000),                                    # and when it ends by itself
), min_size=1, max_size=60)


@given(happenings, st.none() | st.integers(0, 4), st.none() | st.integers(60, 200_000), st.integers(0, 50_000),
       st.data())
@settings(max_examples=400, deadline=None)
def test_no_checkpoint_goes_before_its_notice_gave_its_time_nor_while_it_is_needed_nor_out_of_turn(
        steps: list[tuple[int, str, int | None]], most: int | None, expiry_s: int | None, notice_s: int,
        data: st.DataObject) -> None:
    kept = Kept(Keeping({"auto": most, "safety": most}, expiry_s, notice_s))
    for passed, kind, life_s in steps:
        kept.now += timedelta(seconds=passed)
        if kind:
            kept.add(kind, life_s)
        needed = data.draw(st.sets(st.sampled_from(sorted(kept.points)), max_size=3)) if kept.points else set()
        kept.look(needed)
    for _ in range(3):  # whoever nobody needs any more, and was told, is gone in the end
        kept.now += timedelta(seconds=200_000 + notice_s)
        kept.look(set())
    for kind in ("auto", "safety"):
        left = [p for p in kept.points.values() if p.kind == kind]
        assert most is None or len(left) <= max(most, 1)
        assert expiry_s is None or left == [], "all of them were older than that"
    assert all(p.expires_at is None for p in kept.points.values())


def test_the_one_that_the_next_pushes_out_is_told_while_it_is_there_and_only_once() -> None:
    kept = Kept(Keeping({"auto": 2}, None, 3600))
    for _ in range(2):
        kept.now += MINUTE
        kept.add("auto", None)
    first = min(kept.points.values(), key=lambda p: p.created_at)
    said = ends(kept.points.values(), kept.keeping, kept.now)
    assert [(one.do, one.id, one.because, one.at) for one in said] == [(Do.NOTIFY, first.id, "kept_last", None)]
    kept.look(set())
    assert ends(kept.points.values(), kept.keeping, kept.now + DAY) == []
    kept.now += MINUTE
    kept.add("auto", None)
    assert [(one.do, one.id) for one in ends(kept.points.values(), kept.keeping, kept.now) if one.do is Do.ACT] == [
        (Do.ACT, first.id)], "it was told, so it goes at once"


# -- end to end -----------------------------------------------------------------------------------------------------


def test_checkpoints_are_thinned_out_by_policy_after_a_notice_with_an_event_each(asleep: Workspace, root: User) -> None:
    policies.put(actor(root), "default", {"checkpoint_keep_last": {"value": 2}, "notice_s": {"value": 3600},
                                          "checkpoint_expiry_s": {"value": 10 * 86400}})
    kept = [point(asleep, "auto", n * HOUR) for n in (1, 2)]
    crowded = point(asleep, "auto", 3 * HOUR)
    own = point(asleep, "manual", 400 * DAY)
    now = timezone.now()
    ended = point(asleep, "manual", DAY, expires_at=now - MINUTE)
    old = point(asleep, "safety", 11 * DAY)
    found, complete = forecast.forecast(policies.Book(), now, 30 * DAY)
    going = {crowded.pk, ended.pk, old.pk}
    assert complete and {one.id for one in found if one.at <= now + HOUR} == going
    assert not any(one.noticed for one in found)
    turns(now, now + 57 * MINUTE)
    assert {one["checkpoint"]: one["because"] for one in notices_of(asleep)} == {
        crowded.pk: "checkpoint_keep_last", ended.pk: "expires_at", old.pk: "checkpoint_expiry_s",
        kept[1].pk: "checkpoint_keep_last"}
    assert Checkpoint.objects.filter(dropped_at=None).count() == 6, "an hour's notice, although their time was over"
    assert {one.id for one in forecast.forecast(policies.Book(), now, DAY)[0] if one.noticed} == going
    turns(now + HOUR, now + 66 * MINUTE)
    left = set(Checkpoint.objects.filter(dropped_at=None).values_list("pk", flat=True))
    assert left == {own.pk, *(one.pk for one in kept)}
    said = {one["checkpoint"]: one["because"] for one in
            Event.objects.filter(kind="checkpoint.deleted").values_list("data", flat=True)}
    assert said == {crowded.pk: "kept_last", ended.pk: "expired", old.pk: "expired"}


def test_an_automatic_one_that_is_pushed_out_was_told_when_it_became_the_last_of_the_window(
        asleep: Workspace, root: User, settings: Any) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    policies.put(actor(root), "default", {"checkpoint_keep_last": {"value": 2}})
    taken = []
    for _ in range(4):
        row = checkpoints.begin(Workspace.objects.get(pk=asleep.pk), SYSTEM, "auto")
        checkpoints.note_ready(Workspace.objects.get(pk=asleep.pk), row.pk, {"memory": False})
        taken.append(row.pk)
    order = [(one.kind, one.data["checkpoint"]) for one in Event.objects.filter(workspace=asleep).order_by("seq")
             if one.kind in ("retention.notice", "checkpoint.deleted")]
    assert order == [("retention.notice", taken[0]), ("checkpoint.deleted", taken[0]), ("retention.notice", taken[1]),
                     ("checkpoint.deleted", taken[1]), ("retention.notice", taken[2])]
    assert notices_of(asleep)[0]["at"] is None, "no time is known: the next one pushes it out"
    assert not Checkpoint.objects.filter(mailed=False).exists(), "nobody wants a letter for each"


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


def test_a_checkpoint_that_a_fork_begins_from_is_not_thinned_out(asleep: Workspace, ann: User, root: User) -> None:
    policies.put(actor(root), "default", {"notice_s": {"value": 60}})
    ended = point(asleep, "auto", 400 * DAY)
    Workspace.objects.filter(pk=make(ann, "fork").pk).update(origin_machine=asleep.pk, origin_checkpoint=ended.pk)
    now = turns(timezone.now(), timezone.now() + 9 * MINUTE)
    assert Checkpoint.objects.get(pk=ended.pk).dropped_at is None and len(notices_of(asleep)) == 1
    Workspace.objects.filter(name="fork").update(has_begun=True)
    turns(now, now)
    assert Checkpoint.objects.get(pk=ended.pk).dropped_at is not None
