"""One open stdin stream per terminal, so that a keystroke costs one frame and no answer. Called by `terminal.py`."""

from __future__ import annotations

import asyncio
import time

from sandboxes.errors import AgentLost
from sandboxes.guest.link import GuestLink
from sandboxes.guest.linkstream import LinkStream
from sandboxes.host.running import Running


class TypingLine:
    """Keeps the order of what its writers type. A write waits while the terminal's own input queue is full."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._lock = asyncio.Lock()
        self._link: GuestLink | None = None
        self._stream: LinkStream | None = None

    async def write(self, data: bytes) -> None:
        """Raises SandboxError when the exec has ended or the agent stays away. Half-typed bytes are not repeated."""
        self._running.input_at = time.time()
        async with self._lock:
            stream = await self._open()
            try:
                await stream.write(data)
            except AgentLost:
                self._stream = None
                raise

    async def _open(self) -> LinkStream:
        link = await self._running.body.soon(10)
        if self._stream is None or self._link is not link:
            self._link = link
            params = {"exec_id": self._running.record.exec_id, "eof": False}
            self._stream = await link.stream("exec.stdin", params, reads=False)
        return self._stream

    async def resize(self, size: dict[str, int]) -> None:
        await self._running.resize(size)

    @property
    def running(self) -> Running:
        return self._running
