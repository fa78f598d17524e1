"""Changes of a guest's files over WebSocket, as JSON in text frames. Called by `app.py`; calls the guest's agent.

    agent ─▶ a line each ─▶ held to its shape ─▶ {"type": "ready" | "changes" | "overflow" | "gone", …}

Watching is looking: it wakes nothing and counts as no use. A client that reads slowly slows the agent, whose own bound
then says `overflow`. Closed with 1000 after `gone`, with 1012 when the guest or hostd is gone: come again, look anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from typing import Any

from aiohttp import WSMsgType, web

from sandboxes.errors import AgentLost, SandboxError
from sandboxes.guest.linkstream import LinkStream
from sandboxes.host import filenames, log
from sandboxes.host.filedoor import Door, named
from sandboxes.host.files import begun
from sandboxes.host.machines import Machines

LINE_BYTES = 512 * 1024
MOST_CHANGES = 4096
KINDS = frozenset(("created", "modified", "removed", "attributes"))
HEARTBEAT_S = 30.0
COME_AGAIN = 1012


class FileWatchHttp:
    def __init__(self, machines: Machines) -> None:
        self._door = Door(machines)
        self._open: set[web.WebSocketResponse] = set()

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/v1/machines/{mid}/files/watch", self.watch, allow_head=False)]

    async def watch(self, request: web.Request) -> web.StreamResponse:
        query, path, user = named(request)
        params: dict[str, Any] = {"path_b64": filenames.b64(path), "user": user, "recursive": not query.flag("flat")}
        if exclude := query.raw("exclude"):
            params["exclude_b64"] = filenames.b64(exclude.replace(b",", b"\0"))
        query.done()
        link = await self._door.link(request, work=False)
        stream = await link.stream("file.watch", params)
        socket = web.WebSocketResponse(heartbeat=HEARTBEAT_S, compress=False)
        try:
            await begun(stream)
            await socket.prepare(request)
            self._open.add(socket)
            await socket.close(code=await _served(socket, stream))
        finally:
            self._open.discard(socket)
            await stream.cancel()
        return socket

    async def close(self) -> None:
        for socket in list(self._open):
            await socket.close(code=COME_AGAIN, message=b"hostd restarts")


async def _served(socket: web.WebSocketResponse, stream: LinkStream) -> int:
    """Until either side has enough; the code to close with."""
    telling, listening = asyncio.ensure_future(_tell(socket, stream)), asyncio.ensure_future(_until_gone(socket))
    try:
        await asyncio.wait({telling, listening}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        listening.cancel()
        telling.cancel()
        await asyncio.gather(telling, listening, return_exceptions=True)
    if telling.cancelled():
        return 1000
    error = telling.exception()
    if error is not None and not isinstance(error, SandboxError | ConnectionError):
        log.failure("filewatch.failed", error)
    return 1000 if error is None else COME_AGAIN


async def _tell(socket: web.WebSocketResponse, stream: LinkStream) -> None:
    async with contextlib.aclosing(_lines(stream)) as lines:
        async for line in lines:
            for said in told(line):
                await socket.send_str(json.dumps(said, separators=(",", ":")))


async def _until_gone(socket: web.WebSocketResponse) -> None:
    """Nothing that a client says means anything here."""
    async for message in socket:
        if message.type is WSMsgType.ERROR:
            return


async def _lines(stream: LinkStream) -> AsyncGenerator[bytes, None]:
    held = bytearray()
    async for _, data in stream:
        held += data
        if len(held) > LINE_BYTES:
            raise AgentLost("the guest agent misspoke: a line without an end")
        *whole, rest = bytes(held).split(b"\n")
        held = bytearray(rest)
        for line in whole:
            yield line


def told(line: bytes) -> list[dict[str, Any]]:
    """A line of the agent's as what clients are told. What has not the shape it must have is passed over."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return []
    if not isinstance(said, dict):
        return []
    if "ready" in said:
        return [{"type": "ready", "folders": filenames.whole(said["ready"]), "partial": said.get("partial") is True}]
    if isinstance(said.get("changes"), list):
        changes = [change for each in said["changes"][:MOST_CHANGES] if (change := _change(each)) is not None]
        return [{"type": "changes", "changes": changes}]
    return [{"type": kind} for kind in ("overflow", "gone") if said.get(kind) is True]


def _change(said: Any) -> dict[str, Any] | None:
    if not isinstance(said, dict) or said.get("change") not in KINDS:
        return None
    return {**filenames.named("path", said.get("path_b64")), "change": said["change"],
            "directory": said.get("directory") is True}
