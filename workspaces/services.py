"""The only writers of intent. Called by the API, the gateway, consumers and commands; each command is one
transaction: the intent, its event and, after commit, the bell for reconcile.

Every function takes the actor, asks `selectors`-checked rows only, and answers with the row; `Changed.answer` says
whether something was asked for or was already so. Raises Problem. Never talks to a host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from sandboxes import machines
from sandboxes.lifecycle import Phase
from workspaces import events, networks, nudges, policies, quota, tally
from workspaces import wake as bell
from workspaces.actors import SYSTEM, Actor
from workspaces.announce import announce
from workspaces.api.errors import Problem
from workspaces.facts import gather, is_restoring
from workspaces.models import Checkpoint, CheckpointState, User, Workspace
from workspaces.state import Answer, Command, permit

TOUCH_EVERY = timedelta(seconds=10)
#: What a change of intent writes.
INTENT_FIELDS = ("intent", "generation", "body_generation", "cause", "purge_at", "failed_reason", "failed_detail",
                 "may_begin_anew", "wanted_head", "restore_seq", "restore_done", "safety_checkpoint", "before_restore")
#: What may be changed at any time, and what only while nothing runs.
LIVE_FIELDS = frozenset({"name", "labels", "env", "idle", "network", "secrets"})
REST_FIELDS = frozenset({"cpus", "memory_mib", "disk_gib", "gpu"})


def create(actor: Actor, fields: Mapping[str, Any]) -> Workspace:
    """A new workspace that wants to run. Raises Problem: name_taken, quota_exceeded."""
    policies.check_idle(User.objects.get(pk=actor.person), fields.get("idle") or {})
    return create_all(actor, [fields], "created")[0]


def create_all(actor: Actor, wanted: Sequence[Mapping[str, Any]], cause: str,
               said: Mapping[str, Any] | None = None) -> list[Workspace]:
    """Several at once, all of them or none: one lock, one count. Raises Problem: name_taken, quota_exceeded."""
    with transaction.atomic():
        owner = quota.lock(actor.person)
        terms = policies.effective(owner)
        made = [Workspace(owner=owner, cause=cause, last_activity_at=timezone.now(), last_activity_kind="create",
                          **fields) for fields in wanted]
        quota.check(owner, quota.total(quota.place_and_power(workspace) for workspace in made), terms)
        for workspace in made:
            networks.begin(workspace, policies.values(terms))
            save_named(workspace, force_insert=True)
            events.append(workspace, "workspace.creating", actor, {"name": workspace.name, **(said or {})})
            ring(workspace)
    return made


def start(actor: Actor, workspace: Workspace) -> tuple[Workspace, Answer]:
    return _want_running(actor, workspace, Command.START, "start")


def restart(actor: Actor, workspace: Workspace) -> tuple[Workspace, Answer]:
    """A new body over the same disk, whatever runs now."""
    return _want_running(actor, workspace, Command.RESTART, "restart")


def wake(workspace: Workspace, actor: Actor, cause: str) -> Workspace:
    """The start that a call asks for without saying so (`cause`: exec, file, terminal, …). Raises Problem
    state_conflict (deleted, failed) or quota_exceeded."""
    return _want_running(actor, workspace, Command.WAKE, f"woken by {cause}")[0]


def stop(actor: Actor, workspace: Workspace, *, cause: str = "") -> tuple[Workspace, Answer]:
    """Its disk stays; memory, of a running or of a sleeping one, does not. `cause` names a rule that decided it;
    without one it is the actor's own wish."""
    with transaction.atomic():
        row = locked(workspace)
        answer = permitted(row, Command.STOP)
        if answer is Answer.ACCEPTED:
            row.failed_reason, row.failed_detail = "", ""
            set_intent(row, "stopped", actor, cause or f"stopped by {actor.name}")
    return row, answer


def standby(actor: Actor, workspace: Workspace, *, cause: str = "") -> tuple[Workspace, Answer]:
    """To rest with its memory. Raises Problem state_conflict: stopped, failed, deleted, no_memory_images."""
    with transaction.atomic():
        row = locked(workspace)
        answer = permitted(row, Command.STANDBY)
        if answer is Answer.ACCEPTED:
            set_intent(row, "standby", actor, cause or f"standby by {actor.name}")
    return row, answer


