"""`manage.py berth_token USER`: one API token on stdout and nothing else. Called by `./berth token`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction
from django.utils import timezone

from workspaces import audit, tokens
from workspaces.actors import BY_NAME_ONLY, SCOPES
from workspaces.acts import Act
from workspaces.models import User, Workspace


class Command(BaseCommand):
    help = "Creates the user if missing and prints one API token."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user")
        parser.add_argument("--admin", action="store_true", help="makes the user an admin and grants the scope admin")
        parser.add_argument("--scope", action="append", default=[], help="grant only these (may be repeated)")
        parser.add_argument("--workspace", action="append", default=[], help="limit the token to this id")
        parser.add_argument("--expires-in-s", type=int, default=None)
        parser.add_argument("--name", default="command line")

    def handle(self, *args: Any, **options: Any) -> None:
        scopes = _scopes(options["scope"], options["admin"])
        limited = options["workspace"] or None
        missing = set(limited or ()) - set(Workspace.objects.filter(pk__in=limited or ()).values_list("pk", flat=True))
        if missing:
            raise CommandError(f"there is no workspace {sorted(missing)[0]}")
        expires_in_s = options["expires_in_s"]
        expires_at = None if expires_in_s is None else timezone.now() + timedelta(seconds=expires_in_s)
        with transaction.atomic():
            user = _user(options["user"], options["admin"])
            row, secret = tokens.create(user, options["name"], scopes, workspace_ids=limited, expires_at=expires_at)
            audit.record(Act("token.create", f"token:{row.pk}", actor=audit.COMMAND_LINE, data={
                "user": user.get_username(), "name": row.name, "scopes": sorted(scopes), "admin": options["admin"]}))
        self.stdout.write(secret)


def _scopes(named: list[str], admin: bool) -> frozenset[str]:
    asked = {word for said in named for word in said.replace(",", " ").split()}
    unknown = asked - SCOPES
    if unknown:
        raise CommandError(f"unknown scope {sorted(unknown)[0]}; there are: {', '.join(sorted(SCOPES))}")
    granted = asked or SCOPES - BY_NAME_ONLY
    return frozenset(granted | {"admin"} if admin else granted)


def _user(name: str, admin: bool) -> User:
    try:
        User.username_validator(name)
    except Exception as error:
        raise CommandError(f"{name!r} is no user name: letters, digits and @/./+/-/_ only") from error
    user, made = User.objects.get_or_create(username=name)
    if made:
        user.set_unusable_password()
    if admin and not user.is_superuser:
        user.is_superuser = user.is_staff = True
    user.save()
    return user
