"""`…/network`: a machine's document, the log of what it tried to reach, and connections that wait for a word. Called by
`app`; calls `networks` and `wayout`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from aiohttp import web

from sandboxes.errors import Invalid
from sandboxes.host import http
from sandboxes.host.machines import Machines
from sandboxes.host.netlog import NEWEST

VERDICTS = ("", "allowed", "refused", "asked")
MOST_ROWS = 1000


class NetworksHttp:
    def __init__(self, machines: Machines) -> None:
        self._machines = machines

    def routes(self) -> list[web.RouteDef]:
        base = "/v1/machines/{mid}/network"
        return [web.put(base, self.put), web.get(base + "/log", self.log),
                web.post(base + "/asks/{ask}", self.answer)]

    async def put(self, request: web.Request) -> web.StreamResponse:
        http.Query(request).done()
        machine = self._machines.registry.find(request.match_info["mid"])
        body = await http.json_body(request)
        if not isinstance(body, Mapping) or set(body) != {"document"}:
            raise Invalid("the body is an object with a document", errors={"document": "is missing, or not alone"})
        kept = await self._machines.networks.keep(machine.machine_id, body["document"])
        await self._machines.way_out.obey(machine.machine_id, kept)
        return http.reply({"revision": kept.revision})

    async def log(self, request: web.Request) -> web.StreamResponse:
        """`after` left out: the newest rows there are, oldest first as always."""
        query = http.Query(request)
        after, limit = query.integer("after", NEWEST), query.integer("limit", 200, low=1, high=MOST_ROWS)
        verdict = query.choice("verdict", VERDICTS, "")
        query.done()
        machine = self._machines.registry.find(request.match_info["mid"])
        log = self._machines.way_out.log(machine.machine_id)
        return http.reply(await asyncio.to_thread(log.page, after, limit, verdict))

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """An approval is a newer document; what is said here is a no."""
        http.Query(request).done()
        machine = self._machines.registry.find(request.match_info["mid"])
        if await http.json_body(request) != {"decision": "deny"}:
            raise Invalid("the decision is deny; an approval is a newer document", errors={"decision": "deny"})
        self._machines.way_out.denied(machine.machine_id, request.match_info["ask"])
        return http.reply({})
