"""Acts of tokens that wait for a member: asked for, decided, run out. The only writer of Approval rows.

    asked ──▶ pending ──approve──▶ approved ──▶ begun (restore, delete, network: here; an exec: by the gateway)
                 ├──deny──▶ denied      (of a connection, as of one that ran out: begun once its host was told no)
                 ├──time──▶ expired
                 └──the asker takes it back──▶ withdrawn

Called by the API and the gateway; calls restores and services with the asker as the actor. The rows are the truth:
nothing is lost when a process goes, and the clock ends what nobody decides. No token decides what it, or a token of
its line, asked for. Raises Problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from workspaces import approval_rule, events, networks, nudges, quota, restores, selectors, services, wake
from workspaces.actors import SYSTEM, Actor
from workspaces.api.errors import Problem
from workspaces.bounds import bounded
from workspaces.models import AccessToken, Checkpoint, Workspace
from workspaces.models_people import Approval, ApprovalState

MOST_PENDING = 100
#: How long an approved exec that no gateway has begun is kept before it is given up.
BEGIN_WITHIN = timedelta(minutes=10)
#: A guest that tries again and again what somebody has just refused asks nobody again for so long.
REFUSED_FOR = timedelta(minutes=10)
#: A host that was away for longer has forgotten what waited.
TELL_WITHIN = timedelta(days=1)
#: So many connections to one destination wait for one word.
MOST_ASKS = 50
GUEST = "the guest"
REFUSED = (ApprovalState.DENIED, ApprovalState.EXPIRED, ApprovalState.WITHDRAWN)


def waits(actor: Actor, workspace: Workspace, kind: str) -> bool:
    """Whether this actor's restore or delete has to be asked for. People's own acts never wait."""
    return actor.type == "token" and approval_rule.waits(workspace.approvals, kind)


def ask(actor: Actor, workspace: Workspace, kind: str, request: Mapping[str, Any], *, pattern: str = "",
        exec_id: str = "", shown: Mapping[str, Any] | None = None) -> Approval:
    """A new request, or the one of this token that already waits for the same. Raises Problem busy, state_conflict."""
    now = timezone.now()
    with transaction.atomic():
        row = services.locked(workspace)
        if row.intent == "deleted":
            raise Problem("state_conflict", "It is in the trash; undelete it first.", reason="deleted")
        pending = Approval.objects.filter(workspace=row, state=ApprovalState.PENDING)
        for same in pending.filter(kind=kind, token_id=actor.token_id, exec_id=exec_id):
            if same.request == dict(request):
                return same
        if pending.count() >= MOST_PENDING:
            raise Problem("busy", f"{MOST_PENDING} requests wait here already.", reason="too_many_approvals")
        made = Approval.objects.create(
            workspace=row, kind=kind, user_id=actor.person, token_id=actor.token_id or "", lineage=actor.lineage,
            actor_name=actor.name[:200], pattern=pattern[:200], exec_id=exec_id, request=dict(request),
            shown=dict(request if shown is None else shown), created_at=now,
            expires_at=now + timedelta(seconds=approval_rule.timeout_s(row.approvals)))
        _tell(row, made, "requested", actor, {"expires_at": made.expires_at.isoformat()})
    return made


def ask_exec(actor: Actor, workspace: Workspace, body: Mapping[str, Any], exec_id: str, pattern: str) -> Approval:
    """An exec that the gateway holds back. What is kept to be run is emptied as soon as it has been."""
    shown = {name: body.get(name) for name in ("command", "user", "cwd") if body.get(name) is not None}
    # A variable's value may be a secret; that one is set is for the decider to know.
    shown |= {"env": sorted(map(str, body["env"]))} if isinstance(body.get("env"), dict) else {}
    return ask(actor, workspace, "exec", body, pattern=pattern, exec_id=exec_id, shown=shown)


def ask_network(workspace: Workspace, said: Mapping[str, Any]) -> Approval | None:
    """A connection out of the guest to somewhere its policy does not know. What waits for the same destination waits
    for the same word; what was just refused is refused again. None: there are too many, and this one runs out."""
    name, address, port = str(said.get("name") or ""), str(said.get("address") or ""), int(said.get("port") or 0)
    place, now = {"name": name, "address": "" if name else address, "port": port}, timezone.now()
    with transaction.atomic():
        row = services.locked(workspace)
        for same in Approval.objects.select_for_update().filter(
                Q(state=ApprovalState.PENDING) | Q(state=ApprovalState.DENIED, decided_at__gt=now - REFUSED_FOR),
                workspace=row, kind="network"):
            if {key: same.shown.get(key) for key in place} == place:
                return _ask_along(row, same, str(said["ask_id"]))
        if Approval.objects.filter(workspace=row, state=ApprovalState.PENDING).count() >= MOST_PENDING:
            return None
        made = Approval.objects.create(
            workspace=row, kind="network", user_id=row.owner_id, actor_name=GUEST,
            request={**place, "asks": [said["ask_id"]]}, shown=place, created_at=now,
            expires_at=now + timedelta(seconds=approval_rule.timeout_s(row.approvals)))
        _tell(row, made, "requested", SYSTEM, {"expires_at": made.expires_at.isoformat()})
    return made


def _ask_along(row: Workspace, same: Approval, ask_id: str) -> Approval:
    before = [one for one in same.request.get("asks", ()) if one != ask_id]  # a host that restarted asks again
    asks = [*before, ask_id][-MOST_ASKS:]
    same.request, same.begun_at = {**same.request, "asks": asks}, None
    same.save(update_fields=["request", "begun_at"])
    if same.state != ApprovalState.PENDING:
        wake.after_commit(row.pk)
    return same


def refused_asks(workspace_id: str) -> list[Approval]:
    """Connections whose host is still to be told that nobody lets them out."""
    found = Approval.objects.filter(workspace_id=workspace_id, kind="network", state__in=REFUSED, begun_at=None)
    return list(found[:MOST_ASKS])


def untold() -> set[str]:
    """Whose those are, for the sweep."""
    lately = timezone.now() - TELL_WITHIN
    found = Approval.objects.filter(kind="network", state__in=REFUSED, begun_at=None, expires_at__gt=lately)
    return set(found.values_list("workspace_id", flat=True))


def of_exec(workspace_id: str, exec_id: str) -> Approval | None:
    found = Approval.objects.filter(workspace_id=workspace_id, exec_id=exec_id).first()
    return expired_if_late(found) if found is not None else None


def pending_execs(workspace_id: str) -> list[Approval]:
    return list(Approval.objects.filter(workspace_id=workspace_id, kind="exec", state=ApprovalState.PENDING,
                                        expires_at__gt=timezone.now())[:MOST_PENDING])


def find(workspace: Workspace, approval_id: str) -> Approval:
    found = Approval.objects.filter(workspace=workspace, pk=approval_id).first()
    if found is None:
        raise Problem("not_found", "There is no such approval.")
    return expired_if_late(found)


def decide(actor: Actor, asked: Approval, *, approve: bool) -> Approval:
    """Once. The same decision again is the same answer. Raises Problem: forbidden, state_conflict (`reason` is the
    state it is in). What an approved restore or delete came to is in `result`."""
    _check_decider(actor, asked)
    wanted = ApprovalState.APPROVED if approve else ApprovalState.DENIED
    with transaction.atomic():
        quota.lock(asked.workspace.owner_id)  # restore and delete want it, and before the row
        row = services.locked(asked.workspace)
        fresh = Approval.objects.select_for_update().get(pk=asked.pk)
        fresh.workspace = row
        if fresh.state == ApprovalState.PENDING and fresh.expires_at <= timezone.now():
            _end(row, fresh, ApprovalState.EXPIRED, SYSTEM)
        elif fresh.state == ApprovalState.PENDING:
            _end(row, fresh, wanted, actor)
            if approve and fresh.kind != "exec":
                _begin(actor, row, fresh)
    if fresh.state != wanted:
        raise Problem("state_conflict", f"It is {fresh.state} already.", reason=fresh.state)
    return fresh


def withdraw(actor: Actor, asked: Approval) -> Approval:
    """Who asked, or who may act here, takes it back."""
    return _settle(asked, ApprovalState.WITHDRAWN, actor)


def expired_if_late(asked: Approval) -> Approval:
    """A reader is never told that something waits whose time is over."""
    late = asked.state == ApprovalState.PENDING and asked.expires_at <= timezone.now()
    return _settle(asked, ApprovalState.EXPIRED, SYSTEM) if late else asked


def expire(now: datetime) -> int:
    """The clock's part: what nobody decided, and approved execs that nobody could begin."""
    late = list(Approval.objects.filter(state=ApprovalState.PENDING, expires_at__lte=now)[:500])
    for asked in late:
        _settle(asked, ApprovalState.EXPIRED, SYSTEM)
    stuck = Approval.objects.filter(state=ApprovalState.APPROVED, kind="exec", begun_at=None,
                                    decided_at__lte=now - BEGIN_WITHIN)
    for asked in stuck[:500]:
        begun(asked.pk, {"code": "unavailable", "detail": "It could not be begun in time."})
    return len(late)


