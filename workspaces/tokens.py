"""Access tokens and setup codes: made, hashed, revoked. Called by the API, management commands and selectors.

A secret is shown once by whoever called `create`; the row keeps its hash alone (256 random bits need no slow hash).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from workspaces import nudges
from workspaces.actors import Actor
from workspaces.models import AccessToken, SetupCode, User

PREFIX = "berth_"
SETUP_CODE_LIFETIME = timedelta(minutes=15)
#: No look-alikes: a person may type this from another screen.
CODE_ALPHABET = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"


def hash_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def create(user: User, name: str, scopes: Iterable[str], *, workspace_ids: Iterable[str] | None = None,
           expires_at: datetime | None = None, maker: Actor | None = None) -> tuple[AccessToken, str]:
    """The row and its secret. Whether the caller may grant these scopes is the caller's question. `maker`: a token
    that makes another is remembered, so that the line ends with it and decides nothing for itself."""
    secret = PREFIX + secrets.token_urlsafe(32)
    row = AccessToken(
        user=user, name=name, secret_hash=hash_of(secret), hint=secret[:10], scopes=sorted(set(scopes)),
        workspace_ids=None if workspace_ids is None else sorted(set(workspace_ids)), expires_at=expires_at,
        made_by=(maker.token_id or "") if maker else "")
    row.lineage = (maker.lineage if maker else "") or row.pk
    row.save(force_insert=True)
    return row, secret


def revoke(token: AccessToken) -> None:
    """At once and for good, with every token that it made; the gateway is told."""
    ended = [token.pk]
    with transaction.atomic():
        for pk in ended:  # grows while it is walked: those made by those made by it
            ended.extend(AccessToken.objects.filter(made_by=pk, lineage=token.lineage or token.pk)
                         .exclude(pk__in=ended).values_list("pk", flat=True))
        AccessToken.objects.filter(pk__in=ended, revoked_at=None).update(revoked_at=timezone.now())
        for pk in ended:
            nudges.credential_changed("token", pk)


def create_setup_code(user: User) -> str:
    """A code like `ABCD-EFGH-JKMN-PQRS` that lets `user` set a password once within 15 minutes."""
    code = "".join(secrets.choice(CODE_ALPHABET) for _ in range(16))
    with transaction.atomic():
        SetupCode.objects.filter(user=user, used_at=None).delete()
        SetupCode.objects.create(user=user, code_hash=hash_of(code), expires_at=timezone.now() + SETUP_CODE_LIFETIME)
    return "-".join(code[i:i + 4] for i in range(0, 16, 4))


def use_setup_code(code: str) -> User | None:
    """Spends the code: of two who send it at once, one gets the user. None: unknown, spent or too late."""
    plain = code.replace("-", "").replace(" ", "").upper()
    now = timezone.now()
    with transaction.atomic():
        row = SetupCode.objects.select_related("user").filter(
            code_hash=hash_of(plain), used_at=None, expires_at__gt=now, user__is_active=True).first()
        if row is None or not SetupCode.objects.filter(pk=row.pk, used_at=None).update(used_at=now):
            return None
    return row.user
