"""An exec's live output as server-sent events, byte-identical over any number of broken connections. Pure.

Driven by `streams` and `streams_async`: they open `request()`, feed `take()` and, when the connection broke, begin
again; the place to go on from is kept here. A stream that ends without an outcome was broken, whatever it looked like.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

from berth_client import problems, wire
from berth_client.model import Chunk, Ended
from berth_client.outcome import read_outcome
from berth_client.problems import StreamBroken
from berth_client.wire import Request

#: The server says something every 15 s; what is silent three times as long is gone.
SILENCE_S = 45.0


class Events:
    """Bytes into (event, data). Comments and ids are passed over: offsets are in the data."""

    def __init__(self) -> None:
        self._rest = b""
        self._event, self._data = "message", list[str]()

    def feed(self, data: bytes) -> Iterator[tuple[str, str]]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            yield from self._line(line.removesuffix(b"\r").decode(errors="replace"))

    def _line(self, line: str) -> Iterator[tuple[str, str]]:
        name, _, value = line.partition(":")
        if not line:
            if self._data:
                yield self._event, "\n".join(self._data)
            self._event, self._data = "message", []
        elif name == "event":
            self._event = value.removeprefix(" ")
        elif name == "data":
            self._data.append(value.removeprefix(" "))


class Following:
    def __init__(self, at: str, exec_id: str, offset: int = 0) -> None:
        self._path = f"{at}/{exec_id}/stream"
        self._offset = offset
        self._events = Events()
        self.over = False

    def request(self) -> Request:
        self._events = Events()
        return wire.get(self._path, offset=self._offset, read_timeout_s=SILENCE_S)

    def take(self, data: bytes) -> Iterator[Chunk | Ended]:
        """Raises Problem when the server says that its own source broke, StreamBroken when a piece is missing."""
        for event, text in self._events.feed(data):
            value = json.loads(text)
            if event in ("stdout", "stderr"):
                yield self._chunk(event, base64.b64decode(value["data"]), value["offset"])
            elif event == "outcome":
                self.over = True
                yield Ended(read_outcome(value))
            elif event == "error":
                raise problems.problem(int(value.get("status") or 503), value)

    def ended_early(self) -> StreamBroken:
        return StreamBroken("The stream ended before the exec did.")

    def _chunk(self, stream: str, data: bytes, offset: int) -> Chunk:
        """A terminal's old output may be gone: then the offset moves forward, and the caller sees by how much."""
        if offset < self._offset:
            raise StreamBroken("The stream went back.")
        self._offset = offset + len(data)
        return Chunk(stream, data, offset, self._offset)
