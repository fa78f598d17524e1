"""What a process wrote on one pipe, with offsets, kept until the host has acknowledged it.

Made by `execs.py`, one per stream of an exec. At most KEPT_BYTES are held; when full the pipe is not read, so the
process waits. After `limit` bytes the rest is drained and dropped, and the stream is marked truncated.
"""

from __future__ import annotations

KEPT_BYTES = 256 * 1024


class Output:
    """Bytes `[base, end)` of a stream that began at offset 0."""

    __slots__ = ("_held", "base", "limit", "truncated")

    def __init__(self, limit: int | None) -> None:
        self._held = bytearray()
        self.base = 0
        self.limit = limit
        self.truncated = False

    @property
    def end(self) -> int:
        return self.base + len(self._held)

    @property
    def room(self) -> int:
        """How much may be read from the process now; dropping needs no room."""
        if self.limit is not None and self.end >= self.limit:
            return KEPT_BYTES
        return max(0, KEPT_BYTES - len(self._held))

    def add(self, data: bytes) -> None:
        if self.limit is not None and self.end + len(data) > self.limit:
            data = data[:max(0, self.limit - self.end)]
            self.truncated = True
        self._held += data

    def read(self, offset: int, most: int) -> bytes:
        """Bytes from an offset that is not before `base`."""
        start = offset - self.base
        return bytes(self._held[start:start + most])

    def acknowledge(self, offset: int) -> None:
        """The host has everything before the offset."""
        done = min(offset, self.end) - self.base
        if done > 0:
            del self._held[:done]
            self.base += done
