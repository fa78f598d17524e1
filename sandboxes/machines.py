"""THE HATCH between the floors: the only way upstairs reaches a machine. Called by workspaces' reconcile, facts,
courier and commands; calls plans and hostlink. Takes specs and ids, never a person.

    believe (rows, free)   observe (asks hostd)   carry out (one slice of a plan, under a lease)   forget
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from sandboxes import errors
from sandboxes.hostlink import HostLink, link_to
from sandboxes.lifecycle import OperationKind, Phase
from sandboxes.models import Host, Lease, PlanRun, RunState, Sandbox
from sandboxes.plans import lease, runner
from sandboxes.plans.catalog import PLANS
from sandboxes.plans.lease import Grant, LeaseLost
from sandboxes.plans.network import UNTOLD, Network
from sandboxes.plans.runner import Progress
from sandboxes.plans.steps import Context, lets_out
from sandboxes.plans.subject import NOTHING, Subject
from sandboxes.spec import MachineSpec

__all__ = ["Belief", "Grant", "LeaseLost", "Look", "Network", "Progress", "Subject", "believed", "carry_out", "forget",
           "link", "observe", "register_host", "release", "restless", "take"]

logger = logging.getLogger(__name__)

take, release = lease.take, lease.release
SEEN_EVERY = timedelta(seconds=10)
#: A host that has said nothing for so long is called silent. It may be well, and so may what runs there.
SILENT_AFTER = timedelta(seconds=60)
#: A body that no row names for so long is ended. Its disk stays until an admin says otherwise: a database that was
#: put back from yesterday knows nothing of what was made today.
STRAY_GRACE = timedelta(minutes=5)
LIVE_PHASES = [Phase.STARTING.value, Phase.RUNNING.value, Phase.STOPPING.value]


@dataclass(frozen=True)
class Belief:
    """What the rows say of a machine."""

    exists: bool = False
    phase: Phase = Phase.ABSENT
    booted_generation: int = 0
    end_reason: str = ""
    stage: str = ""
    disk_used_bytes: int | None = None
    host: str | None = None
    accelerator: str | None = None
    open_plan: str = ""
    trouble: str = ""
    host_open: bool = True
    host_silent: bool = False
    under_way: str = ""
    condition: str = ""
    had_disk: bool = False
    can_park: bool = True           # nobody knows better while no host was chosen
    park_failed: bool = False
    chain_depth: int = 0
    checkpoints: tuple[dict[str, Any], ...] = ()
    #: Whether its host lets machines out at all; nobody knows better while no host was chosen.
    lets_out: bool | None = None
    network_revision: int = 0


def believed(machine_id: str, generation: int) -> Belief:
    """Rows only. An open plan of an older generation counts for nothing, unless it is about a checkpoint."""
    run = (PlanRun.objects.filter(machine_id=machine_id, state__in=runner.OPEN)
           .filter(Q(generation=generation) | ~Q(subject="")).first())
    plan, trouble = (run.plan, run.error_code) if run is not None else ("", "")
    row = Sandbox.objects.select_related("host").filter(pk=machine_id).first()
    if row is None:
        return Belief(open_plan=plan, trouble=trouble)
    return _belief(row, row.host, plan, trouble, generation)


def _belief(row: Sandbox, host: Host | None, plan: str, trouble: str, generation: int) -> Belief:
    known = Belief(
        exists=True, phase=Phase(row.phase), booted_generation=row.booted_generation, end_reason=row.end_reason,
        stage=row.stage, disk_used_bytes=row.disk_used_bytes, open_plan=plan, trouble=trouble,
        under_way=row.operation, condition=row.condition, had_disk=row.had_disk, chain_depth=row.chain_depth or 0,
        checkpoints=tuple(row.checkpoints), network_revision=row.network_revision)
    if host is None:
        return known
    return replace(
        known, host=host.pk, accelerator=host.capabilities.get("accelerator"), host_open=not host.draining,
        can_park=bool(host.capabilities.get("memory_images")), host_silent=is_silent(host),
        lets_out=lets_out(host),
        park_failed=host.draining and _has_failed("park", row.pk, generation))


def _has_failed(plan: str, machine_id: str, generation: int) -> bool:
    return PlanRun.objects.filter(machine_id=machine_id, plan=plan, generation=generation,
                                  state=RunState.FAILED).exists()


def bodies(machine_ids: list[str]) -> dict[str, Sandbox]:
    """Rows of many machines at once, for lists."""
    return Sandbox.objects.select_related("host").in_bulk(machine_ids)


@dataclass(frozen=True)
class Look:
    """What came of asking hostd: its answer, empty where there was nobody to ask or nobody answered."""

    seen: dict[str, Any]
    unreachable: bool = False


def observe(grant: Grant) -> Look:
    """Asks hostd and writes what it says. Raises LeaseLost."""
    row = Sandbox.objects.select_related("host").filter(pk=grant.machine_id).first()
    if row is None or row.host is None:
        return Look({})
    try:
        seen = link_to(row.host.address).observe(grant.machine_id)
    except errors.HostUnreachable:
        return Look({}, unreachable=True)
    runner.note_observation(grant, row, seen)
    return Look(seen)


def carry_out(plan: str, spec: MachineSpec, grant: Grant, wait_until: float, about: Subject = NOTHING,
              look: Look | None = None, network: Network = UNTOLD) -> Progress:
    """One slice of the named plan; it may long-poll hostd until `wait_until` (monotonic). `look` is what was observed
    just now. Raises LeaseLost."""
    row = Sandbox.objects.select_related("host").filter(pk=spec.machine_id).first()
    if row is None:
        with transaction.atomic():
            lease.hold(grant)
            row, _ = Sandbox.objects.select_related("host").get_or_create(pk=spec.machine_id)
    return runner.advance(PLANS[plan], Context(
        spec=spec, sandbox=row, grant=grant, subject=about, wait_until=wait_until, network=network,
        observed=dict(look.seen) if look else {}, unreachable=look is not None and look.unreachable))


def tell_network(grant: Grant, network: Network, look: Look | None) -> None:
    """What a machine may reach, told to its host whatever it is at: nothing restarts, no plan is cut off. `look`
    knows it afterwards. Raises LeaseLost, and what hostd refuses it with or HostUnreachable."""
    row = Sandbox.objects.select_related("host").filter(pk=grant.machine_id).first()
    if row is None or row.host is None or not lets_out(row.host) or row.network_revision >= network.revision:
        return
    kept = link_to(row.host.address).put_network(grant.machine_id, network.document)
    with transaction.atomic():
        lease.hold(grant)
        Sandbox.objects.filter(pk=row.pk).update(network_revision=kept)
    if look is not None and look.seen:
        look.seen["network_revision"] = kept


def refuse_ask(machine_id: str, ask_id: str) -> None:
    """Raises HostUnreachable. One that waits no more is refused already."""
    row = Sandbox.objects.select_related("host").filter(pk=machine_id).first()
    if row is not None and row.host is not None:
        with contextlib.suppress(errors.NotFound):
            link_to(row.host.address).refuse_ask(machine_id, ask_id)


def behind(wanted: Mapping[str, int]) -> set[str]:
    """Machines whose host keeps an older revision of their network's document than this, of hosts that let out."""
    if not wanted:
        return set()
    kept = Sandbox.objects.filter(host__capabilities__egress=True).values_list("pk", "network_revision")
    return {machine_id for machine_id, revision in kept if wanted.get(machine_id, 0) > revision}


