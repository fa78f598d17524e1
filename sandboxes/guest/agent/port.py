"""Where the link's bytes come from: the virtio port named `berth.agent`, or (`--fake`) a Unix socket.

Called by `__main__`; feeds one `Session`. Serves one host connection at a time; a host that goes away and comes back
finds the same agent.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from sandboxes.guest.agent.loop import EDGE, HUP, IN, OUT, Loop
from sandboxes.guest.agent.session import Session

READ_BYTES = 64 * 1024
WRITE_BYTES = 32 * 1024
#: After so many bytes read at once other descriptors get their turn.
TURN_BYTES = 256 * 1024


class Pipe:
    """A non-blocking descriptor between loop and session. Edge-triggered, because a virtio port whose host is away
    reports HUP for as long as that lasts, and a level would keep the machine awake."""

    def __init__(self, loop: Loop, session: Session, fd: int) -> None:
        self._loop, self._session, self.fd = loop, session, fd
        self._writable = True
        loop.watch(fd, IN | OUT | EDGE, self._ready)
        loop.before_wait.append(self._write)

    def _ready(self, events: int) -> None:
        if events & OUT:
            self._writable = True
        if events & (IN | HUP):
            self._read()

    def _read(self) -> None:
        taken = 0
        while taken < TURN_BYTES:
            try:
                data = os.read(self.fd, READ_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.gone()
                return
            taken += len(data)
            self._session.feed(data)
        self._loop.post(self._read_again)

    def _read_again(self) -> None:
        if self.fd >= 0:
            self._read()

    def _write(self) -> None:
        while self._writable and (pending := self._session.fill()):
            try:
                del pending[:os.write(self.fd, memoryview(pending)[:WRITE_BYTES].tobytes())]
            except BlockingIOError:
                self._writable = False
            except OSError:
                self.gone()
                return

    def gone(self) -> None:
        """The host closed its end. A port device stays open and says when the host is back."""
        self._session.lost()


class SocketPipe(Pipe):
    """One accepted connection."""

    def __init__(self, loop: Loop, session: Session, conn: socket.socket) -> None:
        self._conn = conn
        super().__init__(loop, session, conn.fileno())

    def gone(self) -> None:
        if self.fd < 0:
            return
        super().gone()
        self._loop.before_wait.remove(self._write)
        self._loop.unwatch(self.fd)
        self._conn.close()
        self.fd = -1


class SocketListener:
    """Accepts host connections; a newer one takes the place of the one before."""

    def __init__(self, loop: Loop, session: Session, path: str) -> None:
        self._loop, self._session = loop, session
        self._pipe: SocketPipe | None = None
        Path(path).unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._listener.bind(path)
        Path(path).chmod(0o600)
        self._listener.listen(8)
        loop.watch(self._listener.fileno(), IN, self._accept)

    def _accept(self, _events: int) -> None:
        try:
            conn, _ = self._listener.accept()
        except BlockingIOError:
            return
        conn.setblocking(False)
        if self._pipe is not None:
            self._pipe.gone()
        self._pipe = SocketPipe(self._loop, self._session, conn)

