"""Lists stay as fast with many rows as with few: the database walks an index and sorts nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from tests.upstairs.conftest import HOST, Api, actor, person
from workspaces import members, selectors
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