def put_to_rest(actor: Actor, workspace: Workspace, *, cause: str, memory: bool = True) -> tuple[Workspace, Answer]:
    """What the idle rule asks for: with memory where its host keeps memory, else without."""
    keeps = memory and machines.believed(workspace.pk, workspace.generation).can_park
    return (standby if keeps else stop)(actor, workspace, cause=cause)


def delete(actor: Actor, workspace: Workspace, *, purge: bool = False, cause: str = "") -> tuple[Workspace, Answer]:
    """Into the trash, in every state; the name is free at once. `purge` ends the time of grace now."""
    with transaction.atomic():
        row = locked(workspace)
        answer = permitted(row, Command.DELETE)
        now = timezone.now()
        if answer is Answer.ACCEPTED:
            row.purge_at = now if purge else policies.purge_at(row.owner, now)
            _let_go(row)
            set_intent(row, "deleted", actor, cause or f"deleted by {actor.name}")
        elif purge and (row.purge_at is None or row.purge_at > now):
            answer, row.purge_at = Answer.ACCEPTED, now
            set_intent(row, "deleted", actor, f"deleted by {actor.name}")
    return row, answer


def undelete(actor: Actor, workspace: Workspace) -> tuple[Workspace, Answer]:
    """Out of the trash, asleep as it lies there. Raises Problem: name_taken, quota_exceeded, state_conflict once
    purging began."""
    with transaction.atomic():
        owner = quota.lock(workspace.owner_id)
        row = locked(workspace)
        answer = permitted(row, Command.UNDELETE)
        if answer is Answer.ACCEPTED:
            if row.purge_at is not None and row.purge_at <= timezone.now():
                raise Problem("state_conflict", "It is being purged.", reason="purging")
            quota.check(owner, quota.place(row))
            row.purge_at, row.failed_reason, row.failed_detail = None, "", ""
            asleep = machines.believed(row.pk, row.generation).phase is Phase.PARKED
            set_intent(row, "standby" if asleep else "stopped", actor, f"undeleted by {actor.name}")
    return row, answer


def patch(actor: Actor, workspace: Workspace, fields: Mapping[str, Any]) -> Workspace:
    """Changes what it is, not what is wanted of it. Raises Problem: name_taken, state_conflict, invalid."""
    with transaction.atomic():
        owner = quota.lock(workspace.owner_id)
        row = locked(workspace)
        changed = {k: v for k, v in fields.items() if getattr(row, k) != v}
        _check_patch(row, owner, changed)
        policies.check_idle(owner, changed.get("idle") or {})
        quota.check(owner, quota.growth(row, changed))
        if "network" in changed:
            networks.change(actor, row, changed.pop("network"), field="network")
        for key, value in changed.items():
            setattr(row, key, value)
        if changed:
            save_named(row, update_fields=sorted(changed))
            # The values of env stay out of events: they may be secrets.
            events.append(row, "workspace.changed", actor, {"fields": sorted(changed)})
    return row


def touch(workspace_id: str, kind: str) -> None:
    """Notes activity (`exec`, `terminal`, `file`, `preview`, …), at most once in ten seconds per workspace. A stamp
    from the future was made before the clock went back: it is no reason to miss what happens now."""
    now = timezone.now()
    Workspace.objects.filter(pk=workspace_id).filter(
        Q(last_activity_at=None) | Q(last_activity_at__lt=now - TOUCH_EVERY) | Q(last_activity_at__gt=now + TOUCH_EVERY)
    ).update(last_activity_at=now, last_activity_kind=kind[:20])


def note_failure(workspace: Workspace, reason: str, detail: str = "") -> None:
    """The body died, or a plan gave up: the intent stays, the reason is named, `start` is the way out."""
    workspace.failed_reason, workspace.failed_detail = reason[:60], detail[:500]
    workspace.save(update_fields=["failed_reason", "failed_detail"])


def note_power_off(workspace: Workspace) -> None:
    """The guest switched itself off, which is a stop that came from inside."""
    set_intent(workspace, "stopped", SYSTEM, "powered off from inside")


def note_begun_anew(workspace: Workspace) -> None:
    """A lost disk was made anew, as a person had said; the next loss is a loss again."""
    workspace.may_begin_anew = False
    workspace.save(update_fields=["may_begin_anew"])


def note_memory_lost(workspace: Workspace, end_reason: str) -> None:
    """It was to sleep with its memory and there is none: its disk is safe, so it is stopped, and says why."""
    set_intent(workspace, "stopped", SYSTEM, f"its memory was not kept: {end_reason or 'no body was left'}")


