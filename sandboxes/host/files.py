"""HTTP for files in a guest: stat and lists, content both ways, and the small changes. Called by `app.py`.

Calls the guest's agent, which acts with the user's own permissions; hostd itself opens no file of a guest. Bytes pass
in pieces under the link's flow control, so memory is flat at any size. What breaks in the middle breaks the
connection: a reader never takes half a file for a whole one, and a writer's half never replaces anything.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from sandboxes.errors import AgentLost, FileError, Invalid
from sandboxes.guest.link import GuestLink
from sandboxes.guest.linkstream import LinkStream
from sandboxes.host import fields, filenames, http
from sandboxes.host.fields import REQUIRED
from sandboxes.host.filedoor import Door, named, shown, user_of
from sandboxes.host.machines import Machines
from sandboxes.host.ranges import NotSatisfiable, requested, tag_matches

NAME = {"path": (filenames.text_path, None), "path_encoded": (filenames.encoded_path, None)}
TO = {"to": (filenames.text_path, None), "to_encoded": (filenames.encoded_path, None)}
FLAG = (fields.boolean, False)
BODIES: dict[str, dict[str, tuple[fields.Check, Any]]] = {
    "mkdir": {**NAME, "parents": FLAG, "mode": (filenames.mode, None)},
    "move": {**NAME, **TO, "overwrite": FLAG, "parents": FLAG},
    "copy": {**NAME, **TO, "overwrite": FLAG, "parents": FLAG},
    "chmod": {**NAME, "mode": (filenames.mode, REQUIRED)},
}
CHANGE_S = 300.0
HEAD_S = 60.0


class FilesHttp:
    def __init__(self, machines: Machines) -> None:
        self._door = Door(machines)

    def routes(self) -> list[web.RouteDef]:
        base = "/v1/machines/{mid}/files"
        return [
            web.get(f"{base}/content", self.content, allow_head=False), web.head(f"{base}/content", self.content_head),
            web.put(f"{base}/content", self.put), web.get(base, self.stat, allow_head=False),
            web.delete(base, self.remove), web.post(base + "/{change:mkdir|move|copy|chmod}", self.change),
        ]

    # -- what is there ------------------------------------------------------------------------------------------------

    async def stat(self, request: web.Request) -> web.StreamResponse:
        """One entry; of a directory the entries too, `limit` at a time."""
        query, path, user = named(request)
        recursive = query.flag("recursive")
        limit = query.integer("limit", 1000, low=1, high=10_000)
        after = query.raw("cursor")
        query.done()
        link = await self._door.link(request)
        said = await link.request("file.stat", {"path_b64": filenames.b64(path), "user": user, "follow": False})
        value = filenames.stat_json(said)
        if said.get("type") == "directory":
            listing = await link.request("file.list", {
                "path_b64": filenames.b64(path), "user": user, "limit": limit, "recursive": recursive,
                **({"after_b64": filenames.b64(after)} if after else {})}, timeout_s=60)
            entries = _entries(listing, limit)
            value["entries"] = [filenames.stat_json(entry) for entry in entries]
            value["next_cursor"] = value["entries"][-1]["path_encoded"] if entries and listing.get("more") else None
        return http.reply(value)

    async def content_head(self, request: web.Request) -> web.StreamResponse:
        query, path, user = named(request)
        query.done()
        said = await self._stat_of_file(await self._door.link(request), path, user)
        if refused := conditions(request, said["etag"]):
            return refused
        return web.Response(headers={**content_headers(said["etag"]), "Content-Length": str(said["size"])})

    async def content(self, request: web.Request) -> web.StreamResponse:
        query, path, user = named(request)
        query.done()
        link = await self._door.link(request)
        wanted = said = None
        if "Range" in request.headers:  # a range may count from an end that must be known first
            said = await self._stat_of_file(link, path, user)
            if refused := conditions(request, said["etag"]):
                return refused
            wanted = part(request, said)
        start, length = wanted or (0, None)
        stream = await link.stream("file.read", {"path_b64": filenames.b64(path), "user": user, "offset": start,
                                                 "length": length})
        try:
            head = filenames.soundly_tagged(await begun(stream))
            if said is not None and head["etag"] != said["etag"]:
                raise FileError("the file changed at this very moment", code="file_busy", retry_after_s=0.1)
            if refused := conditions(request, head["etag"]):
                return refused
            return await _send(request, stream, head, wanted)
        finally:
            await stream.cancel()

    async def _stat_of_file(self, link: GuestLink, path: bytes, user: str) -> dict[str, Any]:
        said = await link.request("file.stat", {"path_b64": filenames.b64(path), "user": user, "follow": True})
        if said.get("type") == "directory":
            raise FileError("it is a directory", code="is_a_directory")
        if said.get("type") != "file":
            raise FileError(f"it is a {filenames.word(said.get('type'))}", code="not_a_regular_file")
        return filenames.soundly_tagged(said)

    # -- changes ------------------------------------------------------------------------------------------------------

    async def put(self, request: web.Request) -> web.StreamResponse:
        query, path, user = named(request)
        mode = query.text("mode")
        params: dict[str, Any] = {"path_b64": filenames.b64(path), "user": user, "parents": query.flag("parents")}
        query.done()
        if mode is not None:
            params["mode"] = _octal(mode)
        params.update(_write_conditions(request))
        link = await self._door.link(request)
        stream = await link.stream("file.write", params, reads=False)
        try:
            result = await http.pour(request, stream)
        finally:
            await stream.cancel()
        result = filenames.soundly_tagged(result)
        value = {**filenames.named("path", filenames.b64(path)), "size": result["size"], "etag": result["etag"]}
        self._door.tell(request, "file.written", {"path": value["path"], "size": result["size"]})
        return http.reply(value, 201 if result.get("created") is True else 200, {"ETag": f'"{result["etag"]}"'})

    async def change(self, request: web.Request) -> web.StreamResponse:
        """mkdir, move, copy, chmod: answered by what is there afterwards."""
        query = http.Query(request)
        user = user_of(query)
        query.done()
        kind = request.match_info["change"]
        body = fields.read(await http.json_body(request), BODIES[kind])
        path = _one(body, "path")
        params: dict[str, Any] = {"path_b64": filenames.b64(path), "user": user}
        to = _one(body, "to") if "to" in body else path
        if "to" in body:
            params["to_b64"] = filenames.b64(to)
        params.update({name: body[name] for name in ("parents", "mode", "overwrite") if body.get(name) is not None})
        link = await self._door.link(request)
        await link.request(f"file.{kind}", params, timeout_s=CHANGE_S)
        said = await link.request("file.stat", {"path_b64": filenames.b64(to), "user": user, "follow": kind == "chmod"})
        self._door.tell(request, *_fact(kind, path, to, body, said))
        return http.reply(filenames.stat_json(said), 201 if kind in ("mkdir", "copy") else 200)

    async def remove(self, request: web.Request) -> web.StreamResponse:
        query, path, user = named(request)
        recursive = query.flag("recursive")
        query.done()
        link = await self._door.link(request)
        await link.request("file.remove", {"path_b64": filenames.b64(path), "user": user, "recursive": recursive},
                           timeout_s=CHANGE_S)
        self._door.tell(request, "file.removed", {"path": shown(path)})
        return web.Response(status=204)


def _fact(kind: str, path: bytes, to: bytes, body: dict[str, Any], said: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    if kind == "move":
        return "file.moved", {"path": shown(path), "to": shown(to)}
    if kind == "copy":
        return "file.written", {"path": shown(to), "size": filenames.whole(said.get("size")), "from": shown(path)}
    if kind == "mkdir":
        return "file.folder_made", {"path": shown(path)}
    return "file.mode_changed", {"path": shown(path), "mode": f"{body['mode']:04o}"}


def _octal(mode: str) -> int:
    try:
        return filenames.mode(mode)
    except fields.Wrong as error:
        raise Invalid(f"mode: {error}", errors={"mode": str(error)}) from error


def _one(body: dict[str, Any], field: str) -> bytes:
    """`path` or `path_encoded`: exactly one of them."""
    given = [body[name] for name in (field, f"{field}_encoded") if body[name] is not None]
    if len(given) != 1:
        said = f"give {field} or {field}_encoded"
        raise Invalid(said, errors={field: said})
    return bytes(given[0])


def _entries(listing: dict[str, Any], limit: int) -> list[Any]:
    """A hostile agent may send millions where it was asked for a few: each would be made into text here."""
    entries = listing.get("entries")
    if not isinstance(entries, list) or len(entries) > limit:
        raise AgentLost("the guest agent misspoke: a list that is none, or longer than asked for")
    return entries


#: A guest's bytes are never shown as a page of ours, whatever they hold (field case 019).
INERT = {"X-Content-Type-Options": "nosniff", "Content-Disposition": "attachment",
         "Content-Security-Policy": "sandbox; default-src 'none'", "Cache-Control": "no-cache"}


def content_headers(etag: str) -> dict[str, str]:
    return {"ETag": f'"{etag}"', "Accept-Ranges": "bytes", "Content-Type": "application/octet-stream", **INERT}


def conditions(request: web.Request, etag: str) -> web.Response | None:
    wanted = request.headers.get("If-Match")
    if wanted is not None and not tag_matches(wanted, etag):
        raise FileError("the file is not the one you named", code="precondition_failed", etag=etag)
    known = request.headers.get("If-None-Match")
    if known is not None and tag_matches(known, etag):
        return web.Response(status=304, headers={"ETag": f'"{etag}"'})
    return None


def part(request: web.Request, said: dict[str, Any]) -> tuple[int, int] | None:
    valid_for = request.headers.get("If-Range")
    if valid_for is not None and valid_for.strip() != f'"{said["etag"]}"':  # a strong tag, or the whole file
        return None
    try:
        return requested(request.headers.get("Range"), said["size"])
    except NotSatisfiable as error:
        raise FileError("no byte of that range is there", code="range_not_satisfiable",
                        content_range=f"bytes */{said['size']}") from error


def _write_conditions(request: web.Request) -> dict[str, Any]:
    params: dict[str, Any] = {}
    if (wanted := request.headers.get("If-Match")) is not None:
        params["if_match"] = wanted
    if (unwanted := request.headers.get("If-None-Match")) is not None:
        if unwanted.strip() != "*":
            raise Invalid("If-None-Match: only * here", errors={"If-None-Match": "only *"})
        params["if_none_match"] = "*"
    return params


async def begun(stream: LinkStream) -> dict[str, Any]:
    """The head, or AgentLost: a reader must not wait for ever for an agent that says nothing."""
    try:
        async with asyncio.timeout(HEAD_S):
            return await stream.head()
    except TimeoutError as error:
        raise AgentLost(f"{stream.method}: no answer within {HEAD_S:g} s") from error


async def _send(request: web.Request, stream: LinkStream, said: dict[str, Any],
                wanted: tuple[int, int] | None) -> web.StreamResponse:
    start, length = wanted or (0, said["size"])
    response = web.StreamResponse(status=200 if wanted is None else 206, headers={
        **content_headers(said["etag"]), "Content-Length": str(length)})
    if wanted is not None:
        response.headers["Content-Range"] = f"bytes {start}-{start + length - 1}/{said['size']}"
    await response.prepare(request)
    left = length
    async for _, data in stream:
        if left <= 0:
            break
        await response.write(data[:left])
        left -= len(data[:left])
    if left > 0:
        raise ConnectionResetError("the file became shorter while it was read")
    await response.write_eof()
    return response
