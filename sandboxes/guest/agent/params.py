"""Reads a call's parameters, which come from the host's JSON. Wrong ones are refused as `invalid` by name."""

from __future__ import annotations

import binascii
from typing import Any

from sandboxes.guest.agent.refusal import Refusal

Params = dict[str, Any]
_MISSING = object()


def _typed(params: Params, name: str, kinds: type | tuple[type, ...], default: Any, what: str) -> Any:
    value = params.get(name, default)
    if value is _MISSING:
        raise Refusal("invalid", f"{name} is required")
    if value is not default and (not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool)):
        raise Refusal("invalid", f"{name} must be {what}")
    return value


def text(params: Params, name: str, default: Any = _MISSING) -> Any:
    value = _typed(params, name, str, default, "text")
    if isinstance(value, str) and "\0" in value:
        raise Refusal("invalid", f"{name} must not contain NUL")
    return value


def whole(params: Params, name: str, default: Any = _MISSING, *, least: int = 0, most: int = 2**63 - 1) -> Any:
    value = _typed(params, name, int, default, "a whole number")
    if isinstance(value, int) and not least <= value <= most:
        raise Refusal("invalid", f"{name} must be between {least} and {most}")
    return value


def seconds(params: Params, name: str) -> float | None:
    value = _typed(params, name, (int, float), None, "a number of seconds")
    if value is not None and not 0 < value < 1e9:
        raise Refusal("invalid", f"{name} must be more than 0")
    return None if value is None else float(value)


def flag(params: Params, name: str, default: bool = False) -> bool:
    value = params.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise Refusal("invalid", f"{name} must be true or false")
    return value


def mapping(params: Params, name: str) -> dict[str, str]:
    """An object of texts, such as an environment."""
    value = _typed(params, name, dict, None, "an object") or {}
    for key, item in value.items():
        if not isinstance(item, str) or "\0" in item or "\0" in key or "=" in key or not key:
            raise Refusal("invalid", f"{name}: {key!r} must be a name and a text without NUL")
    return dict(value)


def octets(params: Params, name: str, default: Any = _MISSING) -> Any:
    """Bytes that travel as base64 under NAME_b64."""
    value = _typed(params, name + "_b64", str, default, "base64 text")
    if value is default:
        return value
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except binascii.Error as error:
        raise Refusal("invalid", f"{name}_b64 must be base64") from error


def base64_of(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode()
