"""The audit: each act once, with who, whence, what and how it ended; the refused ones, too; and no secret in it."""

from __future__ import annotations

import inspect
import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.views import APIView

from tests.upstairs.conftest import HOST, Api, actor, make
from workspaces import audit, policies, tokens
from workspaces.api import account, approvals, checkpoints, holds, members, operations, users, views
from workspaces.api import policies as policy_views
from workspaces.models import User
from workspaces.models_people import AuditEntry

FROM = "203.0.113.7"


def entries(root: User, query: str = "") -> list[dict[str, Any]]:
    return list(Api(root)("GET", f"audit{query}").json()["results"])


def test_an_act_is_there_once_with_actor_token_address_target_and_outcome(api: Api, ann: User, root: User) -> None:
    made = api("POST", "workspaces", {"name": "box"}, X_Forwarded_For=f"10.0.0.1, {FROM}")
    (found,) = entries(root, "?kind=workspace.create")
    assert found["actor"] == {"type": "token", "name": "ann", "token_id": api.token_id, "token_name": "test"}
    assert found["address"] == FROM, "only what the gateway itself put last is believed"
    assert (found["outcome"], found["status"]) == (made.json().get("code", "ok"), made.status_code)


def test_a_refused_act_is_there_with_the_code_of_its_refusal(api: Api, ann: User, bob: User, root: User) -> None:
    workspace = make(ann)
    assert Api(bob)("POST", f"workspaces/{workspace.pk}/stop").status_code == 404
    assert Api(ann, "workspaces:read")("POST", f"workspaces/{workspace.pk}/stop").status_code == 403
    policies.put(actor(root), "user:ann", {"workspaces": {"value": 1}})
    assert api("POST", "workspaces", {"name": "more", "image": "default"}).status_code in (400, 403)
    stops = entries(root, f"?target=workspace:{workspace.pk}&kind=workspace.stop")
    assert [(row["actor"]["name"], row["outcome"]) for row in stops] == [("ann", "scope_missing"), ("bob", "not_found")]


def test_signing_in_is_there_whether_it_succeeds_or_not_and_never_what_was_typed(ann: User, root: User) -> None:
    browser = Client(headers={"host": HOST})
    for name, password in (("ann", "wrong-one"), ("hunter2-typed-here", "x"), ("ann", "pass-of-ann")):
        browser.post("/api/v1/session", {"username": name, "password": password}, content_type="application/json")
    said = [(row["target"], row["outcome"]) for row in entries(root, "?kind=session.create")]
    assert said == [("user:ann", "ok"), (None, "unauthenticated"), ("user:ann", "unauthenticated")]
    text = json.dumps(list(AuditEntry.objects.values()), default=str)
    assert "hunter2" not in text and "wrong-one" not in text and "pass-of-ann" not in text


def test_an_unknown_token_leaves_a_trace_of_its_address_and_not_of_itself(ann: User, root: User) -> None:
    stranger = Api(ann)
    tokens.revoke(ann.tokens.get(pk=stranger.token_id))
    stranger("GET", "workspaces", X_Forwarded_For=FROM)
    (found,) = entries(root, f"?address={FROM}")
    assert (found["actor"], found["outcome"]) == (None, "unauthenticated")
    assert stranger.secret not in json.dumps(list(AuditEntry.objects.values()), default=str)


def test_the_secret_of_a_new_token_is_nowhere_in_it(api: Api, root: User) -> None:
    made = api("POST", "tokens", {"name": "ci"}).json()
    (found,) = entries(root, "?kind=token.create")
    assert found["target"] == f"token:{made['id']}" and found["data"]["name"] == "ci"
    assert made["secret"] not in json.dumps(found)


def test_reading_is_no_act(api: Api, ann: User) -> None:
    make(ann)
    api("GET", "workspaces")
    api("GET", "me")
    assert not AuditEntry.objects.exists()


def test_it_is_for_admins_alone(api: Api, root: User) -> None:
    assert api("GET", "audit").status_code == 403
    assert Api(root, "workspaces:read")("GET", "audit").json()["code"] == "scope_missing"
    assert Api(root)("POST", "audit", {}).status_code == 405


def test_it_is_filtered_by_each_field_and_between_instants_and_walked_by_pages(root: User) -> None:
    now = timezone.now()
    audit.record(*(audit.Act(kind=f"k{n % 2}", target=f"workspace:{n}", at=now - timedelta(minutes=n),
                             outcome="ok" if n < 5 else "forbidden", actor=actor(root)) for n in range(7)))
    assert len(entries(root, "?kind=k1")) == 3
    assert [row["target"] for row in entries(root, "?outcome=forbidden&kind=k1")] == ["workspace:5"]
    since = (now - timedelta(minutes=4)).isoformat().replace("+00:00", "Z")
    until = (now - timedelta(minutes=1)).isoformat().replace("+00:00", "Z")
    assert [row["target"][-1] for row in entries(root, f"?since={since}&until={until}")] == ["2", "3", "4"]
    seen, url = [], "/api/v1/audit?limit=3&actor=root&since=" + (now - timedelta(hours=1)).isoformat()[:19] + "Z"
    while url:
        page = Api(root)("GET", url.removeprefix(f"http://{HOST}")).json()
        seen += [row["id"] for row in page["results"]]
        url = page["next"]
    assert len(seen) == len(set(seen)) == 7
    for wrong in ("?colour=red", "?since=yesterday", "?until=2026-01-01T00:00:00"):
        assert Api(root)("GET", f"audit{wrong}").json()["code"] == "invalid"


def test_policy_says_how_long_it_is_kept_and_only_for_the_whole_instance(root: User) -> None:
    now = timezone.now()
    audit.record(*(audit.Act(kind="old", at=now - timedelta(days=days)) for days in (1, 5, 400)))
    assert audit.retain(now) == 1, "a year, where nobody said anything"
    policies.put(actor(root), "default", {"audit_keep_s": {"value": 2 * 86400}})
    assert audit.retain(now) == 1
    assert Api(root)("PUT", "policies/user:root", {"terms": {"audit_keep_s": {"value": 86400}}}).status_code == 400
    policies.put(actor(root), "default", {"audit_keep_s": {"value": None}})
    assert audit.retain(now + timedelta(days=10**4)) == 0


@pytest.mark.parametrize("module", [account, approvals, checkpoints, holds, members, operations, policy_views,
                                    users, views])
def test_every_change_that_a_view_offers_has_a_name_in_the_audit(module: Any) -> None:
    """What is built here and forgotten there would read as `request`."""
    for name, view in inspect.getmembers(module, inspect.isclass):
        if issubclass(view, APIView) and view.__module__ == module.__name__ and hasattr(view, "http_method_names"):
            offered = {word.upper() for word in ("post", "put", "patch", "delete") if hasattr(view, word)}
            if name != "Command":  # the base of the verbs
                assert offered <= set(getattr(view, "audits", {})), f"{module.__name__}.{name}"
