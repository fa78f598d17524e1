"""A terminal as a program uses it: frames over a WebSocket, acknowledged as they come. For tests with a real stack."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

INPUT, OUTPUT, RESIZE, OUTCOME, FLOW, LEASE = range(6)


class Terminal:
    def __init__(self, base_url: str, workspace: str, exec_id: str, headers: dict[str, str], offset: int = 0) -> None:
        url = f"{base_url.replace('http', 'ws', 1)}/ws/v1/workspaces/{workspace}/terminals/{exec_id}?offset={offset}"
        self._open = contextlib.ExitStack()
        self.socket: ClientConnection = self._open.enter_context(
            connect(url, additional_headers=headers, max_size=None, compression=None))
        self.output = bytearray()
        self.offset = offset
        self.outcome: dict[str, Any] | None = None

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def type(self, text: str) -> None:
        self.socket.send(bytes([INPUT]) + text.encode())

    def take(self, timeout_s: float = 60) -> int:
        """One frame; its type."""
        frame = self.socket.recv(timeout_s)
        assert isinstance(frame, bytes)
        if frame[0] == OUTPUT:
            self.output += frame[1:]
            self.offset += len(frame) - 1
            with contextlib.suppress(ConnectionClosed):  # the end may already be on its way
                self.socket.send(bytes([FLOW]) + json.dumps({"ack": self.offset}).encode())
        elif frame[0] == OUTCOME:
            self.outcome = json.loads(frame[1:])
        elif frame[0] == FLOW:
            self.offset = json.loads(frame[1:])["offset"]
        return frame[0]

    def until(self, text: bytes, timeout_s: float = 30) -> None:
        deadline = time.monotonic() + timeout_s
        while text not in self.output:
            assert time.monotonic() < deadline, f"{text!r} did not appear; the end is {bytes(self.output[-300:])!r}"
            self.take(timeout_s)

    def until_ended(self, timeout_s: float = 60) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        while self.outcome is None:
            assert time.monotonic() < deadline, "no outcome"
            self.take(timeout_s)
        return self.outcome
