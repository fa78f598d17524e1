"""Lists stay as fast with many rows as with few: the database walks an index and sorts nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from tests.upstairs.conftest import HOST, Api, actor, person
from workspaces import members, selectors
from workspaces.live.shown import marked, shown_to
from workspaces.models import User, Workspace


def rows(owner: User, names: list[str], minutes: int = 0) -> list[Workspace]:
    made = Workspace.objects.bulk_create(
        [Workspace(owner=owner, name=name, intent="stopped", state="stopped") for name in names])
    for n, row in enumerate(made):
        Workspace.objects.filter(pk=row.pk).update(created_at=timezone.now() - timedelta(minutes=minutes + 2 * n))
    return made


@pytest.mark.parametrize("filters", [{}, {"state": "stopped"}])
def test_no_page_of_workspaces_is_sorted_by_the_database(ann: User, root: User, filters: dict[str, str]) -> None:
    if connection.vendor != "sqlite":
        pytest.fail("the words of this plan are SQLite's; say here what another database's are")
    rows(ann, [f"w{n}" for n in range(50)])
    for who in (ann, root):
        for part in selectors.workspaces_by_index(actor(who), metadata=True):
            plan = part.filter(**filters).exclude(intent="deleted").order_by("-created_at", "-pk")[:51].explain()
            assert "TEMP B-TREE" not in plan and "SCAN workspaces_workspace\n" not in plan + "\n", plan


def test_ones_own_and_those_of_others_are_paged_as_one_list_newest_first(api: Api, ann: User) -> None:
    bob = person("bob")
    mine, theirs = rows(ann, ["a0", "a1", "a2"]), rows(bob, ["b0", "b1", "b2"], minutes=1)
    for row in theirs:
        members.add(actor(bob), row, "ann", "viewer")
    seen, url = [], "/api/v1/workspaces?limit=2"
    while url:
        page = api("GET", url.removeprefix(f"http://{HOST}")).json()
        seen += [row["name"] for row in page["results"]]
        url = page["next"]
    assert seen == ["a0", "b0", "a1", "b1", "a2", "b2"]
    limited = Api(ann, workspace_ids=[mine[0].pk, theirs[2].pk])
    assert [row["name"] for row in limited("GET", "workspaces").json()["results"]] == ["a0", "b2"]


def names_of(api: Api, query: str) -> list[str]:
    """Every page of it, one after the other."""
    seen, url = [], f"/api/v1/workspaces?limit=2&{query}"
    while url:
        page = api("GET", url.removeprefix(f"http://{HOST}")).json()
        seen += [row["name"] for row in page["results"]]
        url = page["next"]
    return seen


def test_a_list_is_searched_and_sorted_on_the_server_over_all_its_pages(api: Api, ann: User, root: User) -> None:
    bob = person("bob")
    made = rows(ann, ["beta", "Alpha", "gamma", "alpha-2", "delta"])
    for n, row in enumerate(made):
        Workspace.objects.filter(pk=row.pk).update(
            disk_gib=[30, 10, 20, 10, 10][n], labels={"team": "ab"[n % 2]},
            last_activity_at=timezone.now() + timedelta(minutes=n) if n > 2 else None)
    rows(bob, ["alphabet"])
    assert names_of(api, "sort=name") == ["Alpha", "alpha-2", "beta", "delta", "gamma"]
    assert names_of(api, "sort=-name") == ["gamma", "delta", "beta", "alpha-2", "Alpha"]
    assert names_of(api, "sort=-last_activity_at") == ["delta", "alpha-2", "beta", "Alpha", "gamma"]
    assert names_of(api, "sort=-disk_gib")[:2] == ["beta", "gamma"]
    assert sorted(names_of(api, "sort=disk_gib")[:3]) == ["Alpha", "alpha-2", "delta"]
    assert names_of(api, "sort=created_at") == names_of(api, "")[::-1]
    assert names_of(api, "search=ALPHA&sort=name") == ["Alpha", "alpha-2"]
    assert names_of(api, "search=alpha&label.team=b&sort=-name") == ["alpha-2", "Alpha"]
    assert names_of(api, f"search={made[2].pk[:8]}") == ["gamma"]
    assert names_of(api, "search=nothing%25like_this") == []
    admin = Api(root)
    assert set(names_of(admin, "search=alpha&sort=owner")) == {"Alpha", "alpha-2", "alphabet"}
    assert names_of(admin, "sort=-owner")[0] == "alphabet", "bob's"
    assert names_of(admin, "search=bob") == ["alphabet"]
    assert names_of(admin, "mine=true&sort=name") == names_of(admin, "mine=true") == []


def test_an_order_a_cursor_or_a_search_that_cannot_be_is_refused(api: Api, ann: User) -> None:
    rows(ann, ["a", "b", "c"])
    by_name = api("GET", "workspaces?limit=1&sort=name").json()["next"].partition("cursor=")[2]
    for wrong in ("sort=colour", "sort=", "search=" + "x" * 201, "mine=yes", f"cursor={by_name}",
                  "sort=name&cursor=e30"):
        answer = api("GET", f"workspaces?{wrong}")
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid"), wrong
    assert [row["name"] for row in api("GET", f"workspaces?sort=name&cursor={by_name}").json()["results"]] == ["b", "c"]


def test_what_a_new_workspace_may_be_made_of_is_told_to_everybody(api: Api, ann: User) -> None:
    assert "default" in [image["name"] for image in api("GET", "images").json()["results"]]


def test_a_look_for_the_events_socket_reads_whole_rows_of_those_alone_that_changed(
        ann: User, django_assert_num_queries: Any) -> None:
    made = rows(ann, [f"w{n}" for n in range(20)])
    before = marked(actor(ann))
    with django_assert_num_queries(1):
        same = shown_to(actor(ann), before, HOST)
    assert all(same[pk] is before[pk] for pk in before) and len(same) == 20
    Workspace.objects.filter(pk=made[3].pk).update(event_seq=7, name="renamed")
    Workspace.objects.filter(pk=made[4].pk).update(state="deleted")
    Workspace.objects.filter(pk=made[5].pk).delete()
    now = shown_to(actor(ann), same, HOST)
    changed = {pk: shown.value["name"] for pk, shown in now.items() if shown is not before[pk]}
    assert changed == {made[3].pk: "renamed", made[4].pk: "w4"}, "who saw it is told that it went to the trash"
    assert made[5].pk not in now
    assert made[4].pk not in shown_to(actor(ann), {}, HOST), "who did not see it is not shown it there"
