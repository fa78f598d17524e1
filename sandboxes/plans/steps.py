"""The steps that plans are made of. Called by the runner alone; calls hostd through the context's link.

A step asks whether it is needed, acts, verifies, and can be taken back. Acting only *starts* something, under an
operation id that stays the same until the try failed, so each call may be repeated by whoever comes next.

    needed? ──no──▶ (skipped)      act ──▶ verify: True done │ False not yet │ raises: this try failed
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

from django.db import transaction
from django.utils import timezone

from sandboxes import errors, placement
from sandboxes.hostlink import HostLink, error_from_json, link_to
from sandboxes.lifecycle import OperationKind, OperationState, Phase
from sandboxes.models import Host, Sandbox
from sandboxes.plans.lease import Grant, hold
from sandboxes.spec import MachineSpec

HEARD_WITHIN = timedelta(seconds=60)
SHUTDOWN_GRACE_S = 10.0
#: After this many failed tries a clean shutdown becomes a kill.
GENTLE_TRIES = 2


@dataclass
class Context:
    """What a slice of a plan knows. Until `wait_until` (monotonic) it may long-poll hostd."""

    spec: MachineSpec
    sandbox: Sandbox
    grant: Grant
    tries: int = 0
    wait_until: float = 0.0
    stage: str = ""
    #: What hostd said last within this slice; empty once something was started since.
    observed: dict[str, Any] = field(default_factory=dict)
    #: It did not answer a moment ago, within this slice: not asked again, so that no worker waits twice.
    unreachable: bool = False

    @property
    def machine_id(self) -> str:
        return self.spec.machine_id

    @property
    def link(self) -> HostLink:
        if self.sandbox.host is None:
            raise errors.NoCapacity("the machine has no host yet")
        if self.unreachable:
            raise errors.HostUnreachable(f"{self.sandbox.host.name} does not answer")
        return link_to(self.sandbox.host.address)

    def write(self, **fields: Any) -> None:
        """Writes the sandbox's row (never its phase) if the lease is still ours. Raises LeaseLost."""
        with transaction.atomic():
            hold(self.grant)
            for name, value in fields.items():
                setattr(self.sandbox, name, value)
            self.sandbox.save(update_fields=list(fields))

    def phase(self) -> Phase:
        """Asks hostd, not the row; once between two acts."""
        if not self.observed:
            self.observed = self.link.observe(self.machine_id)
        return Phase(self.observed["phase"])


