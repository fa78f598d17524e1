"""File names between HTTP and the guest: bytes at both ends. Called by `files.py`; pure.

A name is text in JSON with U+FFFD for what is not UTF-8, and beside it exact as percent-encoded bytes.
"""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import quote_from_bytes, unquote_to_bytes

from sandboxes.errors import Invalid
from sandboxes.host import fields
from sandboxes.host.clock import text_of_ns
from sandboxes.host.fields import Wrong

PATH_BYTES = 4095
MODE = re.compile(r"0?[0-7]{1,4}")


def checked(path: bytes | None, field: str = "path") -> bytes:
    """An absolute path without NUL. Raises Invalid that names the field."""
    said = _wrong(path)
    if said:
        raise Invalid(f"{field}: {said}", errors={field: said})
    assert path is not None
    return path


def _wrong(path: bytes | None) -> str:
    if not path:
        return "required"
    if b"\0" in path:
        return "must not contain NUL"
    if not path.startswith(b"/"):
        return "must be absolute"
    if len(path) > PATH_BYTES:
        return f"too long: at most {PATH_BYTES} bytes"
    return ""


def text_path(value: Any) -> bytes:
    """A check for `fields.read`."""
    if not isinstance(value, str):
        raise Wrong("must be text")
    return _sound(fields.encoded(value))


def encoded_path(value: Any) -> bytes:
    if not isinstance(value, str) or not value.isascii():
        raise Wrong("must be percent-encoded text")
    return _sound(unquote_to_bytes(value))


def _sound(path: bytes) -> bytes:
    if said := _wrong(path):
        raise Wrong(said)
    return path


def mode(value: Any) -> int:
    """Octal text, as everybody writes it."""
    if not isinstance(value, str) or not MODE.fullmatch(value):
        raise Wrong("must be octal text such as 0644")
    return int(value, 8)


def b64(path: bytes) -> str:
    return base64.b64encode(path).decode()


def named(field: str, said_b64: Any) -> dict[str, str]:
    """The two fields of one name, from what the guest said."""
    try:
        path = base64.b64decode(said_b64, validate=True)
    except (ValueError, TypeError):
        path = b""
    return {field: path.decode(errors="replace"), f"{field}_encoded": quote_from_bytes(path, safe="/")}


def stat_json(said: dict[str, Any]) -> dict[str, Any]:
    """A guest's `stat` in the shape of the public contract."""
    entry: dict[str, Any] = {**named("path", said.get("path_b64")), "type": said.get("type"), "size": said.get("size")}
    entry["mode"] = f"{said['mode']:04o}" if isinstance(said.get("mode"), int) else said.get("mode")
    entry.update(owner=said.get("owner"), group=said.get("group"), mtime=text_of_ns(_whole(said.get("mtime_ns"))),
                 etag=said.get("etag"))
    if said.get("target_b64") is not None:
        entry.update(named("target", said["target_b64"]))
    return entry


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0