def any_lets_out() -> bool:
    """Whether there is a host whose machines can reach anything."""
    return any(lets_out(host) for host in hosts())


def settle(grant: Grant) -> None:
    """Says that nothing is left to do for this machine. Raises LeaseLost."""
    runner.settle(grant)


def vanish(grant: Grant) -> None:
    """After a purge: the body's row goes, because nothing of it is on any host."""
    with transaction.atomic():
        lease.hold(grant)
        Sandbox.objects.filter(pk=grant.machine_id).delete()


def forget(machine_id: str) -> None:
    """Everything that is remembered of a machine that is gone. Within the caller's transaction."""
    PlanRun.objects.filter(machine_id=machine_id).delete()
    Sandbox.objects.filter(pk=machine_id).delete()
    Lease.objects.filter(pk=machine_id).delete()


def restless() -> set[str]:
    """Machines with an open plan whose pause is over, or whose worker vanished."""
    now = timezone.now()
    due = PlanRun.objects.filter(state__in=runner.OPEN).filter(Q(next_try_at=None) | Q(next_try_at__lte=now))
    lost = Lease.objects.filter(expires_at__lte=now)
    rung = Lease.objects.filter(expires_at=None, rung=True)
    return {*due.values_list("machine_id", flat=True), *lost.values_list("pk", flat=True),
            *rung.values_list("pk", flat=True)}


def pausing() -> set[str]:
    """Machines whose open plan waits for its next try."""
    waiting = PlanRun.objects.filter(state__in=runner.OPEN, next_try_at__gt=timezone.now())
    return set(waiting.values_list("machine_id", flat=True))


def hosts() -> list[Host]:
    return list(Host.objects.order_by("pk"))


def link(host: Host) -> HostLink:
    return link_to(host.address)


def look_at(host: Host) -> set[str]:
    """Hears from a host: notes that it lives and what it has, and names the machines whose row says otherwise.
    Raises HostUnreachable."""
    door = link_to(host.address)
    _note_host(host, door.host())
    seen = {m["machine_id"]: m for m in door.machines()}
    # The rows after the host: whatever is there was named in a row before it was made.
    believed_here = {mid: (phase, condition) for mid, phase, condition in
                     Sandbox.objects.filter(host=host).values_list("machine_id", "phase", "condition")}
    _note_strays(host, {mid: said for mid, said in seen.items() if mid not in believed_here})
    return {mid for mid, known in believed_here.items() if _phase_and_condition(seen.get(mid, {})) != known}


