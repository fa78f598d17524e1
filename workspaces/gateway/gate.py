"""The parts of the gateway, made once and handed to every route: what a route may call, in one place.

Made by `app` at start; routes get it with each exchange. Knows no route.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

import redis.asyncio as redis

from workspaces.actors import Actor
from workspaces.gateway.access import Access, require
from workspaces.gateway.activity import Activity
from workspaces.gateway.autos import Autos
from workspaces.gateway.config import Config
from workspaces.gateway.daphne import Daphne
from workspaces.gateway.exchange import Exchange
from workspaces.gateway.hostd import Hostd
from workspaces.gateway.nudges import Nudges
from workspaces.gateway.slots import Slots
from workspaces.gateway.upstairs import Place, Upstairs
from workspaces.gateway.wake import Wake


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
    requests: Slots
    sockets: Slots
    daphne_requests: Slots

    async def enter(self, exchange: Exchange, workspace_id: str, scope: str) -> tuple[Actor, Place]:
        """The one way in to a workspace: who asks, with which scope, and whether it is theirs to see."""
        actor = await self.admit(exchange)
        require(actor, scope)
        return actor, await self.access.place(actor, workspace_id)

    async def admit(self, exchange: Exchange) -> Actor:
        """Who asks; an HTTP exchange holds one of their slots from here to its end."""
        actor = await self.access.actor(exchange)
        exchange.actor_name = f"{actor.type}:{actor.name}"
        if exchange.scope["type"] == "http":
            exchange.holds.enter_context(self.requests.one_of(str(actor.user_id)))
        return actor


def open_gate(config: Config, upstairs: Upstairs) -> tuple[Gate, list[asyncio.Task[None]]]:
    """Everything connected (lazily) and the background work begun. Needs a running event loop."""
    access = Access(config, upstairs)
    client = redis.Redis.from_url(config.redis_url, socket_connect_timeout=2, health_check_interval=15)
    nudges = Nudges(client)
    nudges.listen(access.forget)
    activity = Activity(upstairs.touch)
    limits = config.limits
    gate = Gate(config=config, access=access, upstairs=upstairs, nudges=nudges, hostd=Hostd(config),
                wake=Wake(access, upstairs, nudges, limits), daphne=Daphne(config), activity=activity,
                autos=Autos(upstairs, nudges), redis=client,
                requests=Slots(limits.requests_per_actor, "requests"),
                sockets=Slots(limits.sockets_per_actor, "sockets"),
                daphne_requests=Slots(limits.daphne_requests_per_client, "requests"))
    loop = asyncio.get_running_loop()
    return gate, [loop.create_task(nudges.run()), loop.create_task(activity.run())]


async def close_gate(gate: Gate, background: list[asyncio.Task[None]]) -> None:
    for task in background:
        task.cancel()
    for task in background:
        with contextlib.suppress(asyncio.CancelledError):
            await task
    await gate.hostd.close()
    await gate.daphne.close()
    await gate.redis.aclose()  # type: ignore[attr-defined]
    gate.upstairs.close()
