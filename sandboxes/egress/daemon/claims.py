"""What a connection says of itself in its first bytes: the name in TLS or in HTTP, or nothing that names anything.

Called by `judging`. Pure: bytes that are here so far go in. A reader that is stricter than any server: what looks like
TLS or HTTP and is not quite, is refused, because a server might take it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sandboxes.egress.daemon import heads, hello

_REQUEST_LINE = re.compile(rb"\S+[ \t]+\S+[ \t]+HTTP/", re.IGNORECASE)
_MOST_LINE_BYTES = 8192
SSH_BANNER = b"SSH-"


class Unclear(Exception):
    """It begins like a language that names a host, and does not go on like it."""


@dataclass(frozen=True)
class Claim:
    """`kind`: tls, http, other, silent. `names` is empty where none is said."""

    kind: str
    names: frozenset[str] = frozenset()
    hides_a_name: bool = False


SILENT, OTHER = Claim("silent"), Claim("other")


def of(data: bytes) -> Claim | None:
    """The claim, or None while more bytes are needed to know. Raises Unclear."""
    if not data:
        return None
    if hello.looks_like_tls(data):
        return _tls(data)
    return _text(data)


def _tls(data: bytes) -> Claim | None:
    try:
        read = hello.read(data)
    except hello.NotTls as error:
        raise Unclear(str(error)) from error
    if read is None:
        return None
    return Claim("tls", frozenset({read.name} if read.name else ()), read.hides_a_name)


def _text(data: bytes) -> Claim | None:
    """Blank space before a request line is what some servers forgive."""
    line, newline, _ = data.lstrip(b"\r\n\t ").partition(b"\n")
    if any(byte > 0x7E or (byte < 0x20 and byte not in b"\r\t") for byte in line[:256]):
        return OTHER
    if not newline:
        if len(line) > _MOST_LINE_BYTES:
            raise Unclear("a line without end")
        return OTHER if line.startswith(SSH_BANNER) else None
    if not _REQUEST_LINE.match(line):
        return OTHER
    try:
        head = heads.first_head(data)
    except heads.Refused as error:
        raise Unclear(error.reason) from error
    return None if head is None else Claim("http", head.hosts)
