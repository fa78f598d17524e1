"""The audit: who did what, from where, to what, with which outcome, refused acts included. The only writer of
AuditEntry rows, which are appended and never changed; retention removes what is older than policy keeps.

Two doors write here, each act passing exactly one of them: Django's middleware (`api.auditing`) and the gateway's
trail (what it answers itself). Management commands name themselves. Never a secret, a body, a command or an output.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from django.utils import timezone

from workspaces import policies
from workspaces.actors import Actor
from workspaces.acts import Act
from workspaces.models import User
from workspaces.models_people import AuditEntry

COMMAND_LINE = Actor(type="system", name="command line", is_admin=True)
DELETED_AT_ONCE = 2000


def record(*acts: Act) -> None:
    """In the caller's transaction, if there is one."""
    names = _names_of(acts)
    AuditEntry.objects.bulk_create([_row(act, names) for act in acts])


def retain(now: datetime) -> int:
    """Removes what policy does not keep any longer; a slice at a time, so that nobody waits."""
    keep_s = policies.of_instance("audit_keep_s")
    if keep_s is None:
        return 0
    old = AuditEntry.objects.filter(created_at__lt=now - timedelta(seconds=keep_s)).order_by("created_at")
    removed = 0
    while ids := list(old.values_list("pk", flat=True)[:DELETED_AT_ONCE]):
        removed += AuditEntry.objects.filter(pk__in=ids).delete()[0]
    return removed


def _names_of(acts: Iterable[Act]) -> dict[int, str]:
    people = {act.actor.user_id for act in acts if act.actor is not None and act.actor.user_id is not None}
    return dict(User.objects.filter(pk__in=people).values_list("pk", "username")) if people else {}


def _row(act: Act, names: Mapping[int, str]) -> AuditEntry:
    who = act.actor
    return AuditEntry(
        created_at=act.at or timezone.now(), kind=act.kind[:60], target=_plain(act.target, 200),
        outcome=act.outcome[:40], status=act.status, address=_plain(act.address, 60), data=dict(act.data),
        actor_type=who.type if who else "", actor_name=names.get(who.user_id or 0, who.name)[:200] if who else "",
        token_id=(who.token_id or "") if who else "", token_name=who.name[:200] if who and who.token_id else "")


def _plain(text: str, most: int) -> str:
    """As a database takes it."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()[:most]
