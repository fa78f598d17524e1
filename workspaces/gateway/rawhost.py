"""A raw TCP connection to a port in a guest, through hostd's upgraded HTTP (docs/interfaces.md section 2).

Called by `tunnels` and by previews. Opens a connection of its own to hostd's socket, which never comes back to hostd's
HTTP; after the 101 the two ends are the program's. Turns what goes wrong on the way into a `Problem`; half-close is
passed on as it is.
A Unix socket knows no reset: hostd closes both ways at once instead, which is told from an end as long as this side has
not ended its own; after that, a break reads as an end.
"""

from __future__ import annotations

import asyncio
import json
import select
from pathlib import Path

from workspaces.api.errors import STATUS, Problem

PIECE_BYTES = 64 * 1024
HEAD_BYTES = 16 * 1024
BODY_BYTES = 64 * 1024
#: The guest's own bound on connecting is shorter.
OPEN_S = 30.0


class Raw:
    """Bytes both ways. `close` is repeatable; a connection that was not ended by both sides is reset."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._ended = False

    async def read(self) -> bytes:
        """Some bytes; none at the program's end. Raises ConnectionError when it broke off."""
        data = await self._reader.read(PIECE_BYTES)
        if not data and not self._ended and self._hung_up():
            raise ConnectionResetError("the program in the guest broke off")
        return data

    def _hung_up(self) -> bool:
        poll = select.poll()
        poll.register(self._writer.get_extra_info("socket").fileno(), select.POLLHUP)
        return bool(poll.poll(0))

    async def write(self, data: bytes) -> None:
        """Returns when there is room for more."""
        self._writer.write(data)
        await self._writer.drain()

    @property
    def ended(self) -> bool:
        """The program has said its last, as far as is known here."""
        return self._reader.at_eof() or self._writer.transport.is_closing()

    def write_eof(self) -> None:
        self._ended = True
        self._writer.write_eof()

    def close(self) -> None:
        self._writer.transport.abort()


async def connect(host_socket: Path, machine_id: str, port: int, headers: dict[str, str]) -> Raw:
    """Raises Problem: `preview_not_listening`, `not_running`, `host_unreachable`, …"""
    try:
        async with asyncio.timeout(OPEN_S):
            return await _opened(host_socket, f"/v1/machines/{machine_id}/ports/{port}/connect", headers)
    except TimeoutError:
        raise Problem("host_unreachable", "The host did not answer in time.", retry_after_s=2) from None
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise Problem("host_unreachable", f"The host does not answer ({type(error).__name__}).",
                      retry_after_s=2) from None


async def _opened(host_socket: Path, path: str, headers: dict[str, str]) -> Raw:
    reader, writer = await asyncio.open_unix_connection(str(host_socket), limit=PIECE_BYTES)
    try:
        lines = [f"GET {path} HTTP/1.1", "Host: hostd", "Connection: Upgrade", "Upgrade: tcp",
                 *(f"{name}: {value}" for name, value in headers.items())]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        if status != 101:
            raise _problem(await _body(reader, head))
    except BaseException:
        writer.transport.abort()
        raise
    return Raw(reader, writer)


async def _body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    for line in head.lower().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length" and value.strip().isdigit():
            return await reader.readexactly(min(int(value), BODY_BYTES))
    return b""


def _problem(raw: bytes) -> Problem:
    try:
        said = json.loads(raw)
        code, detail = str(said["code"]), str(said.get("detail", ""))
    except (ValueError, KeyError, TypeError):
        return Problem("host_unreachable", "The host answered nonsense.", retry_after_s=2)
    more = {name: said[name] for name in ("reason", "retry_after_s") if said.get(name) is not None}
    return Problem(code if code in STATUS else "internal", detail, **more)
