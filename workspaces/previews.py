"""Who may look at a workspace's port from outside. The only writer of shares and passes. Called by the API (shares),
by pages (the sign-in hop's codes) and by the gateway (codes and links turned into passes, passes into an actor).

    session at the app ──▶ code (a minute, once) ──▶ pass on the preview's own origin ──┐
    a private share's link ─────────────────────────▶ pass ─────────────────────────────┼──▶ an actor, asked anew
    a public share ─────────────────────────────────────────────────────────────────────┘    every few seconds

Who comes by a share acts with its maker's rights, in that one workspace and for previews alone: a maker who leaves
takes their shares along. Nothing here says more than `preview_forbidden`: not there and not yours look alike.
"""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from workspaces import events, selectors, services, tokens
from workspaces.actors import SYSTEM, Actor
from workspaces.api.errors import Problem
from workspaces.models import AccessToken, User, Workspace
from workspaces.models_previews import PreviewPass, PreviewShare, Visibility
from workspaces.preview_names import PreviewName

CODE_LIFETIME = timedelta(seconds=60)
PASS_LIFETIME = timedelta(hours=12)
#: Beginning of a link's secret; never the beginning of an API token's.
TOKEN_PREFIX = "berthshare_"  # noqa: S105
#: Of an address that carries it: `?berth_share=…`, for one request.
LINK_PARAMETER = "berth_share"
MOST_SHARES = 100
MOST_SHARE_S = 366 * 24 * 3600


# -- shares ------------------------------------------------------------------------------------------------------------


def share(actor: Actor, workspace: Workspace, port: int, visibility: str, expires_in_s: int | None
          ) -> tuple[PreviewShare, str, bool]:
    """(the share, its link's secret or "", whether the port had none). Who came in by the former one is out."""
    now = timezone.now()
    secret = TOKEN_PREFIX + secrets.token_urlsafe(24) if visibility == Visibility.PRIVATE else ""
    with transaction.atomic():
        row = services.locked(workspace)
        if row.intent == "deleted":
            raise Problem("state_conflict", "It is in the trash; undelete it first.", reason="deleted")
        former, _ = PreviewShare.objects.filter(workspace=row, port=port).delete()
        if PreviewShare.objects.filter(workspace=row).count() >= MOST_SHARES:
            raise Problem("conflict", f"It has {MOST_SHARES} shares already.", reason="too_many_shares")
        made = PreviewShare.objects.create(
            workspace=row, port=port, visibility=visibility, token_hash=tokens.hash_of(secret) if secret else "",
            made_by=User.objects.get(pk=actor.person), actor_type=actor.type, actor_name=actor.name[:200],
            token_id=actor.token_id or "", created_at=now,
            expires_at=now + timedelta(seconds=expires_in_s) if expires_in_s else None)
        events.append(row, "preview.shared", actor, {"port": port, "visibility": visibility, "expires_at":
                      made.expires_at.isoformat() if made.expires_at else None})
    return made, secret, not former


def unshare(actor: Actor, workspace: Workspace, port: int, cause: str = "") -> bool:
    """At once, open sockets included: the event's nudge makes the gateway ask again. False: there was none."""
    with transaction.atomic():
        row = services.locked(workspace)
        gone, _ = PreviewShare.objects.filter(workspace=row, port=port).delete()
        if gone:
            events.append(row, "preview.unshared", actor, {"port": port}, cause)
    return bool(gone)


def shares_of(workspace: Workspace) -> list[PreviewShare]:
    return list(still(PreviewShare.objects.filter(workspace=workspace)))


def expire(now: datetime) -> int:
    """Shares and passes whose time is over; they hold no longer in any case."""
    PreviewPass.objects.filter(expires_at__lte=now).delete()
    ended = 0
    for old in PreviewShare.objects.filter(expires_at__lte=now).select_related("workspace")[:500]:
        ended += unshare(SYSTEM, old.workspace, old.port, "its time is over")
    return ended


# -- the hop -----------------------------------------------------------------------------------------------------------


def issue_code(session_key: str, name: PreviewName) -> str:
    """For the browser whose session this is. Raises Problem: unauthenticated, preview_forbidden."""
    _of_session(session_key, name)
    return _kept(name, CODE_LIFETIME, is_code=True, session_key=session_key)


