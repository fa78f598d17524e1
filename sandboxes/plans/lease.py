"""The right to work on one machine, with a fencing number. Taken by upstairs' reconcile around each slice.

    take ──▶ fence n ──(work; every write asks `held`)──▶ release
      └─ somebody holds it: the bell is left rung, and the holder looks once more before it goes

A worker that vanishes loses the lease by its expiry; whoever takes it next gets a higher fence, and the old one's
late writes are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from sandboxes.models import Lease

#: Longer than the longest slice (a few bounded calls to hostd), short enough that a killed worker costs little.
LIFETIME = timedelta(seconds=20)


class LeaseLost(Exception):
    """Another worker holds a newer fence; this one must stop without another write."""


@dataclass(frozen=True)
class Grant:
    machine_id: str
    fence: int
    #: The holder before us never gave it back: its worker was killed.
    after_crash: bool


def take(machine_id: str) -> Grant | None:
    """The lease, or None while somebody holds it (whose bell is then left rung)."""
    now = timezone.now()
    if Lease.objects.filter(machine_id=machine_id, expires_at__gt=now).update(rung=True):
        return None  # in one statement: whoever holds it is about to write
    with transaction.atomic():
        Lease.objects.get_or_create(machine_id=machine_id)
        row = Lease.objects.select_for_update().get(machine_id=machine_id)
        if row.expires_at is not None and row.expires_at > now:
            if not row.rung:
                Lease.objects.filter(pk=row.pk).update(rung=True)
            return None
        after_crash = row.expires_at is not None
        row.fence, row.expires_at, row.rung = row.fence + 1, now + LIFETIME, False
        row.save()
    return Grant(machine_id, row.fence, after_crash)


def hold(grant: Grant) -> None:
    """Within the caller's transaction: locks the lease and extends it. Raises LeaseLost."""
    ours = Lease.objects.filter(machine_id=grant.machine_id, fence=grant.fence, expires_at__isnull=False)
    if not ours.update(expires_at=timezone.now() + LIFETIME):
        raise LeaseLost(grant.machine_id)


def release(grant: Grant) -> bool:
    """Gives it back; True when the bell was rung meanwhile, so that somebody looks again."""
    with transaction.atomic():
        row = Lease.objects.select_for_update().filter(machine_id=grant.machine_id, fence=grant.fence).first()
        if row is None:
            return False
        rung, row.expires_at, row.rung = row.rung, None, False
        row.save()
    return rung
