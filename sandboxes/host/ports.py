"""Ports of a guest: which are listened on, and raw connections to them. Called by `app.py`; calls the guest's agent.

`GET …/ports/{port}/connect` with `Connection: Upgrade`, `Upgrade: tcp` is answered by 101, and from then on the socket
*is* the connection, both ways, half-closed as TCP half-closes: what previews and tunnels stand on. Only the machine's
own 127.0.0.1 (or ::1) is ever reached, and the agent names no other address. A refusal comes before the 101, as JSON.
What breaks afterwards is a reset.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from sandboxes.errors import AgentLost, Invalid, NotFound, SandboxError
from sandboxes.guest.linkstream import LinkStream
from sandboxes.host import filenames, http
from sandboxes.host.filedoor import Door
from sandboxes.host.files import begun
from sandboxes.host.machines import Machines

PIECE_BYTES = 64 * 1024
MOST_PORTS = 512
LOOK_S = 2.0


class PortsHttp:
    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._door = Door(machines)
        self._open: set[Raw] = set()

    def routes(self) -> list[web.RouteDef]:
        base = "/v1/machines/{mid}/ports"
        return [web.get(base, self.list, allow_head=False),
                web.get(base + "/{port}/connect", self.connect, allow_head=False)]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """Looking is no use of a machine."""
        http.Query(request).done()
        link = await self._door.link(request, work=False)
        said = (await link.request("port.list", {}, timeout_s=20)).get("ports")
        if not isinstance(said, list) or len(said) > MOST_PORTS:
            raise AgentLost("the guest agent misspoke: a list that is none, or too long")
        found = [port for each in said if (port := _port(each)) is not None]
        return http.reply({"results": sorted(found, key=lambda each: (each["port"], each["address"]))})

    async def connect(self, request: web.Request) -> web.StreamResponse:
        http.Query(request).done()
        if request.headers.get("Upgrade", "").lower() != "tcp":
            raise Invalid("send Connection: Upgrade and Upgrade: tcp", errors={"Upgrade": "tcp"})
        port = _number(request.match_info["port"])
        link = await self._door.link(request)
        stream = await link.stream("port.connect", {"port": port})
        try:
            await begun(stream)
            response = web.StreamResponse(status=101, headers={"Connection": "Upgrade", "Upgrade": "tcp"})
            await response.prepare(request)
            await response.write_eof()
            raw = Raw(request)
            self._open.add(raw)
            try:
                await self._both_ways(request.match_info["mid"], raw, stream)
            finally:
                self._open.discard(raw)
                raw.end()
        finally:
            await stream.cancel()
        return response

    async def _both_ways(self, machine_id: str, raw: Raw, stream: LinkStream) -> None:
        """Ends when both directions have, or at the first that breaks: then both sides are reset."""
        async def inward() -> None:
            while data := await raw.read():
                self._machines.worked(machine_id)
                await stream.write(data)
            raw.refuse_hung_up()
            await stream.write_eof()

        async def outward() -> None:
            async for _, data in stream:
                await raw.write(data)
            raw.write_eof()
        both = asyncio.gather(inward(), outward())
        try:
            while not (await asyncio.wait({both}, timeout=LOOK_S))[0]:
                raw.refuse_hung_up()
            await both
            await stream.result()
            raw.whole = True
        except (SandboxError, ConnectionError, OSError):
            return
        finally:
            both.cancel()
            await asyncio.gather(both, return_exceptions=True)

    async def close(self) -> None:
        for raw in list(self._open):
            raw.abort()


class Raw:
    """A request's connection, taken out of HTTP's hands after its 101."""

    def __init__(self, request: web.Request) -> None:
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("the client went")
        self.whole = self._ended = False
        self._transport = transport
        self._http = request.protocol
        self._reader = asyncio.StreamReader(limit=PIECE_BYTES)
        protocol = _Taken(self._reader, self._http)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        self._writer = asyncio.StreamWriter(transport, protocol, self._reader, asyncio.get_running_loop())

    async def read(self) -> bytes:
        return await self._reader.read(PIECE_BYTES)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def write_eof(self) -> None:
        self._ended = True
        self._writer.write_eof()

    def refuse_hung_up(self) -> None:
        """A client that closed its end, not only one direction of it. Asked of the kernel, who alone knows: both look
        the same to a reader. Raises ConnectionResetError."""
        if not self._ended and (self._transport.is_closing() or http.closed_both_ways(self._transport)):
            raise ConnectionResetError("the client went")

    def abort(self) -> None:
        self._transport.abort()

    def end(self) -> None:
        if self.whole:
            self._transport.close()
        else:
            self._transport.abort()


class _Taken(asyncio.StreamReaderProtocol):
    """Tells HTTP's protocol when the connection it lost is over, so that it forgets it."""

    def __init__(self, reader: asyncio.StreamReader, former: asyncio.BaseProtocol) -> None:
        super().__init__(reader)
        self._former = former

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._former.connection_lost(exc)


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 5 or not 0 < int(text) < 65536:
        raise NotFound("a port is a number from 1 to 65535")
    return int(text)


def _port(said: Any) -> dict[str, Any] | None:
    """A guest's word, held to its shape."""
    if not isinstance(said, dict) or type(said.get("port")) is not int or not 0 < said["port"] < 65536:
        return None
    pid = said.get("pid")
    return {"port": said["port"], "address": filenames.word(said.get("address")), "protocol": "tcp",
            "reachable": said.get("reachable") is True, "process": filenames.word(said.get("process")),
            "pid": pid if type(pid) is int and 0 < pid < 2**31 else None, "user": filenames.word(said.get("user"))}
