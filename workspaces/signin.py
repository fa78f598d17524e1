"""Signing in: password or one-time code, with a brake on guessing. Called by the API's session views.

Failures are counted per name and address, per address and per name, in the database, so that no restart forgets
them. The per-name limit is high: nobody locks a colleague out by guessing.
"""

from __future__ import annotations

import hashlib
import math
from datetime import timedelta

from django.contrib.auth import authenticate, password_validation
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import F
from django.http import HttpRequest
from django.utils import timezone

from workspaces import tokens
from workspaces.api.errors import Problem
from workspaces.models import SignInFailures, User

WINDOW = timedelta(minutes=15)


def _subjects(name: str, address: str) -> dict[str, int]:
    """What is counted, and how many failures each may have within the window."""
    return {f"both:{name.casefold()}:{address}": 5, f"address:{address}": 30, f"name:{name.casefold()}": 100}


def with_password(request: HttpRequest, username: str, password: str, address: str) -> User:
    """Raises Problem: rate_limited, or unauthenticated (which of the two was wrong is not said)."""
    subjects = _subjects(username, address)
    _brake(subjects)
    user = authenticate(request, username=username, password=password)
    if not isinstance(user, User):
        _count(subjects)
        raise Problem("unauthenticated", "The name or the password is wrong.")
    _forgive(f"both:{username.casefold()}:{address}")
    return user


def with_setup_code(code: str, password: str, address: str) -> User:
    """Raises Problem: rate_limited, unauthenticated (unknown, spent or too late), invalid (the password)."""
    subjects = _subjects("setup code", address)
    _brake(subjects)
    with transaction.atomic():
        user = tokens.use_setup_code(code)
        if user is not None:
            _set_password(user, password)
    if user is None:
        _count(subjects)
        raise Problem("unauthenticated", "This code is unknown, was used, or has expired. Ask for a new one.")
    return user


def _set_password(user: User, password: str) -> None:
    """A password that is refused leaves the code unspent (the transaction is rolled back)."""
    try:
        password_validation.validate_password(password, user)
    except ValidationError as error:
        raise Problem("invalid", "Some fields are not valid.", errors={"password": list(error.messages)}) from error
    user.set_password(password)
    user.save(update_fields=["password"])


def _brake(subjects: dict[str, int]) -> None:
    now = timezone.now()
    rows = SignInFailures.objects.filter(subject__in=[_hashed(s) for s in subjects], window_ends_at__gt=now)
    limits = {_hashed(subject): limit for subject, limit in subjects.items()}
    full = [row.window_ends_at for row in rows if row.count >= limits[row.subject]]
    if full:
        wait_s = math.ceil((max(full) - now).total_seconds())
        raise Problem("rate_limited", "Too many attempts. Wait, then try again.", retry_after_s=wait_s)


def _count(subjects: dict[str, int]) -> None:
    now = timezone.now()
    with transaction.atomic():
        for subject in sorted(_hashed(s) for s in subjects):
            SignInFailures.objects.filter(subject=subject, window_ends_at__lte=now).delete()
            SignInFailures.objects.get_or_create(subject=subject, defaults={"window_ends_at": now + WINDOW})
            SignInFailures.objects.filter(subject=subject).update(count=F("count") + 1)


def _forgive(subject: str) -> None:
    SignInFailures.objects.filter(subject=_hashed(subject)).delete()


def _hashed(subject: str) -> str:
    return hashlib.sha256(subject.encode("utf-8", "surrogatepass")).hexdigest()
