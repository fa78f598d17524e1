"""Writes every act that Django answers into the audit, once, after its answer is known. A middleware: called by Django,
calls `audit`. Knows no view; a view names its acts in `audits` (method -> kind) and may `note` what else to keep.

An act: whatever may change something, and whatever was refused for who asked. Reading is none. The gateway is the
only way in and says whose address it was, in a header that it sets itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse

from workspaces import audit, selectors
from workspaces.actors import Actor
from workspaces.acts import OK, Act
from workspaces.models import User

logger = logging.getLogger(__name__)
SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
AREAS = ("/api/", "/admin/")
#: What in an address names the target, the nearest to the whole first.
TARGETS = (("workspace_id", "workspace"), ("token_id", "token"), ("scope", "policy"),
           ("host", "host"))
DETAILS = (("checkpoint_id", "checkpoint"), ("hold_id", "hold"), ("approval_id", "approval"), ("user", "user"))


def note(request: Any, *, target: str = "", **data: Any) -> None:
    """What a view wants kept of the act at hand: names and choices, never secrets. Later words replace earlier."""
    plain = getattr(request, "_request", request)
    kept: dict[str, Any] = getattr(plain, "audit_note", {})
    plain.audit_note = {**kept, **data, **({"target": target} if target else {})}


def address_of(request: HttpRequest) -> str:
    forwarded = request.headers.get("X-Forwarded-For", "").split(",")[-1].strip()
    return forwarded or request.META.get("REMOTE_ADDR") or "local"


class Audited:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if _is_act(request, response):
            try:
                audit.record(_act(request, response))
            except DatabaseError:
                # The act is done and answered; that it could not be written down is for the log to shout.
                logger.exception("not in the audit: %s %s", request.method, request.path)
        return response


def _is_act(request: HttpRequest, response: HttpResponse) -> bool:
    if not request.path.startswith(AREAS):
        return False
    return request.method not in SAFE or response.status_code in (401, 403)


def _act(request: HttpRequest, response: HttpResponse) -> Act:
    match = request.resolver_match
    given: dict[str, Any] = match.kwargs if match is not None else {}
    noted: dict[str, Any] = dict(getattr(request, "audit_note", {}))
    target = noted.pop("target", "") or _target(given, response)
    details = {word: str(given[name])[:200] for name, word in DETAILS if name in given}
    return Act(kind=_kind(request, match), target=target, outcome=_outcome(request, response),
                     status=response.status_code, actor=_actor(request), address=address_of(request),
                     data={**details, **noted})


def _kind(request: HttpRequest, match: Any) -> str:
    if request.path.startswith("/admin/"):
        return "admin.change" if request.method not in SAFE else "admin.look"
    view = getattr(match.func, "view_class", None) if match is not None else None
    audits: dict[str, str] = getattr(view, "audits", {})
    return audits.get(request.method or "", "request")


def _target(given: dict[str, Any], response: HttpResponse) -> str:
    for name, word in TARGETS:
        if name in given:
            return f"{word}:{given[name]}"
    return ""


def _outcome(request: HttpRequest, response: HttpResponse) -> str:
    if response.status_code < 400:
        refused = request.path.startswith("/admin/") and request.method not in SAFE and response.status_code == 200
        return "invalid" if refused else OK  # the admin's forms show a refusal as a page
    data = getattr(response, "data", None)
    code = data.get("code") if isinstance(data, dict) else None
    return str(code or f"http_{response.status_code}")


def _actor(request: HttpRequest) -> Actor | None:
    said = getattr(request, "auth", None)
    if isinstance(said, Actor):
        return said
    user = getattr(request, "user", None)
    return selectors.actor_of_user(user) if isinstance(user, User) else None
