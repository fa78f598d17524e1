"""Notices that a client has gone while its answer is still being made.

Used around everything that may take long (long polls, streams, downloads). ASGI says so only to those who
`receive`; a task per request for that would cost more than a short request itself, so watching begins after
a moment. When the client goes, the block is cancelled and `ClientGone` is raised from it.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from workspaces.gateway.exchange import ClientGone, Receive


class Departure:
    """Enter it only when the request's body has been read, or is not wanted: it swallows what is left."""

    def __init__(self, receive: Receive, after_s: float = 0.5) -> None:
        self._receive = receive
        self._after_s = after_s
        self._timer: asyncio.TimerHandle | None = None
        self._watch: asyncio.Task[None] | None = None
        self._owner: asyncio.Task[object] | None = None
        self._gone = False

    async def __aenter__(self) -> Departure:
        self._owner = asyncio.current_task()
        self._timer = asyncio.get_running_loop().call_later(self._after_s, self._begin)
        return self

    def _begin(self) -> None:
        self._watch = asyncio.get_running_loop().create_task(self._wait())

    async def _wait(self) -> None:
        while (await self._receive())["type"] not in ("http.disconnect", "websocket.disconnect"):
            pass
        self._gone = True
        if self._owner is not None:
            self._owner.cancel()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._watch is not None and not self._watch.done():
            self._watch.cancel()
        if self._gone and self._owner is not None:
            self._owner.uncancel()
            raise ClientGone from None
