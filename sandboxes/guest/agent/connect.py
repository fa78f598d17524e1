"""`port.connect`: a TCP connection to a port of this machine itself, as a stream both ways. Called in the loop.

    host ──▶ window ──▶ socket          EOF from the host shuts the socket's sending side, and the other way round;
    host ◀── credit ◀── socket          both shut: RESULT. The host cancels, or is lost: the connection is reset.

Only 127.0.0.1, and ::1 where nothing listens there: no other address can be named. The socket is read when the link
has room for more, so a slow host slows the program that sends, and nothing piles up here.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections import deque
from typing import Any

from sandboxes.guest.agent import params as p
from sandboxes.guest.agent.loop import IN, OUT, Loop
from sandboxes.guest.agent.machine import Machine
from sandboxes.guest.agent.ports import Ports
from sandboxes.guest.agent.refusal import Refusal
from sandboxes.guest.agent.streams import Stream

MOST_CONNECTIONS = 256
CONNECT_S = 10.0
ADDRESSES = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
_REFUSED = (errno.ECONNREFUSED, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.ENETUNREACH)
_AT_ONCE = struct.pack("ii", 1, 0)


class Connect:
    def __init__(self, loop: Loop, machine: Machine, ports: Ports) -> None:
        self._loop, self._machine, self._ports = loop, machine, ports
        self._open: set[Connection] = set()

    def __call__(self, stream: Stream, params: p.Params) -> None:
        self._machine.require_serving()
        port = p.whole(params, "port", least=1, most=65535)
        if len(self._open) >= MOST_CONNECTIONS:
            raise Refusal("busy", f"{MOST_CONNECTIONS} connections are open already", retry_after_s=1)
        if not self._ports.may_reach(port):
            raise not_listening(port)
        connection = Connection(self._loop, stream, port, self._open.discard)
        self._open.add(connection)
        connection.begin()


class Connection:
    def __init__(self, loop: Loop, stream: Stream, port: int, forget: Any) -> None:
        self._loop, self._stream, self._port, self._forget = loop, stream, port, forget
        self._socket: socket.socket | None = None
        self._left = list(ADDRESSES)
        self._timer = loop.after(CONNECT_S, self._too_late)
        self._connected = self._wants_in = False
        self._in: deque[bytes] = deque()
        self._eof_in = self._shut = self._eof_out = False
        self.sent_bytes = self.received_bytes = 0

    def begin(self) -> None:
        self._stream.on_data = self._take
        self._stream.on_eof = self._take_eof
        self._stream.on_cancel = self._reset
        self._try_next(errno.ECONNREFUSED)

    # -- connecting ------------------------------------------------------------------------------------------------

    def _try_next(self, why: int) -> None:
        self._drop()
        if why not in _REFUSED:
            self._fail(Refusal("guest_reset", f"port {self._port}: {os.strerror(why)}"))
            return
        if not self._left:
            self._fail(not_listening(self._port))
            return
        family, address = self._left.pop(0)
        try:
            self._socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        except OSError as error:
            self._try_next(error.errno or errno.EAFNOSUPPORT)
            return
        why = self._socket.connect_ex((address, self._port))
        if why in (0, errno.EINPROGRESS):
            self._loop.watch(self._socket.fileno(), OUT, lambda _events: self._tried())
        else:
            self._try_next(why)

    def _tried(self) -> None:
        assert self._socket is not None
        why = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if why:
            self._try_next(why)
            return
        self._timer.cancel()
        self._connected = True
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream.head({"address": self._socket.getpeername()[0]})
        self._wants_in = True
        self._stream.pull_from(self._produce)
        self._flush()

    def _too_late(self) -> None:
        self._fail(Refusal("preview_timeout", f"port {self._port} did not answer within {CONNECT_S:g} s"))

    # -- from the socket -------------------------------------------------------------------------------------------

    def _produce(self, most: int) -> tuple[int, bytes] | None:
        if self._socket is None or self._eof_out:
            return None
        try:
            data = self._socket.recv(most)
        except BlockingIOError:
            self._wants_in = True
            self._watch()
            return None
        except OSError as error:
            self._broke(error)
            return None
        self._wants_in = False
        if data:
            self.sent_bytes += len(data)
            return 0, data
        self._eof_out = True
        self._stream.eof()
        self._over()
        return None

    def _ready(self, events: int) -> None:
        if events & OUT or (events & ~(IN | OUT) and self._in):
            self._flush()
        if self._socket is not None and events & ~OUT:
            self._wants_in = False
            self._watch()
            self._stream.more()

    # -- into the socket -------------------------------------------------------------------------------------------

    def _take(self, _tag: int, data: bytes) -> None:
        if data:
            self._in.append(data)
            self._flush()

    def _take_eof(self) -> None:
        self._eof_in = True
        self._flush()

    def _flush(self) -> None:
        if self._socket is None or not self._connected:
            return
        try:
            while self._in:
                count = self._socket.send(self._in[0])
                self.received_bytes += count
                self._stream.consumed(count)
                rest = self._in.popleft()[count:]
                if rest:
                    self._in.appendleft(rest)
        except BlockingIOError:
            pass
        except OSError as error:
            self._broke(error)
            return
        if self._eof_in and not self._in and not self._shut:
            self._shut = True
            try:
                self._socket.shutdown(socket.SHUT_WR)
            except OSError as error:
                self._broke(error)
                return
            self._over()
        self._watch()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        if self._socket is None:
            return
        events = (IN if self._wants_in and not self._eof_out else 0) | (OUT if self._in else 0)
        if events:
            self._loop.watch(self._socket.fileno(), events, self._ready)
        else:
            self._loop.unwatch(self._socket.fileno())

    def _over(self) -> None:
        """Both sides have said their last word."""
        if self._eof_out and self._shut:
            self._drop()
            self._end()
            self._stream.finish({"sent_bytes": self.sent_bytes, "received_bytes": self.received_bytes})

    def _broke(self, error: OSError) -> None:
        self._fail(Refusal("guest_reset", f"port {self._port}: {os.strerror(error.errno or errno.ECONNRESET)}"))

    def _fail(self, refusal: Refusal) -> None:
        self._drop()
        self._end()
        self._stream.fail(refusal)

    def _reset(self) -> None:
        """Nobody wants it any more: the program is told at once."""
        if self._socket is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self._drop()
        self._end()

    def _end(self) -> None:
        self._timer.cancel()
        self._forget(self)

    def _drop(self) -> None:
        if self._socket is not None:
            self._loop.unwatch(self._socket.fileno())
            self._socket.close()
            self._socket = None


def not_listening(port: int) -> Refusal:
    return Refusal("preview_not_listening", f"nothing listens on port {port} in the guest")
