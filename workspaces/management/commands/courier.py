"""`manage.py courier`: follows every host's feed until it is told to end. A process of its own."""

from __future__ import annotations

import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand
from django.db import close_old_connections

from sandboxes import machines
from workspaces import courier

LOOK_FOR_HOSTS_S = 2.0


class Command(BaseCommand):
    help = "Turns what hosts say into events, and rings reconcile's bell."

    def handle(self, *args: Any, **options: Any) -> None:
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        followers: dict[str, threading.Thread] = {}
        while not stop.is_set():
            close_old_connections()
            for host in _hosts():
                if host.pk not in followers or not followers[host.pk].is_alive():
                    followers[host.pk] = threading.Thread(target=courier.follow, args=(host.pk, stop), daemon=True)
                    followers[host.pk].start()
            stop.wait(LOOK_FOR_HOSTS_S)


def _hosts() -> list[Any]:
    """None while the database is away; the next look finds it again."""
    try:
        return machines.hosts()
    except Exception:
        courier.logger.exception("looking for hosts")
        return []
