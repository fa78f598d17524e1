"""A guest agent under test and short ways to ask it. The agent is the real one, started by the fake driver."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandboxes.guest.link import GuestLink
from sandboxes.guest.linkstream import LinkStream

DEADLINE_S = 60.0


@dataclass
class Ran:
    """How one exec ended and what it wrote."""

    stdout: bytes
    stderr: bytes
    result: dict[str, Any]
    exec_id: str = ""

    @property
    def outcome(self) -> dict[str, Any]:
        return self.result["outcome"]


@dataclass
class Guest:
    socket: Path
    link: GuestLink
    root: Path = field(default_factory=Path)

    async def start(self, shell: str | None = None, **params: Any) -> str:
        exec_id = params.pop("exec_id", secrets.token_hex(10))
        body: dict[str, Any] = {"exec_id": exec_id, "user": "user", "env": {}, "stdin": False, **params}
        if shell is not None:
            body["shell"] = shell
        await self.link.request("exec.start", body)
        return exec_id

    async def output(self, exec_id: str, stdout: int = 0, stderr: int = 0) -> LinkStream:
        return await self.link.stream("exec.output", {
            "exec_id": exec_id, "offsets": {"stdout": stdout, "stderr": stderr}})

    async def finish(self, exec_id: str) -> Ran:
        async with asyncio.timeout(DEADLINE_S):
            stream = await self.output(exec_id)
            parts: dict[int, list[bytes]] = {1: [], 2: []}
            async for tag, data in stream:
                parts[tag].append(data)
            return Ran(b"".join(parts[1]), b"".join(parts[2]), await stream.result(), exec_id)

    async def run(self, shell: str | None = None, **params: Any) -> Ran:
        return await self.finish(await self.start(shell, **params))

    async def stdin(self, exec_id: str, data: bytes, eof: bool = True) -> dict[str, Any]:
        stream = await self.link.stream("exec.stdin", {"exec_id": exec_id, "eof": eof})
        await stream.write(data)
        await stream.write_eof()
        return await stream.result()

    async def file(self, method: str, path: str | bytes, **params: Any) -> dict[str, Any]:
        if "to" in params:
            params["to_b64"] = b64(params.pop("to"))
        return await self.link.request(f"file.{method}", {"path_b64": b64(path), "user": "user", **params})

    async def write(self, path: str | bytes, data: bytes, **params: Any) -> dict[str, Any]:
        stream = await self.link.stream("file.write", {"path_b64": b64(path), "user": "user", **params})
        async with asyncio.timeout(DEADLINE_S):
            await stream.write(data)
            await stream.write_eof()
            return await stream.result()

    async def read(self, path: str | bytes, **params: Any) -> bytes:
        stream = await self.link.stream("file.read", {"path_b64": b64(path), "user": "user", "offset": 0, **params})
        async with asyncio.timeout(DEADLINE_S):
            return b"".join([data async for _tag, data in stream])

    async def names(self, path: str | bytes, **params: Any) -> list[bytes]:
        listing = await self.file("list", path, limit=1000, **params)
        return [unb64(entry["path_b64"]) for entry in listing["entries"]]

    @contextlib.asynccontextmanager
    async def another_link(self, epoch: int = 1) -> AsyncIterator[Guest]:
        link = await GuestLink.open(self.socket, epoch, timeout_s=DEADLINE_S)
        try:
            yield Guest(self.socket, link, self.root)
        finally:
            await link.close()


def b64(path: str | bytes) -> str:
    return base64.b64encode(path if isinstance(path, bytes) else path.encode()).decode()


def unb64(text: str) -> bytes:
    return base64.b64decode(text)


async def until(condition: Callable[[], bool]) -> None:
    """Polls until true; fails at a deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "never became true"
        await asyncio.sleep(0.02)
