"""One operation under way, as its function sees it: it names its stages and learns at their boundaries that it is over.

Made by `operations.py`; used by every operation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from sandboxes.errors import SandboxError
from sandboxes.host import log
from sandboxes.host.registry import Operation


class Superseded(SandboxError):
    """A kill or destroy took this operation's place."""

    code = "superseded"


class Step:
    """What an operation's function is given: names stages, and ends it at a boundary when it was taken over."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.taken_over = asyncio.Event()

    def __call__(self, stage: str) -> None:
        if self.taken_over.is_set():
            raise Superseded()
        self.name_only(stage)

    def name_only(self, stage: str) -> None:
        self.operation.stage = stage
        if stage:
            log.line("operation.stage", operation_id=self.operation.operation_id, stage=stage)

    async def unless_taken_over(self, waiting: Awaitable[Any], timeout_s: float) -> bool:
        """Waits for what may be left at any moment. True when it came within the time."""
        doing = asyncio.ensure_future(waiting)
        leaving = asyncio.ensure_future(self.taken_over.wait())
        try:
            await asyncio.wait({doing, leaving}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if leaving.done():
                raise Superseded()
            return doing.done()
        finally:
            for task in (doing, leaving):
                task.cancel()
            await asyncio.gather(doing, leaving, return_exceptions=True)
