"""The ear for `berth.nudge`: JSON lines on a Redis channel that say what has changed, never how.

Started by `app`; calls Redis, then everyone who listens. A nudge may be lost: whoever waits here also looks
by himself after a while. After every (re)connection listeners hear `everything`, because nobody knows what
was missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import redis.asyncio as redis
from redis.exceptions import RedisError

log = logging.getLogger("berth.gateway.nudges")
CHANNEL = "berth.nudge"
EVERYTHING = "everything"
Listener = Callable[[str, str], None]


class Nudges:
    def __init__(self, client: redis.Redis[Any], longest_pause_s: float = 2.0) -> None:
        self._client = client
        self._longest_pause_s = longest_pause_s
        self._listeners: list[Listener] = []
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._everyone: set[asyncio.Event] = set()
        self.connected = asyncio.Event()

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    async def run(self) -> None:
        pause_s = 0.05
        while True:
            try:
                await self._follow()
            except (RedisError, OSError, TimeoutError) as error:
                if self.connected.is_set():
                    log.warning("nudge channel lost: %s", type(error).__name__)
            self.connected.clear()
            await asyncio.sleep(pause_s)
            pause_s = min(self._longest_pause_s, pause_s * 2)

    async def _follow(self) -> None:
        async with self._client.pubsub() as pubsub:
            await pubsub.subscribe(CHANNEL)
            self.connected.set()
            self._tell(EVERYTHING, "")
            while True:
                message = await pubsub.get_message(ignore_subscribe_messages=True, timeout=20.0)
                if message is None:
                    await pubsub.ping()  # a half-dead connection shows itself
                elif message["type"] == "message":
                    self._heard(message["data"])

    def _heard(self, data: Any) -> None:
        try:
            nudge = json.loads(data)
            self._tell(str(nudge["kind"]), str(nudge["id"]))
        except (ValueError, KeyError, TypeError):
            self._tell(EVERYTHING, "")  # said something; looking anew is always right

    def _tell(self, kind: str, subject: str) -> None:
        for listener in self._listeners:
            listener(kind, subject)
        for event in self._everyone if kind != "workspace" else ():
            event.set()
        keys = list(self._waiting) if kind == EVERYTHING else [subject]
        for key in keys:
            for event in self._waiting.get(key, ()):
                event.set()

    @contextlib.contextmanager
    def about(self, subject: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever something about the subject (a workspace's id) may have changed."""
        event = asyncio.Event()
        waiting = self._waiting.setdefault(subject, set())
        waiting.add(event)
        try:
            yield event
        finally:
            waiting.discard(event)
            if not waiting:
                self._waiting.pop(subject, None)

    @contextlib.contextmanager
    def about_permission(self, subject: str) -> Iterator[asyncio.Event]:
        """As `about`, and also set whenever anybody's credentials may have changed."""
        with self.about(subject) as event:
            self._everyone.add(event)
            try:
                yield event
            finally:
                self._everyone.discard(event)


async def pause(event: asyncio.Event, longest_s: float) -> None:
    """Until the event or the time, whichever is first; clears the event."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, longest_s)):
            await event.wait()
    event.clear()
