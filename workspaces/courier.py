"""Carries a host's facts upstairs: each fact becomes exactly one event, or a ring at reconcile's bell.

Called by the `courier` command, one thread per host; reads hostd's feed through the hatch. Facts about execs and
files come from the guest's side and are believed only about their own workspace.

    feed after N ──▶ one transaction: events + "N' is known" ──▶ rings after commit
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from typing import Any

from django.db import close_old_connections, connection, transaction
from django.utils.dateparse import parse_datetime

from sandboxes import machines
from sandboxes.errors import SandboxError
from sandboxes.models import Host
from workspaces import approvals, events, wake
from workspaces.actors import Actor
from workspaces.bounds import bounded
from workspaces.models import Workspace

logger = logging.getLogger(__name__)

WAIT_S = 10.0
PAUSES_S = (0.2, 0.5, 1.0, 2.0, 5.0)
EVENT_KINDS = ("exec.", "file.", "port.", "network.refused")
#: How operations end that reconcile itself began and waits for: it need not be told, and where its worker died the
#: clock's bell says so.
AWAITED = frozenset({"machine.running", "machine.parked", "machine.rolled_back", "machine.stopped"})
#: The one fact about a machine that is news and no state: it runs, but without the memory it slept with.
MEMORY_DROPPED = "machine.memory_dropped"
#: A connection that waits for a member's word: it becomes an approval, and that one's event.
ASKED = "network.asked"


def follow(host_id: str, stop: threading.Event) -> None:
    """Until `stop`: reads, writes, rings. A host or a database that is away is asked again, ever less often."""
    failures = 0
    while not stop.is_set():
        close_old_connections()
        try:
            host = Host.objects.get(pk=host_id)
            take_in(host, machines.read_feed(host, WAIT_S))
            failures = 0
        except Host.DoesNotExist:
            return
        except SandboxError as error:
            logger.warning("the feed of %s: %s", host_id, error.detail or error.code)
            failures += 1
        except Exception:
            logger.exception("the feed of %s", host_id)
            failures += 1
        if failures:
            stop.wait(PAUSES_S[min(failures, len(PAUSES_S)) - 1])
    connection.close()


def take_in(host: Host, answer: dict[str, Any]) -> None:
    """One answer of the feed, whole or not at all."""
    facts = answer.get("facts", [])
    following = int(answer.get("next", host.feed_seq))
    if not facts and following == host.feed_seq and not answer.get("gap"):
        return
    with transaction.atomic():
        rings = _write(facts)
        machines.remember_feed(host, following)
    if answer.get("gap"):
        logger.warning("the feed of %s has a gap; every machine there is looked at anew", host.pk)
        rings |= set(machines.machines_on(host))
    for machine_id in sorted(rings):
        wake.ring(machine_id)


def _write(facts: Iterable[dict[str, Any]]) -> set[str]:
    rings: set[str] = set()
    for fact in facts:
        if fact["kind"].startswith("machine.") and fact["kind"] not in AWAITED:
            rings.add(fact["machine_id"])
        if fact["kind"] == MEMORY_DROPPED:
            _write_one({**fact, "kind": "workspace.memory_dropped"})
        elif fact["kind"] == ASKED:
            _ask(fact)
        elif fact["kind"].startswith(EVENT_KINDS):
            _write_one(fact)
    return rings


def _ask(fact: dict[str, Any]) -> None:
    workspace = Workspace.objects.filter(pk=fact["machine_id"]).first()
    if workspace is not None:
        approvals.ask_network(workspace, bounded(fact.get("data") or {}))


def _write_one(fact: dict[str, Any]) -> None:
    workspace = Workspace.objects.filter(pk=fact["machine_id"]).first()
    if workspace is None:
        return  # purged meanwhile; nobody is left to be told
    said = fact.get("actor") or {}
    actor = Actor(type=str(said.get("type") or "system")[:10], name=str(said.get("name") or "system"))
    events.append(workspace, str(fact["kind"])[:60], actor, bounded(fact.get("data") or {}),
                  at=parse_datetime(str(fact.get("at") or "")))
