"""What the gateway answers itself, for the audit: each act once, when its end is known. Called by `app`.

An act: whatever may change something, a terminal opened, and whatever was refused for who asked. Reading contents is
one for an admin who broke the glass. What Daphne was asked is Daphne's to note. Acts are written in batches, so that
a fast loop of execs costs the database little; a gateway that is killed loses the last fraction of a second of them.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

from django.db import DatabaseError

from workspaces.acts import OK, Act
from workspaces.gateway.exchange import Exchange

log = logging.getLogger("berth.gateway.trail")
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
WORKSPACE = re.compile(r"\A/(?:api|ws)/v1/workspaces/([a-z2-7]{20})(?:/(.*))?\Z", re.DOTALL)
ID = re.compile(r"\A[a-z2-7]{20}\Z")
VERBS = {"POST": "start", "PUT": "write", "PATCH": "change", "DELETE": "remove"}
SPECIAL = {("exec", "DELETE"): "exec.kill"}
#: A window that is made larger is nobody's act.
SILENT = frozenset({"exec.resize"})
REFUSALS = frozenset({401, 403, 429})
BATCH, MOST_WAITING = 500, 50_000
COLLECT_S, AGAIN_S = 0.2, 1.0
#: Somebody who runs against a bound is noted once in so long, not once for each try.
ONCE_IN_S = 60.0


def kind_of(method: str, rest: str) -> str:
    """`execs` + POST: exec.start; `files/content` + PUT: file.write; `files/move`: file.move; reading: file.read."""
    words = [word for word in rest.split("/") if word and not ID.match(word)] or ["workspace"]
    noun, last = words[0].removesuffix("s"), words[-1] if len(words) > 1 else ""
    if method in SAFE:
        return f"{noun}.read"
    plain = VERBS.get(method, method.lower())
    return SPECIAL.get((noun, method), f"{noun}.{plain if last in ('', 'content') else last}")


def socket_kind(path: str) -> tuple[str, bool]:
    """(what was opened, whether one acts through it): who watches changes nothing."""
    for part, kind in (("/terminals/", "terminal.open"), ("/ports/", "port.tunnel")):
        if part in path:
            return kind, True
    return ("file.watch" if "/files/" in path else "events.open"), False


class Trail:
    def __init__(self, write: Callable[[Sequence[Act]], Awaitable[None]],
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._write, self._clock = write, clock
        self._waiting: asyncio.Queue[Act] = asyncio.Queue(MOST_WAITING)
        self._limited: dict[str, float] = {}
        self._held: list[Act] = []

    def note(self, exchange: Exchange, address: str, *, socket_status: int | None = None) -> None:
        """The exchange is over. Never raises and never waits."""
        act = self._act_of(exchange, address, socket_status)
        if act is None:
            return
        try:
            self._waiting.put_nowait(act)
        except asyncio.QueueFull:
            log.error("not in the audit, the database has been away for too long: %s %s", act.kind, act.target)

    def _act_of(self, exchange: Exchange, address: str, socket_status: int | None) -> Act | None:
        status = exchange.status if socket_status is None else socket_status
        refused = bool(exchange.refusal) and status in REFUSALS
        if exchange.passed_on or (status == 429 and self._lately(exchange, address)):
            return None
        place = WORKSPACE.match(exchange.path)
        kind = "request"
        if place is not None:
            kind = kind_of(exchange.method, place[2] or "")
        if socket_status is not None:
            kind, is_act = socket_kind(exchange.path)
        else:
            is_act = place is not None and kind not in SILENT and (exchange.method not in SAFE or exchange.glass)
        if not is_act and not refused:
            return None
        return Act(kind, f"workspace:{place[1]}" if place else "", _outcome(exchange, status), status,
                   exchange.actor, address, dict(exchange.noted), datetime.now(UTC))

    def _lately(self, exchange: Exchange, address: str) -> bool:
        who, now = exchange.actor_name if exchange.actor is not None else address, self._clock()
        if now - self._limited.get(who, -ONCE_IN_S) < ONCE_IN_S:
            return True
        if len(self._limited) >= 10_000:
            self._limited.clear()
        self._limited[who] = now
        return False

    async def run(self) -> None:
        while True:
            self._held.append(await self._waiting.get())
            await asyncio.sleep(COLLECT_S)
            await self._flush()

    async def close(self) -> None:
        """What is left, as far as the database takes it."""
        await self._flush(last=True)

    async def _flush(self, last: bool = False) -> None:
        while self._held or not self._waiting.empty():
            while len(self._held) < BATCH and not self._waiting.empty():
                self._held.append(self._waiting.get_nowait())
            try:
                await self._write(self._held)
                self._held = []
            except DatabaseError as error:
                log.warning("the audit waits for the database: %s", type(error).__name__)
                if last:
                    log.error("%d acts are not in the audit", len(self._held) + self._waiting.qsize())
                    return
                await asyncio.sleep(AGAIN_S)


def _outcome(exchange: Exchange, status: int) -> str:
    if exchange.refusal:
        return exchange.refusal
    return OK if status < 400 else "client_gone" if status == 499 else f"http_{status}"
