"""A first call of any kind wakes its workspace and then goes on; nobody has to ask twice (field case 080).

Called by execs, files and terminals; calls `upstairs.wake` once however many ask, waits by nudge, by looking,
and by asking hostd, whose word that a machine from rest runs is not kept waiting by the ledger. hostd may know better
than the row (`not_running` for a machine whose row says running): then the row is looked at again until both agree,
or the time is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from workspaces.actors import Actor
from workspaces.api.errors import Problem
from workspaces.gateway.access import Access
from workspaces.gateway.config import Limits
from workspaces.gateway.hostd import Hostd
from workspaces.gateway.nudges import Nudges, pause
from workspaces.gateway.upstairs import Place, Upstairs

T = TypeVar("T")
LOOK_EVERY_S = 1.0
GONE = frozenset({"deleted", "deleting"})
#: From these nothing has to end before it runs.
FROM_REST = frozenset({"standby", "stopped", "waking"})
BY_ITSELF = frozenset({"creating", "waking", "restoring"})  # on their way up without being asked


class Wake:
    def __init__(self, access: Access, upstairs: Upstairs, nudges: Nudges, hostd: Hostd, limits: Limits) -> None:
        self._access, self._upstairs, self._nudges, self._limits = access, upstairs, nudges, limits
        self._hostd = hostd
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._listening: dict[str, asyncio.Task[bool]] = {}

    async def running(self, actor: Actor, place: Place, cause: str, timeout_s: float) -> None:
        """Returns when the workspace runs. Raises what it is instead, or `wake_timeout`."""
        if place.state == "running":
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._until_running(actor, place, cause)
        except TimeoutError:
            raise timed_out(timeout_s) from None

    async def then(self, actor: Actor, place: Place, cause: str, timeout_s: float,
                   ask: Callable[[], Awaitable[T]]) -> T:
        """`ask` of a running machine. While hostd says `not_running`, the row is looked at anew and woken."""
        await self.running(actor, place, cause, timeout_s)
        try:
            return await ask()
        except Problem as problem:
            if problem.code not in NOT_UP:
                raise
        try:
            async with asyncio.timeout(timeout_s):
                return await self._agree(actor, place, cause, ask)
        except TimeoutError:
            raise timed_out(timeout_s) from None

    async def _agree(self, actor: Actor, place: Place, cause: str, ask: Callable[[], Awaitable[T]]) -> T:
        with self._nudges.about(place.workspace_id) as changed:
            while True:
                self._access.forget("workspace", place.workspace_id)
                await self._ask_upstairs(actor, place.workspace_id, cause)
                await self._until_running(actor, await self._look(actor, place.workspace_id), cause)
                try:
                    return await ask()
                except Problem as problem:
                    if problem.code not in NOT_UP:
                        raise
                await pause(changed, LOOK_EVERY_S)

    async def _until_running(self, actor: Actor, place: Place, cause: str) -> None:
        with self._nudges.about(place.workspace_id) as changed:
            asked = False
            while place.state != "running":
                refuse_if_hopeless(place, asked)
                if not asked and place.state not in BY_ITSELF:
                    await self._ask_upstairs(actor, place.workspace_id, cause)
                    self._access.forget("workspace", place.workspace_id)
                    asked = True
                elif await self._up(place, changed):
                    return
                place = await self._look(actor, place.workspace_id)

    async def _up(self, place: Place, changed: asyncio.Event) -> bool:
        """Until something is heard. True when hostd says first that it runs: the ledger is not waited for."""
        if place.state not in FROM_REST:
            await pause(changed, LOOK_EVERY_S)
            return False
        hearing, asking = asyncio.ensure_future(pause(changed, LOOK_EVERY_S)), self._listening_to(place.workspace_id)
        try:
            await asyncio.wait({hearing, asking}, return_when=asyncio.FIRST_COMPLETED)
            if asking.done() and not asking.cancelled() and asking.exception() is None and asking.result():
                return True
            await hearing
            return False
        finally:
            hearing.cancel()

    def _listening_to(self, workspace_id: str) -> asyncio.Task[bool]:
        """One question to hostd for all who wait."""
        task = self._listening.get(workspace_id)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._hostd.up(workspace_id, LOOK_EVERY_S))
            self._listening[workspace_id] = task
            task.add_done_callback(lambda done: self._heard(workspace_id, done))
        return task

    def _heard(self, workspace_id: str, done: asyncio.Task[bool]) -> None:
        self._listening.pop(workspace_id, None)
        if not done.cancelled():
            done.exception()

    async def _look(self, actor: Actor, workspace_id: str) -> Place:
        """The row as last heard: a nudge has emptied what was kept, a lost one costs the table's few seconds."""
        return await self._access.place(actor, workspace_id)

    async def _ask_upstairs(self, actor: Actor, workspace_id: str, cause: str) -> None:
        """One request for all who want it now; it goes on when the one who began it goes away."""
        task = self._asking.get(workspace_id)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._upstairs.wake(actor, workspace_id, cause))
            self._asking[workspace_id] = task
            task.add_done_callback(lambda done: self._asked(workspace_id, done))
        await asyncio.shield(task)

    def _asked(self, workspace_id: str, done: asyncio.Task[None]) -> None:
        self._asking.pop(workspace_id, None)
        if not done.cancelled():
            done.exception()


NOT_UP = frozenset({"not_running"})


def refuse_if_hopeless(place: Place, asked: bool) -> None:
    """The trash is never woken from. Whether a failure may be tried again, upstairs says when it is asked."""
    if place.state in GONE:
        raise Problem("state_conflict", "The workspace is in the trash.", reason="deleted", state=place.state)
    if place.state == "failed" and asked:
        raise Problem("state_conflict", "The workspace has failed; start it to try again.",
                      reason=place.state_reason or "failed", state="failed")


def timed_out(timeout_s: float) -> Problem:
    return Problem("wake_timeout", f"The workspace did not run within {timeout_s:g} s; it is still being woken.",
                   retry_after_s=5)