def spend_code(code: str, name: PreviewName) -> str:
    """A pass's secret, for a code that was made for this very port and not spent yet."""
    with transaction.atomic():
        found = _passes(code, name, is_code=True).first()
        if found is None or not PreviewPass.objects.filter(pk=found.pk).delete()[0]:
            raise forbidden("This code was used, or came too late.")
        return _kept(name, PASS_LIFETIME, session_key=found.session_key)


def spend_link(token: str, name: PreviewName) -> str:
    """A pass's secret, for a link that still holds. A link is good for many."""
    found = _by_token(token, name)
    left = PASS_LIFETIME if found.expires_at is None else min(PASS_LIFETIME, found.expires_at - timezone.now())
    return _kept(name, left, share=found)


# -- who it is ---------------------------------------------------------------------------------------------------------


def by_pass(secret: str, name: PreviewName) -> Actor:
    """As whom the browser with this pass acts. Raises Problem preview_forbidden."""
    found = _passes(secret, name, is_code=False).select_related("share__made_by", "share__workspace").first()
    if found is None:
        raise forbidden("This pass has ended.")
    if found.share is not None:
        return _as_maker(found.share)
    try:
        return _of_session(found.session_key, name)
    except Problem as problem:
        raise forbidden(problem.detail) from None


def by_link(token: str, name: PreviewName) -> Actor:
    return _as_maker(_by_token(token, name))


def by_nothing(name: PreviewName) -> Actor:
    """As whom anybody at all acts: only where the port is public."""
    return _as_maker(_shared(name, Visibility.PUBLIC))


def forbidden(detail: str = "") -> Problem:
    return Problem("preview_forbidden", detail or "Sign in as somebody who may see this, or ask for a link.")


def _of_session(session_key: str, name: PreviewName) -> Actor:
    actor = selectors.actor_from_session(session_key)
    if actor is None:
        raise Problem("unauthenticated", "This session has ended.")
    try:
        selectors.workspace_for(actor, name.workspace_id)
    except Problem:
        return _as_maker(_shared(name, Visibility.SIGNED_IN, Visibility.PUBLIC))
    return actor


def _as_maker(found: PreviewShare) -> Actor:
    """The share's actor, as long as its maker could still make it."""
    actor = Actor(type="token", name=f"share of port {found.port}", user_id=found.made_by_id, token_id=found.pk,
                  scopes=frozenset({"previews"}), workspace_ids=frozenset({found.workspace_id}))
    alive = found.made_by.is_active and found.workspace.intent != "deleted" and (
        not found.token_id or AccessToken.objects.filter(pk=found.token_id, revoked_at=None).exists())
    if not alive or selectors.RANK.get(selectors.role_in(actor, found.workspace), 0) < selectors.RANK["operator"]:
        raise forbidden()
    return actor


def _shared(name: PreviewName, *visibilities: Visibility) -> PreviewShare:
    return _one(name, Q(visibility__in=visibilities))


def _by_token(token: str, name: PreviewName) -> PreviewShare:
    return _one(name, Q(token_hash=tokens.hash_of(token)))


def _one(name: PreviewName, which: Q) -> PreviewShare:
    found = still(PreviewShare.objects.select_related("made_by", "workspace").filter(
        which, workspace_id=name.workspace_id, port=name.port)).first()
    if found is None:
        raise forbidden()
    return found


def still(rows: QuerySet[PreviewShare]) -> QuerySet[PreviewShare]:
    """Those whose time is not over."""
    return rows.filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now()))


def _passes(secret: str, name: PreviewName, *, is_code: bool) -> QuerySet[PreviewPass]:
    return PreviewPass.objects.filter(secret_hash=tokens.hash_of(secret), is_code=is_code, port=name.port,
                                      workspace_id=name.workspace_id, expires_at__gt=timezone.now())


def _kept(name: PreviewName, lifetime: timedelta, *, is_code: bool = False, session_key: str = "",
          share: PreviewShare | None = None) -> str:
    secret = secrets.token_urlsafe(32)
    PreviewPass.objects.create(
        secret_hash=tokens.hash_of(secret), is_code=is_code, workspace_id=name.workspace_id, port=name.port,
        session_key=session_key, share=share, expires_at=timezone.now() + lifetime)
    return secret
