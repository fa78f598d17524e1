"""The list of workspaces as somebody asks for it: whose, which, in what order. Called by views; reads the query string,
calls selectors. Knows no page: `queries` cuts it.

Newest first is walked by an index. In any other order the database sorts what one may see, so what is asked for then
is one set and its order is the database's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.db.models import F, Q, QuerySet
from django.db.models.fields.json import KeyTransform
from django.db.models.functions import Coalesce, Lower
from django.http import HttpRequest

from workspaces import selectors
from workspaces.actors import Actor
from workspaces.api import queries
from workspaces.api.queries import NEWEST, Order
from workspaces.api.schema import query_parameter
from workspaces.api.serializers import STATES
from workspaces.models import Workspace

TEXT_FILTERS = {"id": "pk", "name": "name", "owner": "owner__username", "image": "image"}
WHOLE_FILTERS = ("cpus", "memory_mib", "disk_gib")
#: What one may sort by -> what the database sorts by, and how a cursor's value is read.
ORDERS: dict[str, tuple[Any, Order]] = {
    "created_at": (F("created_at"), Order("place")),
    "name": (Lower("name"), Order("place", read=queries.as_text)),
    "owner": (Lower("owner__username"), Order("place", read=queries.as_text)),
    "last_activity_at": (Coalesce("last_activity_at", "created_at"), Order("place")),
    "disk_gib": (F("disk_gib"), Order("place", read=queries.as_whole)),
}
SORTS = [f"{sign}{name}" for name in ORDERS for sign in ("", "-")]
LONGEST_SEARCH = 200
PARAMETERS = [
    query_parameter("search", {"type": "string", "maxLength": LONGEST_SEARCH},
                    "Only those with this in their name or their owner's, or whose id begins so"),
    query_parameter("mine", {"type": "string", "enum": ["true", "false"]},
                    "Only those one owns or is a member of; an admin sees everybody's without it"),
    query_parameter("sort", {"type": "string", "enum": SORTS, "default": "-created_at"},
                    "In this order; with `-` the last comes first"),
]
READ_HERE = {"state", "search", "mine", "sort", "limit", "cursor"}


def asked_for(request: HttpRequest, actor: Actor) -> tuple[QuerySet[Workspace] | Sequence[QuerySet[Workspace]], Order]:
    """The rows, and the order in which they are paged. Raises Problem invalid for what is no filter: a list that
    silently ignored one would be taken for the answer."""
    metadata = not queries.flag(request, "mine")
    sort = queries.text(request, "sort")
    sort = "-created_at" if sort is None else sort
    if sort not in SORTS:
        raise queries.refuse("sort", f"One of {', '.join(SORTS)}.")
    if sort == "-created_at":
        return [filtered(request, part) for part in selectors.workspaces_by_index(actor, metadata=metadata)], NEWEST
    by, order = ORDERS[sort.removeprefix("-")]
    rows = filtered(request, selectors.workspaces_of(actor, metadata=metadata)).annotate(place=by)
    return rows, replace(order, descending=sort.startswith("-"))


def filtered(request: HttpRequest, rows: QuerySet[Workspace]) -> QuerySet[Workspace]:
    """`?state=&search=&label.KEY=` and fields by name. The trash is shown to those who ask for it."""
    rows = _searched(request, _in_state(request, rows))
    for parameter in request.GET:
        if parameter.startswith("label."):
            rows = _labelled(rows, parameter.removeprefix("label."), queries.text(request, parameter) or "")
        elif parameter in TEXT_FILTERS:
            rows = rows.filter(**{TEXT_FILTERS[parameter]: queries.text(request, parameter)})
        elif parameter in WHOLE_FILTERS:
            rows = rows.filter(**{parameter: queries.whole(request, parameter, 0, 0, 2**31 - 1)})
        elif parameter not in READ_HERE:
            raise queries.refuse(parameter[:100], "There is no such filter.")
    return rows


def _in_state(request: HttpRequest, rows: QuerySet[Workspace]) -> QuerySet[Workspace]:
    state = queries.text(request, "state")
    if state is None:
        return rows.exclude(intent="deleted")
    if state not in STATES:
        raise queries.refuse("state", f"One of {', '.join(STATES)}.")
    return rows.filter(state=state)


def _searched(request: HttpRequest, rows: QuerySet[Workspace]) -> QuerySet[Workspace]:
    said = (queries.text(request, "search") or "").strip()
    if len(said) > LONGEST_SEARCH:
        raise queries.refuse("search", f"At most {LONGEST_SEARCH} characters.")
    if not said:
        return rows
    return rows.filter(Q(name__icontains=said) | Q(owner__username__icontains=said) | Q(pk__startswith=said.lower()))


def _labelled(rows: QuerySet[Workspace], key: str, value: str) -> QuerySet[Workspace]:
    if not key or len(key) > 63 or "\x00" in key:
        raise queries.refuse(f"label.{key[:63]}", "Not a label's key.")
    alias = f"label_{len(rows.query.annotations)}"
    return rows.alias(**{alias: KeyTransform(key, "labels")}).filter(**{alias: value})
