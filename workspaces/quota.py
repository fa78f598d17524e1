"""Counts what a person holds, under that person's lock, and refuses what is too much.

Called by services, checkpoints and forks within their transaction, and by the API's `/me`. The rules themselves are
in `policy`, the limits in admins' `policies`. A disk is charged by the size that was promised, and each checkpoint by
the blocks that it alone holds (layers are shared by hard link, so nothing is charged twice).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any

from django.db.models import Count, OuterRef, Q, Subquery, Sum

from sandboxes.models import Sandbox
from workspaces import policies
from workspaces.api.errors import Problem
from workspaces.models import Checkpoint, CheckpointState, User, Workspace
from workspaces.policy import QUOTAS, Amount, Effective, excess

#: A body is there or will be: it should run and did not fail, or it is on its way down.
HAS_POWER = (Q(intent="running", failed_reason="") | Q(intent="stopped", state="stopping")
             | Q(intent="standby", state="parking"))
GIB = 2**30
MOST_NAMED = 20


def limit_of(user: User) -> dict[str, int | None]:
    """Kind -> the most; None is no limit."""
    return limits_in(policies.effective(user))


def limits_in(found: Mapping[str, Effective]) -> dict[str, int | None]:
    return {kind: found[kind].value for kind in QUOTAS}


def used_by(user: User) -> Amount:
    return used_by_all([user.pk])[user.pk]


def used_by_all(user_ids: Iterable[int]) -> dict[int, Amount]:
    """Of many at the price of three queries; who holds nothing is there, too."""
    ids = list(user_ids)
    mine = Workspace.objects.filter(owner__in=ids).exclude(intent="deleted").order_by().values("owner")
    held = {row["owner"]: row for row in mine.annotate(count=Count("pk"), disk=Sum("disk_gib"))}
    power = {row["owner"]: row for row in mine.filter(HAS_POWER).annotate(
        count=Count("pk"), all_cpus=Sum("cpus"), memory=Sum("memory_mib"))}
    kept = {row["workspace__owner"]: row for row in _checkpoints(ids).order_by().values("workspace__owner").annotate(
        count=Count("pk"), disk=Sum("disk_bytes"), all_memory=Sum("memory_bytes"))}
    return {pk: _amount(held.get(pk, {}), power.get(pk, {}), kept.get(pk, {})) for pk in ids}


def _amount(held: Mapping[str, Any], power: Mapping[str, Any], kept: Mapping[str, Any]) -> Amount:
    extra = (kept.get("disk") or 0) + (kept.get("all_memory") or 0)
    return Amount(workspaces=held.get("count", 0), running=power.get("count", 0), cpus=power.get("all_cpus", 0),
                  memory_mib=power.get("memory", 0), disk_gib=held.get("disk", 0) + -(-extra // GIB),
                  checkpoints=kept.get("count", 0))


def stored_bytes(user: User) -> int:
    """What all of a person's workspaces, the trash included, really take on their hosts, as those last said."""
    return stored_by_all([user.pk]).get(user.pk, 0)


def stored_by_all(user_ids: Iterable[int]) -> dict[int, int]:
    """Of many in one query; who stores nothing is not there."""
    body = Sandbox.objects.filter(pk=OuterRef("pk")).values("disk_used_bytes")
    rows = Workspace.objects.filter(owner__in=list(user_ids)).annotate(stored=Subquery(body)).order_by()
    return {row["owner"]: row["total"] or 0 for row in rows.values("owner").annotate(total=Sum("stored"))}


def _checkpoints(user_ids: Iterable[int]) -> Any:
    return (Checkpoint.objects.filter(workspace__owner__in=list(user_ids), dropped_at=None)
            .exclude(state=CheckpointState.FAILED).exclude(workspace__intent="deleted"))


def lock(user_id: int) -> User:
    """The owner's row, locked: everybody who would add to the same person's share waits here."""
    return User.objects.select_for_update().get(pk=user_id)


def check(owner: User, wanted: Amount, terms: Mapping[str, Effective] | None = None) -> None:
    """Raises Problem quota_exceeded that names the kind, the limit, the use and what makes it up. `terms` are the
    owner's, where they were asked for already."""
    broken = excess(limit_of(owner) if terms is None else limits_in(terms), used_by(owner), wanted)
    if broken is not None:
        detail = f"{broken.kind}: {broken.used} of {broken.limit} used, {broken.wanted} more asked."
        raise Problem("quota_exceeded", detail, counted=_counted(owner, broken.kind),
                      quota={"kind": broken.kind, "limit": broken.limit, "used": broken.used, "wanted": broken.wanted})


def _counted(owner: User, kind: str) -> list[dict[str, Any]]:
    """The first few of what counts against that limit, so that nobody has to guess."""
    if kind == "checkpoints":
        rows = _checkpoints([owner.pk]).order_by("-created_at", "-pk")[:MOST_NAMED]
        return [{"id": row.pk, "name": row.name, "workspace": row.workspace_id} for row in rows]
    mine = Workspace.objects.filter(owner=owner).exclude(intent="deleted")
    counts = mine if kind in ("workspaces", "disk_gib") else mine.filter(HAS_POWER)
    return [{"id": row.pk, "name": row.name, "state": row.state} for row in counts[:MOST_NAMED]]


def place(workspace: Workspace | None = None) -> Amount:
    """One more workspace, with its disk."""
    return Amount(workspaces=1, disk_gib=0 if workspace is None else workspace.disk_gib)


def power(workspace: Workspace) -> Amount:
    return Amount(running=1, cpus=workspace.cpus, memory_mib=workspace.memory_mib)


def place_and_power(workspace: Workspace) -> Amount:
    return place(workspace).plus(power(workspace))


def growth(workspace: Workspace, changed: Mapping[str, Any]) -> Amount:
    """What a change of shape adds. Processors and memory are asked for at the next start."""
    return Amount(disk_gib=max(0, changed.get("disk_gib", workspace.disk_gib) - workspace.disk_gib))


def checkpoint() -> Amount:
    return Amount(checkpoints=1)


def counts_power(workspace: Workspace) -> bool:
    """Whether it is already in the sum (the same rule as HAS_POWER)."""
    if workspace.intent == "running":
        return not workspace.failed_reason
    return (workspace.intent, workspace.state) in (("stopped", "stopping"), ("standby", "parking"))


def total(amounts: Iterable[Amount]) -> Amount:
    return reduce(Amount.plus, amounts, Amount())
