"""`manage.py berth_drain`: every machine goes to rest, with its memory where its host keeps memory, else by a clean
shutdown; what was wanted stays wanted. Called by `./berth down`.

The hosts are marked as draining, which makes reconcile put their machines to rest; the next `berth_host` opens them
again, and what should run starts. This command does reconcile's work itself, so it needs no worker.
"""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from sandboxes import machines
from workspaces.reconcile import reconcile


class Command(BaseCommand):
    help = "Puts every running machine to rest without changing what is wanted."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--timeout-s", type=float, default=120.0)

    def handle(self, *args: Any, **options: Any) -> None:
        machines.drain_hosts()
        deadline = time.monotonic() + options["timeout_s"]
        told = -1
        while left := machines.live():
            if len(left) != told:
                told = len(left)
                self.stdout.write(f"{told} still running")
                self.stdout.flush()
            for machine_id in left:
                reconcile(machine_id)
            if time.monotonic() > deadline:
                raise CommandError(f"{len(left)} did not come to rest within {options['timeout_s']:g} s")
            time.sleep(0.05)  # others may hold a lease; what is waited for is looked at anew each time
        self.stdout.write("all machines are at rest")
