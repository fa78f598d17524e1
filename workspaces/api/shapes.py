"""Rows as the contract shows them. Called by views; asks the hatch for the body's facts, in bulk for lists.

Plain dictionaries, because they are made for every request; `serializers.WorkspaceOut` describes the same (a test
holds them together).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone

from sandboxes import machines
from sandboxes.models import Host, Sandbox
from workspaces import outlook, quota, selectors
from workspaces.actors import Actor
from workspaces.models import AccessToken, Checkpoint, Membership, User, Workspace
from workspaces.models_people import Approval, AuditEntry
from workspaces.models_policy import Hold, Policy
from workspaces.policy import Amount


def instant(at: datetime | None) -> str | None:
    """RFC 3339 in UTC."""
    return None if at is None else at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def workspace(row: Workspace, actor: Actor, request: HttpRequest) -> dict[str, Any]:
    return workspaces([row], actor, request)[0]


def workspaces(rows: Iterable[Workspace], actor: Actor, request: HttpRequest) -> list[dict[str, Any]]:
    """Many at the price of a few queries."""
    listed = list(rows)
    ids = [row.pk for row in listed]
    bodies = machines.bodies(ids)
    shared = selectors.memberships(actor.person).filter(workspace_id__in=ids)
    roles = dict(shared.values_list("workspace_id", "role"))
    template = preview_template(request)
    coming = outlook.of(listed, bodies, timezone.now())
    return [_workspace(row, actor, bodies.get(row.pk), roles.get(row.pk), template, coming[row.pk]) for row in listed]


def _workspace(row: Workspace, actor: Actor, body: Sandbox | None, membership: str | None,
               template: str, coming: outlook.Outlook) -> dict[str, Any]:
    host = body.host if body is not None else None
    mine = row.owner_id == actor.user_id or membership is not None
    return {
        "id": row.pk, "name": row.name, "state": row.state, "state_reason": row.state_reason or None,
        "owner": row.owner.get_username(),
        "role": "owner" if row.owner_id == actor.user_id else membership,  # none: an admin, who sees metadata
        "image": row.image, "cpus": row.cpus, "memory_mib": row.memory_mib, "disk_gib": row.disk_gib,
        "disk_used_bytes": body.disk_used_bytes if body is not None else None, "gpu": row.gpu,
        # An admin who is no member sees metadata; what a variable holds is content.
        "env": row.env if mine else {}, "labels": row.labels, "idle": row.idle, "network": row.network,
        "secrets": row.secrets, "approvals": row.approvals if mine else {}, "created_at": instant(row.created_at),
        "last_activity_at": instant(row.last_activity_at), "last_activity_kind": row.last_activity_kind or None,
        **outlook.shown(coming, instant), "purge_at": instant(row.purge_at),
        "head_checkpoint": row.head_checkpoint or None,
        "forked_from": {"workspace": row.origin_machine, "checkpoint": row.origin_checkpoint}
        if row.origin_checkpoint else None,
        "host": host.name if host is not None else None,
        "accelerator": host.capabilities.get("accelerator") if host is not None else None,
        "preview_url_template": template.replace("{id}", row.pk),
    }


def preview_template(request: HttpRequest) -> str:
    """`{port}` and `{id}` are still in it. The port people came by is the port previews are reached by."""
    _, _, port = request.get_host().rpartition(":")
    scheme = "https" if settings.TLS else "http"
    suffix = f":{port}" if port.isdigit() else ""
    return f"{scheme}://{{port}}--{{id}}.{settings.PREVIEW_DOMAIN}{suffix}/"


def checkpoint(row: Checkpoint) -> dict[str, Any]:
    return {
        "id": row.pk, "name": row.name, "comment": row.comment, "kind": row.kind, "state": row.state,
        "state_reason": row.state_reason or None, "actor": {"type": row.actor_type, "name": row.actor_name},
        "memory": row.memory, "memory_usable": row.memory_usable, "consistency": row.consistency or None,
        "parent": row.parent or None, "created_at": instant(row.created_at), "disk_bytes": row.disk_bytes,
        "memory_bytes": row.memory_bytes, "pause_ms": row.pause_ms, "expires_at": instant(row.expires_at)}


def hold(row: Hold) -> dict[str, Any]:
    return {"id": row.pk, "reason": row.reason, "from": row.source,
            "actor": {"type": row.actor_type, "name": row.actor_name}, "created_at": instant(row.created_at),
            "expires_at": instant(row.expires_at)}


def policy(row: Policy) -> dict[str, Any]:
    return {"scope": row.scope, "terms": row.terms, "changed_at": instant(row.changed_at),
            "changed_by": row.changed_by or None}


def token(row: AccessToken) -> dict[str, Any]:
    return {"id": row.pk, "name": row.name, "hint": row.hint, "scopes": row.scopes, "workspace_ids": row.workspace_ids,
            "created_at": instant(row.created_at), "expires_at": instant(row.expires_at),
            "last_used_at": instant(row.last_used_at)}


def me(user: User, actor: Actor) -> dict[str, Any]:
    return {"id": user.pk, "name": user.get_username(), "is_admin": actor.is_admin, "actor": actor.to_json(),
            "scopes": sorted(actor.scopes), "quota": quota.limit_of(user),
            "used": quota.used_by(user).to_json(), "disk_used_bytes": quota.stored_bytes(user)}


def person(user: User, groups: Iterable[str], limits: dict[str, int | None], used: Amount, stored_bytes: int
           ) -> dict[str, Any]:
    return {"name": user.get_username(), "active": user.is_active, "is_admin": user.is_superuser,
            "has_password": user.has_usable_password(), "groups": list(groups), "created_at": instant(user.date_joined),
            "last_sign_in_at": instant(user.last_login), "quota": limits, "used": used.to_json(),
            "disk_used_bytes": stored_bytes}


def host(row: Host, machine_count: int, reachable: bool) -> dict[str, Any]:
    return {"id": row.pk, "name": row.name, "version": row.version, "schedulable": row.schedulable,
            "draining": row.draining, "reachable": reachable, "last_seen_at": instant(row.last_seen_at),
            "capabilities": row.capabilities, "capacity": row.capacity, "images": row.images,
            "machines": machine_count, "strays": [{"id": mid, "since": at} for mid, at in sorted(row.strays.items())]}


def member(row: Membership) -> dict[str, Any]:
    return {"user": row.user.get_username(), "role": row.role, "added_at": instant(row.added_at),
            "added_by": row.added_by or None, "reason": row.reason or None, "expires_at": instant(row.expires_at)}


def approval(row: Approval) -> dict[str, Any]:
    decided = {"type": row.decided_by_type, "name": row.decided_by_name} if row.decided_by_type else None
    return {"id": row.pk, "workspace": row.workspace_id, "kind": row.kind, "state": row.state,
            "actor": {"type": "token" if row.token_id else "system", "name": row.actor_name},
            "pattern": row.pattern or None,
            "exec": row.exec_id or None, "request": row.shown, "created_at": instant(row.created_at),
            "expires_at": instant(row.expires_at), "decided_at": instant(row.decided_at), "decided_by": decided,
            "result": row.result}


def audit(row: AuditEntry) -> dict[str, Any]:
    token = {"token_id": row.token_id, "token_name": row.token_name} if row.token_id else {}
    actor = {"type": row.actor_type, "name": row.actor_name, **token} if row.actor_type else None
    return {"id": row.pk, "at": instant(row.created_at), "actor": actor, "address": row.address or None,
            "kind": row.kind, "target": row.target or None, "outcome": row.outcome, "status": row.status,
            "data": row.data}