# -- execs: begun by the gateway ---------------------------------------------------------------------------------------


def to_begin() -> list[tuple[Approval, Actor]]:
    """Approved execs that wait for a gateway, each with the asker as they are now. Whose right is gone is refused."""
    found = []
    rows = Approval.objects.filter(state=ApprovalState.APPROVED, kind="exec", begun_at=None)
    for asked in rows.select_related("workspace").order_by("decided_at")[:50]:
        try:
            actor = _asker(asked)
            selectors.workspace_for(actor, asked.workspace_id, needs="operator")
            found.append((asked, actor))
        except Problem as problem:
            begun(asked.pk, {"code": problem.code, "detail": problem.detail})
    return found


def begun(approval_id: str, result: Mapping[str, Any]) -> None:
    """`result` is empty, or the code and detail it was refused with."""
    with transaction.atomic():
        asked = Approval.objects.select_related("workspace").filter(pk=approval_id, begun_at=None).first()
        if asked is None:
            return
        changed = Approval.objects.filter(pk=asked.pk, begun_at=None).update(
            begun_at=timezone.now(), result=dict(result), request={})
        if changed and result:
            _tell(asked.workspace, asked, "failed", SYSTEM, dict(result))
        nudges.workspace_changed(asked.workspace_id, asked.workspace.event_seq, asked.workspace.owner_id)


