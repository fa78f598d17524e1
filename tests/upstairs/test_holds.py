"""Holds over REST: who may, how long, what is said of them, and that they end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from tests.upstairs.conftest import Api, actor, make
from workspaces import holds, policies, services
from workspaces.models import Event, Membership, User, Workspace
from workspaces.models_policy import Hold, Tally


@pytest.fixture
def workspace(ann: User) -> Workspace:
    row = make(ann)
    Workspace.objects.filter(pk=row.pk).update(state="running")
    return Workspace.objects.get(pk=row.pk)


def kinds(workspace: Workspace) -> list[str]:
    return list(Event.objects.filter(workspace=workspace, kind__startswith="hold.").values_list("kind", flat=True))


def test_a_hold_is_made_listed_renewed_and_let_go(api: Api, workspace: Workspace) -> None:
    path = f"workspaces/{workspace.pk}/holds"
    made = api("POST", path, {"reason": "training", "ttl_s": 600})
    assert made.status_code == 201 and made.json()["from"] == "api"
    ends = parse_datetime(made.json()["expires_at"])
    assert ends is not None and timedelta(seconds=590) < ends - timezone.now() <= timedelta(seconds=600)
    again = api("POST", path, {"reason": "training", "ttl_s": 60})
    assert (again.status_code, again.json()["id"]) == (200, made.json()["id"]), "the same reason is the same hold"
    assert again.json()["expires_at"] < made.json()["expires_at"], "and may be shortened"
    assert [hold["id"] for hold in api("GET", path).json()["results"]] == [made.json()["id"]]
    assert api("DELETE", f"{path}/{made.json()['id']}").status_code == 204
    assert api("DELETE", f"{path}/{made.json()['id']}").status_code == 404
    assert api("GET", path).json()["results"] == []
    assert kinds(workspace) == ["hold.added", "hold.added", "hold.removed"]


def test_all_of_them_are_let_go_at_once(api: Api, workspace: Workspace) -> None:
    path = f"workspaces/{workspace.pk}/holds"
    for reason in "abc":
        api("POST", path, {"reason": reason, "ttl_s": 600})
    assert api("DELETE", path).status_code == 204 and api("DELETE", path).status_code == 204
    assert Hold.objects.count() == 0 and kinds(workspace).count("hold.removed") == 3


def test_policy_says_how_long_and_the_refusal_says_so(api: Api, workspace: Workspace, root: User) -> None:
    path = f"workspaces/{workspace.pk}/holds"
    policies.put(actor(root), "user:ann", {"max_hold_s": {"value": 120}})
    refused = api("POST", path, {"reason": "long", "ttl_s": 121})
    assert refused.status_code == 400 and refused.json()["errors"] == {"ttl_s": ["At most 120, by policy."]}
    assert api("POST", path, {"reason": "long", "ttl_s": 120}).status_code == 201
    policies.put(actor(root), "user:ann", {"max_hold_s": {"value": 0}})
    assert api("POST", path, {"reason": "short", "ttl_s": 1}).status_code == 400


@pytest.mark.parametrize("body", [{}, {"reason": "x"}, {"reason": "", "ttl_s": 9}, {"reason": "x", "ttl_s": 0},
                                  {"reason": "x", "ttl_s": "9"}, {"reason": "x" * 201, "ttl_s": 9},
                                  {"reason": "x", "ttl_s": 9, "until": 1}])
def test_what_is_no_hold_is_refused(api: Api, workspace: Workspace, body: dict[str, Any]) -> None:
    assert api("POST", f"workspaces/{workspace.pk}/holds", body).status_code == 400


def test_operators_hold_viewers_look_and_nobody_else_knows_of_it(workspace: Workspace, ann: User, bob: User) -> None:
    path, his = f"workspaces/{workspace.pk}/holds", Api(bob)
    assert his("GET", path).status_code == 404
    member = Membership.objects.create(workspace=workspace, user=bob, role="viewer")
    assert his("GET", path).status_code == 200
    assert his("POST", path, {"reason": "x", "ttl_s": 9}).json()["code"] == "forbidden"
    Membership.objects.filter(pk=member.pk).update(role="operator")
    assert his("POST", path, {"reason": "x", "ttl_s": 9}).status_code == 201
    assert Api(ann, "workspaces:read")("DELETE", path).json()["code"] == "scope_missing"


def test_there_are_at_most_so_many_and_none_in_the_trash(api: Api, workspace: Workspace, ann: User) -> None:
    path = f"workspaces/{workspace.pk}/holds"
    for number in range(holds.MOST_HOLDS):
        assert api("POST", path, {"reason": str(number), "ttl_s": 60}).status_code == 201
    assert api("POST", path, {"reason": "more", "ttl_s": 60}).json()["reason"] == "too_many_holds"
    services.delete(actor(ann), workspace)
    assert api("POST", path, {"reason": "0", "ttl_s": 60}).json()["reason"] == "deleted"


def test_a_repeated_request_makes_one_hold(api: Api, workspace: Workspace) -> None:
    path = f"workspaces/{workspace.pk}/holds"
    first, second = (api("POST", path, {"reason": "x", "ttl_s": 60}, Idempotency_Key="k") for _ in range(2))
    assert first.status_code == second.status_code == 201 and first.json()["id"] == second.json()["id"]
    assert kinds(workspace) == ["hold.added"]


def test_the_workspace_says_what_keeps_it_awake_and_what_comes_next(api: Api, workspace: Workspace) -> None:
    """Field case 149: in each case a name and, where one can be given, an instant."""
    path, now = f"workspaces/{workspace.pk}", timezone.now()

    def shown() -> tuple[Any, dict[str, Any]]:
        answer = api("GET", path).json()
        return answer["next_transition"], {why["kind"]: why for why in answer["awake_because"]}

    coming, awake = shown()
    assert coming is None and set(awake) == {"host"}, "nobody has looked yet"
    tally = Tally.objects.create(workspace=workspace, stage=f"running:{workspace.generation}", since=now, seen_at=now,
                                 lag=timedelta(0), activity=workspace.last_activity_at, observed=True)
    coming, awake = shown()
    assert (coming["to"], coming["because"]) == ("standby", "idle") and awake["activity"]["detail"] == "create"
    assert parse_datetime(coming["at"]) == now + timedelta(seconds=900)
    api("POST", f"{path}/holds", {"reason": "training", "ttl_s": 7200})
    coming, awake = shown()
    assert coming["because"] == "hold" and awake["hold"]["detail"] == "training"
    assert coming["at"] == awake["hold"]["until"]
    Tally.objects.filter(pk=tally.pk).update(running_execs=2)
    coming, awake = shown()
    assert coming is None and awake["exec"] == {"kind": "exec", "detail": "2 running", "until": None}
    api("PATCH", path, {"idle": {"standby_after_s": 0}})
    assert "policy" in shown()[1]


def test_a_guests_words_are_bounded_and_never_without_an_end(workspace: Workspace) -> None:
    now = timezone.now()
    end = now.timestamp() + 60
    heard: list[dict[str, Any]] = [{"reason": f"n{n}", "expires_at": end} for n in range(100)]
    holds.hear_guest(workspace, heard, 3600, now)
    assert Hold.objects.count() == holds.MOST_HOLDS
    odd = [{"reason": "a\x00b" * 200, "expires_at": end}, {"reason": "for ever"}, {"expires_at": "soon"},
           {"reason": "past", "expires_at": end - 999}, {"expires_at": 1e300}, {"expires_at": True}]
    holds.hear_guest(workspace, odd, 3600, now)
    only = Hold.objects.get()
    assert len(only.reason) == holds.MOST_REASON and "\x00" not in only.reason
    holds.hear_guest(workspace, [], 3600, now)
    assert Hold.objects.count() == 0
