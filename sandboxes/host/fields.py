"""Strict reading of JSON objects: every field is named, typed and bounded, and all that is wrong is said at once.

Called by the handlers' request readers; pure. Raises `Invalid` with `errors` by field.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sandboxes.errors import Invalid

Check = Callable[[Any], Any]
REQUIRED = object()


class Wrong(ValueError):
    """What a check says of a value it refuses."""


def read(body: Any, checks: dict[str, tuple[Check, Any]]) -> dict[str, Any]:
    """`checks` maps a field to its check and its default (`REQUIRED` for none). null reads as not given."""
    if not isinstance(body, dict):
        raise Invalid("the body must be a JSON object", errors={"": "an object"})
    errors = {str(name)[:100]: "unknown field" for name in body if name not in checks}
    values: dict[str, Any] = {}
    for name, (check, default) in checks.items():
        given = body.get(name)
        if given is None:
            if default is REQUIRED:
                errors[name] = "required"
            values[name] = default
            continue
        try:
            values[name] = check(given)
        except Wrong as error:
            errors[name] = str(error)
    if errors:
        raise Invalid("; ".join(f"{name}: {said}" for name, said in sorted(errors.items()))[:500], errors=errors)
    return values


def text(max_bytes: int, *, empty: bool = False) -> Check:
    """Text that can become an argument or a name: UTF-8, no NUL, bounded."""

    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise Wrong("must be text")
        if not value and not empty:
            raise Wrong("must not be empty")
        if "\0" in value:
            raise Wrong("must not contain NUL")
        if len(encoded(value)) > max_bytes:
            raise Wrong(f"too long: at most {max_bytes} bytes")
        return value

    return check


def encoded(value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise Wrong("must be valid Unicode") from error


def boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Wrong("must be true or false")
    return value


def integer(low: int, high: int) -> Check:
    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise Wrong(f"must be a whole number from {low} to {high}")
        return value

    return check


def number(low: float, high: float) -> Check:
    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise Wrong("must be a number")
        if not low <= value <= high:
            raise Wrong(f"must be from {low:g} to {high:g}")
        return value

    return check


def one_of(*words: str) -> Check:
    def check(value: Any) -> str:
        if value not in words or not isinstance(value, str):
            raise Wrong(f"must be one of {', '.join(words)}")
        return value

    return check


def environment(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise Wrong("must be an object of text values")
    for name, said in value.items():
        if not name or "=" in name or "\0" in name:
            raise Wrong("names must not be empty, nor contain = or NUL")
        encoded(name)
        text(131_000, empty=True)(said)
    return value
