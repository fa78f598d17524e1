"""What a workspace may reach: kept, compiled with the admins' terms, told to its host before any boot and live, and
asked for. The host is a real hostd that keeps documents; what it does with them is its own tests' matter."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from django.contrib.auth.models import Group

from sandboxes import hostlink, machines
from sandboxes.models import Host, PlanRun
from tests.upstairs.conftest import Api, actor, converge, make
from tests.upstairs.hostd import Hostd
from workspaces import approvals, courier, forks, members, networks, policies, reconcile, services
from workspaces.actors import SYSTEM
from workspaces.api.errors import Problem
from workspaces.models import Event, User, Workspace
from workspaces.models_people import Approval

PYPI = {"domain": "pypi.org", "ports": [443]}
RULES = {"mode": "rules", "rules": [PYPI], "ask": False}


def rules(*some: dict[str, Any], ask: bool = False) -> dict[str, Any]:
    return {"mode": "rules", "rules": list(some), "ask": ask}


def kept(host: Hostd, workspace: Workspace) -> dict[str, Any]:
    """What the host keeps, from its own file."""
    return dict(json.loads((host.folder / "state/records" / workspace.pk / "network.json").read_text()))


def changes(workspace: Workspace) -> list[dict[str, Any]]:
    return list(Event.objects.filter(workspace=workspace, kind="network.changed").order_by("seq")
                .values_list("data", flat=True))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every call to a host, as it is made."""
    made: list[str] = []
    plain = hostlink.HostLink._call

    def noted(self: Any, method: str, path: str, **how: Any) -> Any:
        kind = (how.get("json") or {}).get("kind", "")
        made.append(f"{method} {path.partition('/v1/machines/')[2][21:] or path} {kind}".strip())
        return plain(self, method, path, **how)

    monkeypatch.setattr(hostlink.HostLink, "_call", noted)
    return made


def deeds(calls: list[str]) -> list[str]:
    """What was asked of the host, in order. An operation that is not done by the end of a turn is named again."""
    return [call for call, _same in itertools.groupby(call for call in calls if not call.startswith("GET"))]


def test_a_policy_is_with_the_host_before_the_first_boot_and_a_change_reaches_it_in_one_turn_without_a_restart(
        sleepy: Hostd, ann: User, api: Api, bell: list[str], calls: list[str],
        django_capture_on_commit_callbacks: Any) -> None:
    made = api("POST", "workspaces", {"name": "box", "network": rules({"domain": "PyPI.org", "ports": [443]})})
    assert made.status_code == 201 and made.json()["network"] == RULES, "kept in the one spelling that is compared"
    box = converge(made.json()["id"])
    assert box is not None and box.state == "running"
    assert deeds(calls) == ["POST operations create_disk", "PUT network", "POST operations boot"]
    document = {"revision": 1, "policy": RULES, "bound": None, "private_allowed": [],
                "limits": {"connections": 256, "bytes_per_s": 0, "dns_per_s": 50}}
    assert kept(sleepy, box) == document

    path, generation, plans = f"workspaces/{box.pk}/network", box.generation, PlanRun.objects.count()
    shown = api("GET", path)
    assert shown.json() == {
        "network": RULES, "revision": 1, "in_force": True, "supported": True, "bound": None, "private_allowed": [],
        "limits": {"connections": 256, "bytes_per_s": None, "dns_per_s": 50}} and shown["ETag"] == '"1"'
    calls.clear()
    bell.clear()
    with django_capture_on_commit_callbacks(execute=True):
        put = api("PUT", path, rules(PYPI, {"cidr": "203.0.113.0/24"}))
    assert put.status_code == 200 and put.json()["revision"] == 2 and not put.json()["in_force"] and bell == [box.pk]
    assert api("PUT", path, rules(PYPI, {"cidr": "203.0.113.0/24"})).json()["revision"] == 2, "already so"
    assert reconcile.reconcile(box.pk) is reconcile.Again.NO
    assert deeds(calls) == ["PUT network"]
    assert kept(sleepy, box)["revision"] == 2 and api("GET", path).json()["in_force"]
    box.refresh_from_db()
    assert (box.generation, box.state, PlanRun.objects.count()) == (generation, "running", plans), "nothing restarted"
    assert changes(box) == [{"mode": "rules", "rules": 2, "ask": False, "added": ["203.0.113.0/24"]}]

    gone = api("PATCH", f"workspaces/{box.pk}", {"network": {"mode": "deny-all"}, "labels": {"a": "b"}})
    assert gone.json()["network"] == {"mode": "deny-all"} and gone.json()["labels"] == {"a": "b"}
    converge(box.pk)
    assert kept(sleepy, box)["policy"] == {"mode": "deny-all"} and kept(sleepy, box)["revision"] == 3
    assert changes(box)[-1]["removed"] == ["pypi.org:443", "203.0.113.0/24"]


