"""uvicorn, set up for a public port: bounded headers, a deadline for sending them, no compression of sockets.

Called by `__main__`. uvicorn's parser takes headers of any size and any slowness; both are bounded here, one
level below the app, because the app only sees requests whose headers are whole.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from workspaces.gateway.config import Config, Limits

REFUSAL = (b"HTTP/1.1 %s\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 0\r\n"
           b"connection: close\r\n\r\n")
#: The most that the event loop reads at once.
READ_BYTES = 256 * 1024
#: How long a refused client is still listened to: closing on what it has sent would reset the connection, and the
#: reset could overtake the answer.
LINGER_S = 2.0
#: And how much it may still say: one that never ends is cut off.
LINGER_BYTES = 1024 * 1024
TOO_LARGE = b"431 Request Header Fields Too Large"
TOO_SLOW = b"408 Request Timeout"


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 with bounds on a request's head. uvicorn makes one object of it for each connection."""

    limits: Limits
    _head_bytes = 0
    #: Bytes since the parser last had something whole. It keeps a header until its end, be it of gigabytes.
    _pending_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None
    _refused = False

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self.access_log = False  # its lines carry query strings; `app` writes ours

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        _notice_the_dead(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._pending_bytes += len(data)
        if self._refused:
            if self._pending_bytes > LINGER_BYTES:
                self.transport.abort()
            return
        super().data_received(data)
        if self._pending_bytes > self.limits.header_bytes + READ_BYTES:
            self._refuse(TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = self._pending_bytes = 0
        self._expect_head()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._count(len(name) + len(value) + 4)

    def on_headers_complete(self) -> None:
        self._head_arrived()
        self._pending_bytes = 0
        if not self._refused:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._pending_bytes = 0
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._pending_bytes = 0
        if not self._refused:
            super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        if not self._refused:
            super().handle_websocket_upgrade()

    def _count(self, size: int) -> None:
        self._pending_bytes = 0
        self._head_bytes += size
        if self._head_bytes > self.limits.header_bytes:
            self._refuse(TOO_LARGE)

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.limits.head_timeout_s, self._refuse, TOO_SLOW)

    def _head_arrived(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, status: bytes) -> None:
        """Nothing of this connection is believed any more; a request under way on it ends with it."""
        if not self._refused and not self.transport.is_closing():
            self._refused = True
            self._head_arrived()
            if self.cycle is None or self.cycle.response_complete:
                self.transport.write(REFUSAL % status)
                self.transport.write_eof()
                self.loop.call_later(LINGER_S, self.transport.close)
            else:
                self.transport.close()


def _notice_the_dead(transport: asyncio.Transport) -> None:
    """A client that vanished while an answer waits (a long poll) is noticed in about two minutes."""
    peer = transport.get_extra_info("socket")
    if peer is not None and peer.family in (socket.AF_INET, socket.AF_INET6):
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4)):
            peer.setsockopt(socket.IPPROTO_TCP, option, value)


def bounded_protocol(limits: Limits) -> type[BoundedProtocol]:
    """uvicorn wants a class, so the limits are written on one."""
    return type("BoundedProtocol", (BoundedProtocol,), {"limits": limits})


class SocketProtocol(WebSocketsSansIOProtocol):
    """A socket refused with an HTTP answer is a finished handshake, not an error of ours to be logged."""

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True


def server(config: Config, app: Any, host: str, port: int) -> uvicorn.Server:
    # Below INFO uvicorn writes headers, credentials among them.
    logging.getLogger("uvicorn.error").setLevel(logging.INFO)
    return uvicorn.Server(uvicorn.Config(
        app, host=host, port=port, loop="uvloop", http=bounded_protocol(config.limits), ws=SocketProtocol,
        lifespan="on", interface="asgi3", log_config=None, access_log=False, server_header=False, date_header=True,
        proxy_headers=False, ws_max_size=config.limits.preview_message_bytes, ws_per_message_deflate=False,
        ws_ping_interval=config.limits.socket_ping_s, ws_ping_timeout=config.limits.socket_silence_s,
        timeout_keep_alive=75, timeout_graceful_shutdown=3, backlog=2048,
    ))
