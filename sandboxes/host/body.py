"""A machine's live body as hostd holds it: the driver's `LiveMachine`, and the link to its agent, kept open.

Made by boot and adopt; used by execs, terminals, files and operations. A link that breaks while the body lives is
opened again with growing pauses; who waits in `ready()` goes on then. It never writes a phase.
"""

from __future__ import annotations

import asyncio
import contextlib

from sandboxes.drivers.base import LiveMachine
from sandboxes.errors import AgentLost, NotRunning, SandboxError
from sandboxes.guest.link import GuestLink
from sandboxes.host import log

REOPEN_S = 10.0
PAUSE_S_MAX = 2.0
LAST_WORDS_S = 1.0


class BodyEnded(NotRunning):
    """The body is gone. `reason` is the word that its execs end with."""


class NoBody:
    """In place of a body while the machine is parked: what runs in its memory is there, and nobody can be asked."""

    lost_reason = "memory_dropped"

    async def soon(self, timeout_s: float) -> GuestLink:
        raise NotRunning("the machine is parked", reason="parked")

    async def ready(self) -> GuestLink:
        return await self.soon(0)


class Body:
    def __init__(self, machine_id: str, live: LiveMachine, epoch: int, link: GuestLink | None,
                 memory_since: int | None = None) -> None:
        self.machine_id, self.live, self.epoch = machine_id, live, epoch
        #: The epoch in which its memory was new: earlier than its own when it was resumed. Execs since then are in it.
        self.memory_since = epoch if memory_since is None else memory_since
        #: What execs that were running end with: set before the body is ended on purpose.
        self.lost_reason = "machine_died"
        self.ended = asyncio.Event()
        #: Its phase is on the disk: it may be told that it runs.
        self.settled = True
        self._link = link
        self._linked = asyncio.Event()
        if link is not None:
            self._linked.set()
        self._keeper = asyncio.create_task(self._keep_link(), name=f"link {machine_id}")

    def now(self) -> GuestLink:
        """The link, if it is open at this moment. Raises AgentLost or BodyEnded."""
        if self.ended.is_set():
            raise BodyEnded("the machine has ended", reason=self.lost_reason)
        if self._link is None or self._link.closed.is_set():
            raise AgentLost("the guest's agent is away; hostd is connecting to it again")
        return self._link

    async def ready(self) -> GuestLink:
        """The link, waiting for it as long as the body lives."""
        while True:
            with contextlib.suppress(AgentLost):
                return self.now()
            self._linked.clear()
            await self._linked.wait()

    async def soon(self, timeout_s: float) -> GuestLink:
        """The link, waiting a little for it. Raises AgentLost when it stays away."""
        try:
            return self.now()
        except AgentLost:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    return await self.ready()
            raise

    async def _keep_link(self) -> None:
        pause_s = 0.05
        while not self.ended.is_set():
            if self._link is not None:
                await self._link.closed.wait()
                misspoke, self._link = self._link.misspoke, None
                log.line("link.lost", machine_id=self.machine_id, misspoke=misspoke)
                if misspoke:
                    await asyncio.sleep(PAUSE_S_MAX)
            try:
                self._link = await GuestLink.open(self.live.agent_socket, epoch=self.epoch, timeout_s=REOPEN_S)
            except (SandboxError, OSError) as error:
                log.failure("link.not_opened", error, machine_id=self.machine_id)
                await asyncio.sleep(pause_s)
                pause_s = min(PAUSE_S_MAX, pause_s * 2)
                continue
            pause_s = 0.05
            log.line("link.opened", machine_id=self.machine_id, agent=str(self._link.info.get("agent_version"))[:40])
            self._linked.set()

    async def end(self) -> None:
        """The body is gone: everyone who waits for its agent is told. What it had still sent is taken in first."""
        self.ended.set()
        if self._link is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORDS_S):
                    await self._link.closed.wait()
        await self.detach()
        self._linked.set()

    async def detach(self) -> None:
        """Lets go of the link; the body lives on."""
        self._keeper.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._keeper
        if self._link is not None:
            await self._link.close()
            self._link = None
