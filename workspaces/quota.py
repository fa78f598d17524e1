"""Counts what a person holds, under that person's lock, and refuses what is too much.

Called by services within their transaction and by the API's `/me`. The rules themselves are in `policy`.
"""

from __future__ import annotations

from django.conf import settings
from django.db.models import Q, Sum

from workspaces.api.errors import Problem
from workspaces.models import User, Workspace
from workspaces.policy import Amount, excess

#: A body is there or will be: it should run and did not fail, or it is on its way down.
HAS_POWER = Q(intent="running", failed_reason="") | Q(intent="stopped", state="stopping")


def limit_of(user: User) -> Amount:
    return Amount(settings.QUOTA_WORKSPACES, settings.QUOTA_CPUS, settings.QUOTA_MEMORY_MIB)


def used_by(user: User) -> Amount:
    mine = Workspace.objects.filter(owner=user).exclude(intent="deleted")
    power_now = mine.filter(HAS_POWER).aggregate(cpus=Sum("cpus"), memory=Sum("memory_mib"))
    return Amount(mine.count(), power_now["cpus"] or 0, power_now["memory"] or 0)


def lock(user_id: int) -> User:
    """The owner's row, locked: everybody who would add to the same person's share waits here."""
    return User.objects.select_for_update().get(pk=user_id)


def check(owner: User, wanted: Amount) -> None:
    """Raises Problem quota_exceeded that names the kind, the limit and the use."""
    broken = excess(limit_of(owner), used_by(owner), wanted)
    if broken is not None:
        detail = f"{broken.kind}: {broken.used} of {broken.limit} used, {broken.wanted} more asked."
        raise Problem("quota_exceeded", detail,
                      quota={"kind": broken.kind, "limit": broken.limit, "used": broken.used, "wanted": broken.wanted})


def place() -> Amount:
    return Amount(workspaces=1)


def power(workspace: Workspace) -> Amount:
    return Amount(cpus=workspace.cpus, memory_mib=workspace.memory_mib)


def place_and_power(workspace: Workspace) -> Amount:
    return place().plus(power(workspace))


def counts_power(workspace: Workspace) -> bool:
    """Whether it is already in the sum (the same rule as HAS_POWER)."""
    if workspace.intent == "running":
        return not workspace.failed_reason
    return workspace.intent == "stopped" and workspace.state == "stopping"
