"""People as admins see and change them, and hosts: lists, use, switching off, codes, closing and draining."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from tests.upstairs.conftest import HOST, Api, actor, converge, make, person
from workspaces import policies, quota, tokens
from workspaces.models import Checkpoint, User, Workspace
from workspaces.models_people import AuditEntry
from workspaces.reconcile import sweep

pytestmark = pytest.mark.django_db


def signed_in(user: User) -> Any:
    """JSON in, JSON out, as the page asks."""
    client = Client(headers={"host": HOST})
    client.force_login(user)
    return lambda method, path, body=None: client.generic(method, f"/api/v1/{path}", body or "{}", "application/json")


def test_everybody_is_listed_by_name_with_limits_use_and_groups_in_a_few_queries(
        root: User, ann: User, bob: User, django_assert_max_num_queries: Any) -> None:
    crew = Group.objects.create(name="crew")
    ann.groups.add(crew)
    policies.put(actor(root), "group:crew", {"cpus": {"value": 7}})
    for n in range(3):
        make(ann, f"w{n}", cpus=2, disk_gib=5)
    Checkpoint.objects.create(workspace=Workspace.objects.filter(owner=ann)[0], actor_type="user", actor_name="ann",
                              state="ready", disk_bytes=1, memory_bytes=2**30)
    admin = Api(root)
    with django_assert_max_num_queries(16):
        page = admin("GET", "users").json()
    assert [row["name"] for row in page["results"]] == ["ann", "bob", "root"] and page["next"] is None
    hers = page["results"][0]
    assert (hers["quota"]["cpus"], hers["groups"]) == (7, ["crew"])
    assert hers["used"] == quota.used_by(ann).to_json() == {
        "workspaces": 3, "running": 3, "cpus": 6, "memory_mib": 3 * 512, "disk_gib": 15 + 2, "checkpoints": 1}
    assert admin("GET", "groups").json()["results"] == [{"name": "crew", "people": 1}]
    assert [row["name"] for row in admin("GET", "users?search=OO").json()["results"]] == ["root"]
    assert [row["name"] for row in admin("GET", "users?is_admin=false&active=true").json()["results"]] == ["ann", "bob"]
    first = admin("GET", "users?limit=2").json()
    rest = admin("GET", first["next"].removeprefix(f"http://{HOST}")).json()
    assert [row["name"] for row in first["results"] + rest["results"]] == ["ann", "bob", "root"]
    for wrong in ("colour=red", "active=perhaps", "cursor=e30"):
        assert admin("GET", f"users?{wrong}").json()["code"] == "invalid"


def test_people_are_for_admins(ann: User, root: User) -> None:
    hers, narrow = Api(ann), Api(root, "workspaces:read")
    for method, path in (("GET", "users"), ("GET", "users/ann"), ("PATCH", "users/ann"), ("POST", "users"),
                         ("POST", "users/ann/code"), ("GET", "groups"), ("PATCH", "hosts/local")):
        assert hers(method, path, {} if method != "GET" else None).status_code == 403, path
        assert narrow(method, path, {} if method != "GET" else None).json()["code"] == "scope_missing"


def test_somebody_new_signs_in_with_a_code_that_a_person_made_and_no_token_can(root: User) -> None:
    admin, page = Api(root), signed_in(root)
    made = admin("POST", "users", {"name": "ben"}, Idempotency_Key="k")
    assert made.status_code == 201 and made.json()["has_password"] is False
    assert admin("POST", "users", {"name": "ben"}, Idempotency_Key="k").json()["name"] == "ben"
    assert admin("POST", "users", {"name": "ben"}).json()["code"] == "name_taken"
    for wrong in ({"name": "b e n"}, {"name": ""}, {}, {"name": "x", "colour": 1}, {"name": "x", "is_admin": "yes"}):
        assert admin("POST", "users", wrong).json()["code"] == "invalid"
    assert admin("POST", "users/ben/code").json()["code"] == "forbidden", "an agent would be anybody with it"
    said = page("POST", "users/ben/code")
    assert said.status_code == 201 and page("POST", "users/nobody/code").status_code == 404
    assert tokens.use_setup_code(said.json()["code"]) == User.objects.get(username="ben")
    entries = AuditEntry.objects.filter(kind="user.code", target="user:ben").values_list("outcome", flat=True)
    assert sorted(entries) == ["forbidden", "ok"]
    assert said.json()["code"] not in str(list(AuditEntry.objects.values()))
    again = page("POST", "users/ben/code").json()["code"]
    assert again != said.json()["code"]


def test_a_key_makes_one_code_and_shows_it_once(root: User, ann: User) -> None:
    client = Client(headers={"host": HOST, "idempotency-key": "once"})
    client.force_login(root)
    first, second = (client.post("/api/v1/users/ann/code", {}, "application/json") for _ in range(2))
    assert first.json()["code"] and second.json() == {"user": "ann", "code": None, "expires_at": None}


def test_who_is_switched_off_is_refused_and_comes_back_and_the_last_admin_stays(root: User, ann: User) -> None:
    admin, hers = Api(root), Api(ann)
    assert admin("PATCH", "users/ann", {"active": False}).json()["active"] is False
    assert hers("GET", "me").status_code == 401
    assert signed_in(root)("POST", "users/ann/code").json()["reason"] == "inactive"
    assert admin("PATCH", "users/ann", {"active": True, "is_admin": True}).json()["is_admin"] is True
    assert hers("GET", "me").status_code == 200
    assert admin("PATCH", "users/root", {"is_admin": False}).json()["reason"] == "yourself"
    ann.refresh_from_db()
    assert Api(ann)("PATCH", "users/root", {"active": False}).status_code == 200
    assert Api(ann)("PATCH", "users/ann", {"is_admin": False}).json()["reason"] == "last_admin"
    assert User.objects.get(username="ann").is_superuser
    acts = AuditEntry.objects.filter(kind="user.change", target="user:ann", outcome="ok")
    assert {"active": False, "user": "ann"} in [row.data for row in acts]


def test_a_host_is_closed_for_new_machines_drained_and_opened_again(box: Workspace, root: User) -> None:
    admin = Api(root)
    assert admin("PATCH", "hosts/local", {"schedulable": False}).json()["schedulable"] is False
    waiting = make(person("cleo"), "waits")
    found = converge_some(waiting.pk)
    assert found.state == "creating" and "capacity" in found.state_reason
    said = admin("PATCH", "hosts/local", {"draining": True, "schedulable": True}).json()
    assert said["draining"] is True and box.pk in sweep()
    rested = converge(box.pk)
    assert rested is not None and (rested.state, rested.state_reason) == ("standby", "host_draining")
    admin("PATCH", "hosts/local", {"draining": False})
    again = converge(box.pk)
    assert again is not None and again.state == "running"
    assert admin("PATCH", "hosts/nowhere", {"draining": True}).status_code == 404
    assert admin("GET", "hosts/local").json()["machines"] >= 1
    assert AuditEntry.objects.filter(kind="host.change", target="host:local", outcome="ok").count() == 3


def converge_some(workspace_id: str) -> Workspace:
    """One slice: it waits for a host, and goes on waiting."""
    from workspaces import reconcile

    reconcile.reconcile(workspace_id)
    return Workspace.objects.get(pk=workspace_id)
