"""HTTP for whole trees of a guest: tar out and in, and search. Called by `app.py`; calls the guest's agent.

An archive passes in pieces under the link's flow control, as contents do; nothing of it is read or kept here. One that
breaks in the middle breaks the connection. What is found is a guest's word, and held to its shape and size.
"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from sandboxes.errors import AgentLost, Invalid
from sandboxes.host import filenames, http
from sandboxes.host.filedoor import Door, named, shown
from sandboxes.host.files import INERT, begun
from sandboxes.host.machines import Machines

SEARCH_S = 60.0
MOST_RESULTS = 1000
MOST_MATCHES = 100
MOST_TEXT = 512


class ArchivesHttp:
    def __init__(self, machines: Machines) -> None:
        self._door = Door(machines)

    def routes(self) -> list[web.RouteDef]:
        base = "/v1/machines/{mid}/files"
        return [web.get(f"{base}/archive", self.get, allow_head=False), web.put(f"{base}/archive", self.put),
                web.get(f"{base}/search", self.search, allow_head=False)]

    async def get(self, request: web.Request) -> web.StreamResponse:
        query, path, user = named(request)
        query.done()
        link = await self._door.link(request)
        stream = await link.stream("file.archive", {"path_b64": filenames.b64(path), "user": user})
        try:
            await begun(stream)
            response = web.StreamResponse(headers={**INERT, "Content-Type": "application/x-tar"})
            await response.prepare(request)
            async for _, data in stream:
                await response.write(data)
            await stream.result()  # raises what broke it: the answer then has no end
            await response.write_eof()
            return response
        finally:
            await stream.cancel()

    async def put(self, request: web.Request) -> web.StreamResponse:
        query, path, user = named(request)
        params = {"path_b64": filenames.b64(path), "user": user, "parents": query.flag("parents")}
        query.done()
        link = await self._door.link(request)
        stream = await link.stream("file.extract", params, reads=False)
        try:
            result = await http.pour(request, stream)
        finally:
            await stream.cancel()
        value = {"entries": filenames.whole(result.get("entries")), "bytes": filenames.whole(result.get("bytes"))}
        self._door.tell(request, "file.extracted", {"path": shown(path), **value})
        return http.reply({**filenames.named("path", filenames.b64(path)), **value})

    async def search(self, request: web.Request) -> web.StreamResponse:
        query, path, user = named(request)
        limit = query.integer("limit", 100, low=1, high=MOST_RESULTS)
        params: dict[str, Any] = {"path_b64": filenames.b64(path), "user": user, "limit": limit,
                                  "any_case": query.flag("any_case")}
        for name, value in (("pattern", query.raw("pattern")), ("content", query.raw("content")),
                            ("exclude", (query.raw("exclude") or b"").replace(b",", b"\0")),
                            ("after", query.raw("cursor"))):
            if value:
                params[f"{name}_b64"] = filenames.b64(value)
        query.done()
        if "pattern_b64" not in params and "content_b64" not in params:
            said = "give pattern, content or both"
            raise Invalid(said, errors={"pattern": said})
        link = await self._door.link(request)
        found = await link.request("file.search", params, timeout_s=SEARCH_S)
        return http.reply(_found(found, limit))


def _found(found: dict[str, Any], limit: int) -> dict[str, Any]:
    results = found.get("results")
    if not isinstance(results, list) or len(results) > limit:
        raise AgentLost("the guest agent misspoke: a list that is none, or longer than asked for")
    more = found.get("more") is True
    cursor = filenames.named("at", found.get("after_b64"))["at_encoded"] if more else None
    return {"results": [_result(each) for each in results], "searched": filenames.whole(found.get("searched")),
            "next_cursor": cursor or None}


def _result(said: Any) -> dict[str, Any]:
    entry = filenames.stat_json(said)
    matches = said.get("matches") if isinstance(said, dict) else None
    if isinstance(matches, list):
        entry["matches"] = [_match(each) for each in matches[:MOST_MATCHES]]
        entry["cut"] = said.get("cut") is True
    return entry


def _match(said: Any) -> dict[str, Any]:
    said = said if isinstance(said, dict) else {}
    return {"line": filenames.whole(said.get("line")), "column": filenames.whole(said.get("column")),
            "text": filenames.text_of(said.get("text_b64"), MOST_TEXT)}
