"""Policies: what holds for whom and who said so, bounds, the API, the admin site, and the dry run."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.upstairs.conftest import HOST, Api, actor, make
from workspaces import policies, services
from workspaces.api.errors import Problem
from workspaces.models import Event, User, Workspace
from workspaces.models_policy import Policy, Tally
from workspaces.policy import KINDS, Kind, Layers, refusals, resolve

DAY = 24 * 3600
BUILT_IN: dict[str, int | None] = dict.fromkeys(KINDS, 1000)


def term(**said: int | None) -> dict[str, Any]:
    return {"stop_after_s": said}


def test_the_nearest_word_wins_and_says_whose_it_is() -> None:
    def found(**layers: Any) -> tuple[int | None, str]:
        own = layers.pop("own", None)
        one = resolve(Layers(BUILT_IN, **{"default": {}, **layers}), own)["stop_after_s"]
        return one.value, one.source

    assert found() == (1000, "built_in")
    assert found(default=term(value=2000)) == (2000, "default")
    groups = (("a", term(value=3000)), ("b", term(value=4000)), ("c", {}))
    assert found(default=term(value=2000), groups=groups) == (4000, "group:b"), "the most generous of one's groups"
    assert found(groups=(*groups, ("d", term(value=None)))) == (None, "group:d"), "never is the most generous"
    assert found(groups=groups, user=term(value=70)) == (70, "user")
    assert found(groups=groups, user=term(value=70), own={"stop_after_s": 99}) == (99, "workspace")
    assert found(user=term(value=70), own={"stop_after_s": 0}) == (None, "workspace")


terms = st.dictionaries(st.just("stop_after_s"), st.fixed_dictionaries({}, optional={
    "value": st.none() | st.integers(0, 10**6), "upper_bound": st.none() | st.integers(60, 10**6)}))


@given(terms, st.lists(st.tuples(st.text(max_size=3), terms), max_size=4), st.none() | terms,
       st.dictionaries(st.just("stop_after_s"), st.none() | st.integers(0, 10**7)))
@settings(max_examples=500, deadline=None)
def test_nothing_is_ever_above_the_bound_that_holds(default: Any, groups: Any, user: Any, own: Any) -> None:
    found = resolve(Layers(BUILT_IN, default, tuple(groups), user), own)["stop_after_s"]
    if found.upper_bound is not None:
        assert found.value is not None and found.value <= found.upper_bound
    assert found.value is None or found.value > 0


@pytest.mark.parametrize("wrong", [
    [], {"nonsense": {"value": 1}}, {"cpus": 3}, {"cpus": {"value": "3"}}, {"cpus": {"value": True}},
    {"cpus": {"valu": 3}}, {"cpus": {"value": -1}}, {"cpus": {"value": 9, "upper_bound": 8}},
    {"cpus": {"value": None, "upper_bound": 8}}, {"standby_after_s": {"value": 5}},
    {"standby_after_s": {"value": 0, "upper_bound": 900}}, {"auto_checkpoints": {"value": 2}},
    {"trash_after_s": {"value": 60}}, {"standby_after_s": {"value": 10**12}}])
def test_terms_that_cannot_be_meant_are_refused_by_name(wrong: Any) -> None:
    assert refusals(wrong)


def test_every_built_in_term_is_a_term(db: None) -> None:
    said = policies.built_in()
    assert set(said) == set(KINDS)
    assert not refusals({name: {"value": value} for name, value in said.items()})
    assert {Kind.FLAG} == {KINDS["auto_checkpoints"]}


def test_one_query_and_the_book_say_the_same(ann: User, bob: User, root: User,
                                             django_assert_max_num_queries: Any) -> None:
    crew = Group.objects.create(name="crew/day")
    ann.groups.add(crew)
    policies.put(actor(root), "default", {"cpus": {"value": 2, "upper_bound": 6}})
    policies.put(actor(root), "group:crew/day", {"cpus": {"value": 4}})
    policies.put(actor(root), "user:bob", {"cpus": {"value": 8}})
    book = policies.Book()
    for user, value, source in ((ann, 4, "group:crew/day"), (bob, 6, "user"), (root, 2, "default")):
        with django_assert_max_num_queries(1):
            found = policies.effective(user)
        assert found == book.of(user.pk)
        assert (found["cpus"].value, found["cpus"].source) == (value, source)
    assert policies.effective(bob)["cpus"].capped


def test_admins_set_read_change_and_remove_policies_and_nobody_else_does(api: Api, root: User) -> None:
    admin = Api(root)
    Group.objects.create(name="crew")
    assert api("GET", "policies").status_code == 403
    assert api("PUT", "policies/default", {"terms": {}}).status_code == 403
    put = admin("PUT", "policies/group:crew", {"terms": {"cpus": {"value": 4}, "running": {"value": None}}})
    assert put.status_code == 200 and put.json()["scope"] == "group:crew" and put.json()["changed_by"] == "test"
    changed = admin("PATCH", "policies/group:crew", {"terms": {"cpus": None, "memory_mib": {"upper_bound": 9000}}})
    assert changed.json()["terms"] == {"running": {"value": None}, "memory_mib": {"upper_bound": 9000}}
    assert [p["scope"] for p in admin("GET", "policies").json()["results"]] == ["group:crew"]
    wrong = admin("PUT", "policies/default", {"terms": {"cpus": {"value": "many"}}})
    assert (wrong.status_code, list(wrong.json()["errors"])) == (400, ["cpus"])
    assert admin("PUT", "policies/user:nobody", {"terms": {}}).status_code == 404
    assert admin("DELETE", "policies/group:crew").status_code == 204
    assert admin("GET", "policies/group:crew").status_code == 404
    assert admin("DELETE", "policies/group:crew").status_code == 204, "already so"
    reader = Api(root, "workspaces:read")
    assert reader("GET", "policies").json()["code"] == "scope_missing"


def test_everybody_reads_what_holds_for_them_and_only_admins_what_holds_for_others(api: Api, ann: User, bob: User,
                                                                                     root: User) -> None:
    policies.put(actor(root), "user:ann", {"standby_after_s": {"value": 120, "upper_bound": 300}})
    mine = api("GET", "policies/effective").json()
    assert mine["user"] == "ann"
    assert mine["terms"]["standby_after_s"] == {"value": 120, "source": "user", "upper_bound": 300, "capped": False}
    assert api("GET", "policies/effective?user=ann").status_code == 200
    assert api("GET", "policies/effective?user=bob").status_code == 404
    assert Api(root)("GET", "policies/effective?user=bob").json()["user"] == "bob"


def test_a_workspaces_own_wish_stays_within_the_bound(api: Api, ann: User, root: User) -> None:
    policies.put(actor(root), "default", {"standby_after_s": {"upper_bound": 3600}})
    for wish in (7200, 0, None):
        refused = api("POST", "workspaces", {"name": "box", "idle": {"standby_after_s": wish}})
        assert refused.status_code == 400 and "3600" in str(refused.json()["errors"]["idle"]), wish
    made = api("POST", "workspaces", {"name": "box", "idle": {"standby_after_s": 1800, "stop_after_s": 0}})
    assert made.status_code == 201 and made.json()["idle"] == {"standby_after_s": 1800, "stop_after_s": 0}
    path = f"workspaces/{made.json()['id']}"
    assert api("PATCH", path, {"idle": {"standby_after_s": 4000}}).status_code == 400
    assert api("PATCH", path, {"idle": {"standby_after_s": -1}}).status_code == 400
    policies.put(actor(root), "default", {"standby_after_s": {"upper_bound": 600}})
    row = Workspace.objects.get()
    assert policies.Book().of_workspace(row.owner_id, row.idle)["standby_after_s"].value == 600, "a lowered bound holds"


def test_the_trash_is_kept_as_long_as_policy_says(api: Api, ann: User, root: User) -> None:
    workspace = make(ann)
    policies.put(actor(root), "user:ann", {"purge_after_s": {"value": 3600}})
    row, _ = services.delete(actor(ann), workspace)
    assert row.purge_at is not None and timedelta(0) < row.purge_at - timezone.now() <= timedelta(hours=1)
    services.undelete(actor(ann), row)
    policies.put(actor(root), "user:ann", {"purge_after_s": {"value": None}})
    row, _ = services.delete(actor(ann), row)
    assert row.purge_at is None
    shown = api("GET", f"workspaces/{row.pk}").json()
    assert (shown["purge_at"], shown["next_transition"]) == (None, None)


def test_nobody_starts_what_a_suspended_person_owns(ann: User, bob: User) -> None:
    """Field case 105."""
    workspace, _ = services.stop(actor(ann), make(ann))
    User.objects.filter(pk=ann.pk).update(is_active=False)
    with pytest.raises(Problem) as refused:
        services.wake(workspace, actor(bob), "exec")
    assert refused.value.extra["reason"] == "owner_suspended"
    User.objects.filter(pk=ann.pk).update(is_active=True)
    services.wake(workspace, actor(bob), "exec")


def test_the_dry_run_lists_what_would_go_by_the_present_and_by_a_proposed_policy_and_changes_nothing(
        ann: User, bob: User, root: User) -> None:
    admin = Api(root)
    for user in (ann, bob):
        Workspace.objects.filter(pk=make(user).pk).update(intent="stopped", state="stopped")
    trash = make(ann, "old")
    services.delete(actor(ann), trash)
    events = Event.objects.count()
    now = admin("GET", "policies/dry-run").json()
    assert [(one["id"], one["to"]) for one in now["results"]] == [(trash.pk, "purged")], "stopped ones stay for good"
    proposal = {"scope": "user:bob", "terms": {"trash_after_s": {"value": 86400}, "purge_after_s": {"value": 3600}}}
    then = admin("POST", "policies/dry-run", proposal).json()
    assert [(one["owner"], one["to"]) for one in then["results"]] == [("bob", "deleted"), ("bob", "purged"),
                                                                      ("ann", "purged")]
    assert then["complete"] and then["results"][0]["because"] == "trash_after_s"
    only = admin("POST", "policies/dry-run?user=ann&days=1", proposal).json()
    assert only["results"] == []
    assert admin("POST", "policies/dry-run", {"scope": "default", "terms": {"x": {}}}).status_code == 400
    assert Policy.objects.count() == 0 and Event.objects.count() == events
    assert Api(ann)("GET", "policies/dry-run").status_code == 403


def test_the_dry_run_follows_those_that_run_down_the_whole_ladder_when_asked(box: Workspace, root: User) -> None:
    now = timezone.now()
    Tally.objects.update_or_create(pk=box.pk, defaults={
        "stage": f"{box.state}:{box.generation}", "activity": box.last_activity_at, "since": now, "lag": timedelta(),
        "seen_at": now, "observed": True})
    admin = Api(root)
    assert admin("GET", "policies/dry-run").json()["results"] == []
    as_set = admin("GET", "policies/dry-run?running=true").json()
    assert steps(as_set, now) == [("standby", 900), ("stopped", 900 + 7 * DAY)]
    proposal = {"scope": "default", "terms": {"standby_after_s": {"value": 60}, "stop_after_s": {"value": 3600},
                                              "trash_after_s": {"value": DAY}}}
    then = admin("POST", "policies/dry-run?running=true&days=2", proposal).json()
    assert steps(then, now) == [("standby", 60), ("stopped", 3660), ("deleted", 3660 + DAY)]
    assert then["results"][0]["because"] == "idle" and admin("GET", "policies/dry-run?running=1").status_code == 400


def steps(said: dict[str, Any], since: datetime) -> list[tuple[str, int]]:
    """What becomes of it, and how many seconds after that instant."""
    return [(one["to"], round((datetime.fromisoformat(one["at"]) - since).total_seconds())) for one in said["results"]]


def test_the_admin_site_sets_terms_in_plain_words(root: User) -> None:
    client = Client()
    client.force_login(root)
    page = "/admin/workspaces/policy/"

    def post(path: str, **lines: str) -> Any:
        return client.post(page + path, {"group": "", "user": "", **lines}, headers={"host": HOST})

    assert client.get(page + "add/", headers={"host": HOST}).status_code == 200
    wrong = post("add/", cpus="many")
    assert wrong.status_code == 200 and b"A number, or: never." in wrong.content
    assert post("add/", cpus="4", running="never", cpus_bound="8").status_code == 302
    row = Policy.objects.get()
    assert row.pk == "default" and row.changed_by == "root"
    assert row.terms == {"cpus": {"value": 4, "upper_bound": 8}, "running": {"value": None}}
    assert b"JSON: [" in post("default/change/", network_private="10.0.0.0/8").content
    assert b"[0]: " in post("default/change/", network_private='["10.0.0.1/8"]').content
    nets = {"network_bound": "null", "network_private": '["10.0.0.0/8"]', "network_default": '{"mode": "allow-all"}'}
    assert post("default/change/", **nets).status_code == 302
    shown = client.get(page + "default/change/", headers={"host": HOST}).content
    assert b"allow-all" in shown and b"value=\"null\"" in shown
    assert Policy.objects.get().terms["network_bound"] == {"value": None}
    again = post("add/", cpus="5")
    assert again.status_code == 200 and b"There is one for it already" in again.content
    assert post("default/change/", cpus="5").status_code == 302
    assert Policy.objects.get().terms == {"cpus": {"value": 5}}
    assert client.get(page + "default/change/", headers={"host": HOST}).status_code == 200
    assert client.get(page, headers={"host": HOST}).status_code == 200