def note_standby_failed(workspace: Workspace, reason: str, detail: str) -> None:
    """It runs on as if nobody had asked; whoever asked may ask again."""
    tally.note_rest_failed(workspace.pk, reason, timezone.now())
    set_intent(workspace, "running", SYSTEM, f"standby failed: {reason}")
    events.append(workspace, "workspace.standby_failed", SYSTEM, {"reason": reason, "detail": detail})


def _want_running(actor: Actor, workspace: Workspace, command: Command, word: str) -> tuple[Workspace, Answer]:
    with transaction.atomic():
        owner = quota.lock(workspace.owner_id)
        row = locked(workspace)
        answer = permitted(row, command)
        if answer is Answer.ACCEPTED:
            if not owner.is_active:
                raise Problem("state_conflict", "Its owner is suspended.", reason="owner_suspended")
            if not quota.counts_power(row):
                quota.check(owner, quota.power(row))
            slept = row.intent == "standby" and not row.failed_reason
            # Only a person's start says that a lost disk may be made anew.
            row.may_begin_anew = row.failed_reason == "disk_lost" and command is not Command.WAKE
            row.failed_reason, row.failed_detail = "", ""
            said = f"{word} from {actor.type} {actor.name}" if command is Command.WAKE else f"{word} by {actor.name}"
            set_intent(row, "running", actor, said, new_body=command is Command.RESTART or not slept)
    return row, answer


def _let_go(row: Workspace) -> None:
    """What was still to be done of its moments is not done any more."""
    row.restore_done = row.restore_seq
    for checkpoint in Checkpoint.objects.filter(workspace=row, state=CheckpointState.CAPTURING):
        checkpoint.state, checkpoint.state_reason = CheckpointState.FAILED, "deleted"
        checkpoint.save(update_fields=["state", "state_reason"])
        events.append(row, "checkpoint.failed", SYSTEM, {"checkpoint": checkpoint.pk, "reason": "deleted"})


def locked(workspace: Workspace) -> Workspace:
    """The row as it is now, ours until commit. Raises Problem not_found when it was purged meanwhile."""
    row = Workspace.objects.select_for_update().filter(pk=workspace.pk).first()
    if row is None:
        raise Problem("not_found", "There is no such workspace.")
    return row


def permitted(row: Workspace, command: Command) -> Answer:
    """Raises Problem state_conflict with the reason. Only standby looks at what its host can."""
    can_park = command is not Command.STANDBY or machines.believed(row.pk, row.generation).can_park
    said = permit(row.intent, row.failed_reason, command, can_park=can_park, restoring=is_restoring(row))
    if said.answer is Answer.REFUSED:
        raise Problem("state_conflict", f"{command.value}: {said.reason.replace('_', ' ')}.", reason=said.reason)
    return said.answer


def set_intent(row: Workspace, intent: str, actor: Actor, cause: str, *, new_body: bool = False,
               said: Mapping[str, Any] | None = None) -> None:
    """The one place where an intent changes: with it the generation, the event and the bell. `new_body`: what runs
    or sleeps now is not what is wanted."""
    row.intent, row.cause = intent, cause[:60]
    row.generation += 1
    row.body_generation = row.generation if new_body else row.body_generation
    save_named(row, update_fields=[*INTENT_FIELDS])
    announce(row, gather(row), actor, cause, said)
    ring(row)


def save_named(row: Workspace, **how: Any) -> None:
    try:
        with transaction.atomic():
            row.save(**how)
    except IntegrityError as error:
        raise Problem("name_taken", f"You have another workspace named {row.name!r}.") from error


def _check_patch(row: Workspace, owner: User, changed: Mapping[str, Any]) -> None:
    if row.intent == "deleted" and changed:
        raise Problem("state_conflict", "It is in the trash; undelete it first.", reason="deleted")
    if REST_FIELDS & changed.keys() and row.state != "stopped":
        raise Problem("state_conflict", "Stop it first: a running machine keeps its shape.", reason="not_stopped")
    if changed.get("disk_gib", row.disk_gib) < row.disk_gib:
        raise Problem("invalid", "A disk only grows.", errors={"disk_gib": ["A disk only grows."]})


def ring(row: Workspace) -> None:
    bell.after_commit(row.pk)
    nudges.workspace_changed(row.pk, row.event_seq, row.owner_id)
