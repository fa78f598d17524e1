"""Reads a TLS ClientHello from the first bytes of a connection: which name it asks for. Pure; bytes of a stranger.

RFC 8446 section 4.1.2, RFC 6066 section 3. It may lie in many segments and in many records. What is said twice, or is
not quite a ClientHello, is none: a server that is more generous than this reader must not be reached past it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MOST_BYTES = 64 * 1024
_HANDSHAKE, _CLIENT_HELLO, _HOST_NAME = 22, 1, 0
_SERVER_NAME = 0
#: Encrypted Client Hello (draft-ietf-tls-esni) and its forerunner: the name that counts would be hidden.
_HIDING = frozenset({0xFE0D, 0xFFCE})


class NotTls(Exception):
    """These bytes begin no ClientHello that a strict reader takes."""


@dataclass(frozen=True)
class Hello:
    #: The name asked for, as names are compared; None where none is said.
    name: str | None
    hides_a_name: bool


class _More(Exception):
    """It goes on in bytes that are not here yet."""


MORE: Final = None


def looks_like_tls(data: bytes | bytearray) -> bool:
    """By its first bytes: a handshake record of SSL 3 or any TLS."""
    return data[:1] == b"\x16" and (len(data) < 2 or data[1] == 3)


def read(data: bytes | bytearray) -> Hello | None:
    """The hello, or None (MORE) while it is not whole. Raises NotTls."""
    try:
        return _hello(_handshake(bytes(data)))
    except _More:
        if len(data) >= MOST_BYTES:
            raise NotTls("no whole ClientHello in 64 KiB") from None
        return MORE


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        if self._at + count > len(self._data):
            raise NotTls("a length leads out of the message")
        taken = self._data[self._at:self._at + count]
        self._at += count
        return taken

    def vector(self, length_bytes: int) -> bytes:
        return self.take(int.from_bytes(self.take(length_bytes), "big"))

    @property
    def over(self) -> bool:
        return self._at == len(self._data)


def _handshake(data: bytes) -> bytes:
    """The first handshake message, out of as many records as it lies in."""
    message, at = b"", 0
    while not _is_whole(message):
        piece, at = _record(data, at)
        message += piece
    return message[4:4 + int.from_bytes(message[1:4], "big")]


def _is_whole(message: bytes) -> bool:
    if message and message[0] != _CLIENT_HELLO:
        raise NotTls("the first message is no ClientHello")
    if len(message) < 4:
        return False
    whole = 4 + int.from_bytes(message[1:4], "big")
    if whole > MOST_BYTES:
        raise NotTls("a ClientHello of more than 64 KiB")
    return len(message) >= whole


def _record(data: bytes, at: int) -> tuple[bytes, int]:
    """What is here of the record that begins at `at`, and where the next one does."""
    header = data[at:at + 5]
    if header and not looks_like_tls(header):
        raise NotTls("no handshake record")
    if len(header) < 5:
        raise _More
    length = int.from_bytes(header[3:5], "big")
    if not 0 < length <= 1 << 14:
        raise NotTls("a record of no or too great a length")
    return data[at + 5:at + 5 + length], at + 5 + length


def _hello(body: bytes) -> Hello:
    reader = _Reader(body)
    reader.take(2 + 32)
    reader.vector(1)
    reader.vector(2)
    reader.vector(1)
    if reader.over:
        return Hello(None, False)
    extensions = _Reader(reader.vector(2))
    if not reader.over:
        raise NotTls("something follows the extensions")
    found: dict[int, bytes] = {}
    while not extensions.over:
        kind = int.from_bytes(extensions.take(2), "big")
        if kind in found:
            raise NotTls("an extension is said twice")
        found[kind] = extensions.vector(2)
    name = _server_name(found[_SERVER_NAME]) if _SERVER_NAME in found else None
    return Hello(name, bool(_HIDING & set(found)))


def _server_name(extension: bytes) -> str:
    outer = _Reader(extension)
    listed = _Reader(outer.vector(2))
    kind, name = listed.take(1)[0], listed.vector(2)
    if kind != _HOST_NAME or not listed.over or not outer.over:
        raise NotTls("not exactly one name is asked for")
    try:
        return name.decode("ascii").lower()
    except UnicodeDecodeError as error:
        raise NotTls("a name that is not ASCII") from error
