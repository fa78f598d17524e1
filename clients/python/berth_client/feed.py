"""The two feeds of JSON messages over a WebSocket: a workspace's events, and changes of its files. Pure.

Driven by `streams` and `streams_async`. Events are numbered without gaps, so one who comes again names the last that
was seen; a gap or a repetition is never passed on.
"""

from __future__ import annotations

import json
from typing import Any

from berth_client import wire
from berth_client.model import Event
from berth_client.problems import StreamBroken
from berth_client.shape import read
from berth_client.wire import GuestPath


class EventFeed:
    def __init__(self, socket_at: str, after: int) -> None:
        self._at = socket_at
        self.after = after

    @property
    def target(self) -> str:
        return f"{self._at}/events?after={self.after}"

    def take(self, message: str | bytes) -> Event | None:
        event = read(Event, json.loads(message))
        if event.seq <= self.after:
            return None
        if event.seq > self.after + 1 and self.after > 0:
            raise StreamBroken(f"Event {self.after + 1} is missing.")
        self.after = event.seq
        return event


class WatchFeed:
    """Raw changes, coalesced: `{"type": "ready" | "changes" | "overflow" | "gone", …}`. After an overflow, and whenever
    it is opened anew, only a new look tells what there is."""

    def __init__(self, socket_at: str, path: GuestPath, flat: bool, exclude: str | None, user: str | None) -> None:
        query = wire.queried({"path": path, "flat": flat or None, "exclude": exclude, "user": user})
        self.target = wire.Request("GET", f"{socket_at}/files/watch", query).target

    def take(self, message: str | bytes) -> dict[str, Any]:
        value = json.loads(message)
        return value if isinstance(value, dict) else {"value": value}


def socket_path(at: str) -> str:
    """The workspace's path on the socket side: /api/v1/… is /ws/v1/…"""
    return at.replace("/api/v1/", "/ws/v1/", 1)
