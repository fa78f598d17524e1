"""Times as the public contract writes them: RFC 3339 in UTC. Pure but for reading the clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now_text() -> str:
    return text_of(time.time())


def text_of(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def text_of_ns(unix_ns: int) -> str:
    """A guest's own figure may be outside what a calendar holds; it then reads as the epoch."""
    try:
        return text_of(unix_ns / 1e9)
    except (ValueError, OverflowError, OSError):
        return text_of(0.0)


def seconds_of(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
