"""`manage.py berth_status`: hosts, and workspaces by state. Called by `./berth status` with --json."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from sandboxes import machines
from workspaces.api.operations import reachable
from workspaces.models import Workspace


class Command(BaseCommand):
    help = "Counts workspaces by state and names the hosts."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        facts = {"workspaces": dict(sorted(Counter(Workspace.objects.values_list("state", flat=True)).items())),
                 "hosts": [_host(host) for host in machines.hosts()]}
        if options["json"]:
            self.stdout.write(json.dumps(facts))
            return
        for host in facts["hosts"]:
            self.stdout.write("host " + ", ".join(f"{key} {value}" for key, value in host.items()))  # type: ignore[attr-defined]
        for state, count in facts["workspaces"].items():  # type: ignore[attr-defined]
            self.stdout.write(f"{count:>5} {state}")


def _host(host: Any) -> dict[str, Any]:
    return {"id": host.pk, "name": host.name, "driver": host.capabilities.get("driver"),
            "accelerator": host.capabilities.get("accelerator"), "machines": host.sandboxes.count(),
            "reachable": reachable(host), "draining": host.draining}
