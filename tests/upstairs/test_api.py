"""Workspaces over REST: shapes, statuses, lists, filters, quota, and what strictness refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from tests.upstairs.conftest import HOST, Api, actor, make
from workspaces import events, services
from workspaces.actors import SYSTEM
from workspaces.api.serializers import EventOut, HostOut, MeOut, TokenOut, WorkspaceOut
from workspaces.models import Event, Membership, User, Workspace

pytestmark = pytest.mark.django_db


def test_create_answers_201_with_every_field_of_the_contract(api: Api) -> None:
    answer = api("POST", "workspaces", {"name": "red", "labels": {"team": "a"}, "env": {"A": "1"}, "cpus": 2})
    assert answer.status_code == 201
    made = answer.json()
    assert set(made) == set(WorkspaceOut().fields)
    assert (made["state"], made["role"], made["owner"], made["cpus"]) == ("creating", "owner", "ann", 2)
    assert answer["Location"] == f"/api/v1/workspaces/{made['id']}"
    assert made["preview_url_template"] == f"http://{{port}}--{made['id']}.preview.localhost:8000/"
    assert api("GET", f"workspaces/{made['id']}").json() == made


def test_answers_have_exactly_the_fields_the_schema_names(api: Api, ann: User, root: User) -> None:
    workspace = make(ann)
    event = api("GET", f"workspaces/{workspace.pk}/events").json()["results"][0]
    assert set(event) | {"cause"} == set(EventOut().fields)
    assert set(api("GET", "me").json()) == set(MeOut().fields)
    assert set(api("POST", "tokens", {"name": "t"}).json()) == set(TokenOut().fields)
    from sandboxes.models import Host

    Host.objects.create(pk="h", name="h", address="unix:/nowhere")
    assert set(Api(root)("GET", "hosts").json()["results"][0]) == set(HostOut().fields)


@pytest.mark.parametrize(("body", "field"), [
    ({}, "name"), ({"name": ""}, "name"), ({"name": "   "}, "name"), ({"name": 7}, "name"), ({"name": None}, "name"),
    ({"name": "a\u0000b"}, "name"), ({"name": "a\nb"}, "name"), ({"name": "x" * 101}, "name"),
    ({"name": "a", "cpus": "1"}, "cpus"), ({"name": "a", "cpus": True}, "cpus"), ({"name": "a", "cpus": 1.5}, "cpus"),
    ({"name": "a", "cpus": 0}, "cpus"), ({"name": "a", "memory_mib": 10**30}, "memory_mib"),
    ({"name": "a", "colour": "red"}, "colour"), ({"name": "a", "env": {"1A": "x"}}, "env.1A"),
    ({"name": "a", "env": {"A": 1}}, "env.A"), ({"name": "a", "env": {"A": "\u0000"}}, "env.A"),
    ({"name": "a", "env": []}, "env"), ({"name": "a", "labels": {"a b": "x"}}, "labels.a b"),
    ({"name": "a", "idle": {"standby_after_s": "60"}}, "idle.standby_after_s"),
    ({"name": "a", "idle": {"hibernate_after_s": 60}}, "idle.hibernate_after_s"),
    ({"name": "a", "network": {"mode": "allow-all"}}, "network.mode"), ({"name": "a", "network": "no"}, "network"),
    ({"name": "a", "image": "../etc"}, "image"), ({"name": "a", "image": "unknown"}, "image"),
    ({"name": "a", "secrets": [{"name": "s"}]}, "secrets"), ({"name": "a", "gpu": {"kind": "x", "count": 1}}, "gpu"),
    ({"name": "a", "from_checkpoint": "abc"}, "from_checkpoint"), ([], "body"), ("text", "body"), (7, "body"),
])
def test_a_body_that_is_not_right_is_refused_field_by_field(api: Api, body: Any, field: str) -> None:
    answer = api("POST", "workspaces", body)
    assert answer.status_code == 400, answer.content
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["code"] == "invalid" and field in answer.json()["errors"], answer.json()
    assert Workspace.objects.count() == 0


@pytest.mark.parametrize(("raw", "code", "status"), [
    (b"{", "malformed", 400), (b"\xff\xfe", "malformed", 400), (b'{"name": NaN}', "malformed", 400),
    (b"[" * 100_000, "malformed", 400), (b'{"name": "' + b"x" * (2 * 1024 * 1024) + b'"}', "too_large", 413),
    (b'{"name": "\\ud800"}', "invalid", 400), (b"1" * 5000, "malformed", 400),
])
def test_a_body_that_cannot_be_read_is_refused_by_name(api: Api, raw: bytes, code: str, status: int) -> None:
    answer = api("POST", "workspaces", raw)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_another_content_type_than_json_is_415(api: Api) -> None:
    answer = Client().post("/api/v1/workspaces", data="name=x", content_type="application/x-www-form-urlencoded",
                           headers={"authorization": f"Bearer {api.secret}", "host": HOST})
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize("name", ["проект", "作業", "مشروع", "a b", "v1", "..", "../x", "🚀 go", "12345", "x" * 100])
def test_names_in_any_script_are_fine(api: Api, name: str) -> None:
    assert api("POST", "workspaces", {"name": name}).json()["name"] == name


def test_a_name_is_unique_per_owner_and_free_again_on_delete(api: Api, ann: User, bob: User) -> None:
    first = api("POST", "workspaces", {"name": "box"}).json()
    taken = api("POST", "workspaces", {"name": "box"})
    assert (taken.status_code, taken.json()["code"]) == (409, "name_taken")
    assert Api(bob)("POST", "workspaces", {"name": "box"}).status_code == 201
    assert api("POST", "workspaces", {"name": "BOX"}).status_code == 201
    assert api("DELETE", f"workspaces/{first['id']}").status_code == 202
    second = api("POST", "workspaces", {"name": "box"})
    assert second.status_code == 201
    back = api("POST", f"workspaces/{first['id']}/undelete", {})
    assert (back.status_code, back.json()["code"]) == (409, "name_taken")


def test_composed_and_decomposed_spellings_are_one_name(api: Api) -> None:
    assert api("POST", "workspaces", {"name": "caf\u00e9"}).status_code == 201
    assert api("POST", "workspaces", {"name": "cafe\u0301"}).json()["code"] == "name_taken"


def test_lists_page_through_everything_once_while_rows_come_and_go(api: Api, ann: User) -> None:
    made = [make(ann, f"box {n}").pk for n in range(7)]
    seen: list[str] = []
    url = "workspaces?limit=3"
    while url:
        answer = api("GET", url).json()
        seen += [row["id"] for row in answer["results"]]
        if len(seen) == 3:
            make(ann, "late")
            Workspace.objects.filter(pk=seen[-1]).delete()
        url = answer["next"].split(HOST)[1] if answer["next"] else ""
    assert sorted(seen) == sorted(made)


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=x", "limit=-1", "cursor=zzz", "cursor=W10",
                                   "state=on", "cursor=%00", "label.=x", "name=%00", "wait=maybe",
                                   "cpus=x", "team=a", "stat=running"])
def test_a_query_that_is_not_right_is_refused(api: Api, query: str) -> None:
    answer = api("POST" if query.startswith("wait") else "GET", f"workspaces?{query}",
                 {"name": "x"} if query.startswith("wait") else None)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid"), answer.content


def test_filters_by_state_name_and_label(api: Api, ann: User) -> None:
    red = make(ann, "red", labels={"team": "a", "odd.key/x": "1"})
    blue = make(ann, "blue", labels={"team": "b"})
    services.stop(actor(ann), blue)
    services.delete(actor(ann), make(ann, "gone"))

    def names(query: str) -> list[str]:
        return sorted(row["name"] for row in api("GET", f"workspaces?{query}").json()["results"])

    assert names("") == ["blue", "red"], "the trash is shown to those who ask"
    assert names("state=deleted") == ["gone"]
    assert names("state=creating") == ["red"]
    assert names("name=red") == ["red"] and names("name=re") == []
    assert names("cpus=1&memory_mib=512") == ["blue", "red"] and names("cpus=2") == []
    assert names(f"id={red.pk}") == ["red"] and names("image=other") == []
    assert names("label.team=a") == ["red"] and names("label.team=c") == []
    assert names("label.odd.key/x=1&label.team=a") == ["red"]
    assert names("label.x__y=1") == [] and names("label.a'b=1") == []
    assert red.pk


def test_an_admin_sees_everybodys_metadata_and_nobodys_variables(ann: User, root: User) -> None:
    workspace = make(ann, "box", env={"TOKEN": "canary"})
    seen = Api(root)("GET", f"workspaces/{workspace.pk}")
    assert seen.status_code == 200 and b"canary" not in seen.content
    listed = Api(root)("GET", "workspaces?owner=ann").json()["results"]
    assert [row["id"] for row in listed] == [workspace.pk]
    without_scope = Api(root, "workspaces:read")
    assert without_scope("GET", f"workspaces/{workspace.pk}").status_code == 404


def test_an_admin_sees_that_something_happened_and_not_what_was_run(ann: User, root: User) -> None:
    workspace = make(ann, "box")
    events.append(workspace, "exec.started", SYSTEM, {"command": "echo canary"})
    events.append(workspace, "file.written", SYSTEM, {"path": "/canary"})
    path = f"workspaces/{workspace.pk}/events"
    assert b"canary" in Api(ann)("GET", path).content
    seen = Api(root)("GET", path)
    assert {"exec.started", "file.written"} < {event["kind"] for event in seen.json()["results"]}
    assert b"canary" not in seen.content


def test_patch_changes_what_may_be_changed_and_only_then(api: Api, ann: User) -> None:
    workspace = make(ann, "box")
    path = f"workspaces/{workspace.pk}"
    assert api("PATCH", path, {"name": "bix", "labels": {"a": "b"}}).json()["name"] == "bix"
    refused = api("PATCH", path, {"cpus": 2})
    assert (refused.status_code, refused.json()["reason"]) == (409, "not_stopped")
    assert api("PATCH", path, {"image": "default"}).json()["errors"] == {"image": ["Unknown field."]}
    Workspace.objects.filter(pk=workspace.pk).update(state="stopped", intent="stopped")
    assert api("PATCH", path, {"cpus": 2, "disk_gib": 20}).json()["disk_gib"] == 20
    assert api("PATCH", path, {"disk_gib": 10}).json()["errors"] == {"disk_gib": ["A disk only grows."]}
    fields = [e.data["fields"] for e in Event.objects.filter(workspace=workspace, kind="workspace.changed")]
    assert fields == [["labels", "name"], ["cpus", "disk_gib"]]


def test_commands_answer_200_when_already_so_202_when_accepted_409_with_a_reason(api: Api, ann: User) -> None:
    path = f"workspaces/{make(ann).pk}"
    Workspace.objects.update(state="running")
    assert api("POST", f"{path}/start").status_code == 200
    assert api("POST", f"{path}/undelete").status_code == 200
    assert api("POST", f"{path}/standby").status_code == 202
    assert api("POST", f"{path}/stop").status_code == 202
    refused = api("POST", f"{path}/standby")
    assert (refused.status_code, refused.json()["code"], refused.json()["reason"]) == (409, "state_conflict", "stopped")
    assert api("POST", f"{path}/stop").status_code in (200, 202)
    assert api("POST", f"{path}/restart", {}).status_code == 202
    assert api("POST", f"{path}/start", {"force": True}).json()["errors"] == {"force": ["Unknown field."]}
    assert api("DELETE", path).status_code == 202
    assert api("DELETE", path).status_code == 202, "deleting twice is no error"
    assert api("POST", f"{path}/start").json()["reason"] == "deleted"


def test_a_deleted_workspace_says_when_it_will_be_gone(api: Api, ann: User) -> None:
    workspace = make(ann)
    shown = api("DELETE", f"workspaces/{workspace.pk}").json()
    assert shown["next_transition"]["to"] == "purged" and shown["next_transition"]["at"] == shown["purge_at"]


def test_events_are_read_since_a_number_in_pages(api: Api, ann: User) -> None:
    workspace = make(ann)
    for n in range(4):
        api("PATCH", f"workspaces/{workspace.pk}", {"labels": {"n": str(n)}})
    path = f"workspaces/{workspace.pk}/events"
    first = api("GET", f"{path}?limit=3").json()
    assert [e["seq"] for e in first["results"]] == [1, 2, 3]
    rest = api("GET", first["next"].split(HOST)[1]).json()
    assert [e["seq"] for e in rest["results"]] == [4, 5] and rest["next"] is None
    assert api("GET", f"{path}?after=5").json() == {"results": [], "next": None}
    assert first["results"][0]["actor"] == {"type": "user", "name": "ann"}


def test_events_are_read_back_from_the_newest_in_pages(api: Api, ann: User) -> None:
    workspace = make(ann)
    for n in range(4):
        api("PATCH", f"workspaces/{workspace.pk}", {"labels": {"n": str(n)}})
    path = f"workspaces/{workspace.pk}/events"
    newest = api("GET", f"{path}?before={2**53 - 1}&limit=3").json()
    assert [e["seq"] for e in newest["results"]] == [3, 4, 5]
    rest = api("GET", newest["next"].split(HOST)[1]).json()
    assert [e["seq"] for e in rest["results"]] == [1, 2] and rest["next"] is None
    assert api("GET", f"{path}?before=1").json() == {"results": [], "next": None}
    assert api("GET", f"{path}?before=4&after=1").json()["code"] == "invalid"


def test_what_an_event_says_never_holds_a_variables_value(api: Api, ann: User) -> None:
    workspace = make(ann, env={"A": "canary"})
    api("PATCH", f"workspaces/{workspace.pk}", {"env": {"A": "canary-two"}})
    assert "canary" not in json.dumps(list(Event.objects.values_list("data", flat=True)))


def test_quota_says_which_limit_and_how_much_is_used(api: Api, settings: Any) -> None:
    settings.QUOTA_WORKSPACES = 2
    assert [api("POST", "workspaces", {"name": f"b{n}"}).status_code for n in range(3)] == [201, 201, 403]
    refused = api("POST", "workspaces", {"name": "b3"}).json()
    assert refused["code"] == "quota_exceeded"
    assert refused["quota"] == {"kind": "workspaces", "limit": 2, "used": 2, "wanted": 1}
    me = api("GET", "me").json()
    assert (me["quota"]["workspaces"], me["used"]["workspaces"], me["used"]["cpus"]) == (2, 2, 2)


def test_every_door_to_compute_respects_the_cap(api: Api, ann: User, settings: Any) -> None:
    """Field case 087: start, restart, wake and undelete, not only create."""
    first, second = make(ann, "one"), make(ann, "two")
    services.stop(actor(ann), first)
    Workspace.objects.filter(pk=first.pk).update(state="stopped")
    settings.QUOTA_CPUS = 1
    for door in ("start", "restart"):
        answer = api("POST", f"workspaces/{first.pk}/{door}", {})
        assert answer.json()["code"] == "quota_exceeded", door
    from workspaces.api.errors import Problem

    with pytest.raises(Problem) as refused:
        services.wake(first, actor(ann), "exec")
    assert refused.value.code == "quota_exceeded"
    assert api("POST", f"workspaces/{second.pk}/restart", {}).status_code == 202, "it is in the sum already"
    settings.QUOTA_CPUS, settings.QUOTA_WORKSPACES = 8, 1
    api("DELETE", f"workspaces/{first.pk}")
    assert api("POST", f"workspaces/{first.pk}/undelete", {}).json()["code"] == "quota_exceeded"


def test_deleted_and_failed_workspaces_do_not_hold_processors(api: Api, ann: User, settings: Any) -> None:
    """Field cases 039 and 081: what is on its way out, or broken, costs nothing any more."""
    settings.QUOTA_CPUS = 1
    first = make(ann, "one")
    assert api("POST", "workspaces", {"name": "two"}).json()["code"] == "quota_exceeded"
    Workspace.objects.filter(pk=first.pk).update(failed_reason="machine_died", state="failed")
    second = api("POST", "workspaces", {"name": "two"})
    assert second.status_code == 201
    api("DELETE", f"workspaces/{second.json()['id']}")
    assert api("POST", "workspaces", {"name": "three"}).status_code == 201


def test_members_act_by_their_role_and_nobody_else_at_all(ann: User, bob: User) -> None:
    workspace = make(ann)
    path, his = f"workspaces/{workspace.pk}", Api(bob)
    assert his("GET", path).status_code == 404
    membership = Membership.objects.create(workspace=workspace, user=bob, role="viewer")
    assert his("GET", path).json()["role"] == "viewer"
    assert his("POST", f"{path}/stop").json()["code"] == "forbidden"
    membership.role = "operator"
    membership.save()
    assert his("POST", f"{path}/stop").status_code == 202
    assert his("DELETE", path).json()["code"] == "forbidden"
    assert his("PATCH", path, {"name": "mine"}).json()["code"] == "forbidden"
    membership.delete()
    assert his("POST", f"{path}/stop").status_code == 404


def test_what_is_not_there_is_a_problem_too(api: Api) -> None:
    for method, path, status in (("GET", "/api/v1/nothing", 404), ("GET", "/api/v1/workspaces/short", 404),
                                 ("PUT", "/api/v1/workspaces", 405), ("POST", "/api/v1/me", 405)):
        answer = api(method, path, {})
        assert answer.status_code == status and answer["Content-Type"] == "application/problem+json", path
    assert "GET" in api("PUT", "/api/v1/workspaces", {})["Allow"]


def test_our_own_mistakes_are_a_problem_without_details(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    from workspaces import selectors

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("canary")

    monkeypatch.setattr(selectors, "workspace_for", broken)
    client = Client(raise_request_exception=False)
    said = {"authorization": f"Bearer {api.secret}", "host": HOST}
    answer = client.get(f"/api/v1/workspaces/{'a' * 20}", headers=said)
    assert answer.status_code == 500 and answer.json()["code"] == "internal" and b"canary" not in answer.content


@pytest.mark.django_db(transaction=True)
def test_a_database_without_space_is_said_and_nothing_is_changed(api: Api) -> None:
    """SQLite's own full error, provoked by forbidding the file to grow."""
    with connection.cursor() as cursor:
        pages = cursor.execute("PRAGMA page_count").fetchone()[0]
        cursor.execute(f"PRAGMA max_page_count = {pages}")
        try:
            answer = api("POST", "workspaces", {"name": "big", "env": {f"V{n}": "x" * 30_000 for n in range(8)}})
        finally:
            cursor.execute("PRAGMA max_page_count = 1073741823")
    assert (answer.status_code, answer.json()["code"]) == (507, "disk_full"), answer.content
    assert api("GET", "workspaces?name=big").json()["results"] == []
