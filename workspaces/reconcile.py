"""Brings what is true nearer to what is wanted, one slice at a time. Called by tasks; asks `state.next_plan`; works
through the hatch; says what came of it through `announce`.

    take lease ─▶ observe ─▶ ┌▶ next_plan? ─nothing─▶ release
                             └── carry out one slice ─┘ waiting: release, ring again

It takes only an id and reads the truth, so a doubled, late or redelivered call finds the lease taken or nothing to
do. No call lasts longer than about two seconds.
"""

from __future__ import annotations

import logging
import time
from enum import Enum
from typing import Any

from django.db import transaction
from django.dispatch import receiver
from django.utils import timezone

from sandboxes import machines, signals
from sandboxes.errors import SandboxError
from sandboxes.spec import MachineSpec, Shape
from workspaces import nudges, services
from workspaces.actors import SYSTEM
from workspaces.announce import announce
from workspaces.facts import gather
from workspaces.models import Workspace
from workspaces.names import hostname_of
from workspaces.state import Next, next_plan

logger = logging.getLogger(__name__)

#: How long one call may long-poll hostd and go on with further slices.
BUDGET_S = 1.5
ENDED_BY_ITSELF = (Next.NOTE_DEATH, Next.NOTE_POWER_OFF)


class Again(Enum):
    NO = "no"
    NOW = "now"      # hostd is at work, or the bell was rung meanwhile
    LATER = "later"  # a pause: the sweep asks again


def reconcile(workspace_id: str) -> Again:
    """One call's worth of work on one workspace."""
    grant = machines.take(workspace_id)
    if grant is None:
        return Again.NO
    again = Again.NO
    try:
        again = _work(workspace_id, grant)
    except machines.LeaseLost:
        logger.info("%s was taken over by another worker", workspace_id)
        return Again.NO
    except Exception:
        machines.release(grant)
        raise
    rung = machines.release(grant)
    return Again.NOW if rung else again


def _work(workspace_id: str, grant: machines.Grant) -> Again:
    until = time.monotonic() + BUDGET_S
    look: machines.Look | None = machines.observe(grant)
    while True:
        workspace = Workspace.objects.filter(pk=workspace_id).first()
        if workspace is None:
            machines.forget(workspace_id)
            return Again.NO
        wanted = next_plan(gather(workspace))
        if wanted is Next.NOTHING:
            machines.settle(grant)
            _announce_again(workspace_id)
            return Again.NO
        again = _one(wanted, workspace, grant, until, look)
        look = None
        if again is not None:
            return again
        if time.monotonic() >= until:
            return Again.NOW


def _one(wanted: Next, workspace: Workspace, grant: machines.Grant, until: float,
         look: machines.Look | None) -> Again | None:
    """Does one thing; None means: ask the rule book again."""
    if wanted is Next.FORGET:
        _forget(workspace)
        return Again.NO
    if wanted in ENDED_BY_ITSELF:
        _note_end(workspace.pk, wanted)
        return None
    progress = machines.carry_out(wanted.value, spec_of(workspace), grant, until, look)
    if progress.state == "done" and wanted is Next.PURGE:
        machines.vanish(grant)
    return {"waiting": Again.NOW, "later": Again.LATER}.get(progress.state)


def spec_of(workspace: Workspace) -> MachineSpec:
    return MachineSpec(
        machine_id=workspace.pk, generation=workspace.generation,
        shape=Shape(cpus=workspace.cpus, memory_mib=workspace.memory_mib), image=workspace.image,
        disk_gib=workspace.disk_gib, hostname=hostname_of(workspace.name), env=dict(workspace.env))


def _note_end(workspace_id: str, what: Next) -> None:
    """Under the row lock and asked once more: a start that came this instant must not be undone by it."""
    with transaction.atomic():
        workspace = Workspace.objects.select_for_update().get(pk=workspace_id)
        facts = gather(workspace)
        if next_plan(facts) is not what:
            return
        if what is Next.NOTE_POWER_OFF:
            services.note_power_off(workspace)
            return
        services.note_failure(workspace, "machine_died", facts.end_reason)
        announce(workspace, gather(workspace), SYSTEM, facts.end_reason or "the machine ended")


def _forget(workspace: Workspace) -> None:
    """The end of a purge: the row and all that hangs on it. The last bell says `gone`."""
    with transaction.atomic():
        row = Workspace.objects.select_for_update().filter(pk=workspace.pk).first()
        if row is None or next_plan(gather(row)) is not Next.FORGET:
            return
        nudges.workspace_changed(row.pk, row.event_seq + 1, row.owner_id, gone=True)
        machines.forget(row.pk)
        row.delete()


def _announce_again(workspace_id: str) -> None:
    """Nothing is left to do, so what people see must be what is."""
    with transaction.atomic():
        workspace = Workspace.objects.select_for_update().filter(pk=workspace_id).first()
        if workspace is not None:
            announce(workspace, gather(workspace), SYSTEM, workspace.cause)


@receiver(signals.body_changed)
def on_body_changed(sender: Any, machine_id: str, **_: Any) -> None:
    """Within the plan runner's transaction: a phase and what people see change together.

    An end that nobody asked for is noted here already, so that nobody is told first that the machine is waking.
    """
    workspace = Workspace.objects.select_for_update().filter(pk=machine_id).first()
    if workspace is None:
        return
    wanted = next_plan(gather(workspace))
    if wanted in ENDED_BY_ITSELF:
        _note_end(workspace.pk, wanted)
    else:
        announce(workspace, gather(workspace), SYSTEM, workspace.cause)


@receiver(signals.plan_failed)
def on_plan_failed(sender: Any, machine_id: str, generation: int, code: str, detail: str, **_: Any) -> None:
    """As above. A plan of an older generation fails unheard: somebody wants something else by now."""
    workspace = Workspace.objects.select_for_update().filter(pk=machine_id).first()
    if workspace is None:
        return
    if workspace.generation == generation and workspace.intent == "running":
        services.note_failure(workspace, code, detail)
    announce(workspace, gather(workspace), SYSTEM, detail or code)


def sweep() -> set[str]:
    """Everything that may need a look: what changes, what is due, and where a host says otherwise."""
    return _changing() | machines.restless() | _contradicted()


def _changing() -> set[str]:
    moving = ("creating", "waking", "parking", "stopping", "restoring", "deleting")
    resting = Workspace.objects.filter(intent="running", state="stopped")  # its host was drained
    due = Workspace.objects.filter(intent="deleted", purge_at__lte=timezone.now())
    return {*Workspace.objects.filter(state__in=moving).values_list("pk", flat=True),
            *resting.values_list("pk", flat=True), *due.values_list("pk", flat=True)} - machines.pausing()


def _contradicted() -> set[str]:
    found: set[str] = set()
    for host in machines.hosts():
        try:
            found |= machines.look_at(host)
        except SandboxError as error:
            logger.warning("host %s: %s", host.name, error)
    return found
