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
from sandboxes.plans.network import UNTOLD, Network
from sandboxes.plans.subject import NOTHING, Subject
from sandboxes.spec import MachineSpec

HEARD_WITHIN = timedelta(seconds=60)
SHUTDOWN_GRACE_S = 10.0
#: How long a guest may take to freeze before its machine is put to rest as it is.
QUIESCE_GRACE_S = 10.0
#: After this many failed tries a clean shutdown becomes a kill.
GENTLE_TRIES = 2


@dataclass
class Context:
    """What a slice of a plan knows. Until `wait_until` (monotonic) it may long-poll hostd."""

    spec: MachineSpec
    sandbox: Sandbox
    grant: Grant
    subject: Subject = NOTHING
    network: Network = UNTOLD
    tries: int = 0
    wait_until: float = 0.0
    stage: str = ""
    #: What hostd said last within this slice; empty once something was started since.
    observed: dict[str, Any] = field(default_factory=dict)
    #: What hostd said of the operation that was verified last.
    result: dict[str, Any] = field(default_factory=dict)
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

    def quiet(self) -> bool:
        """Whether hostd is at nothing here, by the last look."""
        operation = self.observed.get("operation") or {}
        return operation.get("state") != OperationState.RUNNING


class Step(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def rows_only(self) -> bool:
        """It touches no host: noted, done and verified within one write."""

    def needed(self, ctx: Context) -> bool: ...

    def claim(self, ctx: Context) -> None:
        """Called within the transaction that notes what is about to be done."""

    def act(self, ctx: Context, operation_id: str) -> None: ...

    def verify(self, ctx: Context, operation_id: str) -> bool: ...

    def note(self, ctx: Context) -> None:
        """Called within the transaction that marks the step as done."""

    def undo(self, ctx: Context, operation_id: str) -> None: ...

    def undone(self, ctx: Context, operation_id: str) -> bool: ...


def _settled(ctx: Context, operation_id: str, goal: frozenset[Phase]) -> bool:
    """Looks at an operation, waiting for its end as long as the slice may. Done means the phase says so, too."""
    wait_s = max(0.0, ctx.wait_until - time.monotonic())
    seen = ctx.link.operation(ctx.machine_id, operation_id, wait_s=wait_s)
    ctx.stage = str(seen.get("stage") or "")[:40]
    ctx.observed = dict(seen.get("machine") or {})
    if seen["state"] == OperationState.RUNNING:
        return False
    if seen["state"] == OperationState.FAILED:
        raise error_from_json(seen.get("error"))
    phase = ctx.phase()
    if phase not in goal:
        raise errors.StepFailed(f"hostd says done, but the machine is {phase.value}")
    ctx.result = dict(seen.get("result") or {})
    return True


class PlaceStep:
    """Chooses the host. A row only, so it acts within one write and is done at once."""

    name = "place"
    rows_only = True

    def needed(self, ctx: Context) -> bool:
        return ctx.sandbox.host_id is None

    def claim(self, ctx: Context) -> None:
        """It is noted and done at once."""

    def act(self, ctx: Context, operation_id: str) -> None:
        ctx.write(host=Host.objects.get(pk=_chosen(ctx)))

    def verify(self, ctx: Context, operation_id: str) -> bool:
        return ctx.sandbox.host_id is not None

    def note(self, ctx: Context) -> None:
        """The row was all there was to write."""

    def undo(self, ctx: Context, operation_id: str) -> None:
        ctx.write(host=None)

    def undone(self, ctx: Context, operation_id: str) -> bool:
        return ctx.sandbox.host_id is None


class NetworkStep:
    """Tells the host what the machine may reach, before a body exists: no boot runs ahead of its policy. Nothing is to
    be taken back, because a document alone does nothing, and the next is a newer one."""

    name = "network"
    rows_only = False

    def needed(self, ctx: Context) -> bool:
        if not ctx.network.revision or not lets_out(ctx.sandbox.host):
            return False
        ctx.phase()
        return int(ctx.observed.get("network_revision", 0)) < ctx.network.revision

    def claim(self, ctx: Context) -> None:
        """A document that was sent and not noted is sent again."""

    def act(self, ctx: Context, operation_id: str) -> None:
        ctx.phase()
        ctx.observed["network_revision"] = ctx.link.put_network(ctx.machine_id, ctx.network.document)

    def verify(self, ctx: Context, operation_id: str) -> bool:
        return int(ctx.observed["network_revision"]) >= ctx.network.revision

    def note(self, ctx: Context) -> None:
        """The runner writes what was observed."""

    def undo(self, ctx: Context, operation_id: str) -> None:
        """See above."""

    def undone(self, ctx: Context, operation_id: str) -> bool:
        return True


def lets_out(host: Host | None) -> bool:
    """Whether machines of this host can reach anything at all. One that cannot keeps no documents."""
    return host is not None and bool(host.capabilities.get("egress"))


def _chosen(ctx: Context) -> str:
    """Any host that fits; for a clone the one that has what it is made of."""
    everyone = [_facts(h) for h in Host.objects.all() if lets_out(h) or not ctx.network.reaches_out]
    if not ctx.subject.source_machine:
        return placement.choose(everyone, ctx.spec.shape, ctx.spec.image)
    source = Sandbox.objects.filter(pk=ctx.subject.source_machine).first()
    if source is None or source.host_id is None:
        raise errors.NotFound("the machine that had the checkpoint is gone")
    return placement.beside(everyone, source.host_id, ctx.spec.shape, ctx.spec.image)


def _facts(host: Host) -> placement.HostFacts:
    memory = int(host.capacity.get("memory_mib", 0)) - int(host.capacity.get("used", {}).get("memory_mib", 0))
    seen = host.last_seen_at is not None and host.last_seen_at > timezone.now() - HEARD_WITHIN
    seen = seen or (host.schedulable and _answers(host))
    return placement.HostFacts(
        host_id=host.pk, schedulable=host.schedulable and not host.draining, heard_of_lately=seen,
        max_cpus=int(host.capabilities.get("max_cpus", 1)), free_memory_mib=memory, images=frozenset(host.images))


def _fields(ctx: Context, kind: OperationKind) -> dict[str, Any]:
    """What an operation is told besides its id, kind and generation."""
    subject = ctx.subject
    if kind in (OperationKind.CREATE_DISK, OperationKind.BOOT):
        return {"spec": ctx.spec.to_json()}
    if kind is OperationKind.CLONE:
        source = {"machine_id": subject.source_machine, "checkpoint_id": subject.checkpoint_id}
        return {"spec": ctx.spec.to_json(), "source": source, "memory": subject.memory}
    if kind is OperationKind.CAPTURE:
        return {"checkpoint_id": subject.checkpoint_id, "memory": subject.memory}
    if kind is OperationKind.ROLLBACK:
        then = {"boot": True, "spec": ctx.spec.to_json()} if subject.run else {}
        return {"checkpoint_id": subject.checkpoint_id, "memory": subject.memory, **then}
    others: dict[OperationKind, dict[str, Any]] = {
        OperationKind.DROP: {"checkpoint_id": subject.checkpoint_id},
        OperationKind.SHUTDOWN: {"grace_s": SHUTDOWN_GRACE_S}, OperationKind.PARK: {"grace_s": QUIESCE_GRACE_S}}
    return others.get(kind, {})


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

    def claim(self, ctx: Context) -> None:
        if self.kind is OperationKind.BOOT:
            _claim_body(ctx)

    def act(self, ctx: Context, operation_id: str) -> None:
        self._start(ctx, operation_id, self._kind_now(ctx))

    def verify(self, ctx: Context, operation_id: str) -> bool:
        return _settled(ctx, operation_id, self.goal)

    def note(self, ctx: Context) -> None:
        """The phase is written by the runner; there is nothing else to say."""

    def undo(self, ctx: Context, operation_id: str) -> None:
        if not self._needs_no_undo(ctx):
            assert self.undo_kind is not None
            self._start(ctx, operation_id, self.undo_kind)

    def undone(self, ctx: Context, operation_id: str) -> bool:
        """Without an undo of its own it is taken back once hostd is at nothing any more."""
        if self._needs_no_undo(ctx):
            return ctx.quiet()
        return _settled(ctx, operation_id, self.undo_goal)

    def _needs_no_undo(self, ctx: Context) -> bool:
        """There is none, or what it would lead to is so already (a machine that never left its rest keeps the memory
        it rests with)."""
        phase = ctx.phase()
        return self.undo_kind is None or (ctx.quiet() and phase in self.undo_goal and phase not in LEFT_BEHIND)

    def _kind_now(self, ctx: Context) -> OperationKind:
        gives_up_politeness = self.kind is OperationKind.SHUTDOWN and ctx.tries >= GENTLE_TRIES
        return OperationKind.KILL if gives_up_politeness else self.kind

    def _start(self, ctx: Context, operation_id: str, kind: OperationKind) -> None:
        ctx.observed = {}
        ctx.link.start_operation(ctx.machine_id, operation_id, kind, ctx.spec.generation, **_fields(ctx, kind))


def _claim_body(ctx: Context) -> None:
    """Noted before the boot is asked for, while nothing runs: whatever body is seen later is of this generation or
    a newer one, even if this worker dies now."""
    if ctx.sandbox.booted_generation != ctx.spec.generation:
        ctx.write(booted_generation=ctx.spec.generation)


class DestroyStep(OperationStep):
    """Needed wherever there is a host, even if it says `absent`: that also makes it refuse older generations."""

    def needed(self, ctx: Context) -> bool:
        return ctx.sandbox.host_id is not None


class MomentStep(OperationStep):
    """An operation about a checkpoint: needed wherever there is a disk, whatever the phase."""

    def needed(self, ctx: Context) -> bool:
        return ctx.sandbox.host_id is not None and ctx.phase() in HAS_DISK

    def _needs_no_undo(self, ctx: Context) -> bool:
        ctx.phase()
        return self.undo_kind is None


class RewindStep(MomentStep):
    """The memory that a rollback leaves is the present generation's: nothing older than it is there any more. Where it
    is to run, it runs already, or rests and is started as any other."""

    def verify(self, ctx: Context, operation_id: str) -> bool:
        return _settled(ctx, operation_id, self.goal | ({Phase.RUNNING} if ctx.subject.run else set()))

    def note(self, ctx: Context) -> None:
        _claim_body(ctx)


class CloneStep(OperationStep):
    """As a boot, it is claimed before it is asked for: the memory that is seen at rest later, by whoever comes after a
    worker that died, is the one that was wanted."""

    def claim(self, ctx: Context) -> None:
        _claim_body(ctx)


ANY = frozenset(Phase)
HAS_DISK = frozenset(Phase) - {Phase.ABSENT, Phase.DESTROYED}
AT_REST = frozenset({Phase.STOPPED, Phase.PARKED, Phase.DEAD, Phase.ABSENT, Phase.DESTROYED})
NOTHING_LEFT = frozenset({Phase.ABSENT, Phase.DESTROYED})
NO_MEMORY = AT_REST - {Phase.PARKED}
#: At rest, but a kill still has something to take down there: what a dead body left.
LEFT_BEHIND = frozenset({Phase.DEAD})

PLACE = PlaceStep()
NETWORK = NetworkStep()
CREATE_DISK = OperationStep("disk", OperationKind.CREATE_DISK, HAS_DISK, OperationKind.DESTROY, NOTHING_LEFT)
CLONE = CloneStep("clone", OperationKind.CLONE, HAS_DISK, OperationKind.DESTROY, NOTHING_LEFT)
BOOT = OperationStep("boot", OperationKind.BOOT, frozenset({Phase.RUNNING}), OperationKind.KILL, AT_REST)
SHUTDOWN = OperationStep("shutdown", OperationKind.SHUTDOWN, AT_REST)
KILL = OperationStep("kill", OperationKind.KILL, AT_REST)
PARK = OperationStep("park", OperationKind.PARK, frozenset({Phase.PARKED}))
DISCARD = OperationStep("discard", OperationKind.DISCARD_MEMORY, NO_MEMORY)
CAPTURE = MomentStep("capture", OperationKind.CAPTURE, HAS_DISK, OperationKind.DROP, ANY)
ROLLBACK = RewindStep("rollback", OperationKind.ROLLBACK, AT_REST - NOTHING_LEFT)
DROP = MomentStep("drop", OperationKind.DROP, ANY)
DESTROY = DestroyStep("destroy", OperationKind.DESTROY, NOTHING_LEFT)
