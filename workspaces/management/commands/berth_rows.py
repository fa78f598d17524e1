"""`manage.py berth_rows USER COUNT`: brings somebody to so many stopped workspaces that are rows and nothing else, so
that a bench can ask what rows alone cost. Called by `ops.bench.list`, on its own throw-away instance; quotas and hosts
are not asked.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from workspaces.models import User, Workspace

AT_ONCE = 500


class Command(BaseCommand):
    help = "For benches: rows of workspaces that no machine belongs to."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user")
        parser.add_argument("count", type=int)

    def handle(self, *args: Any, **options: Any) -> None:
        owner = User.objects.get(username=options["user"])
        there = Workspace.objects.filter(owner=owner).count()
        rows = [Workspace(owner=owner, name=f"row-{n}", intent="stopped", state="stopped", labels={"n": str(n % 100)})
                for n in range(there, options["count"])]
        Workspace.objects.bulk_create(rows, batch_size=AT_ONCE)
        self.stdout.write(str(there + len(rows)))