def test_who_may_reach_nothing_costs_no_call_and_has_no_document(sleepy: Hostd, ann: User, calls: list[str],
                                                               django_assert_max_num_queries: Any) -> None:
    box = converge(make(ann).pk)
    assert box is not None and (box.network_revision, box.network_document) == (0, {})
    assert deeds(calls) == ["POST operations create_disk",
                                                                     "POST operations boot"]
    assert not (sleepy.folder / "state/records" / box.pk / "network.json").exists()


def test_a_fork_and_a_wake_have_their_document_before_they_begin(box: Workspace, sleepy: Hostd, ann: User,
                                                                calls: list[str]) -> None:
    networks.put(actor(ann), box, RULES)
    converge(box.pk)
    services.standby(actor(ann), box)
    asleep = converge(box.pk)
    assert asleep is not None and asleep.state == "standby"
    calls.clear()
    networks.put(actor(ann), box, {"mode": "allow-all"})
    services.start(actor(ann), asleep)
    converge(box.pk)
    assert deeds(calls) == ["PUT network", "POST operations boot"]
    assert kept(sleepy, box)["policy"] == {"mode": "allow-all"}

    fork, = forks.fork(actor(ann), Workspace.objects.get(pk=box.pk), "twin")
    converge(box.pk)
    calls.clear()
    twin = converge(fork.pk)
    assert twin is not None and twin.state == "running"
    assert deeds(calls) == [
        "POST operations clone", "PUT network", "POST operations boot"]
    assert (twin.network, kept(sleepy, twin)["revision"]) == ({"mode": "allow-all"}, 1)


