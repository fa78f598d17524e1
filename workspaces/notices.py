"""Sends retention's notices by e-mail, where a mail server is named. Called by tasks; the event was written before, so
a mail that fails is tried again at the next turn and never holds anything up.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from datetime import datetime, timedelta
from smtplib import SMTPException

from django.conf import settings
from django.core.mail import send_mail
from django.utils import timezone

from workspaces import jobs
from workspaces.models import User
from workspaces.models_policy import Tally

logger = logging.getLogger(__name__)

EVERY = timedelta(seconds=60)
MOST_PEOPLE = 20
WORDS = {"stopped": "is stopped; its memory goes, its disk stays", "deleted": "goes to the trash",
         "purged": "is removed for good"}


def mail(now: datetime | None = None) -> int:
    """One letter per person with everything that is new. How many were sent."""
    if not settings.EMAIL_HOST:
        return 0
    turn = jobs.begin("notices", EVERY, now or timezone.now())
    if turn is None:
        return 0
    try:
        untold: dict[User, list[Tally]] = defaultdict(list)
        for tally in Tally.objects.filter(mailed=False).select_related("workspace__owner")[:1000]:
            untold[tally.workspace.owner].append(tally)
        return sum(_tell(owner, told) for owner, told in list(untold.items())[:MOST_PEOPLE] if turn.still_ours())
    finally:
        jobs.end(turn)


def _tell(owner: User, told: list[Tally]) -> bool:
    lines = [f"{one.workspace.name} ({one.workspace_id}) {WORDS.get(one.notice_to, one.notice_to)} "
             f"at {one.notice_at:%Y-%m-%d %H:%M} UTC." for one in told if one.notice_at is not None]
    try:
        if owner.email and lines:
            send_mail(f"Berth: {len(lines)} of your workspaces", "\n".join(
                ["By the retention policy of this Berth:", "", *lines, "", "Starting a workspace keeps it."]),
                settings.DEFAULT_FROM_EMAIL, [owner.email])
    except (OSError, SMTPException) as error:
        logger.warning("the notice for %s was not sent: %s", owner.pk, error)
        return False
    for one in told:
        Tally.objects.filter(pk=one.pk, notice_to=one.notice_to, notice_at=one.notice_at).update(mailed=True)
    return bool(owner.email and lines)
