"""File names between HTTP and the guest: bytes at both ends. Called by `files.py`; pure.

A name is text in JSON with U+FFFD for what is not UTF-8, and beside it exact as percent-encoded bytes.
"""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import quote_from_bytes, unquote_to_bytes

from sandboxes.errors import AgentLost, Invalid
from sandboxes.host import fields
from sandboxes.host.clock import text_of_ns
from sandboxes.host.fields import Wrong

PATH_BYTES = 4095
#: A guest's word for a name: what Linux takes, and then some, for a link's target.
NAME_BYTES = 8192
WORD_LENGTH = 256
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


def text_of(said_b64: Any, most_bytes: int) -> str:
    """What a guest says that stands in one of its files."""
    try:
        return base64.b64decode(said_b64, validate=True)[:most_bytes].decode(errors="replace")
    except (ValueError, TypeError):
        return ""


def named(field: str, said_b64: Any) -> dict[str, str]:
    """The two fields of one name, from what the guest said."""
    try:
        path = base64.b64decode(said_b64, validate=True)[:NAME_BYTES]
    except (ValueError, TypeError):
        path = b""
    return {field: path.decode(errors="replace"), f"{field}_encoded": quote_from_bytes(path, safe="/")}


def stat_json(said: Any) -> dict[str, Any]:
    """A guest's `stat` in the shape of the public contract. A guest may be hostile: what has not the type that it must
    have reads as not known."""
    said = said if isinstance(said, dict) else {}
    entry: dict[str, Any] = {**named("path", said.get("path_b64")), "type": word(said.get("type")),
                             "size": whole(said.get("size")), "mode": f"{whole(said.get('mode')) & 0o7777:04o}"}
    entry.update(owner=word(said.get("owner")), group=word(said.get("group")),
                 mtime=text_of_ns(whole(said.get("mtime_ns"))), etag=word(said.get("etag")))
    if said.get("target_b64") is not None:
        entry.update(named("target", said["target_b64"]))
    return entry


def word(value: Any) -> str | None:
    """A short text of one line, as it may stand in a header and on a page."""
    return value[:WORD_LENGTH] if isinstance(value, str) and value.isprintable() else None


def whole(value: Any) -> int:
    """A figure of the guest's; 0 for what is none."""
    return value if type(value) is int and -(2**63) <= value < 2**63 else 0


def soundly_tagged(said: dict[str, Any]) -> dict[str, Any]:
    """A `stat` or `head` whose size and etag may go into headers. Raises AgentLost where a guest made them up."""
    size, etag = said.get("size"), word(said.get("etag"))
    if type(size) is not int or not 0 <= size < 2**63 or etag is None or not etag.isascii() or '"' in etag:
        raise AgentLost("the guest agent misspoke: no size or no etag")
    return {**said, "etag": etag}
