"""Who is in a workspace beside its owner, and in which role. The only writer of Membership rows and of who owns.

Called by the API and by the clock (`expire`); whether the caller may ask is `selectors`' question. Every change is an
event, and open sockets hear of it on commit. There is always an owner: who owns it alone cannot go, and when the
owner goes, the longest-serving co-owner owns it, with its place in their quota.

Breaking the glass: an admin, who sees metadata only, lets themselves in for a named reason and a limited time. The
owner reads so among the events, and every call is in the audit.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from workspaces import events, networks, nudges, quota, services
from workspaces.actors import SYSTEM, Actor
from workspaces.api.errors import Problem
from workspaces.models import Membership, Role, User, Workspace

LONGEST_GLASS_S = 8 * 3600
GLASS_S = 3600
MOST_MEMBERS = 200


def of(workspace: Workspace) -> list[Membership]:
    """The owner first (as a row that is nowhere kept), then the others in the order they came."""
    owner = Membership(workspace=workspace, user=workspace.owner, role=Role.OWNER, added_at=workspace.created_at)
    now = timezone.now()
    rows = Membership.objects.select_related("user").filter(workspace=workspace).order_by("added_at", "pk")
    return [owner, *(row for row in rows if row.expires_at is None or row.expires_at > now)]


def add(actor: Actor, workspace: Workspace, name: str, role: str) -> Membership:
    """Raises Problem: invalid (nobody is called so), conflict (already a member, too many)."""
    with transaction.atomic():
        row = services.locked(workspace)
        user = _named(name)
        if user.pk == row.owner_id:
            raise Problem("conflict", f"{name} owns it.", reason="already_member")
        if Membership.objects.filter(workspace=row).count() >= MOST_MEMBERS:
            raise Problem("conflict", f"It has {MOST_MEMBERS} members already.", reason="too_many_members")
        # Who broke the glass and is now let in properly stays without an end.
        Membership.objects.filter(workspace=row, user=user).exclude(expires_at=None).delete()
        made = _insert(row, user, role, added_by=actor.name[:200])
        _tell(row, user, "member.added", actor, {"user": name, "role": role})
    return made


def change(actor: Actor, workspace: Workspace, name: str, role: str) -> Membership:
    """Another role. Raises Problem: not_found, conflict (`last_owner`)."""
    with transaction.atomic():
        row = _locked(workspace, name)
        if name == row.owner.get_username():
            return _owner_steps_down(actor, row, role)
        found = _found(row, name)
        if found.reason:
            raise Problem("conflict", "Who broke the glass keeps the role they named.", reason="break_glass")
        before, found.role = found.role, role
        if before != role:
            found.save(update_fields=["role"])
            _tell(row, found.user, "member.changed", actor, {"user": name, "role": role, "from": before})
    return found


def remove(actor: Actor, workspace: Workspace, name: str) -> None:
    """Out, at once. Raises Problem: not_found, conflict (`last_owner`)."""
    with transaction.atomic():
        row = _locked(workspace, name)
        if name == row.owner.get_username():
            leaving = row.owner
            _hand_over(actor, row)
            _tell(row, leaving, "member.removed", actor, {"user": name, "role": Role.OWNER.value})
            return
        found = _found(row, name)
        found.delete()
        _tell(row, found.user, "member.removed", actor, {"user": name, "role": found.role})


def break_glass(actor: Actor, workspace: Workspace, reason: str, role: str, for_s: int) -> Membership:
    """An admin's way in. Raises Problem: conflict (a member needs none)."""
    until = timezone.now() + timedelta(seconds=for_s)
    with transaction.atomic():
        row = services.locked(workspace)
        user = User.objects.get(pk=actor.person)
        if user.pk == row.owner_id or Membership.objects.filter(workspace=row, user=user, expires_at=None).exists():
            raise Problem("conflict", "You are a member already.", reason="already_member")
        Membership.objects.filter(workspace=row, user=user).delete()
        made = _insert(row, user, role, reason=reason, expires_at=until, added_by=actor.name[:200])
        _tell(row, user, "member.break_glass", actor,
              {"user": user.get_username(), "role": role, "reason": reason, "expires_at": until.isoformat()})
    return made


