"""Holds: "do not put this to rest until then", from people and programs, and from inside the guest. The only writer of
Hold rows. Called by the API and by `idle` (which hears from hosts what guests hold). Every hold ends by itself.

A hold of the same source and reason is one hold: saying it again sets its end anew. What a guest says is forgeable by
its root and is believed about its own workspace alone, for at most `max_hold_s` from when it was first heard.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from workspaces import events, policies
from workspaces.actors import SYSTEM, Actor
from workspaces.api.errors import Problem
from workspaces.models import Workspace
from workspaces.models_policy import Hold

GUEST = Actor(type="system", name="guest")
MOST_HOLDS = 32
MOST_REASON = 200


def active(workspace_id: str, now: datetime) -> list[Hold]:
    return list(Hold.objects.filter(workspace_id=workspace_id, ended_at=None, expires_at__gt=now))


def add(actor: Actor, workspace: Workspace, reason: str, ttl_s: int) -> tuple[Hold, bool]:
    """The hold, and whether it is new. Raises Problem: invalid (longer than policy allows), state_conflict."""
    now = timezone.now()
    with transaction.atomic():
        row = _locked(workspace)
        most = policies.effective(row.owner)["max_hold_s"].value
        if most is not None and ttl_s > most:
            raise Problem("invalid", "Some fields are not valid.", errors={"ttl_s": [f"At most {most}, by policy."]})
        held = Hold.objects.filter(workspace=row, source="api", ended_at=None)
        found = held.filter(reason=reason).first()
        if found is None and held.count() >= MOST_HOLDS:
            raise Problem("conflict", f"It has {MOST_HOLDS} holds already.", reason="too_many_holds")
        hold = found or Hold(workspace=row, source="api", reason=reason, created_at=now)
        hold.actor_type, hold.actor_name = actor.type, actor.name[:200]
        hold.expires_at = now + timedelta(seconds=ttl_s)
        hold.save()
        events.append(row, "hold.added", actor, said(hold))
    return hold, found is None


def remove(actor: Actor, workspace: Workspace, hold_id: str | None = None) -> int:
    """Ends one API hold, or all of them. One that has ended already is no error; 0 says that there was none."""
    now = timezone.now()
    with transaction.atomic():
        row = Workspace.objects.select_for_update().get(pk=workspace.pk)
        rows = Hold.objects.filter(workspace=row, source="api", ended_at=None)
        found = list(rows.filter(pk=hold_id) if hold_id is not None else rows)
        for hold in found:
            _end(row, hold, "hold.removed", actor, now)
    return len(found)


def expire(now: datetime) -> int:
    """Ends what is over: one event each, so that everybody can read why a workspace slept then."""
    ended = 0
    for hold in Hold.objects.filter(ended_at=None, expires_at__lte=now).select_related("workspace")[:500]:
        with transaction.atomic():
            row = Workspace.objects.select_for_update().filter(pk=hold.workspace_id).first()
            fresh = Hold.objects.filter(pk=hold.pk, ended_at=None, expires_at__lte=now).first()
            if row is not None and fresh is not None:
                _end(row, fresh, "hold.expired", SYSTEM, now)
                ended += 1
    return ended


def hear_guest(workspace: Workspace, heard: Iterable[Mapping[str, Any]], most_s: int | None, now: datetime) -> None:
    """What the guest holds now, as its host reports it. Nothing is written when nothing changed."""
    wanted = _wanted(heard, now)
    known = {hold.reason: hold for hold in Hold.objects.filter(workspace=workspace, source="guest")}
    for reason in known.keys() - wanted.keys():
        _forget(workspace, known[reason], now)
    for reason, until in wanted.items():
        before = known.get(reason)
        began = before.created_at if before is not None else now
        until = until if most_s is None else min(until, began + timedelta(seconds=most_s))
        if before is None and until > now:
            _begin(workspace, reason, until, now)
        elif before is not None and before.ended_at is None and abs(before.expires_at - until) >= timedelta(seconds=1):
            Hold.objects.filter(pk=before.pk).update(expires_at=until)


def said(hold: Hold) -> dict[str, Any]:
    return {"hold": hold.pk, "reason": hold.reason, "from": hold.source, "expires_at": hold.expires_at.isoformat()}


def _wanted(heard: Iterable[Mapping[str, Any]], now: datetime) -> dict[str, datetime]:
    """Reason -> end, bounded: at most so many, so long, and none without an end."""
    found: dict[str, datetime] = {}
    for one in list(heard)[:MOST_HOLDS]:
        until = events.moment(one.get("expires_at"))
        reason = str(one.get("reason") or "held from inside").replace("\x00", "\ufffd")[:MOST_REASON]
        if one.get("from", "guest") == "guest" and until is not None and until > now:
            found[reason] = max(until, found.get(reason, until))
    return found


def _begin(workspace: Workspace, reason: str, until: datetime, now: datetime) -> None:
    with transaction.atomic():
        hold = Hold.objects.create(workspace=workspace, source="guest", reason=reason, actor_type=GUEST.type,
                                   actor_name=GUEST.name, created_at=now, expires_at=until)
        events.append(workspace, "hold.added", GUEST, said(hold))


def _forget(workspace: Workspace, hold: Hold, now: datetime) -> None:
    with transaction.atomic():
        if hold.ended_at is None:
            over = hold.expires_at <= now
            events.append(workspace, "hold.expired" if over else "hold.removed", SYSTEM if over else GUEST, said(hold))
        hold.delete()


def _end(row: Workspace, hold: Hold, kind: str, actor: Actor, now: datetime) -> None:
    events.append(row, kind, actor, said(hold))
    if hold.source == "guest":
        Hold.objects.filter(pk=hold.pk).update(ended_at=now)
    else:
        hold.delete()


def _locked(workspace: Workspace) -> Workspace:
    row = Workspace.objects.select_for_update().filter(pk=workspace.pk).first()
    if row is None:
        raise Problem("not_found", "There is no such workspace.")
    if row.intent == "deleted":
        raise Problem("state_conflict", "It is in the trash; undelete it first.", reason="deleted")
    return row
