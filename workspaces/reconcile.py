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
from django.db.models import Q
from django.dispatch import receiver
from django.utils import timezone

from sandboxes import machines, signals
from sandboxes.errors import SandboxError
from sandboxes.spec import MachineSpec, Shape
from workspaces import approvals, checkpoints, events, forks, networks, nudges, restores, services, tally
from workspaces.actors import SYSTEM
from workspaces.announce import announce
from workspaces.facts import gather, is_restoring
from workspaces.models import Checkpoint, CheckpointState, Workspace
from workspaces.names import hostname_of
from workspaces.state import GONE, NOTES, Facts, Next, next_plan

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
    told = True
    while True:
        workspace = Workspace.objects.filter(pk=workspace_id).first()
        if workspace is None:
            machines.forget(workspace_id)
            return Again.NO
        told = told and _tell(workspace, grant, look)
        facts = gather(workspace)
        wanted = next_plan(facts)
        if wanted in (Next.NOTHING, Next.AWAIT_ORIGIN):
            machines.settle(grant)
            _announce_again(workspace_id)
            return Again.NO if told else Again.LATER
        again, look = _one(wanted, workspace, facts, grant, until, look)
        if again is not None:
            return again
        if time.monotonic() >= until:
            return Again.NOW


def _tell(workspace: Workspace, grant: machines.Grant, look: machines.Look | None) -> bool:
    """What its host must know whatever it is at: what it may reach, and who asked and was told no. False: it could not
    be told now; the sweep finds that again."""
    if not workspace.network_revision or workspace.intent == "deleted" or (look is not None and look.unreachable):
        return True
    try:
        machines.tell_network(grant, networks.of(workspace), look)
        for asked in approvals.refused_asks(workspace.pk):
            for ask_id in asked.request.get("asks", ()):
                machines.refuse_ask(workspace.pk, str(ask_id))
            approvals.begun(asked.pk, {})
    except SandboxError as error:
        logger.warning("%s: its network: %s: %s", workspace.pk, error.code, error.detail)
        return False
    return True


def _one(wanted: Next, workspace: Workspace, facts: Facts, grant: machines.Grant, until: float,
         look: machines.Look | None) -> tuple[Again | None, machines.Look | None]:
    """Does one thing; None means: ask the rule book again, and with it what the host said last, if it is still so."""
    if wanted is Next.FORGET:
        _forget(workspace)
        return Again.NO, None
    if wanted in NOTES:
        _note(workspace.pk, wanted)
        return None, None
    progress = machines.carry_out(wanted.value, spec_of(workspace), grant, until, about(wanted, workspace, facts), look,
                                  networks.of(workspace))
    if progress.state == "done" and wanted is Next.PURGE:
        machines.vanish(grant)
    return {"waiting": Again.NOW, "later": Again.LATER}.get(progress.state), machines.Look(progress.seen)


def about(wanted: Next, workspace: Workspace, facts: Facts) -> machines.Subject:
    """Which checkpoint a plan is about, and whether memory comes with it."""
    if wanted is Next.CAPTURE:
        memory = Checkpoint.objects.filter(pk=facts.capture).values_list("memory", flat=True).first()
        return machines.Subject(facts.capture, memory=bool(memory))
    if wanted is Next.ROLLBACK:
        usable = Checkpoint.objects.filter(pk=facts.restore).values_list("memory_usable", flat=True).first()
        # Who said meanwhile that it is to be stopped wants no memory of any time.
        return machines.Subject(facts.restore, memory=bool(usable) and workspace.intent != "stopped",
                                restore=workspace.restore_seq,
                                run=facts.wants_body and workspace.intent == "running")
    if wanted is Next.CLONE:
        return machines.Subject(workspace.origin_checkpoint, memory=workspace.origin_memory,
                                source_machine=workspace.origin_machine)
    return machines.Subject(facts.drop if wanted is Next.DROP else "")


