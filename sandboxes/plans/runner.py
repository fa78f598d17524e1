"""Runs one slice of one plan: ledger, verification, undo. The only writer of `Sandbox.phase`.

Called by the hatch (`machines`) for whoever holds the machine's lease; calls steps, and through them hostd. Never
knows whose machine it is.

    open run ──▶ step: note in ledger ─▶ act ─▶ verify ──▶ … ──▶ done
                        │ not yet: `waiting`, the next slice goes on from the ledger
                        │ failed: try again later; too often or too late: undo backwards ──▶ failed(code)
    another plan or generation is wanted: the run is superseded at a step boundary (the new plan looks at the truth)

A worker may be killed between any two lines. What it began is in the ledger *before* it acts, under an operation id
that hostd knows again, so that the next slice repeats the call and gets the same operation.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from sandboxes import errors, signals
from sandboxes.lifecycle import Phase
from sandboxes.models import EntryState, LedgerEntry, PlanRun, RunState, Sandbox
from sandboxes.plans.catalog import Plan
from sandboxes.plans.lease import Grant, hold
from sandboxes.plans.steps import Context, Step

logger = logging.getLogger(__name__)

OPEN = (RunState.RUNNING, RunState.UNDOING)
MAX_CRASHES = 8
MAX_UNDO_TRIES = 12
LONGEST_PAUSE_S = 15.0
#: What waiting cannot mend: one try is enough to know.
HOPELESS = frozenset({"disk_full", "invalid", "not_implemented"})
NO_DISK = (Phase.ABSENT.value, Phase.DESTROYED.value)
#: Not a failure of the step: the host is away or occupied. Only the deadline counts.
PATIENT = frozenset({"host_unreachable", "busy"})


@dataclass(frozen=True)
class Progress:
    """What a slice came to: `done`, `waiting` (hostd is at work: go on), `later` (after a pause) or `failed`."""

    state: str
    #: What hostd said of the machine when it was done.
    seen: dict[str, Any] = field(default_factory=dict)


DONE, WAITING, LATER, FAILED = Progress("done"), Progress("waiting"), Progress("later"), Progress("failed")


def advance(plan: Plan, ctx: Context) -> Progress:
    """One slice. Raises LeaseLost when somebody else has taken over."""
    run = _open(plan, ctx)
    if run.next_try_at is not None and run.next_try_at > timezone.now():
        return LATER
    try:
        return _undo(plan, run, ctx) if run.state == RunState.UNDOING else _forward(plan, run, ctx)
    except errors.SandboxError as error:
        return _stumbled(plan, run, ctx, error)


def note_observation(grant: Grant, sandbox: Sandbox, seen: dict[str, Any]) -> None:
    """What hostd says becomes the row."""
    if not _differs(sandbox, seen):
        return
    with transaction.atomic():
        hold(grant)
        _write_phase(sandbox, seen)


def settle(grant: Grant) -> None:
    """Nothing is left to do: a run that is still open reached its goal without its worker seeing it."""
    if not PlanRun.objects.filter(machine_id=grant.machine_id, state__in=OPEN).exists():
        return
    with transaction.atomic():
        hold(grant)
        left = PlanRun.objects.filter(machine_id=grant.machine_id)
        left.filter(state=RunState.RUNNING).update(state=RunState.DONE, ended_at=timezone.now(), error_code="")
        left.filter(state=RunState.UNDOING).update(state=RunState.SUPERSEDED, ended_at=timezone.now())


def _differs(sandbox: Sandbox, seen: dict[str, Any]) -> bool:
    disk = seen.get("disk_used_bytes")
    disk_moved = disk is not None and abs(disk - (sandbox.disk_used_bytes or 0)) > 1024 * 1024
    return bool(disk_moved or sandbox.phase != seen["phase"] or sandbox.end_reason != (seen.get("end_reason") or "")
                or sandbox.operation != _under_way(seen) or sandbox.condition != _condition(seen)
                or sandbox.chain_depth != seen.get("chain_depth")
                or sandbox.checkpoints != (seen.get("checkpoints") or [])
                or sandbox.network_revision != seen.get("network_revision", 0))


def _under_way(seen: dict[str, Any]) -> str:
    """The kind of the operation that hostd is at, or nothing."""
    operation = seen.get("operation") or {}
    return str(operation.get("kind", "")) if operation.get("state") == "running" else ""


def _condition(seen: dict[str, Any]) -> str:
    return str(seen.get("condition") or "")[:40]


def _write_phase(sandbox: Sandbox, seen: dict[str, Any], stage: str = "", *, said: bool = True) -> None:
    """`said`: upstairs hears of it at once; otherwise whoever calls says it later in the same transaction."""
    sandbox.phase = Phase(seen["phase"]).value
    sandbox.end_reason = str(seen.get("end_reason") or "")[:100]
    sandbox.disk_used_bytes = seen.get("disk_used_bytes")
    sandbox.memory_image_bytes, sandbox.chain_depth = seen.get("memory_image_bytes"), seen.get("chain_depth")
    sandbox.operation, sandbox.checkpoints = _under_way(seen), seen.get("checkpoints") or []
    sandbox.had_disk = sandbox.had_disk or sandbox.phase not in NO_DISK
    sandbox.stage, sandbox.condition = stage, _condition(seen)
    sandbox.network_revision = seen.get("network_revision", 0)
    sandbox.observed_at = timezone.now()
    sandbox.save(update_fields=[
        "phase", "end_reason", "disk_used_bytes", "memory_image_bytes", "chain_depth", "operation", "checkpoints",
        "had_disk", "stage", "condition", "network_revision", "observed_at"])
    if said:
        signals.body_changed.send(sender=Sandbox, machine_id=sandbox.machine_id)


def _open(plan: Plan, ctx: Context) -> PlanRun:
    """The open run of this plan and generation (or subject); an open run of anything else is superseded."""
    run = PlanRun.objects.filter(machine_id=ctx.machine_id, state__in=OPEN).first()
    if run is not None and _is_the_same(run, plan, ctx):
        return _noticing_a_crash(plan, run, ctx)
    begins = _begins_with(plan, ctx)
    with transaction.atomic():
        hold(ctx.grant)
        now = timezone.now()
        PlanRun.objects.filter(machine_id=ctx.machine_id, state__in=OPEN).update(
            state=RunState.SUPERSEDED, ended_at=now)
        run = PlanRun.objects.create(
            machine_id=ctx.machine_id, plan=plan.name, subject=ctx.subject.key, generation=ctx.spec.generation,
            deadline_at=None if plan.deadline_s is None else now + timedelta(seconds=plan.deadline_s))
        if begins is not None:
            _note(run, begins, plan.steps[begins], ctx)
    _boundary(ctx, f"{plan.name}:opened")
    return run


def _begins_with(plan: Plan, ctx: Context) -> int | None:
    """The position of the step that comes first, where a look of a moment ago says it: it is noted with its run."""
    if not ctx.observed:
        return None
    first = next((position for position, step in enumerate(plan.steps) if step.needed(ctx)), None)
    return None if first is None or plan.steps[first].rows_only else first


def _is_the_same(run: PlanRun, plan: Plan, ctx: Context) -> bool:
    if (run.plan, run.subject) != (plan.name, ctx.subject.key):
        return False
    return bool(run.subject) or run.generation == ctx.spec.generation


def _noticing_a_crash(plan: Plan, run: PlanRun, ctx: Context) -> PlanRun:
    """A plan that kills its worker each time must stop some day."""
    if not ctx.grant.after_crash or run.state != RunState.RUNNING:
        return run
    run.crashes += 1
    if run.crashes >= MAX_CRASHES and plan.max_tries is not None:
        run.state, run.error_code = RunState.UNDOING, "worker_lost"
        run.error_detail = f"its worker vanished {run.crashes} times"
    _save_run(run, ctx, "crashes", "state", "error_code", "error_detail")
    return run


def _forward(plan: Plan, run: PlanRun, ctx: Context) -> Progress:
    if run.deadline_at is not None and run.deadline_at <= timezone.now():
        return _give_up(plan, run, ctx, run.error_code or "timed_out", run.error_detail or "it took too long")
    ctx.tries = run.tries
    entries = {e.position: e for e in run.entries.all()}
    for position, step in enumerate(plan.steps):
        entry = entries.get(position)
        if entry is not None and entry.state == EntryState.DONE:
            continue
        if entry is None and not step.needed(ctx):
            continue
        if step.rows_only:
            _write_down(run, position, step, ctx)
        elif not _carry_out(run, position, step, entry, ctx, last=position == len(plan.steps) - 1):
            return WAITING
    if run.state != RunState.DONE:
        _close(run, ctx)
    _boundary(ctx, f"{run.plan}:closed")
    return replace(DONE, seen=ctx.observed)


def _write_down(run: PlanRun, position: int, step: Step, ctx: Context) -> None:
    """A step of rows alone is there whole or not at all."""
    with transaction.atomic():
        hold(ctx.grant)
        step.act(ctx, "")
        LedgerEntry.objects.update_or_create(
            run=run, position=position,
            defaults={"step": step.name, "state": EntryState.DONE, "fence": ctx.grant.fence})
    _boundary(ctx, f"{step.name}:done")


def _carry_out(run: PlanRun, position: int, step: Step, entry: LedgerEntry | None, ctx: Context, *, last: bool) -> bool:
    """The last step's end is the plan's: one transaction, so that upstairs looks once."""
    operation_id = _operation_id(run, position)
    entry = _noted(run, position, step, entry, ctx)
    _boundary(ctx, f"{step.name}:noted")
    step.act(ctx, operation_id)
    _boundary(ctx, f"{step.name}:acted")
    if not step.verify(ctx, operation_id):
        _note_stage(run, ctx)
        return False
    _boundary(ctx, f"{step.name}:verified")
    with transaction.atomic():
        hold(ctx.grant)
        LedgerEntry.objects.filter(pk=entry.pk).update(state=EntryState.DONE, result=ctx.result)
        step.note(ctx)
        if ctx.observed:
            _write_phase(ctx.sandbox, ctx.observed, said=not last)
        if last:
            _close(run, ctx)
    _boundary(ctx, f"{step.name}:done")
    return True


def _operation_id(run: PlanRun, position: int) -> str:
    return f"r{run.pk}s{position}t{run.tries}"


def _noted(run: PlanRun, position: int, step: Step, entry: LedgerEntry | None, ctx: Context) -> LedgerEntry:
    if entry is not None and entry.operation_id == _operation_id(run, position):
        return entry
    with transaction.atomic():
        hold(ctx.grant)
        return _note(run, position, step, ctx)


def _note(run: PlanRun, position: int, step: Step, ctx: Context) -> LedgerEntry:
    """Within the caller's transaction."""
    step.claim(ctx)
    return LedgerEntry.objects.update_or_create(
        run=run, position=position,
        defaults={"step": step.name, "state": EntryState.ACTING, "operation_id": _operation_id(run, position),
                  "fence": ctx.grant.fence})[0]


