"""What both events sockets share: judged before accept, nudged by the channel layer, truth from the table.

Base of the consumers in `consumers`. The layer may lose a message and may send ten at once: a nudge only sets
one event, one read is outstanding at a time, and a clock looks anyway. Who may see is asked again before
every batch, so that a revocation ends the socket within seconds.

Close codes: 4401 the credentials ended, 4403 not allowed (any more), 4404 the workspace is gone for you,
4503 come again later. Before accept every refusal is a plain 403.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from typing import Any, ClassVar

from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import DatabaseError

from workspaces.actors import Actor
from workspaces.api.errors import Problem
from workspaces.live.credentials import Credentials

log = logging.getLogger("berth.live")
CLOSE_CODES = {401: 4401, 403: 4403, 404: 4404}
AGAIN = 4503


class Feed(AsyncWebsocketConsumer):  # type: ignore[misc]
    #: How long a lost nudge may go unnoticed, and a revocation that nobody announced.
    look_every_s: ClassVar[float] = 5.0
    #: Nudges that come close together are one look.
    look_apart_s: ClassVar[float] = 0.1

    async def connect(self) -> None:
        self.credentials = Credentials(self.scope)
        self.changed = asyncio.Event()
        self.work: asyncio.Task[None] | None = None
        self.joined: list[str] = []
        try:
            actor = await self.credentials.actor()
            await self.prepare(actor)
            await self.join(self.groups_of(actor))
        except Problem as problem:
            log.info("socket refused: %s", problem.code)
            await self.close()
            return
        await self.accept()
        self.work = asyncio.create_task(self._run())

    async def disconnect(self, code: int) -> None:
        if self.work is not None:
            self.work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.work
        for group in self.joined:
            with contextlib.suppress(Exception):  # a Redis that is away forgets its groups by itself
                await self.channel_layer.group_discard(group, self.channel_name)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Clients have nothing to say here."""

    async def berth_nudge(self, message: dict[str, Any]) -> None:
        self.nudged(message)
        self.changed.set()

    # for the two sockets

    async def prepare(self, actor: Actor) -> None:
        """Raises Problem when this actor may not open this socket."""
        raise NotImplementedError

    def groups_of(self, actor: Actor) -> list[str]:
        raise NotImplementedError

    def nudged(self, message: dict[str, Any]) -> None:
        """What a nudge says, for those who want to look at less than everything."""

    async def look(self, actor: Actor) -> bool:
        """Sends what is new. True when there may be more at once. Raises Problem when nothing may be seen."""
        raise NotImplementedError

    # the one loop

    async def join(self, groups: list[str]) -> None:
        """A layer that is away costs freshness, not the socket: the clock looks."""
        for group in groups:
            try:
                await self.channel_layer.group_add(group, self.channel_name)
                self.joined.append(group)
            except Exception as error:
                log.warning("channel layer away: %s", type(error).__name__)

    async def _run(self) -> None:
        try:
            while True:
                self.changed.clear()
                more = await self._look_once()
                if not more:
                    await asyncio.sleep(self.look_apart_s)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self.look_every_s):
                            await self.changed.wait()
        except Problem as problem:
            await self.close(CLOSE_CODES.get(problem.status, AGAIN))
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("events socket failed")
            await self.close(AGAIN)

    async def _look_once(self) -> bool:
        try:
            return await self.look(await self.credentials.actor())
        except DatabaseError as error:
            log.warning("database: %s", type(error).__name__)
            return False

    async def say(self, value: dict[str, Any]) -> None:
        await self.send(text_data=json.dumps(value, ensure_ascii=False))
