"""Workspaces as an events socket shows them: rendered as REST renders them, and only when they changed.

Called by `consumers` in a thread; calls selectors and the API's shapes. Knows no socket.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from workspaces import selectors
from workspaces.actors import Actor
from workspaces.api import shapes

RESTING_IN_TRASH = "deleted"


@dataclass(frozen=True)
class Shown:
    """`mark` tells one rendering from the next without making either."""

    mark: tuple[Any, ...]
    value: dict[str, Any]


MARKS = ("event_seq", "state", "state_reason", "generation", "name")
AT_ONCE = 500


def shown_to(actor: Actor, before: Mapping[str, Shown], host: str) -> dict[str, Shown]:
    """Everything the actor may see; what did not change is the very object of `before`.

    The trash is not shown, except to those who saw the workspace before it went there. Whole rows are read of those
    alone that changed: somebody may see thousands, and every change of one asks for this.
    """
    marks = {pk: mark for pk, mark in _marks(actor).items() if mark[1] != RESTING_IN_TRASH or pk in before}
    fresh = _rendered(actor, [pk for pk, mark in marks.items() if pk not in before or before[pk].mark != mark], host)
    found = {pk: Shown(mark, fresh[pk]) if pk in fresh else before.get(pk) for pk, mark in marks.items()}
    # One that went between the two reads is none; the next look says so.
    return {pk: shown for pk, shown in found.items() if shown is not None}


def marked(actor: Actor) -> dict[str, Shown]:
    """Everything the actor may see, as it is now, without a rendering: what follows is told by its difference."""
    return {pk: Shown(mark, {}) for pk, mark in _marks(actor).items() if mark[1] != RESTING_IN_TRASH}


def _marks(actor: Actor) -> dict[str, tuple[Any, ...]]:
    return {pk: tuple(mark) for pk, *mark in selectors.workspaces_of(actor).values_list("pk", *MARKS)}


def _rendered(actor: Actor, ids: list[str], host: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for start in range(0, len(ids), AT_ONCE):
        rows = selectors.workspaces_of(actor).filter(pk__in=ids[start:start + AT_ONCE])
        found |= {value["id"]: value for value in shapes.workspaces(rows, actor, _request(host))}
    return found


def _request(host: str) -> HttpRequest:
    """The address this socket came by, in the form the API's rendering asks for it."""
    request = HttpRequest()
    request.META["HTTP_HOST"] = host
    return request
