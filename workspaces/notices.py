"""Sends retention's notices by e-mail, where a mail server is named. Called by tasks; the event was written before, so
a mail that fails is tried again at the next turn and never holds anything up.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from datetime import datetime, timedelta
from smtplib import SMTPDataError, SMTPRecipientsRefused
from typing import Any

from django.conf import settings
from django.core.mail import send_mail
from django.utils import timezone

from workspaces import jobs
from workspaces.models import Checkpoint, User
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
        return _send(turn)
    finally:
        jobs.end(turn)


def _send(turn: jobs.Turn) -> int:
    """One whom the server will not have delays nobody else; a server that is away is asked again at the next turn."""
    sent = 0
    for owner, told in list(_untold().items())[:MOST_PEOPLE]:
        if not turn.has_time() or not turn.still_ours():
            break
        try:
            sent += _tell(owner, told)
        except (SMTPRecipientsRefused, SMTPDataError) as refused:
            logger.warning("the notice for %s was refused: %s", owner.pk, refused)
        except OSError as error:
            logger.warning("the mail server did not take the notice for %s: %s", owner.pk, error)
            break
    return sent


def _untold() -> dict[User, list[Tally | Checkpoint]]:
    found: dict[User, list[Tally | Checkpoint]] = defaultdict(list)
    for tally in Tally.objects.filter(mailed=False).select_related("workspace__owner")[:1000]:
        found[tally.workspace.owner].append(tally)
    points = Checkpoint.objects.filter(mailed=False, dropped_at=None).select_related("workspace__owner")
    for checkpoint in points[:1000]:
        found[checkpoint.workspace.owner].append(checkpoint)
    return found


def _tell(owner: User, told: list[Tally | Checkpoint]) -> bool:
    """Raises OSError, of which smtplib's errors are a kind."""
    lines = [f"{_what(one)} at {one.notice_at:%Y-%m-%d %H:%M} UTC." for one in told if one.notice_at is not None]
    if owner.email and lines:
        send_mail(f"Berth: what goes soon ({len(lines)})", "\n".join(
            ["By the retention policy of this Berth:", "", *lines, "",
             "Starting a workspace keeps it; a checkpoint's end can be set anew."]),
            settings.DEFAULT_FROM_EMAIL, [owner.email])
    for one in told:
        rows: Any = type(one).objects
        rows.filter(pk=one.pk, notice_at=one.notice_at).update(mailed=True)
    return bool(owner.email and lines)


def _what(one: Tally | Checkpoint) -> str:
    """Names are people's own words: one line each, whatever they hold."""
    if isinstance(one, Tally):
        return f"{_line(one.workspace.name)} ({one.workspace_id}) {WORDS.get(one.notice_to, one.notice_to)}"
    name = _line(one.name) or f"the {one.kind} one"
    return f"checkpoint {name} ({one.pk}) of {_line(one.workspace.name)} is removed"


def _line(name: str) -> str:
    return " ".join(name.split())
