"""Who gets in: tokens and scopes, sessions and CSRF, sign-in and its brake, and other people's ids on every route."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from tests.upstairs.conftest import HOST, Api, actor, make
from workspaces import checkpoints, selectors, services, tokens
from workspaces.actors import SCOPES
from workspaces.api.errors import Problem
from workspaces.models import AccessToken, SetupCode, User, Workspace

pytestmark = pytest.mark.django_db


def schema() -> dict[str, Any]:
    return Client().get("/api/v1/schema/", headers={"host": HOST}).json()


def django_operations() -> list[tuple[str, str]]:
    """Every (method, path) of the schema that Django answers (the gateway has its own walk)."""
    from workspaces.gateway.openapi import FRAGMENT

    return [(method.upper(), path) for path, item in schema()["paths"].items() if path not in FRAGMENT["paths"]
            for method in item if method in ("get", "post", "put", "patch", "delete")]


def filled_in(path: str, one: str, other: str = "b" * 20) -> str:
    """An address of that workspace or token, and of that checkpoint (or whatever else is named below it)."""
    named = path.replace("{id}", one).replace("{scope}", "default").replace("{port}", "8080")
    return re.sub(r"\{[a-z]+\}", other, named)


def test_every_route_needs_credentials_but_the_few_that_give_them() -> None:
    open_to_all = {"/api/v1/session", "/api/v1/session/setup"}
    for method, path in django_operations():
        filled = filled_in(path, "a" * 20)
        answer = Client().generic(method, filled, headers={"host": HOST})
        if path not in open_to_all:
            assert answer.status_code == 401, (method, path)
            assert answer["WWW-Authenticate"] == "Bearer" and answer.json()["code"] == "unauthenticated"


def test_another_persons_id_looks_like_no_id_on_every_route(ann: User, bob: User) -> None:
    """Field case 016: same status and same body for "not yours" and "not there", and nothing changes."""
    workspace = make(ann)
    token = tokens.create(ann, "hers", {"exec"})[0]
    checkpoint = checkpoints.create(actor(ann), workspace, {"name": "v1"})
    his_own = make(bob, "his")
    before = json.dumps(list(Workspace.objects.values()), default=str), AccessToken.objects.count()
    his = Api(bob)
    walked = 0
    for method, path in django_operations():
        if "{id}" not in path:
            continue
        theirs = filled_in(path, token.pk if "tokens" in path else workspace.pk, checkpoint.pk)
        nobodys = filled_in(path, "a" * 20)
        body = {"name": "mine"} if method == "PATCH" or path.endswith("/fork") else None
        one, other = his(method, theirs, body), his(method, nobodys, body)
        said = 403 if path.endswith("/break-glass") else 404  # admins' alone, whatever the id
        assert (one.status_code, one.content) == (said, other.content) and other.status_code == said, (method, path)
        walked += 1
        if "{cid}" in path:  # her checkpoint below his own workspace is no checkpoint, either
            mixed = his(method, filled_in(path, his_own.pk, checkpoint.pk), body)
            unknown = his(method, filled_in(path, his_own.pk), body)
            assert (mixed.status_code, mixed.content) == (404, unknown.content), (method, path)
    assert walked >= 16
    for body in ({"name": "x", "checkpoint": checkpoint.pk}, {"name": "x", "checkpoint": "b" * 20}):
        assert his("POST", f"workspaces/{his_own.pk}/fork", body).status_code == 404
    hers, none = (his("POST", "workspaces", {"name": "x", "from_checkpoint": one}) for one in (checkpoint.pk, "b" * 20))
    assert (hers.status_code, hers.content) == (400, none.content)
    after = json.dumps(list(Workspace.objects.values()), default=str), AccessToken.objects.count() - 1
    assert before == after
    assert workspace.pk not in his("GET", "workspaces").content.decode()


def test_a_token_limited_to_a_workspace_sees_no_other(ann: User) -> None:
    one, two = make(ann, "one"), make(ann, "two")
    limited = Api(ann, "workspaces:read", "workspaces:write", workspace_ids=[one.pk])
    assert [row["id"] for row in limited("GET", "workspaces").json()["results"]] == [one.pk]
    assert limited("GET", f"workspaces/{two.pk}").status_code == 404
    assert limited("POST", f"workspaces/{two.pk}/stop").status_code == 404
    assert limited("POST", "workspaces", {"name": "three"}).json()["code"] == "scope_missing"
    assert [row["id"] for row in limited("GET", "tokens").json()["results"]] == [limited.token_id]


def test_each_route_names_the_scope_it_misses(ann: User) -> None:
    workspace = make(ann)
    none = Api(ann, "exec")
    for method, path in django_operations():
        if path in ("/api/v1/me", "/api/v1/session", "/api/v1/session/setup"):
            continue
        filled = filled_in(path, none.token_id if "tokens" in path else workspace.pk)
        answer = none(method, filled, {} if method != "GET" else None)
        assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing"), (method, path)
        assert answer.json()["scope"] in SCOPES
    reader = Api(ann, "workspaces:read")
    assert reader("GET", f"workspaces/{workspace.pk}").status_code == 200
    assert reader("POST", f"workspaces/{workspace.pk}/stop").json()["scope"] == "workspaces:write"


def test_admin_acts_need_the_admin_scope_even_of_an_admins_token(ann: User, root: User) -> None:
    assert Api(root)("GET", "hosts").status_code == 200
    assert Api(root, "workspaces:read")("GET", "hosts").json()["code"] == "scope_missing"
    assert Api(ann, *SCOPES)("GET", "hosts").json()["code"] == "forbidden", "the scope alone makes nobody an admin"


@pytest.mark.parametrize("header", ["Bearer", "Bearer berth_nonsense", "Basic YTpi", "Bearer a b", "bearer \u00e9",
                                    "Bearer " + "x" * 5000])
def test_a_bad_credential_is_401(header: str) -> None:
    answer = Client().get("/api/v1/me", headers={"authorization": header.encode().decode("latin-1"), "host": HOST})
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


def test_an_expired_a_revoked_and_an_inactive_persons_token_stop_working(ann: User) -> None:
    expired = Api(ann, "workspaces:read", expires_at=timezone.now() - timedelta(seconds=1))
    assert expired("GET", "me").json()["code"] == "token_expired"
    api = Api(ann)
    assert api("GET", "me").status_code == 200
    assert api("DELETE", f"tokens/{api.token_id}").status_code == 204
    assert api("GET", "me").json()["code"] == "unauthenticated"
    another = Api(ann)
    User.objects.filter(pk=ann.pk).update(is_active=False)
    assert another("GET", "me").status_code == 401


def test_a_tokens_secret_is_shown_once_and_kept_nowhere(api: Api) -> None:
    made = api("POST", "tokens", {"name": "ci", "scopes": ["exec"], "expires_in_s": 60}, Idempotency_Key="k1")
    secret = made.json()["secret"]
    assert made.status_code == 201 and secret.startswith("berth_")
    again = api("POST", "tokens", {"name": "ci", "scopes": ["exec"], "expires_in_s": 60}, Idempotency_Key="k1")
    assert again.json()["id"] == made.json()["id"] and again.json()["secret"] is None
    assert secret not in api("GET", "tokens").content.decode()
    assert secret not in json.dumps(list(AccessToken.objects.values()), default=str)
    assert selectors.actor_from_token(secret).scopes == {"exec"}


def test_nobody_grants_more_than_they_have(ann: User, bob: User) -> None:
    """Field case 104: not in scopes, not in workspaces, not in time."""
    one, hers = make(ann, "one"), make(bob, "hers")
    soon = timezone.now() + timedelta(seconds=60)
    api = Api(ann, "workspaces:read", "workspaces:write", expires_at=soon)
    assert api("POST", "tokens", {"name": "t", "scopes": ["exec"]}).json()["code"] == "scope_missing"
    assert "workspace_ids" in api("POST", "tokens", {"name": "t", "workspace_ids": [hers.pk]}).json()["errors"]
    assert "scopes" in api("POST", "tokens", {"name": "t", "scopes": []}).json()["errors"], "none is not all"
    child = api("POST", "tokens", {"name": "t", "expires_in_s": 3600}).json()
    assert child["scopes"] == ["workspaces:read", "workspaces:write"]
    assert AccessToken.objects.get(pk=child["id"]).expires_at == soon
    limited = Api(ann, "workspaces:read", "workspaces:write", workspace_ids=[one.pk])
    assert limited("POST", "tokens", {"name": "t"}).json()["workspace_ids"] == [one.pk]
    assert Api(ann)("POST", "tokens", {"name": "t", "scopes": ["admin"]}).json()["code"] == "scope_missing"


def browser(user: User) -> Client:
    client = Client(enforce_csrf_checks=True, headers={"host": HOST})
    client.force_login(user)
    return client


def test_no_change_is_made_with_a_cookie_alone(ann: User) -> None:
    """Field case 059: form posts, text/plain, empty posts and GETs from another site change nothing."""
    workspace = make(ann)
    client = browser(ann)
    before = json.dumps(list(Workspace.objects.values()), default=str)
    for method, path in django_operations():
        filled = filled_in(path, "a" * 20 if "tokens" in path else workspace.pk)
        for content_type in ("text/plain", "application/json", "application/x-www-form-urlencoded", ""):
            answer = client.generic(method, filled, b'{"name":"x"}' if content_type else b"", content_type,
                                    headers={"origin": "https://evil.example"})
            if method != "GET":
                assert (answer.status_code, answer.json()["code"]) == (403, "csrf_failed"), (method, path)
    for sneaky in ("start", "stop", "restart"):
        assert client.get(f"/api/v1/workspaces/{workspace.pk}/{sneaky}").status_code == 405
    client.post(f"/api/v1/workspaces/{workspace.pk}", headers={"X-HTTP-Method-Override": "DELETE"})
    assert json.dumps(list(Workspace.objects.values()), default=str) == before


def test_a_browser_with_the_csrf_token_may_change_things(ann: User) -> None:
    client = browser(ann)
    token = client.get("/api/v1/session").json()["csrf_token"]
    made = client.post("/api/v1/workspaces", {"name": "box"}, content_type="application/json",
                       headers={"X-CSRFToken": token})
    assert made.status_code == 201
    assert client.get("/api/v1/me").json()["actor"] == {"type": "user", "name": "ann"}


def signing_in() -> tuple[Client, str]:
    client = Client(enforce_csrf_checks=True, headers={"host": HOST})
    return client, client.get("/api/v1/session").json()["csrf_token"]


def post(client: Client, token: str, path: str, body: dict[str, str], **headers: str) -> Any:
    return client.post(path, body, content_type="application/json",
                       headers={"X-CSRFToken": token, **{k.replace("_", "-"): v for k, v in headers.items()}})


def test_signing_in_and_out(ann: User) -> None:
    client, token = signing_in()
    answer = post(client, token, "/api/v1/session", {"username": "ann", "password": "pass-of-ann"})
    assert answer.status_code == 200 and answer.json()["user"]["name"] == "ann"
    cookie = answer.cookies["berth_session"]
    assert cookie["httponly"] and cookie["samesite"] == "Lax" and not cookie["domain"]
    assert selectors.actor_from_session(cookie.value).name == "ann"
    gone = client.delete("/api/v1/session", headers={"X-CSRFToken": answer.json()["csrf_token"]})
    assert gone.status_code == 204
    assert selectors.actor_from_session(cookie.value) is None
    assert client.get("/api/v1/me").status_code == 401


def test_signing_in_needs_the_csrf_token_too(ann: User) -> None:
    client, _ = signing_in()
    answer = client.post("/api/v1/session", {"username": "ann", "password": "pass-of-ann"},
                         content_type="application/json")
    assert answer.json()["code"] == "csrf_failed"


def test_guessing_is_slowed_down_per_name_and_address_and_others_are_not_locked_out(ann: User) -> None:
    client, token = signing_in()
    wrong = {"username": "ann", "password": "guess"}
    answers = [post(client, token, "/api/v1/session", wrong, X_Forwarded_For="203.0.113.9") for _ in range(6)]
    assert [a.status_code for a in answers] == [401] * 5 + [429]
    assert int(answers[-1]["Retry-After"]) > 0 and answers[-1].json()["code"] == "rate_limited"
    right = {"username": "ann", "password": "pass-of-ann"}
    assert post(client, token, "/api/v1/session", right, X_Forwarded_For="203.0.113.9").status_code == 429
    assert post(client, token, "/api/v1/session", right, X_Forwarded_For="203.0.113.10").status_code == 200


def test_an_unknown_name_and_a_wrong_password_look_alike(ann: User) -> None:
    client, token = signing_in()
    known = post(client, token, "/api/v1/session", {"username": "ann", "password": "x"})
    unknown = post(client, token, "/api/v1/session", {"username": "nobody", "password": "x"})
    assert (known.status_code, known.content) == (unknown.status_code, unknown.content)


def test_a_setup_code_sets_a_password_once_and_in_time(root: User) -> None:
    code = tokens.create_setup_code(root)
    client, token = signing_in()
    weak = post(client, token, "/api/v1/session/setup", {"code": code, "password": "short"})
    assert weak.json()["code"] == "invalid" and "password" in weak.json()["errors"]
    done = post(client, token, "/api/v1/session/setup", {"code": code.lower(), "password": "a long enough phrase"})
    assert done.status_code == 200 and done.json()["user"]["is_admin"] is True
    client, token = signing_in()
    again = post(client, token, "/api/v1/session/setup", {"code": code, "password": "another long phrase"})
    assert again.json()["code"] == "unauthenticated"
    late = tokens.create_setup_code(root)
    SetupCode.objects.filter(used_at=None).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert post(client, token, "/api/v1/session/setup", {"code": late, "password": "another long phrase"}
                ).status_code == 401
    assert late not in json.dumps(list(SetupCode.objects.values()), default=str)


def test_a_session_ends_when_the_password_changes(ann: User) -> None:
    client = browser(ann)
    key = client.cookies["berth_session"].value
    assert selectors.actor_from_session(key) is not None
    ann.set_password("another long phrase")
    ann.save()
    assert selectors.actor_from_session(key) is None


def test_a_session_of_somebody_switched_off_is_nobody(ann: User) -> None:
    client = browser(ann)
    User.objects.filter(pk=ann.pk).update(is_active=False)
    assert selectors.actor_from_session(client.cookies["berth_session"].value) is None
    assert client.get("/api/v1/me").status_code == 401


def test_selectors_refuse_what_is_no_id_before_asking_the_database(ann: User) -> None:
    for word in ("", "../x", "A" * 20, "a" * 19, "a" * 20 + "\n", "\x00" * 20):
        with pytest.raises(Problem) as refused:
            selectors.workspace_for(actor(ann), word)
        assert refused.value.code == "not_found"


def test_an_idempotency_key_makes_one_object_and_shows_it_as_it_is_now(api: Api) -> None:
    body = {"name": "box"}
    first = api("POST", "workspaces", body, Idempotency_Key="one")
    assert first.status_code == 201
    api("PATCH", f"workspaces/{first.json()['id']}", {"name": "bix"})
    again = api("POST", "workspaces", body, Idempotency_Key="one")
    assert (again.status_code, again.json()["id"], again.json()["name"]) == (201, first.json()["id"], "bix")
    assert again["Idempotency-Replayed"] == "true"
    other = api("POST", "workspaces", {"name": "other"}, Idempotency_Key="one")
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
    elsewhere = api("POST", f"workspaces/{first.json()['id']}/stop", None, Idempotency_Key="one")
    assert elsewhere.json()["code"] == "idempotency_conflict"
    assert Workspace.objects.count() == 1


def test_a_refused_request_keeps_no_key_and_a_key_serves_one_person(api: Api, bob: User) -> None:
    assert api("POST", "workspaces", {"name": ""}, Idempotency_Key="k").status_code == 400
    assert api("POST", "workspaces", {"name": "box"}, Idempotency_Key="k").status_code == 201
    assert Api(bob)("POST", "workspaces", {"name": "box"}, Idempotency_Key="k").json()["owner"] == "bob"
    assert api("POST", "workspaces", {"name": "x"}, Idempotency_Key="").json()["code"] == "invalid"
    assert api("POST", "workspaces", {"name": "x"}, Idempotency_Key="x" * 256).json()["code"] == "invalid"


def test_a_key_is_forgotten_after_a_day(api: Api) -> None:
    from workspaces import tasks
    from workspaces.models import IdempotencyKey

    api("POST", "workspaces", {"name": "box"}, Idempotency_Key="k")
    IdempotencyKey.objects.update(created_at=timezone.now() - timedelta(hours=25))
    tasks.tidy()
    assert IdempotencyKey.objects.count() == 0
    services.delete(actor(User.objects.get(username="ann")), Workspace.objects.get())
    assert api("POST", "workspaces", {"name": "box"}, Idempotency_Key="k").status_code == 201