# -- within ------------------------------------------------------------------------------------------------------------


def _check_decider(actor: Actor, asked: Approval) -> None:
    if actor.type == "token" and (not actor.may("approvals") or actor.token_id == asked.token_id
                                  or actor.lineage == asked.lineage):
        raise Problem("forbidden", "No token decides what it, or a token of its line, asked for.", reason="own_request")


def _settle(asked: Approval, state: ApprovalState, actor: Actor) -> Approval:
    with transaction.atomic():
        row = services.locked(asked.workspace)
        fresh = Approval.objects.select_for_update().get(pk=asked.pk)
        if fresh.state == ApprovalState.PENDING:
            _end(row, fresh, state, actor)
    return fresh


def _end(row: Workspace, asked: Approval, state: ApprovalState, actor: Actor) -> None:
    asked.state, asked.decided_at = state, timezone.now()
    asked.decided_by_type, asked.decided_by_name = actor.type, actor.name[:200]
    waits_for_gateway = state == ApprovalState.APPROVED and asked.kind == "exec"
    asked.request = asked.request if state == ApprovalState.APPROVED or asked.kind == "network" else {}
    asked.save(update_fields=["state", "decided_at", "decided_by_type", "decided_by_name", "request"])
    _tell(row, asked, state.value, actor, {})
    if waits_for_gateway:
        nudges.approved(asked.pk)
    elif asked.kind == "network":
        wake.after_commit(row.pk)  # its host is told


def _begin(decider: Actor, row: Workspace, asked: Approval) -> None:
    """The approved act, in the asker's name; what a guest asks for is let out by whoever says so. That it is refused
    undoes the act and not the approval."""
    try:
        with transaction.atomic():
            if asked.kind == "network":
                networks.allow(decider, row, asked.shown["name"], asked.shown["address"], asked.shown["port"])
                result: dict[str, Any] = {}
            else:
                result = _act(_asker(asked), row, asked)
    except Problem as problem:
        result = {"code": problem.code, "detail": problem.detail}
    asked.begun_at, asked.result, asked.request = timezone.now(), result, {}
    asked.save(update_fields=["begun_at", "result", "request"])
    if "code" in result:
        _tell(row, asked, "failed", SYSTEM, result)


def _act(actor: Actor, row: Workspace, asked: Approval) -> dict[str, Any]:
    if asked.kind == "delete":
        selectors.workspace_for(actor, row.pk, needs="owner", metadata=True)
        services.delete(actor, row, purge=bool(asked.request.get("purge")))
        return {}
    checkpoint: Checkpoint = selectors.checkpoint_for(
        actor, asked.request["checkpoint"], workspace_id=row.pk, needs="operator", metadata=True)
    _, safety = restores.restore(actor, checkpoint, safety=bool(asked.request.get("safety", True)))
    return {"safety_checkpoint": safety or None}


def _asker(asked: Approval) -> Actor:
    """Whoever asked, with the rights they have now. Raises Problem unauthenticated or token_expired."""
    token = AccessToken.objects.filter(pk=asked.token_id).first()
    if token is None:
        raise Problem("unauthenticated", "The token that asked is gone.")
    return selectors.actor_of_token(token)


def _tell(row: Workspace, asked: Approval, word: str, actor: Actor, more: Mapping[str, Any]) -> None:
    said = {"approval": asked.pk, "kind": asked.kind, "asked_by": asked.actor_name, **bounded(asked.shown), **more}
    said |= {"exec_id": asked.exec_id, "pattern": asked.pattern} if asked.exec_id else {}
    events.append(row, f"approval.{word}", actor, said)