def _note_stage(run: PlanRun, ctx: Context) -> None:
    """Shows where hostd is; a plan that moves again is no longer in trouble."""
    if ctx.sandbox.stage == ctx.stage and not run.error_code:
        return
    with transaction.atomic():
        hold(ctx.grant)
        PlanRun.objects.filter(pk=run.pk).update(error_code="", error_detail="", next_try_at=None)
        Sandbox.objects.filter(pk=ctx.sandbox.pk).update(stage=ctx.stage)
        ctx.sandbox.stage = ctx.stage
        signals.body_changed.send(sender=Sandbox, machine_id=ctx.machine_id)


def _stumbled(plan: Plan, run: PlanRun, ctx: Context, error: errors.SandboxError) -> Progress:
    """A try failed: pause and try again, or give up."""
    logger.info("%s of %s: %s: %s", plan.name, ctx.machine_id, error.code, error.detail)
    if run.state == RunState.UNDOING:
        return _undo_stumbled(run, ctx, error)
    patient = error.code in PATIENT
    run.tries += 0 if patient else 1
    run.error_code, run.error_detail = error.code[:60], error.detail[:500]
    worn_out = plan.max_tries is not None and (run.tries >= plan.max_tries or error.code in HOPELESS)
    late = run.deadline_at is not None and run.deadline_at <= timezone.now()
    if late or (worn_out and not patient):
        return _give_up(plan, run, ctx, error.code, error.detail)
    return _pause(run, ctx, 0.5 if error.code == "busy" else _pause_s(run))


