"""The only readers that answer "visible to whom". Called by the API, the gateway, live consumers and pages.

Whoever holds an id asks here before anything else; "not there" and "not yours" are one answer. Admins see
metadata of everything (`metadata=True`); contents need ownership or membership. Never writes intent.
"""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from workspaces import tokens
from workspaces.actors import Actor
from workspaces.api.errors import Problem
from workspaces.ids import is_id
from workspaces.models import AccessToken, Checkpoint, Membership, Role, User, Workspace

RANK = {Role.VIEWER.value: 1, Role.OPERATOR.value: 2, Role.OWNER.value: 3}
LAST_USED_EVERY = timedelta(seconds=60)


def actor_from_token(secret: str) -> Actor:
    """Whom a bearer secret stands for. Raises Problem: `unauthenticated` (unknown, revoked, its user is switched
    off) or `token_expired`."""
    token = (AccessToken.objects.select_related("user")
             .filter(secret_hash=tokens.hash_of(secret), revoked_at=None, user__is_active=True).first())
    if token is None:
        raise Problem("unauthenticated", "This token is unknown or was revoked.")
    actor = actor_of_token(token)
    now = timezone.now()
    if token.last_used_at is None or token.last_used_at < now - LAST_USED_EVERY:
        AccessToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return actor


def actor_of_token(token: AccessToken) -> Actor:
    """Whom this row stands for now. Raises as `actor_from_token` does."""
    if token.revoked_at is not None or not token.user.is_active:
        raise Problem("unauthenticated", "This token is unknown or was revoked.")
    if token.expires_at is not None and token.expires_at <= timezone.now():
        raise Problem("token_expired", "This token has expired. Make a new one.")
    limited = frozenset(token.workspace_ids) if token.workspace_ids is not None else None
    return Actor(
        type="token", name=token.name, user_id=token.user_id, token_id=token.pk, lineage=token.lineage or token.pk,
        is_admin=token.user.is_superuser and "admin" in token.scopes and limited is None,
        scopes=frozenset(token.scopes), workspace_ids=limited)


def actor_of_user(user: User) -> Actor:
    """A signed-in person: every scope, but `admin` only for admins."""
    scopes = Actor(type="user", name="").scopes
    return Actor(type="user", name=user.get_username(), user_id=user.pk, is_admin=user.is_superuser,
                 scopes=scopes if user.is_superuser else scopes - {"admin"})


def actor_from_session(session_key: str) -> Actor | None:
    """Whom a session cookie's value stands for, or None. A changed password ends older sessions."""
    if not session_key:
        return None
    session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    if BACKEND_SESSION_KEY not in session or session.get(BACKEND_SESSION_KEY) not in settings.AUTHENTICATION_BACKENDS:
        return None
    user = User.objects.filter(pk=session.get(SESSION_KEY), is_active=True).first()
    if user is None or not constant_time_compare(session.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash()):
        return None
    return actor_of_user(user)


def workspaces_of(actor: Actor, *, metadata: bool = False) -> QuerySet[Workspace]:
    """Every workspace the actor may see, the trash included. `metadata=True` lets an admin see everybody's."""
    rows = Workspace.objects.select_related("owner")
    if actor.type == "system" or (metadata and actor.is_admin):
        return rows
    shared = memberships(actor.person).values("workspace_id")
    rows = rows.filter(Q(owner_id=actor.user_id) | Q(pk__in=shared))
    return rows if actor.workspace_ids is None else rows.filter(pk__in=actor.workspace_ids)


def workspaces_by_index(actor: Actor, *, metadata: bool = False) -> list[QuerySet[Workspace]]:
    """What `workspaces_of` says, as sets that share no row: one's own, and those one is a member of."""
    rows = Workspace.objects.select_related("owner")
    if actor.type == "system" or (metadata and actor.is_admin):
        return [rows]
    if actor.workspace_ids is not None:
        return [workspaces_of(actor)]
    shared = list(memberships(actor.person).values_list("workspace_id", flat=True))
    own = rows.filter(owner_id=actor.user_id)
    return [own, rows.filter(pk__in=shared).exclude(owner_id=actor.user_id)] if shared else [own]


def memberships(user_id: int) -> QuerySet[Membership]:
    """Somebody's memberships that hold at this moment: one that has run out is none, whether or not its row is gone."""
    return Membership.objects.filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now()), user_id=user_id)


def workspace_for(actor: Actor, workspace_id: str, *, needs: str = "viewer", metadata: bool = False) -> Workspace:
    """One workspace. Raises Problem `not_found` (not there, not yours) or `forbidden` (a member whose role is
    below `needs`: viewer, operator, owner)."""
    found = workspaces_of(actor, metadata=metadata).filter(pk=workspace_id).first() if is_id(workspace_id) else None
    if found is None:
        raise Problem("not_found", "There is no such workspace.")
    if RANK.get(role_in(actor, found, metadata=metadata), 0) < RANK[needs]:
        raise Problem("forbidden", f"This needs the role {needs}.")
    return found


def checkpoint_for(actor: Actor, checkpoint_id: str, *, workspace_id: str | None = None, needs: str = "viewer",
                   metadata: bool = False) -> Checkpoint:
    """One checkpoint of a workspace the actor may see (of that one, where it is named). Raises Problem `not_found`
    (not there, not yours, another workspace's) or `forbidden`."""
    there = Checkpoint.objects.filter(pk=checkpoint_id, dropped_at=None) if is_id(checkpoint_id) else None
    found = there.first() if there is not None else None
    if found is None or workspace_id not in (None, found.workspace_id):
        if workspace_id is not None:
            workspace_for(actor, workspace_id, needs=needs, metadata=metadata)  # whose is not theirs stays unknown
        raise Problem("not_found", "There is no such checkpoint.")
    try:
        found.workspace = workspace_for(actor, found.workspace_id, needs=needs, metadata=metadata)
    except Problem as problem:
        if problem.code != "not_found" or workspace_id is not None:
            raise
        raise Problem("not_found", "There is no such checkpoint.") from None
    return found


def role_in(actor: Actor, workspace: Workspace, *, metadata: bool = False) -> str:
    """`owner`, `operator`, `viewer` or "". An admin acts on everybody's metadata as its owner would; contents are
    only for what they are there, like for anybody else."""
    if actor.type == "system" or workspace.owner_id == actor.user_id or (metadata and actor.is_admin):
        return Role.OWNER.value
    membership = membership_in(actor, workspace)
    return membership.role if membership else ""


def membership_in(actor: Actor, workspace: Workspace) -> Membership | None:
    return memberships(actor.person).filter(workspace_id=workspace.pk).first()
