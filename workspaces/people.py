"""The people of an instance, for its admins: who there is, who may sign in, who is an admin, a code for a first or a
new password. Called by the API; calls tokens for codes and nudges so that what is open ends. The only writer of who may
sign in, beside the admin site and the commands at the shell.

Whoever makes changes here is an admin; the last one cannot shut themselves out. A code lets its bearer sign in as that
person, so only a person makes one, never a token: a program that may administer is not thereby anybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from workspaces import nudges, tokens
from workspaces.actors import Actor
from workspaces.api.errors import Problem
from workspaces.models import User


def named(name: str) -> User:
    """Raises Problem not_found."""
    found = User.objects.filter(username=name).first()
    if found is None:
        raise Problem("not_found", "Nobody here is called so.")
    return found


def create(name: str, *, is_admin: bool = False) -> User:
    """Somebody without a password: a code lets them set one. Raises Problem invalid or name_taken."""
    try:
        User.username_validator(name)
    except ValidationError as error:
        raise _wrong("name", "Letters, digits and @/./+/-/_ only.") from error
    user = User(username=name, is_superuser=is_admin, is_staff=is_admin)
    user.set_unusable_password()
    try:
        with transaction.atomic():
            user.save(force_insert=True)
    except IntegrityError as error:
        raise Problem("name_taken", f"There is somebody called {name!r}.") from error
    return user


def change(actor: Actor, name: str, wanted: Mapping[str, bool]) -> User:
    """`active` and `is_admin`. Raises Problem not_found, or conflict (`yourself`, `last_admin`)."""
    with transaction.atomic():
        admins = {user.pk for user in User.objects.select_for_update().filter(is_superuser=True, is_active=True)}
        user = named(name)
        active, is_admin = wanted.get("active", user.is_active), wanted.get("is_admin", user.is_superuser)
        if user.pk in admins and not (active and is_admin):
            _keep_an_admin(actor, user, admins)
        user.is_active = active
        user.is_superuser = user.is_staff = is_admin
        user.save(update_fields=["is_active", "is_superuser", "is_staff"])
        nudges.credential_changed("user", str(user.pk))
    return user


def make_code(actor: Actor, name: str) -> tuple[User, str, datetime]:
    """The code and when it ends; an earlier one ends now. Raises Problem not_found, forbidden (a token asks) or
    conflict (somebody who may not sign in)."""
    if actor.type != "user":
        raise Problem("forbidden", "Only a person who is signed in makes a code: it lets its bearer be somebody.")
    user = named(name)
    if not user.is_active:
        raise Problem("conflict", "They may not sign in. Let them in again first.", reason="inactive")
    return user, tokens.create_setup_code(user), timezone.now() + tokens.SETUP_CODE_LIFETIME


def _keep_an_admin(actor: Actor, user: User, admins: set[int]) -> None:
    if admins == {user.pk}:
        raise Problem("conflict", "There would be no admin left.", reason="last_admin")
    if user.pk == actor.person:
        raise Problem("conflict", "Another admin has to do this to you.", reason="yourself")


def _wrong(field: str, why: str) -> Problem:
    return Problem("invalid", "Some fields are not valid.", errors={field: [why]})