def expire(now: datetime) -> int:
    """Rows whose time is over. They hold no longer in any case; this is the event that says so."""
    ended = 0
    for old in Membership.objects.filter(expires_at__lte=now).select_related("workspace", "user")[:500]:
        with transaction.atomic():
            row = Workspace.objects.select_for_update().filter(pk=old.workspace_id).first()
            gone, _ = Membership.objects.filter(pk=old.pk, expires_at__lte=now).delete()
            if row is not None and gone:
                data = {"user": old.user.get_username(), "role": old.role}
                _tell(row, old.user, "member.removed", SYSTEM, data, cause="its time is over")
                ended += 1
    return ended


def _owner_steps_down(actor: Actor, row: Workspace, role: str) -> Membership:
    before = row.owner
    if role == Role.OWNER:
        return Membership(workspace=row, user=before, role=role, added_at=row.created_at)
    _hand_over(actor, row)
    made = _insert(row, before, role, added_by=actor.name[:200])
    _tell(row, before, "member.changed", actor,
          {"user": before.get_username(), "role": role, "from": Role.OWNER.value})
    return made


def _hand_over(actor: Actor, row: Workspace) -> None:
    """To the co-owner who has been there longest. Raises Problem conflict, name_taken or quota_exceeded."""
    heir = _heir_of(row)
    if heir is None:
        raise Problem("conflict", "It would have no owner. Make somebody else an owner first.", reason="last_owner")
    before = row.owner
    user = quota.lock(heir.user_id)
    if row.intent != "deleted":
        amount = quota.place_and_power(row) if quota.counts_power(row) else quota.place(row)
        quota.check(user, amount)
    row.owner = user
    services.save_named(row, update_fields=["owner"])
    networks.refresh(Workspace.objects.filter(pk=row.pk))
    heir.delete()
    _tell(row, before, "workspace.owner_changed", actor,
          {"from": before.get_username(), "to": user.get_username()})


def _heir_of(workspace: Workspace) -> Membership | None:
    heirs = Membership.objects.select_related("user").filter(
        workspace=workspace, role=Role.OWNER, expires_at=None, user__is_active=True)
    return heirs.order_by("added_at", "pk").first()


def _locked(workspace: Workspace, name: str) -> Workspace:
    """The row, and before it (the order everywhere) the quota of who would own it."""
    heir = _heir_of(workspace) if name == workspace.owner.get_username() else None
    if heir is not None:
        quota.lock(heir.user_id)
    return services.locked(workspace)


def _named(name: str) -> User:
    user = User.objects.filter(username=name, is_active=True).first()
    if user is None:
        raise Problem("invalid", "Some fields are not valid.", errors={"user": [f"Nobody here is called {name!r}."]})
    return user


def _found(row: Workspace, name: str) -> Membership:
    found = Membership.objects.select_related("user").filter(workspace=row, user__username=name).first()
    if found is None:
        raise Problem("not_found", "There is no such member.")
    return found


def _insert(row: Workspace, user: User, role: str, **more: Any) -> Membership:
    try:
        with transaction.atomic():
            return Membership.objects.create(workspace=row, user=user, role=role, **more)
    except IntegrityError as error:
        raise Problem("conflict", f"{user.get_username()} is a member already.", reason="already_member") from error


def _tell(row: Workspace, user: User, kind: str, actor: Actor, data: dict[str, Any], cause: str = "") -> None:
    """The event, which empties every kept look-up of this workspace, and a nudge for whom it is about."""
    events.append(row, kind, actor, data, cause=cause)
    nudges.workspace_changed(row.pk, row.event_seq, user.pk)
