"""HTTP/1.1 as its client, over a raw connection into a guest: one question, one answer, nothing kept whole.

Called by `passage`; calls `rawhost`. Parsed by llhttp in its strict mode: an answer that could be read in two ways is
none. Answers before the last (100, 103) are counted and dropped; trailers are dropped, since no server here could hand
them on. Raises Problem guest_reset before the answer's head, ConnectionError within its body.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import httptools

from workspaces.api.errors import Problem
from workspaces.gateway.rawhost import Raw

Headers = list[tuple[bytes, bytes]]
HEAD_BYTES = 64 * 1024


def head(method: str, target: str, headers: Headers) -> bytes:
    lines = [f"{method} {target} HTTP/1.1".encode("latin-1"), *(name + b": " + value for name, value in headers)]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)


LAST_CHUNK = b"0\r\n\r\n"


class Answer:
    """`headed` once status and headers are known, `complete` once its last byte was read; `keeps`: another question
    may follow on this connection. The `on_…` are the parser's."""

    def __init__(self, raw: Raw, method: str) -> None:
        self._raw = raw
        self._without_body = method == "HEAD"
        self.status = 0
        self.headers: Headers = []
        self.headed = self.complete = self.keeps = self.continued = self.heard = False
        self._interim = self._surplus = self._framed = False
        self._head_bytes = 0
        self._pieces: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)

    async def more(self) -> None:
        """Reads once. Before the head is whole, whatever is wrong is the program's."""
        try:
            data = await self._raw.read()
        except (ConnectionError, OSError):
            raise _reset("It broke off before it answered.") from None
        if not data:
            raise _reset("It ended the connection before it answered.")
        self.heard = True
        self._feed(data)

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise _reset("It changed the protocol, which nobody had asked for.") from None
        except httptools.HttpParserError:
            if not self.complete:
                raise _reset("What it answered is no HTTP.") from None
            self._surplus = True
        self.keeps = self.keeps and not self._surplus

    async def body(self) -> AsyncIterator[bytes]:
        """As it comes. Without a length of its own it ends with the connection."""
        while True:
            pieces, self._pieces = self._pieces, []
            for piece in pieces:
                yield piece
            if self.complete:
                return
            data = await self._raw.read()
            if not data:
                if self._framed:
                    raise ConnectionResetError("the program ended before its answer did")
                self.complete = True
                return
            try:
                self._feed(data)
            except Problem as problem:
                raise ConnectionResetError(problem.detail) from None

    # -- the parser's ----------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._surplus = self.complete

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.headed:
            return  # a trailer
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > HEAD_BYTES:
            raise ValueError("headers without end")
        name = name.lower()
        self.headers.append((name, value))
        self._framed = self._framed or name in (b"content-length", b"transfer-encoding")

    def on_headers_complete(self) -> None:
        if self.complete:
            return
        status = self._parser.get_status_code()
        self._interim = 100 <= status < 200
        if self._interim:
            self.continued = self.continued or status == 100
            return
        if not 200 <= status < 600:
            raise ValueError("no status")
        self.status, self.headed = status, True
        if self._without_body:
            self.complete, self.keeps = True, self._parser.should_keep_alive()

    def on_body(self, piece: bytes) -> None:
        if not self._without_body and not self.complete:
            self._pieces.append(piece)

    def on_message_complete(self) -> None:
        if self._interim:
            self._interim, self._framed, self.headers, self._head_bytes = False, False, [], 0
        elif not self.complete:
            self.complete, self.keeps = True, self._parser.should_keep_alive()


def _reset(detail: str) -> Problem:
    return Problem("guest_reset", detail)
