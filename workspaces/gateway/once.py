"""Idempotency-Key on what changes a file or an exec: the change happens once for 24 h, however often it is asked for.

Called by `files` and `execs`; what was asked is kept in Redis, the result is looked at anew in the guest. With a key
the change goes on when its client goes away, for it will come again; who comes meanwhile joins it. A refused change
keeps no key. New execs are named instead (`repeats`): hostd itself knows those.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import redis.asyncio as redis
from redis.exceptions import RedisError

from workspaces.actors import Actor
from workspaces.api.errors import Problem
from workspaces.gateway.departure import Departure
from workspaces.gateway.exchange import Exchange
from workspaces.gateway.gate import Gate
from workspaces.gateway.repeats import KEPT_S, forgotten, key_of

LEASE_S = 60          # a gateway that died in the middle blocks its key no longer than this
LOOK_EVERY_S = 0.1

Seen = tuple[int, Any]


@dataclass(frozen=True)
class Deed:
    """`do` makes the change and says (status, object); `look` shows the object of that name as it is later."""

    what: list[Any]
    named_by: str   # the field of the object that names it; its value has no spaces
    do: Callable[[], Awaitable[Seen]]
    look: Callable[[str], Awaitable[Any]]


class Claim:
    """One key's entry: `print status name`, where status 0 is under way, renewed by whoever is at it."""

    def __init__(self, client: redis.Redis[Any], name: str, print_: str) -> None:
        self._client, self._name, self._print = client, name, print_

    async def take(self) -> tuple[int, str] | None:
        """None: it is ours to do. Else the status and the object of its answer; one under way is waited for."""
        while True:
            try:
                kept = await self._client.set(self._name, f"{self._print} 0 -", nx=True, get=True, ex=LEASE_S)
            except (RedisError, OSError):
                raise forgotten() from None
            if kept is None:
                return None
            print_, status, name = bytes(kept).decode().split(" ")
            if print_ != self._print:
                raise Problem("idempotency_conflict", "This Idempotency-Key was used for another request.")
            if int(status):
                return int(status), name
            await asyncio.sleep(LOOK_EVERY_S)

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Ours while the block runs; given back when the block raises."""
        renewing = asyncio.get_running_loop().create_task(self._renew())
        try:
            yield
        except BaseException:
            with contextlib.suppress(RedisError, OSError):
                await self._client.delete(self._name)
            raise
        finally:
            renewing.cancel()

    async def done(self, status: int, name: str) -> None:
        with contextlib.suppress(RedisError, OSError):
            await self._client.set(self._name, f"{self._print} {status} {name}", ex=KEPT_S)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(LEASE_S / 3)
            with contextlib.suppress(RedisError, OSError):
                await self._client.expire(self._name, LEASE_S)


_UNDER_WAY: set[asyncio.Task[Seen]] = set()  # a task nobody refers to may be collected in the middle


async def answer(gate: Gate, exchange: Exchange, actor: Actor, workspace_id: str, deed: Deed) -> None:
    """The keyed change's answer: made now, joined, or remembered. The caller has read the body."""
    key = key_of(exchange.header(b"idempotency-key"))
    assert key is not None, "without a key there is nothing to remember"
    said = json.dumps(deed.what, sort_keys=True).encode()
    owner = f"{actor.user_id}\0{workspace_id}\0{key}".encode()
    claim = Claim(gate.redis, f"berth:deed-key:{hashlib.sha256(owner).hexdigest()}", hashlib.sha256(said).hexdigest())
    async with Departure(exchange.receive):
        earlier = await claim.take()
        if earlier is not None:
            await exchange.json(earlier[0], await deed.look(earlier[1]), [(b"idempotency-replayed", b"true")])
            return
        task = asyncio.get_running_loop().create_task(_make(claim, deed))
        _UNDER_WAY.add(task)
        task.add_done_callback(_over)
        status, value = await asyncio.shield(task)
    await exchange.json(status, value)


async def _make(claim: Claim, deed: Deed) -> Seen:
    async with claim.held():
        status, value = await deed.do()
    await claim.done(status, str(value[deed.named_by]))
    return status, value


def _over(task: asyncio.Task[Seen]) -> None:
    _UNDER_WAY.discard(task)
    if not task.cancelled():
        task.exception()  # who waited for it has it; where nobody waits it is not to be complained of

