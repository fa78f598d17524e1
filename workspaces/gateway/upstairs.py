"""The one door from the event loop to Django: selectors and services in small thread pools.

Called by `access`, `wake`, `waiting` and `activity`, never on the hot path (they keep what they got). Reads
and writes have pools of their own, so that a write waiting for the database delays no look-up. Threads keep
their database connection; one that broke (a restarted database) is replaced and the call made once more,
which every selector and service allows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from django.db import InterfaceError, OperationalError, connections

from workspaces.actors import Actor
from workspaces.api.errors import Problem

if TYPE_CHECKING:
    from workspaces.models import Workspace

T = TypeVar("T")

@dataclass(frozen=True)
class Place:
    """Where a workspace is and in what state, for one actor. All the hot path needs of a row."""

    workspace_id: str
    state: str
    state_reason: str
    generation: int
    role: str

    @property
    def may_operate(self) -> bool:
        return self.role in ("owner", "operator")


class Upstairs:
    def __init__(self, readers: int = 4, writers: int = 2) -> None:
        self._readers = ThreadPoolExecutor(readers, thread_name_prefix="lookup")
        self._writers = ThreadPoolExecutor(writers, thread_name_prefix="service")

    def close(self) -> None:
        self._readers.shutdown(wait=False, cancel_futures=True)
        self._writers.shutdown(wait=False, cancel_futures=True)

    async def _read(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._readers, _with_connection, work)

    async def _write(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writers, _with_connection, work)

    async def actor_from_token(self, secret: str) -> Actor:
        from workspaces import selectors
        return await self._read(lambda: selectors.actor_from_token(secret))

    async def actor_from_session(self, session_key: str) -> Actor:
        from workspaces import selectors

        def work() -> Actor:
            actor = selectors.actor_from_session(session_key)
            if actor is None:
                raise Problem("unauthenticated", "This session has ended.")
            return actor
        return await self._read(work)

    async def place(self, actor: Actor, workspace_id: str) -> Place:
        from workspaces import selectors
        return await self._read(lambda: _place(selectors.workspace_for(actor, workspace_id), actor))

    async def wake(self, actor: Actor, workspace_id: str, cause: str) -> None:
        from workspaces import selectors, services
        await self._write(lambda: services.wake(selectors.workspace_for(actor, workspace_id), actor, cause))

    async def auto_checkpoint(self, actor: Actor, workspace_id: str) -> str:
        """The id of the checkpoint that is taken before a step, or ""."""
        from workspaces import checkpoints, selectors

        def work() -> str:
            made = checkpoints.auto(selectors.workspace_for(actor, workspace_id), actor)
            return made.pk if made is not None else ""
        return await self._write(work)

    async def is_capturing(self, checkpoint_id: str) -> bool:
        from workspaces import checkpoints
        return await self._read(lambda: checkpoints.is_capturing(checkpoint_id))

    async def touch(self, workspace_id: str, kind: str) -> None:
        from workspaces import services
        await self._write(lambda: services.touch(workspace_id, kind))


def _place(workspace: Workspace, actor: Actor) -> Place:
    from workspaces import selectors
    return Place(workspace.pk, workspace.state, workspace.state_reason, workspace.generation,
                 selectors.role_in(actor, workspace))


def _with_connection(work: Callable[[], T]) -> T:
    try:
        return work()
    except (OperationalError, InterfaceError):
        connections.close_all()
        return work()
