"""Celery's view of the work: tasks of three lines. They take ids, read the truth, and may be run twice.

Called by Celery's workers and beat; calls reconcile. A task never carries values, never sleeps, never waits for long.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from celery import shared_task
from django.utils import timezone

from workspaces import approvals, audit, members, notices, previews, wake
from workspaces import idle as idle_work
from workspaces import reconcile as work
from workspaces import retention as retention_work
from workspaces.models import IdempotencyKey, SignInFailures

logger = logging.getLogger(__name__)
IDEMPOTENCY_LIFETIME = timedelta(hours=24)


@shared_task(name="workspaces.reconcile", ignore_result=True)
def reconcile(workspace_id: str) -> None:
    """One slice; rings again itself while hostd is at work."""
    if work.reconcile(workspace_id) is work.Again.NOW:
        wake.ring(workspace_id)


@shared_task(name="workspaces.sweep", ignore_result=True)
def sweep() -> None:
    """The clock's bell: whatever a lost poke, a killed worker or a silent host left."""
    for workspace_id in work.sweep():
        wake.ring(workspace_id)


@shared_task(name="workspaces.idle", ignore_result=True)
def idle() -> None:
    """What has nothing to do goes to rest."""
    idle_work.run()


@shared_task(name="workspaces.retention", ignore_result=True)
def retention() -> None:
    """What sleeps too long goes one step down, after it was said."""
    retention_work.run()


@shared_task(name="workspaces.checkpoints", ignore_result=True)
def automatic_checkpoints() -> None:
    """A point to go back to, of what was worked in."""
    retention_work.take_automatic()


@shared_task(name="workspaces.notices", ignore_result=True)
def mail_notices() -> None:
    """The notices, to those who are not looking."""
    notices.mail()


@shared_task(name="workspaces.people", ignore_result=True)
def people() -> None:
    """Requests that nobody decided; members, shares and passes whose time is over."""
    now = timezone.now()
    approvals.expire(now)
    members.expire(now)
    previews.expire(now)


@shared_task(name="workspaces.tidy", ignore_result=True)
def tidy() -> None:
    """What has served its time."""
    now = timezone.now()
    IdempotencyKey.objects.filter(created_at__lt=now - IDEMPOTENCY_LIFETIME).delete()
    SignInFailures.objects.filter(window_ends_at__lt=now).delete()
    audit.retain(now)
