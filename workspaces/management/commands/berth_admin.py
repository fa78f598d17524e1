"""`manage.py berth_admin`: how the first admin signs in. Called by `./berth up`, each time; prints nothing once
somebody has a password.

There is no default password: a one-time code (15 minutes, single use, kept hashed) is typed on the sign-in page,
which then asks for a password. The code travels in the body of a POST and in no address.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import transaction

from workspaces import audit, tokens
from workspaces.acts import Act
from workspaces.models import User


class Command(BaseCommand):
    help = "Prints a one-time code for the first admin, or for USER."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", nargs="?", help="make a code for this user, who sets a new password with it")
        parser.add_argument("--at", default="", metavar="URL", help="where the pages are, to be said with the code")

    def handle(self, *args: Any, **options: Any) -> None:
        named, at = options["user"], options["at"].rstrip("/")
        if named is None and any(u.has_usable_password() for u in User.objects.filter(is_superuser=True)):
            return
        with transaction.atomic():
            user = _admin(named or "admin")
            code = tokens.create_setup_code(user)
            audit.record(Act("user.code", f"user:{user.get_username()}", actor=audit.COMMAND_LINE,
                             data={"admin": True}))
        self.stdout.write(f"Sign in as {user.get_username()}: open {at}/sign-in?setup and type the one-time code\n"
                          f"    {code}\n"
                          "It is valid for 15 minutes and once; then you choose a password.")


def _admin(name: str) -> User:
    user = User.objects.filter(username=name).first()
    if user is None:
        user = User(username=name)
        user.set_unusable_password()
    user.is_superuser = user.is_staff = True
    user.save()
    return user