def spec_of(workspace: Workspace) -> MachineSpec:
    return MachineSpec(
        machine_id=workspace.pk, generation=workspace.generation,
        shape=Shape(cpus=workspace.cpus, memory_mib=workspace.memory_mib), image=workspace.image,
        disk_gib=workspace.disk_gib, hostname=hostname_of(workspace.name), env=dict(workspace.env))


def _note(workspace_id: str, what: Next) -> None:
    """Under the row lock and asked once more: a start that came this instant must not be undone by it."""
    with transaction.atomic():
        workspace = Workspace.objects.select_for_update().get(pk=workspace_id)
        facts = gather(workspace)
        if next_plan(facts) is what:
            _NOTE[what](workspace, facts)


def _note_power_off(workspace: Workspace, facts: Facts) -> None:
    services.note_power_off(workspace)


def _note_memory_lost(workspace: Workspace, facts: Facts) -> None:
    services.note_memory_lost(workspace, facts.end_reason)


def _note_death(workspace: Workspace, facts: Facts) -> None:
    services.note_failure(workspace, "machine_died", facts.end_reason)
    announce(workspace, gather(workspace), SYSTEM, facts.end_reason or "the machine ended")


def _note_disk_lost(workspace: Workspace, facts: Facts) -> None:
    """Its host has no disk of it. Nothing is made anew in silence: a start by a person says that it may be."""
    services.note_failure(workspace, "disk_lost", "its host has no disk of it any more; start makes a new, empty one")
    announce(workspace, gather(workspace), SYSTEM, "its disk is gone")


def _note_origin_lost(workspace: Workspace, facts: Facts) -> None:
    services.note_failure(workspace, "checkpoint_lost", "the checkpoint it was to begin from is gone")
    announce(workspace, gather(workspace), SYSTEM, "its checkpoint is gone")


def _abandon(workspace: Workspace, facts: Facts) -> None:
    if facts.capture:
        _capture_failed(workspace, facts.capture, "no_disk", "there is no disk to take a checkpoint of")
    elif facts.restore:
        restores.give_up(workspace, "no_disk", "there is no disk to restore over")


_NOTE = {Next.NOTE_DEATH: _note_death, Next.NOTE_POWER_OFF: _note_power_off, Next.NOTE_MEMORY_LOST: _note_memory_lost,
         Next.NOTE_DISK_LOST: _note_disk_lost, Next.NOTE_ORIGIN_LOST: _note_origin_lost, Next.ABANDON: _abandon}


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
        if workspace is None:
            return
        announce(workspace, gather(workspace), SYSTEM, workspace.cause)
        seen = machines.believed(workspace_id, workspace.generation).checkpoints
        if seen:
            checkpoints.note_seen(workspace, seen)


@receiver(signals.body_changed)
def on_body_changed(sender: Any, machine_id: str, **_: Any) -> None:
    """Within the plan runner's transaction: a phase and what people see change together.

    An end that nobody asked for is noted here already, so that nobody is told first that the machine is waking.
    """
    workspace = Workspace.objects.select_for_update().filter(pk=machine_id).first()
    if workspace is None:
        return
    facts = gather(workspace)
    if workspace.origin_checkpoint and not workspace.has_begun and facts.phase not in GONE:
        forks.note_begun(workspace)
    wanted = next_plan(facts)
    if wanted in ENDED_BY_ITSELF:
        _note(workspace.pk, wanted)
    else:
        announce(workspace, facts, SYSTEM, workspace.cause)


def _parts(subject: str) -> tuple[str, str]:
    """(checkpoint, restore) of a subject's key."""
    checkpoint_id, _, restore = subject.partition(":")
    return checkpoint_id, restore


