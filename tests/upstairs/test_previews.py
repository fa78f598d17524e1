"""Shares and passes in the books: whom they let in, what ends them, and that secrets are kept by nobody."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.upstairs.conftest import Api, actor, make
from workspaces import members, previews, tokens
from workspaces.api.errors import Problem
from workspaces.models import Event, Role, User, Workspace
from workspaces.models_previews import PreviewPass, PreviewShare
from workspaces.preview_names import PreviewName


@pytest.fixture
def workspace(ann: User) -> Workspace:
    return make(ann)


@pytest.fixture
def name(workspace: Workspace) -> PreviewName:
    return PreviewName(3000, workspace.pk)


def refused(work: Any, *args: Any) -> str:
    with pytest.raises(Problem) as problem:
        work(*args)
    return problem.value.code


def test_a_share_is_made_shown_replaced_and_ended(api: Api, workspace: Workspace) -> None:
    path = f"workspaces/{workspace.pk}/ports/3000/share"
    assert api("GET", path).status_code == 404 and api("DELETE", path).status_code == 404
    made = api("POST", path, {"visibility": "private", "expires_in_s": 60})
    url = f"http://3000--{workspace.pk}.preview.localhost:8000/"
    assert made.status_code == 201 and made.json()["url"] == url
    token = made.json()["token"]
    assert made.json()["link"] == f"{url}?berth_share={token}"
    shown = api("GET", path).json()
    assert shown["token"] is None and shown["link"] is None, "its secret is told once"
    assert token not in str(list(PreviewShare.objects.values())) + str(list(Event.objects.values()))
    again = api("POST", path, {"visibility": "public"})
    assert again.status_code == 200 and again.json()["expires_at"] is None and PreviewShare.objects.count() == 1
    assert [one["port"] for one in api("GET", f"workspaces/{workspace.pk}/shares").json()["results"]] == [3000]
    assert api("DELETE", path).status_code == 204 and api("DELETE", path).status_code == 404


@pytest.mark.parametrize("body", [{}, {"visibility": "everyone"}, {"visibility": "public", "expires_in_s": 0},
                                  {"visibility": "public", "expires_in_s": "9"}, {"visibility": "public", "x": 1},
                                  {"visibility": "public", "expires_in_s": 10**12}])
def test_what_is_no_share_is_refused(api: Api, workspace: Workspace, body: dict[str, Any]) -> None:
    assert api("POST", f"workspaces/{workspace.pk}/ports/3000/share", body).status_code == 400


@pytest.mark.parametrize("port", ["0", "65536", "9" * 30])
def test_a_port_that_is_none_is_not_there(api: Api, workspace: Workspace, port: str) -> None:
    path = f"workspaces/{workspace.pk}/ports/{port}/share"
    assert {api(method, path, {"visibility": "public"} if method == "POST" else None).status_code
            for method in ("GET", "POST", "DELETE")} == {404}


def test_viewers_look_operators_share_and_nobody_else_knows(workspace: Workspace, ann: User, bob: User) -> None:
    path = f"workspaces/{workspace.pk}/ports/3000/share"
    bobs = Api(bob, "previews")
    assert bobs("POST", path, {"visibility": "public"}).status_code == 404
    members.add(actor(ann), workspace, "bob", Role.VIEWER)
    assert bobs("POST", path, {"visibility": "public"}).json()["code"] == "forbidden"
    members.change(actor(ann), workspace, "bob", Role.OPERATOR)
    assert bobs("POST", path, {"visibility": "public"}).status_code == 201
    assert Api(bob, "exec")("GET", path).json()["code"] == "scope_missing"


def test_a_share_ends_with_its_time_its_token_and_its_makers_role(
        workspace: Workspace, ann: User, bob: User, name: PreviewName) -> None:
    previews.share(actor(ann), workspace, 3000, "public", 60)
    came = previews.by_nothing(name)
    assert (came.scopes, came.workspace_ids, came.is_admin) == (frozenset({"previews"}), {workspace.pk}, False)
    assert refused(previews.by_nothing, PreviewName(3001, workspace.pk)) == "preview_forbidden"
    PreviewShare.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert refused(previews.by_nothing, name) == "preview_forbidden"
    assert previews.expire(timezone.now()) == 1 and PreviewShare.objects.count() == 0
    assert Event.objects.filter(kind="preview.unshared", cause="its time is over").count() == 1

    members.add(actor(ann), workspace, "bob", Role.OPERATOR)
    previews.share(actor(bob), workspace, 3000, "public", None)
    assert previews.by_nothing(name).user_id == bob.pk
    members.change(actor(ann), workspace, "bob", Role.VIEWER)
    assert refused(previews.by_nothing, name) == "preview_forbidden"
    members.change(actor(ann), workspace, "bob", Role.OPERATOR)
    User.objects.filter(pk=bob.pk).update(is_active=False)
    assert refused(previews.by_nothing, name) == "preview_forbidden", "a suspended maker shares nothing"
    row, _secret = tokens.create(ann, "agent", ["previews"])
    previews.share(actor_of(row), workspace, 3000, "public", None)
    assert previews.by_nothing(name).user_id == ann.pk
    tokens.revoke(row)
    assert refused(previews.by_nothing, name) == "preview_forbidden"


def actor_of(row: Any) -> Any:
    from workspaces import selectors
    return selectors.actor_of_token(row)


def test_a_link_is_good_for_many_and_a_pass_for_one_port(workspace: Workspace, ann: User, name: PreviewName) -> None:
    _, token, _ = previews.share(actor(ann), workspace, 3000, "private", 3600)
    first, second = previews.spend_link(token, name), previews.spend_link(token, name)
    assert first != second and previews.by_pass(first, name).user_id == ann.pk
    assert refused(previews.by_pass, first, PreviewName(3001, workspace.pk)) == "preview_forbidden"
    assert refused(previews.by_pass, token, name) == "preview_forbidden", "a link is no pass"
    assert refused(previews.spend_link, "", name) == "preview_forbidden"
    kept = PreviewPass.objects.get(pk=tokens.hash_of(first))
    assert kept.expires_at <= timezone.now() + timedelta(hours=1), "no longer than its share"
    previews.share(actor(ann), workspace, 3000, "public", None)
    assert refused(previews.by_pass, first, name) == "preview_forbidden"
    assert refused(previews.spend_link, "", name) == "preview_forbidden", "a public share has no link"


def test_codes_end_after_a_minute_and_passes_with_the_session(client: Any, workspace: Workspace, ann: User,
                                                              name: PreviewName) -> None:
    client.force_login(ann)
    key = client.session.session_key
    code = previews.issue_code(key, name)
    assert refused(previews.by_pass, code, name) == "preview_forbidden", "a code is no pass"
    assert refused(previews.spend_code, code, PreviewName(3001, workspace.pk)) == "preview_forbidden"
    secret = previews.spend_code(code, name)
    assert refused(previews.spend_code, code, name) == "preview_forbidden"
    assert previews.by_pass(secret, name).name == "ann"
    late = previews.issue_code(key, name)
    PreviewPass.objects.filter(is_code=True).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert refused(previews.spend_code, late, name) == "preview_forbidden"
    client.logout()
    assert refused(previews.by_pass, secret, name) == "preview_forbidden"
    assert refused(previews.issue_code, key, name) == "unauthenticated"
