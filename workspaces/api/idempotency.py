"""`Idempotency-Key`: the same POST twice has one effect. A mixin of views that make or change something.

The key's row and the effect are written in one transaction, so there is no moment in which one is there without the
other: who comes second waits at the row (or the database's lock) for the first to commit, and then answers with the
same object, rendered as it is now. A refused request keeps no key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from workspaces.api.auth import actor_of
from workspaces.api.errors import Problem
from workspaces.models import IdempotencyKey

LIFETIME = timedelta(hours=24)
MAX_KEY = 255


#: The answer, or what makes it once the change is committed: nobody's write waits for it to be put into words.
Shown = Response | Callable[[], Response]


def once(request: Request, work: Callable[[], tuple[int, str, Shown]],
         again: Callable[[str], dict[str, Any]]) -> Response:
    """`work` makes the change and says (status, object id, answer); `again` shows that object later."""
    key = _key_of(request)
    if key is None:
        with transaction.atomic():
            _status, _object_id, answer = work()
        return _said(answer)
    fingerprint = _fingerprint(request)
    with transaction.atomic():
        earlier = _claim(actor_of(request).person, key, fingerprint)
        if earlier.status:
            return Response(again(earlier.object_id), status=earlier.status,
                            headers={"Idempotency-Replayed": "true"})
        earlier.status, earlier.object_id, answer = work()
        earlier.save(update_fields=["status", "object_id"])
    return _said(answer)


def _said(answer: Shown) -> Response:
    return answer if isinstance(answer, Response) else answer()


def _key_of(request: Request) -> str | None:
    key = request.headers.get("Idempotency-Key")
    if key is not None and not (0 < len(key) <= MAX_KEY and key.isascii() and key.isprintable()):
        raise Problem("invalid", "An Idempotency-Key is 1 to 255 printable ASCII characters.",
                      errors={"Idempotency-Key": ["1 to 255 printable ASCII characters."]})
    return key


def _fingerprint(request: Request) -> str:
    """Of what was asked, not of how it was spelt; and of whether it waits or not is no matter."""
    said = json.dumps([request.method, request.path, request.data], sort_keys=True, default=str)
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()


def _claim(user_id: int, key: str, fingerprint: str) -> IdempotencyKey:
    now = timezone.now()
    IdempotencyKey.objects.filter(user_id=user_id, key=key, created_at__lt=now - LIFETIME).delete()
    try:
        with transaction.atomic():
            return IdempotencyKey.objects.create(user_id=user_id, key=key, fingerprint=fingerprint, created_at=now)
    except IntegrityError:
        row = IdempotencyKey.objects.select_for_update().get(user_id=user_id, key=key)
    if row.fingerprint != fingerprint:
        raise Problem("idempotency_conflict", "This key was used for another request.")
    return row
