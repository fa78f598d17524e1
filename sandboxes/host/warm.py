"""Makes the template of the default shape while nobody waits for it, so that the first create is a resume, too.

Started by `app.py` when hostd serves; `/v1/host` shows where it stands. A create that comes meanwhile joins it in the
driver. A failure is said and left alone: the next start of a machine tries again and reports it to somebody.
"""

from __future__ import annotations

import asyncio
import contextlib

from sandboxes.drivers.base import Driver
from sandboxes.host import log
from sandboxes.spec import Shape


class Warmth:
    def __init__(self, driver: Driver) -> None:
        #: "warming", "ready" or "failed".
        self.state = "warming"
        self._driver = driver
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._task = asyncio.create_task(self._warm(), name="warm")

    async def _warm(self) -> None:
        try:
            await self._driver.prepare(Shape(), lambda stage: log.line("template.stage", stage=stage))
        except Exception as error:
            self.state = "failed"
            log.failure("template.failed", error)
        else:
            self.state = "ready"

    async def end(self) -> None:
        """A template that is half made is taken down by its maker."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
