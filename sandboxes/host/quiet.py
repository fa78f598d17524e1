"""A guest at rest for a capture: its processes frozen, its files on disk, nothing in flight on the link; and back.

Called by the operations that capture; calls the guest link. A guest that does not come to rest in time is captured all
the same, as a power cut would find it: `consistency` says which.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from sandboxes.errors import SandboxError
from sandboxes.guest.link import GuestLink
from sandboxes.host import log
from sandboxes.host.body import Body
from sandboxes.host.step import Step

#: The agent thaws by itself after this long of its own time, should nobody tell it to.
MOST_FROZEN_S = 60.0
DRAIN_S = 5.0
THAW_S = 15.0


@dataclass
class Rest:
    consistency: str = "crash"
    #: When the guest began to stand still, by the host's monotonic clock.
    since: float = 0.0
    #: When it went on.
    until: float = 0.0
    #: The body is gone: nobody to thaw.
    ended: bool = False

    @property
    def lasted_ms(self) -> float:
        return round(((self.until or time.monotonic()) - self.since) * 1000, 1)


@contextlib.asynccontextmanager
async def at_rest(body: Body, step: Step, rest: Rest) -> AsyncIterator[None]:
    """Two stages of an operation: it comes to rest, and is captured."""
    step("quiesce")
    deadline_s = step.operation.grace_s
    rest.since = time.monotonic()
    link: GuestLink | None = None
    try:
        try:
            link = await body.soon(deadline_s)
            await link.request("quiesce", {"most_s": MOST_FROZEN_S}, timeout_s=deadline_s)
            await link.drain(DRAIN_S)
            rest.consistency = "clean"
        except SandboxError as error:
            log.failure("capture.not_quiesced", error, machine_id=body.machine_id)
        step("capture")
        yield
    finally:
        if link is not None and not rest.ended:
            await thaw(link, body.machine_id)
        rest.until = time.monotonic()


async def thaw(link: GuestLink, machine_id: str) -> None:
    """Repeatable; a guest that cannot be told thaws by itself."""
    try:
        await link.request("thaw", {}, timeout_s=THAW_S)
    except SandboxError as error:
        log.failure("capture.not_thawed", error, machine_id=machine_id)
