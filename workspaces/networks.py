"""What each workspace may reach. The only writer of `Workspace.network`, its revision and its document.

    a person, an approval ──▶ network ─┐
    admins' terms (policy) ────────────┴─▶ compiled ── differs from before? ──▶ revision + 1 ──▶ bell ──▶ reconcile
                                                                                        ──▶ host, before any boot

Called by services (create, patch), the API, approvals, members (another owner has other terms) and, by signals, when
terms or groups change. Calls `network_terms` for the rule itself. Never talks to a host: `reconcile` does, and the row
says what it is to be told. A workspace that may reach nothing and never could has no document (revision 0), because
its host refuses everything without being told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.signals import m2m_changed, post_delete, post_save
from django.dispatch import receiver

from sandboxes import machines
from sandboxes.egress import DENY_ALL
from sandboxes.egress import policy as egress
from workspaces import events, network_terms, nudges, policies
from workspaces import wake as bell
from workspaces.actors import SYSTEM, Actor
from workspaces.api.errors import Problem
from workspaces.models import User, Workspace
from workspaces.models_policy import Policy

NO_WAY_OUT = "Its host lets no machine out: only deny-all can be kept."
FIELDS = ("network", "network_revision", "network_document")
#: Who is in which group.
MEMBERSHIPS = User._meta.get_field("groups").remote_field.through
#: An event names so many of the rules that came or went.
MOST_NAMED = 20


def of(workspace: Workspace) -> machines.Network:
    """What its host is to be told."""
    return machines.Network(workspace.network_revision, workspace.network_document)


def begin(workspace: Workspace, terms: Mapping[str, Any]) -> None:
    """Of a new workspace that is not saved yet: its own policy, or the owner's default where that can be kept, else
    nothing. Raises Problem invalid."""
    own = bool(workspace.network)
    workspace.network = normalized(workspace.network if own else terms["network_default"], "network")
    if own:
        check_host(workspace, workspace.network)
    elif workspace.network["mode"] != "deny-all" and not is_supported(workspace):
        workspace.network = dict(DENY_ALL)
    _compile(workspace, terms)


def put(actor: Actor, workspace: Workspace, wanted: Mapping[str, Any], revision: int | None = None) -> Workspace:
    """The whole policy. Raises Problem: state_conflict (deleted), invalid, precondition_failed (`revision` is not the
    present one any more)."""
    with transaction.atomic():
        row = _locked(workspace)
        if revision is not None and revision != row.network_revision:
            raise Problem("precondition_failed", "The policy was changed meanwhile; read it again.")
        change(actor, row, normalized(wanted))
    return row


def change(actor: Actor, row: Workspace, wanted: Mapping[str, Any], *, field: str = "") -> bool:
    """Of a locked row, within the caller's transaction. Raises Problem state_conflict or invalid."""
    if row.intent == "deleted":
        raise Problem("state_conflict", "It is in the trash; undelete it first.", reason="deleted")
    check_host(row, wanted, field)
    if row.network == wanted:
        return False
    before, row.network = row.network, dict(wanted)
    _compile(row, policies.values(policies.effective(row.owner)))
    _save(row)
    events.append(row, "network.changed", actor, {**_summary(row.network), **_difference(before, row.network)})
    return True


def allow(actor: Actor, row: Workspace, name: str, address: str, port: int) -> None:
    """One destination more, as somebody approved it. Raises Problem: state_conflict where nothing is asked for any
    more, invalid (as many rules as there can be)."""
    if row.network.get("mode") != "rules":
        raise Problem("state_conflict", "Its policy has no rules any more.", reason="not_asking")
    rule = {"domain": name, "ports": [port]} if name else {"cidr": f"{address}/32", "ports": [port]}
    change(actor, row, normalized({**row.network, "rules": [*row.network["rules"], rule]}))


def normalized(wanted: Mapping[str, Any], field: str = "") -> dict[str, Any]:
    """In the one spelling that policies are kept in. Raises Problem invalid, naming the field."""
    try:
        return egress.parse_policy(dict(wanted)).as_json()
    except egress.Invalid as error:
        name = ".".join(part for part in (field, error.field) if part) or "network"
        raise Problem("invalid", "Some fields are not valid.", errors={name: [error.words]}) from error


def check_host(row: Workspace, wanted: Mapping[str, Any], field: str = "network") -> None:
    """A policy that promises more than its host keeps is refused, rather than kept unkept. Raises Problem invalid."""
    if wanted["mode"] == "deny-all" or is_supported(row):
        return
    name = f"{field}.mode" if field else "mode"
    raise Problem("invalid", "Some fields are not valid.", errors={name: [NO_WAY_OUT]})


