"""Query strings, read strictly, and pages with a stable opaque cursor. Called by list views.

A cursor names the last row seen (time and id), so rows that come or go meanwhile neither repeat nor hide others.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.utils.dateparse import parse_datetime

from workspaces.api.errors import Problem

DEFAULT_LIMIT, MAX_LIMIT = 50, 200
MAX_WAIT_S = 300


def refuse(name: str, message: str) -> Problem:
    return Problem("invalid", "A query parameter is not valid.", errors={name: [message]})


def text(request: HttpRequest, name: str) -> str | None:
    value = request.GET.get(name)
    if value is not None and ("\x00" in value or len(value) > 1000):
        raise refuse(name, "Not a valid text.")
    return value


def whole(request: HttpRequest, name: str, default: int, least: int, most: int) -> int:
    said = request.GET.get(name)
    if said is None:
        return default
    if not (said.isascii() and said.isdigit() and len(said) < 20) or not least <= int(said) <= most:
        raise refuse(name, f"A whole number from {least} to {most}.")
    return int(said)


def flag(request: HttpRequest, name: str) -> bool:
    said = request.GET.get(name)
    if said not in (None, "true", "false"):
        raise refuse(name, "true or false.")
    return said == "true"


def check_wait(request: HttpRequest) -> None:
    """`?wait=true&timeout_s=`: the gateway does the waiting; here it is only seen to be well-formed."""
    flag(request, "wait")
    said = request.GET.get("timeout_s")
    if said is None:
        return
    try:
        seconds = float(said)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MAX_WAIT_S:
        raise refuse("timeout_s", f"A number from 0 to {MAX_WAIT_S}.")


def page(request: HttpRequest, rows: QuerySet[Any] | Sequence[QuerySet[Any]],
         show: Callable[[list[Any]], list[dict[str, Any]]]) -> dict[str, Any]:
    """`{"results","next"}` of rows ordered newest first by (created_at, pk). Several sets that share no row are paged
    as one: each by its own index, where one condition for all would make the database sort everything."""
    limit = whole(request, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
    cursor = text(request, "cursor")
    parts = [rows] if isinstance(rows, QuerySet) else list(rows)
    if cursor:
        at, pk = _read_cursor(cursor)
        # The first condition is what an index can begin at; the second is exact.
        parts = [part.filter(Q(created_at__lte=at), Q(created_at__lt=at) | Q(pk__lt=pk)) for part in parts]
    found = [row for part in parts for row in part.order_by("-created_at", "-pk")[:limit + 1]]
    if len(parts) > 1:
        found = sorted(found, key=lambda row: (row.created_at, row.pk), reverse=True)[:limit + 1]
    more = len(found) > limit
    found = found[:limit]
    return {"results": show(found), "next": next_url(request, cursor=_cursor_of(found[-1])) if more else None}


def next_url(request: HttpRequest, **changed: Any) -> str:
    query = request.GET.copy()
    for name, value in changed.items():
        query[name] = str(value)
    return request.build_absolute_uri(f"{request.path}?{urlencode(list(_pairs(query)))}")


def _pairs(query: Any) -> Any:
    return ((key, value) for key, values in query.lists() for value in values)


def _cursor_of(row: Model) -> str:
    plain = json.dumps([row.created_at.isoformat(), row.pk])  # type: ignore[attr-defined]
    return base64.urlsafe_b64encode(plain.encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> tuple[datetime, str]:
    try:
        plain = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        at, pk = json.loads(plain)
        moment = parse_datetime(at)
    except (binascii.Error, ValueError, TypeError, RecursionError):
        moment, pk = None, ""
    if moment is None or moment.tzinfo is None or not isinstance(pk, str) or "\x00" in pk:
        raise refuse("cursor", "Not a cursor that this list gave out.")
    return moment, pk