def _pause_s(run: PlanRun) -> float:
    """Doubles with the age of the trouble, so that a host that is away is asked ever less often."""
    age_s = (timezone.now() - run.started_at).total_seconds()
    return max(1.0, min(LONGEST_PAUSE_S, age_s / 2, 2.0 ** min(run.tries + 1, 6) if run.tries else LONGEST_PAUSE_S))


def _pause(run: PlanRun, ctx: Context, pause_s: float) -> Progress:
    run.next_try_at = timezone.now() + timedelta(seconds=pause_s)
    with transaction.atomic():
        hold(ctx.grant)
        run.save(update_fields=["tries", "error_code", "error_detail", "next_try_at"])
        signals.body_changed.send(sender=Sandbox, machine_id=ctx.machine_id)
    return LATER


def _give_up(plan: Plan, run: PlanRun, ctx: Context, code: str, detail: str) -> Progress:
    run.state, run.error_code, run.error_detail = RunState.UNDOING, code[:60], detail[:500]
    run.next_try_at, run.tries = None, 0
    _save_run(run, ctx, "state", "error_code", "error_detail", "next_try_at", "tries")
    _boundary(ctx, f"{plan.name}:gave-up")
    try:
        return _undo(plan, run, ctx)
    except errors.SandboxError as error:
        return _undo_stumbled(run, ctx, error)


