"""`manage.py berth_retention`: what retention would do and when. A dry run for admins at the shell; changes nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from workspaces import forecast, policies
from workspaces.models import User


class Command(BaseCommand):
    help = "Lists what would be stopped, deleted or purged by policy, and when. Changes nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--days", type=int, default=30)
        parser.add_argument("--user")

    def handle(self, *args: Any, **options: Any) -> None:
        owner = User.objects.filter(username=options["user"]).first() if options["user"] else None
        if options["user"] and owner is None:
            raise CommandError(f"There is no user {options['user']!r}.")
        found, complete = forecast.forecast(policies.Book(), timezone.now(), timedelta(days=options["days"]), owner)
        for one in found:
            self.stdout.write(f"{one.at:%Y-%m-%d %H:%M} {one.kind} {one.id} {one.name or '-'} of {one.owner}: "
                              f"{one.to} ({one.because})")
        if not found:
            self.stdout.write("nothing")
        if not complete:
            self.stdout.write("… and more")