@receiver(signals.plan_done)
def on_plan_done(sender: Any, machine_id: str, plan: str, subject: str, result: dict[str, Any], **_: Any) -> None:
    """As above: what a host made, and what the row says of it, become true together."""
    workspace = Workspace.objects.select_for_update().filter(pk=machine_id).first()
    if workspace is None:
        return
    checkpoint_id, restore = _parts(subject)
    if plan == Next.CAPTURE:
        checkpoints.note_ready(workspace, checkpoint_id, result)
        forks.note_origin_ready(machine_id, checkpoint_id)
    elif plan == Next.ROLLBACK:
        restores.note_restored(workspace, int(restore), asleep=bool(result.get("parked")))
    elif plan == Next.PARK:
        tally.note_rested(machine_id)
    elif plan == Next.DROP:
        checkpoints.note_dropped(checkpoint_id)
    elif plan in (Next.CREATE, Next.CLONE) and workspace.may_begin_anew:
        services.note_begun_anew(workspace)


@receiver(signals.plan_failed)
def on_plan_failed(sender: Any, machine_id: str, generation: int, plan: str, subject: str, code: str, detail: str,
                   **_: Any) -> None:
    """As above. A plan of an older generation fails unheard, unless it is about a moment: somebody wants something
    else by now."""
    workspace = Workspace.objects.select_for_update().filter(pk=machine_id).first()
    if workspace is None:
        return
    checkpoint_id, restore = _parts(subject)
    if plan == Next.CAPTURE:
        _capture_failed(workspace, checkpoint_id, code, detail)
    elif plan == Next.ROLLBACK and str(workspace.restore_seq) == restore:
        restores.give_up(workspace, code, detail)
    elif workspace.generation == generation:
        _plan_failed(workspace, plan, code, detail)
    announce(workspace, gather(workspace), SYSTEM, detail or code)


def _plan_failed(workspace: Workspace, plan: str, code: str, detail: str) -> None:
    if plan == Next.PARK and workspace.intent == "standby":
        services.note_standby_failed(workspace, code, detail)
    elif plan == Next.PARK:
        events.append(workspace, "workspace.standby_failed", SYSTEM, {"reason": code, "detail": detail})
    elif workspace.intent in ("running", "standby"):
        services.note_failure(workspace, code, detail)


def _capture_failed(workspace: Workspace, checkpoint_id: str, code: str, detail: str) -> None:
    """Whatever was to stand on it does not happen: a restore that could not be undone, a fork without a beginning."""
    checkpoints.note_failed(workspace, checkpoint_id, code, detail)
    if is_restoring(workspace) and workspace.safety_checkpoint == checkpoint_id:
        restores.give_up(workspace, "safety_checkpoint_failed", detail or code)
    forks.note_origin_failed(checkpoint_id, code, detail)


def sweep() -> set[str]:
    """Everything that may need a look: what changes, what is due, and where a host says otherwise."""
    return _changing() | machines.restless() | _contradicted() | _silenced() | networks.behind() | approvals.untold()


def _changing() -> set[str]:
    moving = ("creating", "waking", "parking", "stopping", "restoring", "deleting")
    resting = Workspace.objects.filter(intent="running", state__in=("stopped", "standby"))  # its host was drained
    moments = Checkpoint.objects.filter(Q(state=CheckpointState.CAPTURING) | Q(dropped_at__isnull=False))
    due = Workspace.objects.filter(intent="deleted", purge_at__lte=timezone.now())
    return {*Workspace.objects.filter(state__in=moving).values_list("pk", flat=True),
            *resting.values_list("pk", flat=True), *due.values_list("pk", flat=True),
            *moments.values_list("workspace_id", flat=True), *machines.not_yet_drained()} - machines.pausing()


def _silenced() -> set[str]:
    """Those at rest whose host fell silent, or is heard again, and who do not say so yet."""
    found: set[str] = set()
    resting = Workspace.objects.filter(state__in=("running", "standby", "stopped"))
    for host in machines.hosts():
        here = resting.filter(pk__in=machines.machines_on(host))
        told = here.filter(state_reason="host_unreachable")
        found |= set((here.exclude(pk__in=told) if machines.is_silent(host) else told).values_list("pk", flat=True))
    return found


def _contradicted() -> set[str]:
    found: set[str] = set()
    for host in machines.hosts():
        try:
            found |= machines.look_at(host)
        except SandboxError as error:
            logger.warning("host %s: %s", host.name, error)
    return found
