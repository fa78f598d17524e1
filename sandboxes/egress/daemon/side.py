"""One end of a relayed connection: the guest's or the world's. Bytes are held until they are told where to flow.

Made by `relay`. Flow control is TCP's own: who cannot write stops the other's reading. An end of one direction is
passed on as one; a broken connection breaks the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from typing import Protocol, cast

from sandboxes.egress.daemon.buckets import Bucket

HELD_BYTES = 64 * 1024 + 1024
_RESET = struct.pack("ii", 1, 0)

#: What goes on of bytes that come; raises to stop everything.
Shape = Callable[[bytes], bytes]


class Keeper(Protocol):
    """Whom a side tells what it cannot decide."""

    def side_lost(self, side: Side) -> None: ...
    def side_ended(self, side: Side) -> None: ...
    def side_failed(self, side: Side, error: Exception) -> None: ...


class Side(asyncio.Protocol):
    def __init__(self, keeper: Keeper, bucket: Bucket) -> None:
        self._keeper, self._bucket = keeper, bucket
        self.transport: asyncio.Transport | None = None
        self.held = bytearray()
        self.news = asyncio.Event()
        self.ended = self.lost = False
        self.bytes = 0
        self._target: Side | None = None
        self._source: Side | None = None
        self._shape: Shape | None = None
        self._deaf = False
        self._reasons_to_wait: set[str] = set()

    # -- what asyncio calls --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.bytes += len(data)
        owed_s = self._bucket.spend(len(data))
        if owed_s > 0:
            self._wait_because("rate")
            asyncio.get_running_loop().call_later(owed_s, self._go_on, "rate")
        if self._deaf:
            return
        if self._target is not None:
            self._pass(data)
            return
        self.held += data
        self.news.set()
        if len(self.held) > HELD_BYTES:
            self._wait_because("held")

    def eof_received(self) -> bool:
        self.ended = True
        self.news.set()
        if self._target is not None:
            self._target.write_eof()
        self._keeper.side_ended(self)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self.news.set()
        self._keeper.side_lost(self)

    def pause_writing(self) -> None:
        if self._source is not None:
            self._source._wait_because("peer")

    def resume_writing(self) -> None:
        if self._source is not None:
            self._source._go_on("peer")

    # -- what its keeper calls -----------------------------------------------------------------------------------------

    def flow_to(self, target: Side, shape: Shape | None = None) -> None:
        """From now on, and what is held first."""
        self._target, target._source, self._shape = target, self, shape
        held, self.held = bytes(self.held), bytearray()
        if held:
            self._pass(held)
        if self.ended:
            target.write_eof()
        self._go_on("held")

    def _pass(self, data: bytes) -> None:
        try:
            passed = self._shape(data) if self._shape is not None else data
        except Exception as error:
            self._keeper.side_failed(self, error)
            return
        if passed and self._target is not None:
            self._target.write(passed)

    def write(self, data: bytes) -> None:
        if self.transport is not None and not self.lost:
            self.transport.write(data)

    def write_eof(self) -> None:
        if self.transport is not None and not self.lost and not self.transport.is_closing():
            with contextlib.suppress(OSError, RuntimeError):
                self.transport.write_eof()

    def turn_deaf(self) -> None:
        """What still comes is thrown away."""
        self._deaf, self._target = True, None
        self.held.clear()
        self._reasons_to_wait.clear()
        self._go_on("deaf")

    def close(self) -> None:
        """After what was written has gone."""
        if self.transport is not None:
            self.transport.close()

    def reset(self) -> None:
        """At once, and the other end sees that it did not end well."""
        if self.transport is None or self.lost:
            return
        connection = self.transport.get_extra_info("socket")
        if connection is not None:
            with contextlib.suppress(OSError):
                will_reset(connection)
        self.transport.abort()

    def _wait_because(self, reason: str) -> None:
        if not self._reasons_to_wait and self.transport is not None and not self.lost:
            self.transport.pause_reading()
        self._reasons_to_wait.add(reason)

    def _go_on(self, reason: str) -> None:
        was_waiting = bool(self._reasons_to_wait) or reason == "deaf"
        self._reasons_to_wait.discard(reason)
        if was_waiting and not self._reasons_to_wait and self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()


def will_reset(connection: socket.socket) -> None:
    """Its close tells the other end that it did not end well."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
