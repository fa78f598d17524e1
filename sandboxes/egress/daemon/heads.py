"""Reads every request of a plain HTTP connection, has each judged, and writes it anew. No I/O: bytes in, bytes out.

What goes on is written from what was understood, so that no server can read in it another request than was judged. Of
the answers nothing is read but whether an upgrade was taken. h11 parses; bytes of a stranger.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import h11

MOST_HEAD_BYTES = 64 * 1024


@dataclass(frozen=True)
class Head:
    """`hosts`: every host that the request names (header, absolute target), lower case, without port."""

    method: str
    path: str
    hosts: frozenset[str]
    upgrade: str = ""


class Refused(Exception):
    """A request that is not let through; `reason` is a word of the log."""

    def __init__(self, reason: str, head: Head | None = None) -> None:
        super().__init__(reason)
        self.reason, self.head = reason, head


#: Raises Refused.
Judge = Callable[[Head], None]


class Requests:
    """One connection's client half. After an upgrade that the server took, `raw` is set and bytes pass as they are."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._reading = _reader()
        self._chunked = False
        self._asks_upgrade = False
        self.raw = False
        #: An upgrade is asked for: nothing of the client's goes on until the server's answer begins.
        self.awaits_answer = False
        self._kept = b""

    def feed(self, data: bytes) -> bytes:
        """What goes on of these bytes. Raises Refused."""
        if self.raw:
            return data
        if self.awaits_answer:
            self._kept += data
            if len(self._kept) > MOST_HEAD_BYTES:
                raise Refused("protocol")
            return b""
        if data:
            self._receive(data)
        return self._take()

    def answered(self, begins: bytes) -> bytes:
        """The server's answer to an upgrade begins so. What was kept back meanwhile goes on. Raises Refused."""
        self.awaits_answer = False
        self.raw = begins.startswith((b"HTTP/1.1 101", b"HTTP/1.0 101"))
        kept, self._kept = self._kept, b""
        return kept if self.raw else self.feed(kept)

    def _receive(self, data: bytes) -> None:
        try:
            self._reading.receive_data(data)
        except h11.RemoteProtocolError as error:
            raise Refused("protocol") from error

    def _take(self) -> bytes:
        out = bytearray()
        while not self.awaits_answer:
            try:
                event = self._reading.next_event()
            except h11.RemoteProtocolError as error:
                raise Refused("protocol") from error
            if isinstance(event, h11.Request):
                out += self._begin(event)
            elif isinstance(event, h11.Data):
                out += self._body(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                out += b"0\r\n\r\n" if self._chunked else b""
                self._next_request()
            else:
                break
        return bytes(out)

    def _begin(self, request: h11.Request) -> bytes:
        head = head_of(request)
        self._judge(head)
        headers = list(request.headers.raw_items())
        names = [name.lower() for name, _ in headers]
        self._chunked = b"transfer-encoding" in names
        if self._chunked and b"content-length" in names:
            raise Refused("protocol", head)
        if head.upgrade == "h2c":
            headers = _without_upgrade(headers)
        elif head.upgrade:
            self._asks_upgrade = True
        lines = [b"%b %b HTTP/%b" % (request.method, request.target, request.http_version),
                 *(b"%b: %b" % (name, value) for name, value in headers), b"", b""]
        return b"\r\n".join(lines)

    def _body(self, data: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data

    def _next_request(self) -> None:
        rest, _ = self._reading.trailing_data
        self.awaits_answer, self._asks_upgrade = self._asks_upgrade, False
        self._reading = _reader()
        if self.awaits_answer:
            self._kept += rest
        elif rest:
            self._receive(rest)


def _reader() -> h11.Connection:
    return h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_HEAD_BYTES)


def head_of(request: h11.Request) -> Head:
    """Raises Refused where a request says no clear host."""
    method, target = request.method.decode("ascii"), request.target.decode("ascii", "replace")
    if method in ("CONNECT", "PRI"):
        raise Refused("method", Head(method, target[:200], frozenset()))
    said = [value for name, value in request.headers if name == b"host"]
    path = target
    if not target.startswith("/"):
        scheme, separator, rest = target.partition("://")
        if separator and scheme.lower() == "http":
            authority, slash, tail = rest.partition("/")
            said.append(authority.encode())
            path = slash + tail or "/"
        elif target != "*":
            raise Refused("protocol")
    upgrade = b",".join(value for name, value in request.headers if name == b"upgrade").decode("ascii", "replace")
    hosts = frozenset(_host(value.decode("ascii", "replace")) for value in said)
    return Head(method, path, hosts, upgrade.strip().lower())


def _host(authority: str) -> str:
    """Without its port. Whoever names himself there as well is not understood."""
    host, colon, port = authority.strip().lower().partition(":")
    if "@" in authority or (colon and not port.isdigit()):
        raise Refused("host_mismatch")
    return host.removesuffix(".")


def _without_upgrade(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """HTTP/2 in clear text would be another language than the one that is read here: it is not offered on."""
    dropped = (b"upgrade", b"http2-settings", b"connection")
    return [(name, value) for name, value in headers if name.lower() not in dropped]


def first_head(data: bytes) -> Head | None:
    """The head that a connection begins with, or None while it is not whole. Raises Refused."""
    reading = _reader()
    try:
        reading.receive_data(data)
        event = reading.next_event()
    except h11.RemoteProtocolError as error:
        raise Refused("protocol") from error
    return head_of(event) if isinstance(event, h11.Request) else None
