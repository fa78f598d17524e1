"""A TCP connection to a port in the guest, over a WebSocket. Made by `AsyncBerth`'s workspaces.

One tunnel is one connection, half-closed as TCP half-closes: an empty frame is the end of a direction. When the socket
breaks, the connection is over, as TCP's own would be.
"""

from __future__ import annotations

from types import TracebackType

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from berth_client import sockets
from berth_client.hands_async import AsyncHand
from berth_client.problems import StreamBroken

PIECE_BYTES = 64 * 1024


class Tunnel:
    def __init__(self, hand: AsyncHand, socket_at: str, port: int) -> None:
        self._hand, self._target, self.port = hand, f"{socket_at}/ports/{port}/tunnel", port
        self._socket: ClientConnection | None = None
        self._ended = False

    async def __aenter__(self) -> Tunnel:
        with sockets.opening_named():
            self._socket = await connect(self._hand.link.socket_url(self._target), **sockets.options(self._hand.link))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        if self._socket is not None:
            await self._socket.close()

    async def read(self) -> bytes:
        """What came; b"" when the guest's side has ended. Raises when it broke: `guest_reset`, or StreamBroken."""
        assert self._socket is not None, "a tunnel is entered before it is used"
        if self._ended:
            return b""
        try:
            data = bytes(await self._socket.recv(decode=False))
        except ConnectionClosed as error:
            if not sockets.said_farewell(error):
                raise sockets.closing(error) from error
            data = b""
        self._ended = not data
        return data

    async def write(self, data: bytes) -> None:
        for at in range(0, len(data), PIECE_BYTES):
            await self._send(data[at:at + PIECE_BYTES])

    async def write_eof(self) -> None:
        """This side has said all; what the guest's still says can be read."""
        await self._send(b"")

    async def _send(self, data: bytes) -> None:
        assert self._socket is not None, "a tunnel is entered before it is used"
        try:
            await self._socket.send(data)
        except ConnectionClosed as error:
            raise StreamBroken("The tunnel closed.") from error
