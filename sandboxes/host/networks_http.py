"""`…/network`: a machine's document, the log of what it tried to reach, and connections that wait for a word. Called by
`app`; calls `networks`.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from sandboxes.errors import Invalid, NotFound
from sandboxes.host import http
from sandboxes.host.machines import Machines

VERDICTS = ("", "allowed", "refused", "asked")
MOST_ROWS = 200


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
        return http.reply({"revision": kept.revision})

    async def log(self, request: web.Request) -> web.StreamResponse:
        """`after` left out: the newest rows there are, oldest first as always."""
        query = http.Query(request)
        after = query.integer("after", 0)
        query.integer("limit", 200, low=1, high=MOST_ROWS)
        query.choice("verdict", VERDICTS, "")
        query.done()
        self._machines.registry.find(request.match_info["mid"])
        return http.reply({"results": [], "next": after, "dropped": 0})

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Nothing waits where nothing goes out."""
        http.Query(request).done()
        self._machines.registry.find(request.match_info["mid"])
        if await http.json_body(request) != {"decision": "deny"}:
            raise Invalid("the decision is deny; an approval is a newer document", errors={"decision": "deny"})
        raise NotFound("no connection of that name waits here")
