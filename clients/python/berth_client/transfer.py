"""Files of any size, in flat memory: what a download and an upload know, without moving a byte. Pure.

Driven by `streams` and `streams_async`. A download that breaks goes on from its place, and only in the very file it
began with (its ETag); an upload whose source can be read again is sent again, others are not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO

from berth_client.problems import FileChanged, PreconditionFailed, StreamBroken
from berth_client.wire import Request

PIECE_BYTES = 256 * 1024
#: What may be uploaded again from its beginning: a file's name, its bytes, an open file that can seek.
Source = str | os.PathLike[str] | bytes | IO[bytes]


class Download:
    def __init__(self, request: Request, start: int = 0) -> None:
        self._request, self._start, self._at = request, start, start
        self._etag: str | None = None
        self.over = False

    def request(self) -> Request:
        if not self._at:
            return self._request
        headers = [*self._request.headers, ("Range", f"bytes={self._at}-")]
        headers += [("If-Match", self._etag)] if self._etag else []
        return replace(self._request, headers=tuple(headers))

    def began(self, status: int, etag: str | None) -> None:
        if self._at and status != 206:
            raise StreamBroken("The server did not go on where the file broke off.")
        if self._etag is not None and etag != self._etag:
            raise FileChanged("The file became another one while it was read.")
        self._etag = etag

    def took(self, data: bytes) -> bytes:
        self._at += len(data)
        return data

    def refused(self, error: PreconditionFailed) -> Exception:
        """412 to our own If-Match is the file's change; to the caller's it is what it says."""
        return FileChanged("The file became another one while it was read.") if self._at > self._start else error


class Upload:
    """A body that may be read more than once. `length` is None where only its end tells."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._from = source.tell() if not isinstance(source, str | bytes | os.PathLike) and seekable(source) else None
        self.length = self._length()

    @property
    def again(self) -> bool:
        return isinstance(self._source, str | bytes | os.PathLike) or self._from is not None

    def request(self, request: Request) -> Request:
        length = () if self.length is None else (("Content-Length", str(self.length)),)
        return replace(request, headers=(*request.headers, *length), repeatable=request.repeatable and self.again)

    def pieces(self) -> Iterator[bytes]:
        if isinstance(self._source, bytes):
            yield from (self._source[at:at + PIECE_BYTES] for at in range(0, len(self._source), PIECE_BYTES))
        elif isinstance(self._source, str | os.PathLike):
            with Path(self._source).open("rb") as file:
                yield from read_through(file, self.length)
        else:
            if self._from is not None:
                self._source.seek(self._from)
            yield from read_through(self._source, self.length)

    def _length(self) -> int | None:
        if isinstance(self._source, bytes):
            return len(self._source)
        if isinstance(self._source, str | os.PathLike):
            path = Path(self._source)
            return path.stat().st_size if path.is_file() else None
        if self._from is None:
            return None
        end = self._source.seek(0, os.SEEK_END)
        self._source.seek(self._from)
        return end - self._from


def seekable(file: IO[bytes]) -> bool:
    return bool(getattr(file, "seekable", lambda: False)())


def read_through(file: IO[bytes], most: int | None) -> Iterator[bytes]:
    """What grows meanwhile is sent as it was when it was measured."""
    left = most
    while (data := file.read(PIECE_BYTES if left is None else min(PIECE_BYTES, left))):
        yield data
        left = None if left is None else left - len(data)
