"""Acts of a token that wait for a member: restore and delete, and execs as rows (the rest of those: the gateway's)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.upstairs.conftest import Api, actor, converge, make, person
from workspaces import approvals, checkpoints, members, selectors, tokens
from workspaces.actors import SCOPES
from workspaces.api.errors import Problem
from workspaces.models import Checkpoint, Event, User, Workspace
from workspaces.models_people import Approval

AGENT = tuple(SCOPES - {"approvals", "admin"})


@pytest.fixture
def guarded(ann: User) -> Workspace:
    return make(ann, approvals={"exec": ["rm *"], "restore": True, "delete": True, "timeout_s": 60})


@pytest.fixture
def agent(ann: User) -> Api:
    return Api(ann, *AGENT)


@pytest.fixture
def member(ann: User, bob: User, guarded: Workspace) -> Api:
    """A program of an operator's that may decide."""
    members.add(actor(ann), guarded, "bob", "operator")
    return Api(bob)


def kinds(workspace: Workspace) -> list[str]:
    return [kind for kind in Event.objects.filter(workspace=workspace).order_by("seq").values_list("kind", flat=True)
            if kind.startswith("approval.")]


def asked_exec(agent: Api, workspace: Workspace, **body: Any) -> Approval:
    who = selectors.actor_from_token(agent.secret)
    return approvals.ask_exec(who, workspace, {"command": "rm x", **body}, "e" * 20, "rm *")


def test_a_tokens_delete_waits_and_happens_in_its_name_when_a_member_approves(
        agent: Api, member: Api, guarded: Workspace) -> None:
    place = f"workspaces/{guarded.pk}"
    answer = agent("DELETE", place)
    assert answer.status_code == 202 and answer.json()["state"] != "deleted"
    asked = answer.json()["approval"]
    assert (asked["kind"], asked["state"], asked["actor"]["name"]) == ("delete", "pending", "test")
    assert agent("DELETE", place).json()["approval"]["id"] == asked["id"], "asking again asks once"

    assert [row["id"] for row in member("GET", f"{place}/approvals?state=pending").json()["results"]] == [asked["id"]]
    decided = member("POST", f"{place}/approvals/{asked['id']}", {"decision": "approve"})
    assert decided.status_code == 200 and decided.json()["state"] == "approved"
    assert decided.json()["decided_by"]["name"] == "test" and decided.json()["result"] == {}
    guarded.refresh_from_db()
    assert guarded.intent == "deleted" and guarded.purge_at is not None
    assert kinds(guarded) == ["approval.requested", "approval.approved"]


def test_a_denied_delete_does_not_happen_and_cannot_be_approved_afterwards(
        agent: Api, member: Api, guarded: Workspace) -> None:
    asked = agent("DELETE", f"workspaces/{guarded.pk}").json()["approval"]
    place = f"workspaces/{guarded.pk}/approvals/{asked['id']}"
    assert member("POST", place, {"decision": "deny"}).json()["state"] == "denied"
    assert member("POST", place, {"decision": "deny"}).json()["state"] == "denied", "the same again is the same"
    late = member("POST", place, {"decision": "approve"})
    assert (late.status_code, late.json()["reason"]) == (409, "denied")
    guarded.refresh_from_db()
    assert guarded.intent == "running"


def test_people_do_not_wait_for_themselves(ann: User, guarded: Workspace) -> None:
    assert not approvals.waits(actor(ann), guarded, "delete")


def test_a_restore_waits_and_its_result_names_the_checkpoint_that_undoes_it(
        agent: Api, member: Api, ann: User, guarded: Workspace) -> None:
    point = checkpoints.create(actor(ann), guarded, {"name": "v1"})
    Checkpoint.objects.update(state="ready")
    answer = agent("POST", f"workspaces/{guarded.pk}/checkpoints/{point.pk}/restore", {}, Idempotency_Key="k")
    assert answer.status_code == 202 and answer.json()["safety_checkpoint"] is None
    asked = answer.json()["approval"]
    assert asked["request"] == {"checkpoint": point.pk, "name": "v1", "safety": True}
    again = agent("POST", f"workspaces/{guarded.pk}/checkpoints/{point.pk}/restore", {}, Idempotency_Key="k")
    assert again.json()["approval"]["id"] == asked["id"]
    done = member("POST", f"workspaces/{guarded.pk}/approvals/{asked['id']}", {"decision": "approve"}).json()
    assert Checkpoint.objects.get(pk=done["result"]["safety_checkpoint"]).kind == "safety"
    guarded.refresh_from_db()
    assert guarded.wanted_head == point.pk
    assert agent("POST", f"workspaces/{guarded.pk}/checkpoints/{point.pk}/restore", {}, Idempotency_Key="k"
                 ).json()["safety_checkpoint"] == done["result"]["safety_checkpoint"]