def _phase_and_condition(said: dict[str, Any]) -> tuple[str, str]:
    return str(said.get("phase", Phase.ABSENT.value)), str(said.get("condition") or "")


def is_silent(host: Host) -> bool:
    return host.last_seen_at is None or host.last_seen_at < timezone.now() - SILENT_AFTER


def _note_strays(host: Host, there: dict[str, dict[str, Any]]) -> None:
    """Machines that nobody owns: noted, and their bodies ended when the grace is over. Raises HostUnreachable."""
    now = timezone.now()
    left = {mid: said for mid, said in there.items() if said["phase"] not in runner.NO_DISK}
    since = {mid: host.strays.get(mid, now.isoformat()) for mid in left}
    if since != host.strays:
        host.strays = since
        host.save(update_fields=["strays"])
    for mid, said in left.items():
        old = datetime.fromisoformat(since[mid]) < now - STRAY_GRACE
        if old and said["phase"] not in (Phase.STOPPED, Phase.PARKED, Phase.DEAD):
            logger.warning("host %s runs %s, which nobody owns: ended, its disk stays", host.pk, mid)
            _end_stray(host, mid, int(said["generation"]), OperationKind.KILL)


def destroy_stray(host: Host, machine_id: str) -> None:
    """Body, disk and all, because an admin says so. Raises NotFound when it is no stray."""
    if Sandbox.objects.filter(pk=machine_id, host=host).exists() or machine_id not in host.strays:
        raise errors.NotFound("there is no machine of that name that nobody owns")
    seen = link_to(host.address).observe(machine_id)
    _end_stray(host, machine_id, int(seen["generation"]), OperationKind.DESTROY)


def _end_stray(host: Host, machine_id: str, generation: int, kind: OperationKind) -> None:
    operation_id = f"stray-{kind}-{generation}-{int(time.time())}"
    with contextlib.suppress(errors.Busy):  # it is at it already
        link_to(host.address).start_operation(machine_id, operation_id, kind, generation)


def register_host(host_id: str, name: str, address: str) -> Host:
    """Makes or renews a host's row from what it says of itself. Raises HostUnreachable."""
    host, _ = Host.objects.update_or_create(
        pk=host_id, defaults={"name": name, "address": address, "draining": False})
    _note_host(host, link_to(address).host(), force=True)
    return host


def _note_host(host: Host, said: dict[str, Any], force: bool = False) -> None:
    now = timezone.now()
    fresh = host.last_seen_at is not None and host.last_seen_at > now - SEEN_EVERY
    if fresh and not force:
        return
    host.version = str(said.get("version", ""))[:40]
    host.capabilities, host.images = said.get("capabilities", {}), said.get("images", {})
    host.capacity = {**said.get("capacity", {}), "used": said.get("used", {})}
    host.last_seen_at = now
    host.save(update_fields=["version", "capabilities", "images", "capacity", "last_seen_at"])


def images() -> set[str]:
    """What new machines may be made of: what some host has."""
    return {"default"} | {name for host in Host.objects.all() for name in host.images}


def set_host(host_id: str, *, schedulable: bool | None = None, draining: bool | None = None) -> Host:
    """Closes a host for new machines or opens it again; has its machines put to rest, or lets them run again. What is
    None stays. Raises NotFound."""
    said = {"schedulable": schedulable, "draining": draining}
    wanted = {name: value for name, value in said.items() if value is not None}
    if wanted:
        Host.objects.filter(pk=host_id).update(**wanted)
    found = Host.objects.filter(pk=host_id).first()
    if found is None:
        raise errors.NotFound("there is no such host")
    return found


def not_yet_drained() -> set[str]:
    """Machines with a body on hosts that are being drained."""
    return set(Sandbox.objects.filter(host__draining=True, phase__in=LIVE_PHASES).values_list("pk", flat=True))


def drain_hosts() -> None:
    """No machine starts any more, and those that run are to be put to rest."""
    Host.objects.update(draining=True)


def live() -> list[str]:
    """Machines that have a body, as far as rows know."""
    return list(Sandbox.objects.filter(phase__in=LIVE_PHASES).order_by("pk").values_list("pk", flat=True))


def read_feed(host: Host, wait_s: float) -> dict[str, Any]:
    """What happened on the host after what we know. Raises HostUnreachable."""
    return link_to(host.address).feed(host.feed_seq, wait_s)


def remember_feed(host: Host, seq: int) -> None:
    """Within the transaction that made the facts events: each becomes exactly one."""
    Host.objects.filter(pk=host.pk).update(feed_seq=seq)
    host.feed_seq = seq


def machines_on(host: Host) -> list[str]:
    return list(Sandbox.objects.filter(host=host).values_list("pk", flat=True))
