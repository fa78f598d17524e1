"""Query strings, read strictly, and pages with a stable opaque cursor. Called by list views.

A cursor names the last row seen (what the list is sorted by, and its id), so rows that come or go meanwhile neither
repeat nor hide others.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.utils.dateparse import parse_datetime

from workspaces.api.errors import Problem

DEFAULT_LIMIT, MAX_LIMIT = 50, 200
MAX_WAIT_S = 300


def sound(said: str) -> bool:
    """A text that any database takes."""
    return "\x00" not in said and not any("\ud800" <= char <= "\udfff" for char in said)


def as_instant(said: Any) -> datetime:
    """Each `as_` reads a cursor's value as the column holds it, or raises ValueError or TypeError."""
    found = parse_datetime(said)
    if found is None or found.tzinfo is None:
        raise ValueError("no instant")
    return found


def as_text(said: Any) -> str:
    if not isinstance(said, str) or not sound(said):
        raise ValueError("no text")
    return said


def as_whole(said: Any) -> int:
    if type(said) is not int or abs(said) >= 2**63:
        raise ValueError("no whole number")
    return said


@dataclass(frozen=True)
class Order:
    """What a list is sorted by: a column or an annotation of its rows, and among equals the primary key."""

    column: str = "created_at"
    descending: bool = True
    read: Callable[[Any], Any] = as_instant
    pk: type = str

    @property
    def columns(self) -> tuple[str, str]:
        sign = "-" if self.descending else ""
        return f"{sign}{self.column}", f"{sign}pk"

    def place_of(self, row: Any) -> tuple[Any, Any]:
        return getattr(row, self.column), row.pk

    def after(self, value: Any, pk: Any) -> tuple[Q, Q]:
        """What comes behind that row. The first condition is what an index can begin at; the second is exact."""
        way = "lt" if self.descending else "gt"
        return Q(**{f"{self.column}__{way}e": value}), Q(**{f"{self.column}__{way}": value}) | Q(**{f"pk__{way}": pk})


NEWEST = Order()


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
         show: Callable[[list[Any]], list[dict[str, Any]]], order: Order = NEWEST) -> dict[str, Any]:
    """`{"results","next"}` of rows in that order. Several sets that share no row are paged as one: each by its own
    index, where one condition for all would make the database sort everything."""
    limit = whole(request, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
    cursor = text(request, "cursor")
    parts = [rows] if isinstance(rows, QuerySet) else list(rows)
    if cursor:
        value, pk = _read_cursor(cursor, order)
        parts = [part.filter(*order.after(value, pk)) for part in parts]
    found = [row for part in parts for row in part.order_by(*order.columns)[:limit + 1]]
    if len(parts) > 1:
        found = sorted(found, key=order.place_of, reverse=order.descending)[:limit + 1]
    more = len(found) > limit
    found = found[:limit]
    return {"results": show(found), "next": next_url(request, cursor=_cursor_of(found[-1], order)) if more else None}


def next_url(request: HttpRequest, **changed: Any) -> str:
    query = request.GET.copy()
    for name, value in changed.items():
        query[name] = str(value)
    return request.build_absolute_uri(f"{request.path}?{urlencode(list(_pairs(query)))}")


def _pairs(query: Any) -> Any:
    return ((key, value) for key, values in query.lists() for value in values)


def _cursor_of(row: Model, order: Order) -> str:
    plain = json.dumps(order.place_of(row), default=lambda at: at.isoformat())
    return base64.urlsafe_b64encode(plain.encode()).decode().rstrip("=")


def _read_cursor(cursor: str, order: Order) -> tuple[Any, Any]:
    try:
        plain = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        said, pk = json.loads(plain)
        value = order.read(said)
        if type(pk) is not order.pk or (isinstance(pk, str) and not sound(pk)):
            raise ValueError("no primary key of these rows")
    except (binascii.Error, ValueError, TypeError, RecursionError) as error:
        raise refuse("cursor", "Not a cursor that this list gave out.") from error
    return value, pk