def is_supported(row: Workspace) -> bool:
    """Whether its host lets machines out; one that is still to be placed goes to a host that does, if there is any."""
    for machine_id in (row.pk, row.origin_machine):
        said = machines.believed(machine_id, row.generation).lets_out if machine_id else None
        if said is not None:
            return said
    return machines.any_lets_out()


def is_in_force(row: Workspace) -> bool:
    """Whether its host keeps this revision. Without a host nothing runs that it could hold for."""
    body = machines.believed(row.pk, row.generation)
    return not body.lets_out or body.network_revision >= row.network_revision


def refresh(rows: QuerySet[Workspace] | None = None) -> int:
    """The terms may have changed: whose document says something else now gets a new one. How many did."""
    book = policies.Book()
    told = (Workspace.objects.all() if rows is None else rows).filter(network_revision__gt=0)
    changed = 0
    for row in told.only("pk", "owner_id", *FIELDS).iterator():
        terms = policies.values(book.of(row.owner_id))
        if _without_number(row.network_document) != network_terms.compiled(row.network, terms):
            changed += _refresh_one(row.pk, terms)
    return changed


def behind() -> set[str]:
    """Those whose host keeps an older revision than theirs, for the sweep."""
    told = Workspace.objects.filter(network_revision__gt=0).exclude(intent="deleted")
    return machines.behind(dict(told.values_list("pk", "network_revision")))


def _refresh_one(workspace_id: str, terms: Mapping[str, Any]) -> bool:
    with transaction.atomic():
        row = Workspace.objects.select_for_update().filter(pk=workspace_id).first()
        if row is None or not _compile(row, terms):
            return False
        _save(row)
        events.append(row, "network.changed", SYSTEM, _summary(row.network), cause="policy")
    return True


def _compile(row: Workspace, terms: Mapping[str, Any]) -> bool:
    """Whether what its host is to be told has changed."""
    said = network_terms.compiled(row.network, terms)
    if said == _without_number(row.network_document):
        return False
    row.network_revision += 1
    row.network_document = {"revision": row.network_revision, **said}
    return True


def _without_number(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != "revision"} or network_terms.CLOSED


def _save(row: Workspace) -> None:
    row.save(update_fields=[*FIELDS])
    bell.after_commit(row.pk)
    nudges.workspace_changed(row.pk, row.event_seq, row.owner_id)


def _locked(workspace: Workspace) -> Workspace:
    row = Workspace.objects.select_for_update().select_related("owner").filter(pk=workspace.pk).first()
    if row is None:
        raise Problem("not_found", "There is no such workspace.")
    return row


def _summary(network: Mapping[str, Any]) -> dict[str, Any]:
    return {"mode": network["mode"], "rules": len(network.get("rules", ())), "ask": bool(network.get("ask"))}


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    old, new = _worded(before.get("rules", ())), _worded(after.get("rules", ()))
    said = {"added": [one for one in new if one not in old], "removed": [one for one in old if one not in new]}
    return {name: rules[:MOST_NAMED] for name, rules in said.items() if rules}


def _worded(rules: Iterable[Mapping[str, Any]]) -> list[str]:
    """`*.example.org:443`, `203.0.113.0/24`, `GET example.org:80/x`."""
    return [rule_words(rule) for rule in rules]


def rule_words(rule: Mapping[str, Any]) -> str:
    place = rule.get("domain") or rule.get("cidr") or ""
    ports = ",".join(map(str, rule.get("ports", ())))
    methods = ",".join(rule.get("methods", ()))
    return f"{methods} {place}{':' + ports if ports else ''}{rule.get('path_prefix', '')}".strip()


@receiver([post_save, post_delete], sender=Policy)
def on_terms(sender: Any, raw: bool = False, **_: Any) -> None:
    """Through whichever door an admin came."""
    if not raw:
        refresh()


@receiver(m2m_changed, sender=MEMBERSHIPS)
def on_groups(sender: Any, action: str, instance: Any, reverse: bool = False, **_: Any) -> None:
    if action.startswith("post_"):
        refresh(None if reverse else Workspace.objects.filter(owner=instance))


def revision_of(etag: str) -> int | None:
    """What `If-Match` names; None where it names none of ours."""
    bare = etag.strip().removeprefix("W/").strip('"')
    return int(bare) if bare.isascii() and bare.isdigit() and len(bare) < 19 else None
