"""Remembers that a workspace was used, and tells upstairs at most once in ten seconds each.

Called by routes and terminals for work (execs, files, terminal input), never for looking. Calls
`upstairs.touch` in the background: nobody waits for it, and a failure costs one stamp.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

log = logging.getLogger("berth.gateway.activity")
EVERY_S = 10.0


class Activity:
    def __init__(self, touch: Callable[[str, str], Awaitable[None]],
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._touch = touch
        self._clock = clock
        self._told_at: dict[str, float] = {}
        self._untold: dict[str, str] = {}
        self._rung = asyncio.Event()

    def happened(self, workspace_id: str, kind: str) -> None:
        """Cheap enough for every frame: a dictionary is written."""
        if workspace_id not in self._untold:
            self._untold[workspace_id] = kind
            self._rung.set()

    async def run(self) -> None:
        """First use is told at once, further use of the same workspace when its ten seconds are over."""
        while True:
            if not self._untold:
                self._rung.clear()
                await self._rung.wait()
            await self.tell_due()
            try:
                async with asyncio.timeout(1.0):
                    await self._rung.wait()
            except TimeoutError:
                pass
            self._rung.clear()

    async def tell_due(self) -> None:
        now = self._clock()
        self._told_at = {k: at for k, at in self._told_at.items() if now - at < EVERY_S}
        for workspace_id, kind in list(self._untold.items()):
            if workspace_id in self._told_at:
                continue
            self._told_at[workspace_id] = now
            del self._untold[workspace_id]
            try:
                await self._touch(workspace_id, kind)
            except Exception as error:  # a lost stamp must not end the stamping
                log.warning("touch of %s failed: %s", workspace_id, type(error).__name__)