def test_an_approved_act_that_is_refused_says_so_and_stays_approved(
        agent: Api, member: Api, ann: User, guarded: Workspace) -> None:
    point = checkpoints.create(actor(ann), guarded, {"name": "v1"})
    Checkpoint.objects.update(state="ready")
    asked = agent("POST", f"workspaces/{guarded.pk}/checkpoints/{point.pk}/restore", {}).json()["approval"]
    checkpoints.delete(actor(ann), Checkpoint.objects.get(pk=point.pk))
    done = member("POST", f"workspaces/{guarded.pk}/approvals/{asked['id']}", {"decision": "approve"}).json()
    assert (done["state"], done["result"]["code"]) == ("approved", "not_found")
    assert kinds(guarded)[-1] == "approval.failed"


def test_no_token_decides_what_it_or_a_token_of_its_line_asked_for(ann: User, guarded: Workspace) -> None:
    greedy = Api(ann)
    child = greedy("POST", "tokens", {"name": "child", "scopes": ["workspaces:read", "approvals"]}).json()["secret"]
    asked = greedy("DELETE", f"workspaces/{guarded.pk}").json()["approval"]
    place = f"workspaces/{guarded.pk}/approvals/{asked['id']}"
    for secret in (greedy.secret, child):
        answer = greedy("POST", place, {"decision": "approve"}, authorization=f"Bearer {secret}")
        assert (answer.status_code, answer.json()["reason"]) == (403, "own_request")
    other = Api(ann)
    assert other("POST", place, {"decision": "deny"}).status_code == 200, "another line of the same owner, with scope"


def test_only_a_member_who_may_act_decides(agent: Api, ann: User, bob: User, root: User, guarded: Workspace) -> None:
    members.add(actor(ann), guarded, "bob", "viewer")
    asked = agent("DELETE", f"workspaces/{guarded.pk}").json()["approval"]
    place = f"workspaces/{guarded.pk}/approvals/{asked['id']}"
    for who, said in ((Api(ann, *AGENT), 403), (Api(bob), 403), (Api(person("eve")), 404), (Api(root), 404)):
        assert who("POST", place, {"decision": "approve"}).status_code == said
    assert Api(bob)("GET", place).json()["state"] == "pending", "a viewer sees what waits"
    for wrong in ({"decision": "maybe"}, {}, {"decision": "approve", "all": True}):
        assert Api(ann)("POST", place, wrong).json()["code"] == "invalid"


def test_what_nobody_decides_runs_out_by_the_clock_and_for_every_reader(
        agent: Api, member: Api, guarded: Workspace) -> None:
    first = agent("DELETE", f"workspaces/{guarded.pk}").json()["approval"]
    place = f"workspaces/{guarded.pk}/approvals/{first['id']}"
    Approval.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    late = member("POST", place, {"decision": "approve"})
    assert (late.status_code, late.json()["reason"]) == (409, "expired")
    assert member("GET", place).json()["state"] == "expired"
    agent("DELETE", f"workspaces/{guarded.pk}")
    assert approvals.expire(timezone.now()) == 0
    assert approvals.expire(timezone.now() + timedelta(seconds=61)) == 1
    assert kinds(guarded) == ["approval.requested", "approval.expired"] * 2
    guarded.refresh_from_db()
    assert guarded.intent == "running"


def test_a_token_whose_right_is_gone_gets_nothing_by_a_late_approval(
        agent: Api, member: Api, ann: User, guarded: Workspace) -> None:
    asked = agent("DELETE", f"workspaces/{guarded.pk}").json()["approval"]
    tokens.revoke(ann.tokens.get(pk=agent.token_id))
    done = member("POST", f"workspaces/{guarded.pk}/approvals/{asked['id']}", {"decision": "approve"}).json()
    assert done["result"]["code"] == "unauthenticated"
    guarded.refresh_from_db()
    assert guarded.intent == "running"


