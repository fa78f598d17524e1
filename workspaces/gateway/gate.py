"""The parts of the gateway, made once and handed to every route: what a route may call, in one place.

Made by `app` at start; routes get it with each exchange. Knows no route.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import redis.asyncio as redis
from django.db import DatabaseError

from workspaces.actors import Actor
from workspaces.api.errors import Problem
from workspaces.gateway.access import Access, require
from workspaces.gateway.activity import Activity
from workspaces.gateway.autos import Autos
from workspaces.gateway.config import Config
from workspaces.gateway.daphne import Daphne
from workspaces.gateway.exchange import Exchange
from workspaces.gateway.held import Starter
from workspaces.gateway.hostd import Hostd
from workspaces.gateway.nudges import Nudges
from workspaces.gateway.previews.pool import Pool
from workspaces.gateway.previews.visitors import Visitors
from workspaces.gateway.rates import Rates
from workspaces.gateway.slots import Slots
from workspaces.gateway.trail import Trail
from workspaces.gateway.upstairs import Place, Upstairs
from workspaces.gateway.wake import Wake

if TYPE_CHECKING:
    from workspaces.gateway.mcp.endpoint import Mcp


@dataclass
class Gate:
    config: Config
    access: Access
    upstairs: Upstairs
    nudges: Nudges
    wake: Wake
    hostd: Hostd
    daphne: Daphne
    activity: Activity
    autos: Autos
    redis: redis.Redis[Any]
    rates: Rates
    trail: Trail
    requests: Slots
    sockets: Slots
    daphne_requests: Slots
    preview_requests: Slots
    visitors: Visitors
    previews_kept: Pool
    mcp: Mcp | None = None   # the app opens it: it calls the app itself

    async def enter(self, exchange: Exchange, workspace_id: str, scope: str) -> tuple[Actor, Place]:
        """The one way in to a workspace: who asks, with which scope, and whether it is theirs to see."""
        actor = await self.admit(exchange)
        require(actor, scope)
        place = await self.access.place(actor, workspace_id)
        exchange.glass = place.glass
        return actor, place

    async def still(self, exchange: Exchange, workspace_id: str, scope: str) -> Place:
        """Whether what began may go on. Asked again and again, so it counts as no request."""
        actor = await self.access.actor(exchange)
        require(actor, scope)
        return await self.access.place(actor, workspace_id)

    async def admit(self, exchange: Exchange) -> Actor:
        """Who asks; an HTTP exchange holds one of their slots from here to its end."""
        actor = await self._known(exchange)
        exchange.actor, exchange.actor_name = actor, f"{actor.type}:{actor.name}"
        self.rates.known(actor)
        if exchange.scope["type"] == "http":
            exchange.holds.enter_context(self.requests.one_of(str(actor.user_id)))
        return actor


    async def _known(self, exchange: Exchange) -> Actor:
        """Who asks. A credential that is none is counted for where it came from."""
        address = self.access.client(exchange)[0]
        if not self.access.remembers(exchange):
            self.rates.may_be_stranger(address)
        try:
            return await self.access.actor(exchange)
        except Problem as problem:
            if problem.status == 401:
                self.rates.stranger(address)
            raise

    async def count(self, exchange: Exchange) -> None:
        """A request that Daphne will judge: counted for whoever it seems to be from. Raises only rate_limited."""
        address = self.access.client(exchange)[0]
        try:
            actor = await self.access.identified(exchange)
        except (Problem, DatabaseError):
            actor = None
        if actor is None:
            self.rates.stranger(address)
            return
        exchange.actor, exchange.actor_name = actor, f"{actor.type}:{actor.name}"
        self.rates.known(actor)


def open_gate(config: Config, upstairs: Upstairs) -> tuple[Gate, list[asyncio.Task[None]]]:
    """Everything connected (lazily) and the background work begun. Needs a running event loop."""
    access = Access(config, upstairs)
    client = redis.Redis.from_url(config.redis_url, socket_connect_timeout=2, health_check_interval=15)
    nudges = Nudges(client)
    nudges.listen(access.forget)
    activity = Activity(upstairs.touch)
    limits = config.limits
    hostd = Hostd(config)
    gate = Gate(config=config, access=access, upstairs=upstairs, nudges=nudges, hostd=hostd,
                wake=Wake(access, upstairs, nudges, hostd, limits), daphne=Daphne(config), activity=activity,
                autos=Autos(upstairs, nudges), redis=client, rates=Rates(limits), trail=Trail(upstairs.audit),
                requests=Slots(limits.requests_per_actor, "requests"),
                sockets=Slots(limits.sockets_per_actor, "sockets"),
                daphne_requests=Slots(limits.daphne_requests_per_client, "requests"),
                preview_requests=Slots(limits.preview_requests_per_visitor, "requests"),
                visitors=Visitors(upstairs), previews_kept=Pool())
    nudges.listen(gate.visitors.forget)
    starter = Starter()
    nudges.listen(starter.hear)
    loop = asyncio.get_running_loop()
    return gate, [loop.create_task(work) for work in (nudges.run(), activity.run(), gate.trail.run(),
                                                      starter.run(gate))]


async def close_gate(gate: Gate, background: list[asyncio.Task[None]]) -> None:
    for task in background:
        task.cancel()
    for task in background:
        with contextlib.suppress(asyncio.CancelledError):
            await task
    await gate.trail.close()
    gate.previews_kept.close()
    await gate.hostd.close()
    await gate.daphne.close()
    await gate.redis.aclose()  # type: ignore[attr-defined]
    gate.upstairs.close()
