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
from workspaces.models import Workspace

RESTING_IN_TRASH = "deleted"


@dataclass(frozen=True)
class Shown:
    """`mark` tells one rendering from the next without making either."""

    mark: tuple[Any, ...]
    value: dict[str, Any]


def mark_of(row: Workspace) -> tuple[Any, ...]:
    return (row.event_seq, row.state, row.state_reason, row.generation, row.name)


def shown_to(actor: Actor, before: Mapping[str, Shown], host: str) -> dict[str, Shown]:
    """Everything the actor may see; what did not change is the very object of `before`.

    The trash is not shown, except to those who saw the workspace before it went there.
    """
    rows = [row for row in selectors.workspaces_of(actor) if row.state != RESTING_IN_TRASH or row.pk in before]
    stale = [row for row in rows if row.pk not in before or before[row.pk].mark != mark_of(row)]
    fresh = {value["id"]: value for value in shapes.workspaces(stale, actor, _request(host))} if stale else {}
    return {row.pk: Shown(mark_of(row), fresh[row.pk]) if row.pk in fresh else before[row.pk] for row in rows}


def marked(actor: Actor) -> dict[str, Shown]:
    """Everything the actor may see, as it is now, without a rendering: what follows is told by its difference."""
    rows = selectors.workspaces_of(actor).exclude(state=RESTING_IN_TRASH)
    return {row.pk: Shown(mark_of(row), {}) for row in rows}


def _request(host: str) -> HttpRequest:
    """The address this socket came by, in the form the API's rendering asks for it."""
    request = HttpRequest()
    request.META["HTTP_HOST"] = host
    return request