def test_an_exec_that_waits_is_begun_by_a_gateway_once_and_its_body_is_kept_no_longer(
        agent: Api, member: Api, guarded: Workspace) -> None:
    asked = asked_exec(agent, guarded, env={"KEY": "s3cret"}, stdin="more")
    shown = member("GET", f"workspaces/{guarded.pk}/approvals/{asked.pk}").json()
    assert shown["request"] == {"command": "rm x", "env": ["KEY"]} and shown["pattern"] == "rm *"
    assert "s3cret" not in str(list(Event.objects.values("data")))
    assert approvals.to_begin() == []
    member("POST", f"workspaces/{guarded.pk}/approvals/{asked.pk}", {"decision": "approve"})
    ((row, who),) = approvals.to_begin()
    assert row.request["env"] == {"KEY": "s3cret"} and who.token_id == agent.token_id
    approvals.begun(row.pk, {})
    assert approvals.to_begin() == [] and Approval.objects.get(pk=row.pk).request == {}


def test_a_denied_execs_body_is_kept_no_longer(agent: Api, member: Api, guarded: Workspace) -> None:
    asked = asked_exec(agent, guarded, env={"KEY": "s3cret"})
    member("POST", f"workspaces/{guarded.pk}/approvals/{asked.pk}", {"decision": "deny"})
    assert Approval.objects.get(pk=asked.pk).request == {}


def test_an_approved_exec_whose_asker_lost_their_role_is_not_begun(
        ann: User, bob: User, guarded: Workspace) -> None:
    members.add(actor(ann), guarded, "bob", "operator")
    asked = asked_exec(Api(bob, *AGENT), guarded)
    approvals.decide(actor(ann), asked, approve=True)
    members.remove(actor(ann), guarded, "bob")
    assert approvals.to_begin() == []
    assert Approval.objects.get(pk=asked.pk).result["code"] == "not_found"


def test_so_many_wait_and_no_more(agent: Api, guarded: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approvals, "MOST_PENDING", 1)
    asked_exec(agent, guarded)
    with pytest.raises(Problem, match="busy"):
        approvals.ask_exec(selectors.actor_from_token(agent.secret), guarded, {"command": "rm y"}, "f" * 20, "rm *")


def test_what_holds_a_token_back_is_not_that_tokens_to_change(agent: Api, api: Api, guarded: Workspace) -> None:
    place = f"workspaces/{guarded.pk}"
    assert agent("PATCH", place, {"approvals": {}}).json()["code"] == "scope_missing"
    assert agent("PATCH", place, {"labels": {"a": "b"}}).status_code == 200
    changed = api("PATCH", place, {"approvals": {"exec": ["git push*"], "timeout_s": 5}})
    assert changed.json()["approvals"] == {"exec": ["git push*"], "timeout_s": 5}
    for wrong in ({"exec": "rm"}, {"exec": [1]}, {"timeout_s": 0}, {"everything": True}, {"delete": 1}, 7):
        assert api("PATCH", place, {"approvals": wrong}).json()["code"] == "invalid"


def test_a_token_has_the_scope_approvals_only_when_somebody_named_it(api: Api) -> None:
    assert "approvals" not in api("POST", "tokens", {"name": "agent"}).json()["scopes"]
    assert api("POST", "tokens", {"name": "boss", "scopes": ["approvals"]}).json()["scopes"] == ["approvals"]


def test_a_fork_and_a_copy_of_a_checkpoint_hold_back_what_their_source_holds_back(
        agent: Api, box: Workspace, ann: User) -> None:
    Workspace.objects.filter(pk=box.pk).update(approvals={"delete": True})
    point = checkpoints.create(actor(ann), box, {"name": "v1"})
    converge(box.pk)
    forked = agent("POST", f"workspaces/{box.pk}/fork", {"name": "f", "checkpoint": point.pk}).json()["results"][0]
    assert forked["approvals"] == {"delete": True}
    copied = agent("POST", "workspaces", {"name": "c", "from_checkpoint": point.pk}).json()
    assert copied["approvals"] == {"delete": True}
    around = agent("POST", "workspaces", {"name": "d", "from_checkpoint": point.pk, "approvals": {}})
    assert around.json()["code"] == "scope_missing"
