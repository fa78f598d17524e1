"""`manage.py berth_host`: makes or renews the row of a host from what its hostd says. Called by `./berth up`."""

from __future__ import annotations

import socket
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from sandboxes import machines
from sandboxes.errors import SandboxError


class Command(BaseCommand):
    help = "Registers a VM host and opens it for new machines."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--id", default="local")
        parser.add_argument("--name", default=socket.gethostname())
        parser.add_argument("--address", default=f"unix:{settings.BERTH_DATA / 'run' / 'hostd.sock'}")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            host = machines.register_host(options["id"], options["name"][:100], options["address"])
        except SandboxError as error:
            raise CommandError(f"{options['address']}: {error.detail or error.code}") from error
        driver = host.capabilities.get("driver", "?")
        self.stdout.write(f"{host.name}: {driver}, {host.capabilities.get('accelerator', '?')}")
