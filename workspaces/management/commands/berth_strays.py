"""`manage.py berth_strays`: machines on hosts that nobody owns; `--destroy ID` takes one away, disk and all.

Their bodies are ended by the sweep, their disks only by this command: after a database was put back, what looks like
nobody's may be somebody's work.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from sandboxes import machines
from sandboxes.errors import SandboxError


class Command(BaseCommand):
    help = "Lists machines that no workspace owns, or destroys one of them."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--destroy", metavar="ID")

    def handle(self, *args: Any, **options: Any) -> None:
        for host in machines.hosts():
            try:
                machines.look_at(host)
                self._one(host, options["destroy"])
            except SandboxError as error:
                raise CommandError(f"host {host.name}: {error.detail or error.code}") from error

    def _one(self, host: Any, wanted: str | None) -> None:
        if wanted is None:
            for machine_id, since in sorted(host.strays.items()):
                self.stdout.write(f"{host.name} {machine_id} since {since}")
        elif wanted in host.strays:
            machines.destroy_stray(host, wanted)
            self.stdout.write(f"{wanted} is being destroyed")