def test_a_host_that_was_away_or_lost_the_document_is_told_again_by_the_sweep(
        box: Workspace, sleepy: Hostd, ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> int:
        raise hostlink.errors.HostUnreachable("away")

    networks.put(actor(ann), box, RULES)
    with monkeypatch.context() as patched:
        patched.setattr(hostlink.HostLink, "put_network", away)
        assert reconcile.reconcile(box.pk) is reconcile.Again.LATER
        assert networks.behind() == {box.pk} and box.pk in reconcile.sweep()
    converge(box.pk)
    assert kept(sleepy, box)["revision"] == 1 and networks.behind() == set()
    machines.Sandbox.objects.filter(pk=box.pk).update(network_revision=0)  # as a host says whose record was lost
    assert networks.behind() == {box.pk}


@pytest.mark.parametrize(("body", "field"), [
    ({"mode": "some"}, "mode"), ({}, "mode"), ({"mode": "deny-all", "rules": [PYPI]}, "rules"),
    (rules(PYPI, PYPI, {"domain": "a b"}), "rules[2].domain"), (rules({"cidr": "10.0.0.1/8"}), "rules[0].cidr"),
    (rules({"domain": "a.b", "inject": {"header": "x", "secret": "y"}}), "rules[0].inject"),
    (rules({"domain": "a.b", "path_prefix": "/x"}), "rules[0].ports"), ({"mode": "rules", "ask": "yes"}, "ask"),
    (rules({"domain": "\ud800"}), "rules[0].domain"), (rules(*[PYPI] * 201), "rules"),
    ({"mode": "rules", "a": 1}, "a")])
def test_a_policy_that_is_none_is_refused_by_its_field(asleep: Workspace, api: Api, body: Any, field: str) -> None:
    alone = api("PUT", f"workspaces/{asleep.pk}/network", body)
    within = api("PATCH", f"workspaces/{asleep.pk}", {"network": body})
    assert (alone.status_code, list(alone.json()["errors"])) == (400, [field]), alone.content
    assert (within.status_code, list(within.json()["errors"])) == (400, [f"network.{field}"]), within.content
    asleep.refresh_from_db()
    assert (asleep.network, asleep.network_revision) == ({"mode": "deny-all"}, 0)


def test_a_host_that_lets_nobody_out_keeps_deny_all_alone_and_new_ones_go_where_they_can_reach_out(
        hostd: Hostd, running: Workspace, ann: User, api: Api) -> None:
    path = f"workspaces/{running.pk}/network"
    new = {"name": "n", "network": {"mode": "allow-all"}}
    for refused, field in ((api("PUT", path, RULES), "mode"), (api("POST", "workspaces", new), "network.mode"),
                           (api("PATCH", f"workspaces/{running.pk}", {"network": RULES}), "network.mode")):
        assert refused.status_code == 400 and refused.json()["errors"] == {field: [networks.NO_WAY_OUT]}
    assert api("GET", path).json()["supported"] is False
    assert api("PUT", path, {"mode": "deny-all"}).status_code == 200
    policies.put(SYSTEM, "default", {"network_default": {"value": {"mode": "allow-all"}}})
    unasked = api("POST", "workspaces", {"name": "unasked"})
    assert unasked.json()["network"] == {"mode": "deny-all"}, "a default that cannot be kept is nothing, and no refusal"
    local = Host.objects.get()
    able = Host.objects.create(pk="able", name="able", address=hostd.address, images=local.images,
                               capacity={"memory_mib": 1}, capabilities={**local.capabilities, "egress": True})
    box = make(ann, "out", network=RULES)
    reconcile.reconcile(box.pk)
    assert machines.believed(box.pk, 1).trouble == "no_capacity", "only the host that lets out is looked at"
    Host.objects.filter(pk=able.pk).delete()


def test_who_may_change_it_and_over_which_revision(sleepy: Hostd, ann: User, bob: User, asleep: Workspace) -> None:
    path = f"workspaces/{asleep.pk}/network"
    members.add(actor(ann), asleep, "bob", "viewer")
    reader = Api(bob)
    assert reader("GET", path).json()["network"] == {"mode": "deny-all"}
    assert reader("PUT", path, RULES).json()["code"] == "forbidden"
    plain = Api(ann, "workspaces:read", "workspaces:write", "exec")
    assert plain("GET", path).json()["code"] == "scope_missing"
    for answer in (plain("PUT", path, RULES), plain("PATCH", f"workspaces/{asleep.pk}", {"network": RULES}),
                   plain("POST", "workspaces", {"name": "x", "network": RULES})):
        assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")
    assert plain("PATCH", f"workspaces/{asleep.pk}", {"network": {"mode": "deny-all"}}).status_code == 200, "as it is"
    owner = Api(ann, "network")
    assert owner("PUT", path, RULES, If_Match='"0"')["ETag"] == '"1"'
    for tag in ('"0"', "nonsense"):
        late = owner("PUT", path, {"mode": "allow-all"}, If_Match=tag)
        assert (late.status_code, late.json()["code"]) == (412, "precondition_failed")
    services.delete(actor(ann), asleep)
    assert owner("PUT", path, {"mode": "allow-all"}).json()["reason"] == "deleted"


def test_admins_terms_reach_those_concerned_and_nobody_else(sleepy: Hostd, ann: User, bob: User, root: User) -> None:
    hers, his, closed = make(ann, "hers", network=RULES), make(bob, "his", network=RULES), make(ann, "closed")
    crew = Group.objects.create(name="crew")

    def found(row: Workspace) -> tuple[int, dict[str, Any]]:
        row.refresh_from_db()
        return row.network_revision, row.network_document

    bound = {"mode": "rules", "rules": [{"domain": "*.org"}]}
    policies.put(actor(root), "group:crew", {
        "network_bound": {"value": bound}, "network_private": {"value": ["10.1.2.0/24"]},
        "network_connections": {"value": 16}, "network_bytes_per_s": {"value": 1000},
        "network_dns_per_s": {"value": None}})
    assert found(hers)[0] == 1, "she is in no group yet"
    ann.groups.add(crew)
    revision, document = found(hers)
    assert revision == document["revision"] == 2 and document["bound"]["rules"][0]["ports"] == [80, 443]
    assert document["private_allowed"] == ["10.1.2.0/24"]
    assert document["limits"] == {"connections": 16, "bytes_per_s": 1000, "dns_per_s": 10000}
    assert found(his)[0] == 1 and found(closed) == (0, {}), "whom it does not touch"
    event = Event.objects.filter(workspace=hers, kind="network.changed").get()
    assert (event.cause, event.actor_type) == ("policy", "system")
    Api(root)("PATCH", "policies/group:crew", {"terms": {"network_bound": {"value": None}}})
    assert found(hers)[1]["bound"] is None
    policies.remove("group:crew")
    assert found(hers)[1]["limits"]["connections"] == 256 and found(hers)[0] == 4
    policies.put(actor(root), "default", {"network_default": {"value": {"mode": "allow-all"}}})
    assert found(hers)[0] == 4, "a default is for new ones"
    with_default = Api(ann)("POST", "workspaces", {"name": "new"})
    assert with_default.json()["network"] == {"mode": "allow-all"}
    assert Api(ann)("POST", "workspaces", {"name": "own", "network": {"mode": "deny-all"}}).json()["network"] == {
        "mode": "deny-all"}


@pytest.mark.parametrize("wrong", [
    {"network_default": {"value": None}}, {"network_default": {"value": {"mode": "rules"}, "upper_bound": 3}},
    {"network_bound": {"value": {"mode": "rules", "rules": [{"domain": "a b"}]}}},
    {"network_bound": {"value": {"mode": "rules", "ask": True}}}, {"network_private": {"value": ["10.0.0.1/8"]}},
    {"network_private": {"value": "10.0.0.0/8"}}, {"network_connections": {"value": 0}},
    {"network_connections": {"value": 65536}}, {"network_dns_per_s": {"value": "many"}}])
def test_terms_of_the_network_that_cannot_be_meant_are_refused_by_name(db: None, wrong: Any) -> None:
    with pytest.raises(Problem) as refused:
        policies.checked(wrong)
    assert list(refused.value.extra["errors"]) == list(wrong)


# -- what is refused, and what is asked for --------------------------------------------------------------------------


def fact(workspace: Workspace, kind: str, **data: Any) -> dict[str, Any]:
    return {"machine_id": workspace.pk, "kind": kind, "data": data, "at": "2026-01-02T03:04:05Z"}


def heard(*facts: dict[str, Any]) -> None:
    host = Host.objects.get()
    courier.take_in(host, {"facts": list(facts), "next": host.feed_seq + len(facts)})


def test_a_connection_that_waits_is_one_approval_and_a_yes_is_a_rule(
        box: Workspace, sleepy: Hostd, ann: User, bob: User, api: Api) -> None:
    networks.put(actor(ann), box, rules(PYPI, ask=True))
    members.add(actor(ann), box, "bob", "operator")
    place = {"name": "crates.io", "address": "203.0.113.9", "port": 443}
    heard(fact(box, "network.refused", name="evil.test", address="", port=443, protocol="tcp", reason="no_rule",
               count=3),
          fact(box, "network.asked", ask_id="a1", **place), fact(box, "network.asked", ask_id="a2", **place))
    refused = Event.objects.get(workspace=box, kind="network.refused")
    assert refused.data["name"] == "evil.test" and refused.data["count"] == 3
    asked, = api("GET", f"workspaces/{box.pk}/approvals?kind=network").json()["results"]
    assert asked["actor"] == {"type": "system", "name": "the guest"} and asked["request"] == {
        "name": "crates.io", "address": "", "port": 443}
    assert Approval.objects.get().request["asks"] == ["a1", "a2"], "one word for both"
    decided = Api(bob)("POST", f"workspaces/{box.pk}/approvals/{asked['id']}", {"decision": "approve"})
    assert (decided.status_code, decided.json()["result"]) == (200, {})
    converge(box.pk)
    assert kept(sleepy, box)["policy"]["rules"] == [PYPI, {"domain": "crates.io", "ports": [443]}]
    assert changes(box)[-1]["added"] == ["crates.io:443"]

    heard(fact(box, "network.asked", ask_id="a3", name="", address="203.0.113.9", port=22))
    numeric = Approval.objects.get(state="pending")
    networks.put(actor(ann), box, {"mode": "deny-all"})
    late = api("POST", f"workspaces/{box.pk}/approvals/{numeric.pk}", {"decision": "approve"}).json()
    assert (late["state"], late["result"]["code"]) == ("approved", "state_conflict"), "what was closed stays closed"


def test_a_no_and_a_time_that_ran_out_are_told_to_the_host_once(
        box: Workspace, ann: User, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    plain = hostlink.HostLink.refuse_ask

    def noted(self: Any, machine_id: str, ask_id: str) -> None:
        told.append(ask_id)
        plain(self, machine_id, ask_id)  # nothing waits there any more, which is the same

    monkeypatch.setattr(hostlink.HostLink, "refuse_ask", noted)
    networks.put(actor(ann), box, rules(ask=True))
    place = {"name": "evil.test", "address": "203.0.113.9", "port": 443}
    heard(fact(box, "network.asked", ask_id="a1", **place))
    asked = Approval.objects.get()
    assert api("POST", f"workspaces/{box.pk}/approvals/{asked.pk}", {"decision": "deny"}).status_code == 200
    assert approvals.untold() == {box.pk} <= reconcile.sweep()
    converge(box.pk)
    assert told == ["a1"] and approvals.untold() == set()
    heard(fact(box, "network.asked", ask_id="a2", **place))
    assert Approval.objects.count() == 1, "nobody is asked again for a while"
    heard(fact(box, "network.asked", ask_id="a3", name="", address="203.0.113.9", port=22))
    Approval.objects.filter(state="pending").update(expires_at=asked.created_at)
    approvals.expire(asked.created_at)
    converge(box.pk)
    assert sorted(told) == ["a1", "a2", "a3"] and not Approval.objects.filter(state="pending").exists()
