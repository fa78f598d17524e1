"""How much of a guest's words an event keeps. Pure; called by whatever makes events of them."""

from __future__ import annotations

from typing import Any

MAX_TEXT = 2000


def bounded(value: Any) -> Any:
    """A guest's text may be long, and a command may be a whole program: an event keeps its beginning. A NUL, which
    no database keeps in JSON, becomes a mark."""
    if isinstance(value, str):
        plain = value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
        return plain if len(plain) <= MAX_TEXT else plain[:MAX_TEXT] + "…"
    if isinstance(value, dict):
        return {str(key): bounded(inner) for key, inner in list(value.items())[:50]}
    if isinstance(value, list):
        return [bounded(inner) for inner in value[:100]]
    return value