def _undo(plan: Plan, run: PlanRun, ctx: Context) -> Progress:
    """Backwards through what the ledger says was begun."""
    for entry in run.entries.exclude(state=EntryState.UNDONE).order_by("-position"):
        step = plan.steps[entry.position]
        operation_id = f"r{run.pk}s{entry.position}u{run.tries}"
        if entry.state != EntryState.UNDOING:
            LedgerEntry.objects.filter(pk=entry.pk).update(state=EntryState.UNDOING)
        step.undo(ctx, operation_id)
        _boundary(ctx, f"{step.name}:undo-acted")
        if not step.undone(ctx, operation_id):
            return WAITING
        _mark_undone(entry, ctx)
        _boundary(ctx, f"{step.name}:undone")
    _fail(run, ctx)
    return FAILED


def _mark_undone(entry: LedgerEntry, ctx: Context) -> None:
    with transaction.atomic():
        hold(ctx.grant)
        LedgerEntry.objects.filter(pk=entry.pk).update(state=EntryState.UNDONE)
        if ctx.observed:
            _write_phase(ctx.sandbox, ctx.observed)
        if ctx.sandbox.phase in NO_DISK and ctx.sandbox.had_disk:  # taken away on purpose, so it is no loss
            Sandbox.objects.filter(pk=ctx.sandbox.pk).update(had_disk=False)
            ctx.sandbox.had_disk = False


def _undo_stumbled(run: PlanRun, ctx: Context, error: errors.SandboxError) -> Progress:
    """The host cannot take it back now. After many tries the run is closed all the same: the next plan looks at the
    truth, and a purge takes everything."""
    run.tries += 1
    if run.tries >= MAX_UNDO_TRIES:
        logger.error("undo of %s for %s was given up: %s", run.plan, run.machine_id, error)
        _fail(run, ctx)
        return FAILED
    run.next_try_at = timezone.now() + timedelta(seconds=min(LONGEST_PAUSE_S, 2.0 ** (run.tries - 1)))
    _save_run(run, ctx, "tries", "next_try_at")
    return LATER


def _fail(run: PlanRun, ctx: Context) -> None:
    """Closed, and said upstairs, in one transaction: a failure is never half known."""
    with transaction.atomic():
        hold(ctx.grant)
        run.state, run.ended_at = RunState.FAILED, timezone.now()
        run.save(update_fields=["state", "ended_at"])
        signals.plan_failed.send(sender=PlanRun, machine_id=run.machine_id, generation=run.generation, plan=run.plan,
                                 subject=run.subject, code=run.error_code, detail=run.error_detail)


def _close(run: PlanRun, ctx: Context) -> None:
    with transaction.atomic():
        hold(ctx.grant)
        run.state, run.ended_at, run.error_code, run.next_try_at = RunState.DONE, timezone.now(), "", None
        run.save(update_fields=["state", "ended_at", "error_code", "next_try_at"])
        signals.plan_done.send(sender=PlanRun, machine_id=run.machine_id, generation=run.generation,
                               plan=run.plan, subject=run.subject, result=_result_of(run))
        signals.body_changed.send(sender=Sandbox, machine_id=ctx.machine_id)


def _result_of(run: PlanRun) -> dict[str, Any]:
    """What its operations said, the later over the earlier. From the ledger, so that no worker's death loses it."""
    return {name: value for said in run.entries.values_list("result", flat=True) for name, value in said.items()}


def _save_run(run: PlanRun, ctx: Context, *fields: str) -> None:
    with transaction.atomic():
        hold(ctx.grant)
        run.save(update_fields=list(fields))


def _boundary(ctx: Context, name: str) -> None:
    signals.boundary.send(sender=PlanRun, machine_id=ctx.machine_id, name=name)
