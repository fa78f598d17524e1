"""JSON objects into frozen dataclasses. Called by the acts with classes of `model`; pure.

Each class names how a field that is more than JSON is read (`field(metadata={"read": …})`). A field that an older
server does not send keeps its default; one that is newer than this client is in `raw`, where everything is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

from berth_client.problems import BadAnswer
from berth_client.wire import Json

S = TypeVar("S")
Reader = Callable[[Any], Any]


def read(kind: type[S], value: Any) -> S:
    if not isinstance(value, dict):
        raise BadAnswer(200, f"No {kind.__name__} was answered; is this Berth's address?")
    known: Json = {}
    described: Any = kind
    for name, said, reader, required in _fields(described):
        if said in value:
            known[name] = value[said] if reader is None or value[said] is None else reader(value[said])
        elif required:
            raise BadAnswer(200, f"A {kind.__name__} without {said!r} was answered; is this Berth's address?")
    return kind(**known, raw=value)  # type: ignore[call-arg]  # every class of `model` keeps it


@cache
def _fields(kind: type[Any]) -> list[tuple[str, str, Reader | None, bool]]:
    return [(one.name, one.metadata.get("said", one.name), one.metadata.get("read"),
             one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING)
            for one in dataclasses.fields(kind) if one.name != "raw"]


def instant(text: str) -> datetime:
    """RFC 3339; always aware."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def of(kind: type[S]) -> Callable[[Any], S]:
    return lambda value: read(kind, value)


def each(kind: type[S]) -> Callable[[Any], tuple[S, ...]]:
    return lambda values: tuple(read(kind, value) for value in values)