class Step(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def rows_only(self) -> bool:
        """It touches no host: noted, done and verified within one write."""

    def needed(self, ctx: Context) -> bool: ...

    def act(self, ctx: Context, operation_id: str) -> None: ...

    def verify(self, ctx: Context, operation_id: str) -> bool: ...

    def undo(self, ctx: Context, operation_id: str) -> None: ...

    def undone(self, ctx: Context, operation_id: str) -> bool: ...


def _settled(ctx: Context, operation_id: str, goal: frozenset[Phase]) -> bool:
    """Looks at an operation, waiting for its end as long as the slice may. Done means the phase says so, too."""
    wait_s = max(0.0, ctx.wait_until - time.monotonic())
    seen = ctx.link.operation(ctx.machine_id, operation_id, wait_s=wait_s)
    ctx.stage = str(seen.get("stage") or "")[:40]
    ctx.observed = {}
    if seen["state"] == OperationState.RUNNING:
        return False
    if seen["state"] == OperationState.FAILED:
        raise error_from_json(seen.get("error"))
    phase = ctx.phase()
    if phase not in goal:
        raise errors.StepFailed(f"hostd says done, but the machine is {phase.value}")
    return True


class PlaceStep:
    """Chooses the host. A row only, so it acts within one write and is done at once."""

    name = "place"
    rows_only = True

    def needed(self, ctx: Context) -> bool:
        return ctx.sandbox.host_id is None

    def act(self, ctx: Context, operation_id: str) -> None:
        chosen = placement.choose([_facts(h) for h in Host.objects.all()], ctx.spec.shape, ctx.spec.image)
        ctx.write(host=Host.objects.get(pk=chosen))

    def verify(self, ctx: Context, operation_id: str) -> bool:
        return ctx.sandbox.host_id is not None

    def undo(self, ctx: Context, operation_id: str) -> None:
        ctx.write(host=None)

    def undone(self, ctx: Context, operation_id: str) -> bool:
        return ctx.sandbox.host_id is None


def _facts(host: Host) -> placement.HostFacts:
    memory = int(host.capacity.get("memory_mib", 0)) - int(host.capacity.get("used", {}).get("memory_mib", 0))
    seen = host.last_seen_at is not None and host.last_seen_at > timezone.now() - HEARD_WITHIN
    seen = seen or (host.schedulable and _answers(host))
    return placement.HostFacts(
        host_id=host.pk, schedulable=host.schedulable and not host.draining, heard_of_lately=seen,
        max_cpus=int(host.capabilities.get("max_cpus", 1)), free_memory_mib=memory, images=frozenset(host.images))


def _answers(host: Host) -> bool:
    """The sweep keeps `last_seen_at` fresh; where it does not run, the host is asked."""
    try:
        return bool(link_to(host.address).host())
    except errors.SandboxError:
        return False


@dataclass(frozen=True)
class OperationStep:
    """A step that is one operation of hostd, and whose undo is another (or nothing)."""

    name: str
    kind: OperationKind
    #: Not needed in these phases, and verified by them.
    goal: frozenset[Phase]
    undo_kind: OperationKind | None = None
    undo_goal: frozenset[Phase] = frozenset()
    rows_only: bool = False

    def needed(self, ctx: Context) -> bool:
        return ctx.phase() not in self.goal

    def act(self, ctx: Context, operation_id: str) -> None:
        if self.kind is OperationKind.BOOT:
            self._claim_body(ctx)
        self._start(ctx, operation_id, self._kind_now(ctx))

    def verify(self, ctx: Context, operation_id: str) -> bool:
        return _settled(ctx, operation_id, self.goal)

    def undo(self, ctx: Context, operation_id: str) -> None:
        if self.undo_kind is not None:
            self._start(ctx, operation_id, self.undo_kind)

    def undone(self, ctx: Context, operation_id: str) -> bool:
        return self.undo_kind is None or _settled(ctx, operation_id, self.undo_goal)

    def _kind_now(self, ctx: Context) -> OperationKind:
        gives_up_politeness = self.kind is OperationKind.SHUTDOWN and ctx.tries >= GENTLE_TRIES
        return OperationKind.KILL if gives_up_politeness else self.kind

    def _claim_body(self, ctx: Context) -> None:
        """Noted before the boot is asked for, while nothing runs: whatever body is seen later is of this
        generation or a newer one, even if this worker dies now."""
        if ctx.sandbox.booted_generation != ctx.spec.generation:
            ctx.write(booted_generation=ctx.spec.generation)

    def _start(self, ctx: Context, operation_id: str, kind: OperationKind) -> None:
        ctx.observed = {}
        needs_spec = kind in (OperationKind.CREATE_DISK, OperationKind.BOOT)
        ctx.link.start_operation(
            ctx.machine_id, operation_id, kind, ctx.spec.generation,
            spec=ctx.spec.to_json() if needs_spec else None,
            grace_s=SHUTDOWN_GRACE_S if kind is OperationKind.SHUTDOWN else None)


HAS_DISK = frozenset(Phase) - {Phase.ABSENT, Phase.DESTROYED}
AT_REST = frozenset({Phase.STOPPED, Phase.DEAD, Phase.ABSENT, Phase.DESTROYED})
NOTHING_LEFT = frozenset({Phase.ABSENT, Phase.DESTROYED})

PLACE = PlaceStep()
CREATE_DISK = OperationStep("disk", OperationKind.CREATE_DISK, HAS_DISK, OperationKind.DESTROY, NOTHING_LEFT)
BOOT = OperationStep("boot", OperationKind.BOOT, frozenset({Phase.RUNNING}), OperationKind.KILL, AT_REST)
SHUTDOWN = OperationStep("shutdown", OperationKind.SHUTDOWN, AT_REST)
KILL = OperationStep("kill", OperationKind.KILL, AT_REST)


class DestroyStep(OperationStep):
    """Needed wherever there is a host, even if it says `absent`: that also makes it refuse older generations."""

    def needed(self, ctx: Context) -> bool:
        return ctx.sandbox.host_id is not None


DESTROY = DestroyStep("destroy", OperationKind.DESTROY, NOTHING_LEFT)
