"""The connection between hostd and egressd: JSON messages, in order, some with descriptors. Both ends use it.

    4 bytes length │ {"type": …, "fds": n, …}          and n descriptors, which travel beside the message's first byte

A Unix stream hands over descriptors no later than the byte they were sent with, and in order, so a message that is
whole has its own at the head of the queue. It never knows what the messages mean.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

Message = dict[str, Any]
MOST_BYTES = 4 << 20
#: The other end does not read: it is given up.
MOST_UNSENT_BYTES = 32 << 20
READ_BYTES, MOST_FDS = 1 << 16, 16


class Broken(Exception):
    """The other end does not speak this language."""


class Wire:
    """Over a connected socket, until either end closes it. `on_message` gets each message with its descriptors, which
    are then its own; `on_end` is called once, whoever ended it."""

    def __init__(self, connection: socket.socket, on_message: Callable[[Wire, Message, list[int]], None],
                 on_end: Callable[[], None]) -> None:
        connection.setblocking(False)
        self._connection, self._on_message, self._on_end = connection, on_message, on_end
        self._loop = asyncio.get_running_loop()
        self._received, self._received_fds = bytearray(), deque[int]()
        self._unsent: deque[tuple[memoryview, Sequence[int]]] = deque()
        self._unsent_bytes = 0
        self.closed = False
        self._loop.add_reader(connection.fileno(), self._readable)

    def send(self, message: Message, fds: Sequence[int] = ()) -> None:
        """Takes the descriptors: they are closed here once they are sent. Never waits."""
        said = json.dumps({**message, "fds": len(fds)}, separators=(",", ":")).encode()
        whole = memoryview(struct.pack(">I", len(said)) + said)
        if self.closed or self._unsent_bytes + len(whole) > MOST_UNSENT_BYTES:
            _close_all(fds)
            self.close()
            return
        self._unsent.append((whole, fds))
        self._unsent_bytes += len(whole)
        if len(self._unsent) == 1:
            self._writable()

    def close(self) -> None:
        """Repeatable."""
        if self.closed:
            return
        self.closed = True
        self._loop.remove_reader(self._connection.fileno())
        self._loop.remove_writer(self._connection.fileno())
        self._connection.close()
        _close_all(self._received_fds)
        for _, fds in self._unsent:
            _close_all(fds)
        self._unsent.clear()
        self._on_end()

    def _writable(self) -> None:
        try:
            while self._unsent:
                data, fds = self._unsent.popleft()
                try:
                    sent = socket.send_fds(self._connection, [data], list(fds)) if fds else self._connection.send(data)
                except BlockingIOError:
                    self._unsent.appendleft((data, fds))
                    self._loop.add_writer(self._connection.fileno(), self._writable)
                    return
                _close_all(fds)
                self._unsent_bytes -= sent
                if sent < len(data):
                    self._unsent.appendleft((data[sent:], ()))
            self._loop.remove_writer(self._connection.fileno())
        except OSError:
            self.close()

    def _readable(self) -> None:
        try:
            data, fds, flags, _ = socket.recv_fds(self._connection, READ_BYTES, MOST_FDS, socket.MSG_CMSG_CLOEXEC)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        self._received_fds.extend(fds)
        if not data or flags & socket.MSG_CTRUNC:
            self.close()
            return
        self._received += data
        try:
            self._take_messages()
        except Broken:
            self.close()

    def _take_messages(self) -> None:
        while not self.closed and len(self._received) >= 4:
            length = struct.unpack_from(">I", self._received)[0]
            if length > MOST_BYTES:
                raise Broken("a message is too long")
            if len(self._received) < 4 + length:
                return
            said = bytes(self._received[4:4 + length])
            del self._received[:4 + length]
            message = _message(said)
            if message["fds"] > len(self._received_fds):
                raise Broken("a message came without its descriptors")
            self._on_message(self, message, [self._received_fds.popleft() for _ in range(message["fds"])])


def _message(said: bytes) -> Message:
    try:
        message = json.loads(said)
    except ValueError as error:
        raise Broken("a message is not JSON") from error
    if not isinstance(message, dict) or not isinstance(message.get("fds"), int) or "type" not in message:
        raise Broken("a message is not one of ours")
    return message


def _close_all(fds: Sequence[int] | deque[int]) -> None:
    for fd in fds:
        os.close(fd)
