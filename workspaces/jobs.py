"""Periodic jobs that run once under any number of schedulers and never overlap themselves. Called by tasks.

    begin ──▶ somebody runs it, or it was begun a moment ago: None
          └─▶ a Turn, ours for LIFETIME ──(still_ours before each thing that changes)──▶ end

A worker that was frozen and comes back finds its turn over and changes nothing more.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from workspaces.models_policy import Job

LIFETIME = timedelta(seconds=60)
#: What a turn has learned from hosts and rows is good for this long.
FRESH_S = 30.0


#: How long a turn goes on changing things; the next one goes on where it stopped.
BUDGET_S = 1.5


@dataclass
class Turn:
    name: str
    fence: int
    began: float
    first_act: float | None = None

    def has_time(self) -> bool:
        """Whether it may change one more thing: no turn holds its worker for long, whatever comes due at once. The
        first always may, however long looking took."""
        now = time.monotonic()
        if self.first_act is None:
            self.first_act = now
            return True
        return now - self.first_act <= BUDGET_S

    def still_ours(self) -> bool:
        """Within the caller's transaction: nobody has taken over, and what we know is not old."""
        fresh = time.monotonic() - self.began < FRESH_S
        return fresh and Job.objects.filter(pk=self.name, fence=self.fence, expires_at__isnull=False).exists()


def begin(name: str, every: timedelta, now: datetime) -> Turn | None:
    """The turn, when it is due. Clocks that went back make it due."""
    with transaction.atomic():
        Job.objects.get_or_create(pk=name)
        row = Job.objects.select_for_update().get(pk=name)
        if row.expires_at is not None and now < row.expires_at <= now + LIFETIME:
            return None
        if row.began_at is not None and timedelta(0) <= now - row.began_at < every / 2:
            return None
        row.fence, row.began_at, row.expires_at = row.fence + 1, now, now + LIFETIME
        row.save()
    return Turn(name, row.fence, time.monotonic())


def end(turn: Turn) -> None:
    Job.objects.filter(pk=turn.name, fence=turn.fence).update(expires_at=None)
