"""Who is in a workspace: let in, given roles, taken out, and how an admin gets in when they must."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from tests.upstairs.conftest import HOST, Api, actor, make, person
from workspaces import members, selectors
from workspaces.api.errors import Problem
from workspaces.models import Event, Membership, User, Workspace

ROLES = {"viewer", "operator", "owner"}


@pytest.fixture
def box_of_ann(ann: User) -> Workspace:
    return make(ann)


def kinds(workspace: Workspace) -> list[str]:
    return list(Event.objects.filter(workspace=workspace).order_by("seq").values_list("kind", flat=True))


def test_an_owner_lets_somebody_in_changes_their_role_and_takes_them_out(
        api: Api, bob: User, box_of_ann: Workspace) -> None:
    place = f"workspaces/{box_of_ann.pk}"
    theirs = Api(bob)
    assert theirs("GET", place).status_code == 404

    added = api("POST", f"{place}/members", {"user": "bob"})
    assert added.status_code == 201 and added.json()["role"] == "viewer" and added.json()["added_by"] == "test"
    assert theirs("GET", place).json()["role"] == "viewer"
    assert theirs("POST", f"{place}/stop").json()["code"] == "forbidden"
    assert [row["id"] for row in theirs("GET", "workspaces").json()["results"]] == [box_of_ann.pk]

    changed = api("PATCH", f"{place}/members/bob", {"role": "operator"})
    assert changed.status_code == 200 and changed.json()["role"] == "operator"
    assert theirs("POST", f"{place}/stop").status_code == 202
    assert theirs("PATCH", place, {"name": "mine"}).json()["code"] == "forbidden"

    assert api("DELETE", f"{place}/members/bob").status_code == 204
    assert theirs("GET", place).status_code == 404
    said = [kind for kind in kinds(box_of_ann) if kind.startswith("member.")]
    assert said == ["member.added", "member.changed", "member.removed"]


def test_members_are_listed_for_each_of_them_the_owner_first(api: Api, bob: User, box_of_ann: Workspace) -> None:
    members.add(actor(box_of_ann.owner), box_of_ann, "bob", "viewer")
    for who in (api, Api(bob)):
        listed = who("GET", f"workspaces/{box_of_ann.pk}/members").json()
        assert [(row["user"], row["role"]) for row in listed["results"]] == [("ann", "owner"), ("bob", "viewer")]
        assert listed["next"] is None


@pytest.mark.parametrize(("body", "code"), [
    ({"user": "nobody"}, "invalid"), ({"user": "ann"}, "conflict"), ({"user": "bob", "role": "king"}, "invalid"),
    ({}, "invalid"), ({"user": "bob", "rank": 1}, "invalid"), ({"user": "bob\x00"}, "invalid")])
def test_what_is_no_membership_is_refused_by_name(
        api: Api, bob: User, box_of_ann: Workspace, body: dict[str, object], code: str) -> None:
    answer = api("POST", f"workspaces/{box_of_ann.pk}/members", body)
    assert answer.json()["code"] == code
    assert not Membership.objects.exists()


def test_nobody_but_an_owner_changes_who_is_in_it(ann: User, bob: User, root: User, box_of_ann: Workspace) -> None:
    """Field case 104: rights are enforced, and nobody raises their own."""
    carl = person("carl")
    members.add(actor(ann), box_of_ann, "bob", "operator")
    place = f"workspaces/{box_of_ann.pk}/members"
    for who, said in ((Api(bob), 403), (Api(carl), 404), (Api(root), 404)):
        assert who("POST", place, {"user": "carl", "role": "owner"}).status_code == said
        assert who("PATCH", f"{place}/bob", {"role": "owner"}).status_code == said
    assert Api(bob)("DELETE", f"{place}/ann").status_code == 403
    assert selectors.role_in(actor(bob), box_of_ann) == "operator"


def test_anybody_may_leave_and_the_last_owner_cannot(api: Api, bob: User, box_of_ann: Workspace) -> None:
    members.add(actor(box_of_ann.owner), box_of_ann, "bob", "viewer")
    place = f"workspaces/{box_of_ann.pk}/members"
    assert Api(bob)("DELETE", f"{place}/bob").status_code == 204
    for answer in (api("DELETE", f"{place}/ann"), api("PATCH", f"{place}/ann", {"role": "viewer"})):
        assert (answer.status_code, answer.json()["reason"]) == (409, "last_owner")


def test_an_owner_who_goes_hands_it_to_the_co_owner_with_its_place_in_their_quota(
        api: Api, ann: User, bob: User, box_of_ann: Workspace) -> None:
    carl = person("carl")
    for name in ("carl", "bob"):
        members.add(actor(ann), box_of_ann, name, "owner")
    Membership.objects.filter(user=bob).update(added_at=timezone.now() - timedelta(days=1))
    place = f"workspaces/{box_of_ann.pk}"
    stepped = api("PATCH", f"{place}/members/ann", {"role": "operator"})
    assert stepped.status_code == 200 and stepped.json()["role"] == "operator"
    shown = Api(carl)("GET", place).json()
    assert (shown["owner"], shown["role"]) == ("bob", "owner")
    assert Api(bob)("GET", "me").json()["used"]["workspaces"] == 1
    assert api("GET", "me").json()["used"]["workspaces"] == 0
    assert "workspace.owner_changed" in kinds(box_of_ann)


def test_a_workspace_whose_name_the_co_owner_has_is_not_handed_over(
        api: Api, ann: User, bob: User, box_of_ann: Workspace) -> None:
    make(bob)
    members.add(actor(ann), box_of_ann, "bob", "owner")
    answer = api("DELETE", f"workspaces/{box_of_ann.pk}/members/ann")
    assert answer.json()["code"] == "name_taken"
    assert selectors.role_in(actor(ann), box_of_ann) == "owner"


def test_an_admin_sees_metadata_and_acts_on_it_but_has_no_contents(root: User, box_of_ann: Workspace) -> None:
    admin = Api(root)
    assert admin("GET", f"workspaces/{box_of_ann.pk}").json()["role"] is None
    assert admin("POST", f"workspaces/{box_of_ann.pk}/stop").status_code == 202
    assert admin("GET", f"workspaces/{box_of_ann.pk}/approvals").status_code == 404
    with pytest.raises(Problem, match="not_found"):
        selectors.workspace_for(actor(root), box_of_ann.pk)


def test_an_admin_who_is_a_viewer_views_contents_and_does_not_act_in_them(
        ann: User, root: User, box_of_ann: Workspace) -> None:
    members.add(actor(ann), box_of_ann, "root", "viewer")
    assert selectors.role_in(actor(root), box_of_ann) == "viewer"
    with pytest.raises(Problem, match="forbidden"):
        selectors.workspace_for(actor(root), box_of_ann.pk, needs="operator")


def test_breaking_the_glass_takes_a_reason_ends_by_itself_and_is_told_to_the_owner(
        api: Api, root: User, box_of_ann: Workspace) -> None:
    admin, place = Api(root), f"workspaces/{box_of_ann.pk}"
    assert admin("POST", f"{place}/break-glass", {}).json()["errors"]["reason"]
    broken = admin("POST", f"{place}/break-glass", {"reason": "ticket 42", "role": "operator", "expires_in_s": 60})
    assert broken.status_code == 201 and broken.json()["expires_at"] is not None
    assert selectors.role_in(actor(root), box_of_ann) == "operator"

    told = [row for row in api("GET", f"{place}/events?limit=200").json()["results"]
            if row["kind"] == "member.break_glass"]
    assert told[0]["data"]["reason"] == "ticket 42" and told[0]["data"]["user"] == "root"
    assert "ticket 42" in [row["reason"] for row in api("GET", f"{place}/members").json()["results"]]

    Membership.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert selectors.role_in(actor(root), box_of_ann) == "", "over is over, before any clock has come by"
    assert len(api("GET", f"{place}/members").json()["results"]) == 1
    assert members.expire(timezone.now()) == 1 and members.expire(timezone.now()) == 0
    assert kinds(box_of_ann)[-1] == "member.removed"


def test_only_admins_break_the_glass_and_the_owner_may_take_them_out(
        api: Api, bob: User, root: User, box_of_ann: Workspace) -> None:
    place = f"workspaces/{box_of_ann.pk}"
    for who in (api, Api(bob), Api(root, "workspaces:read", "workspaces:write")):
        assert who("POST", f"{place}/break-glass", {"reason": "curious"}).status_code == 403
    Api(root)("POST", f"{place}/break-glass", {"reason": "ticket 42"})
    assert api("PATCH", f"{place}/members/root", {"role": "operator"}).json()["reason"] == "break_glass"
    assert api("DELETE", f"{place}/members/root").status_code == 204
    assert selectors.role_in(actor(root), box_of_ann) == ""


def test_the_same_key_lets_somebody_in_once(api: Api, bob: User, box_of_ann: Workspace) -> None:
    said = [api("POST", f"workspaces/{box_of_ann.pk}/members", {"user": "bob"}, Idempotency_Key="k") for _ in "12"]
    assert [answer.status_code for answer in said] == [201, 201] and said[0].json() == said[1].json()
    assert kinds(box_of_ann).count("member.added") == 1


def test_a_browser_changes_members_with_its_session_and_csrf_token(ann: User, bob: User, box_of_ann: Workspace) -> None:
    browser = Client(enforce_csrf_checks=True, headers={"host": HOST})
    browser.force_login(ann)
    token = browser.get("/api/v1/session").json()["csrf_token"]
    place = f"/api/v1/workspaces/{box_of_ann.pk}/members"
    plain = browser.post(place, {"user": "bob"}, content_type="application/json")
    assert plain.json()["code"] == "csrf_failed"
    assert browser.post(place, {"user": "bob"}, content_type="application/json",
                        headers={"X-CSRFToken": token}).status_code == 201
