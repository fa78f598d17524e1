"""HTTP for disks that nobody runs on: list, read and compare checkpoints. Called by `app.py`.

Calls `subjects.py` for which disk, `reader.py` for what is on it. The answers have the shapes of `files.py`; the header
`Berth-Disk` says how the disk was found: clean, replayed (a journal, in memory) or as_is (a journal that could not be).
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import web

from sandboxes.host import filenames, http
from sandboxes.host.files import conditions, content_headers, part
from sandboxes.host.look.reader import Readers
from sandboxes.host.look.subjects import HEAD, Subject, Subjects
from sandboxes.host.machines import Machines
from sandboxes.host.operations import Operations
from sandboxes.linux.processes import Talking

Json = dict[str, Any]
LIMIT, MOST = 1000, 10_000
PIECE_BYTES = 256 * 1024
#: A process that says nothing for so long is stuck in a disk made to stick in.
SILENCE_S = 60.0
DISK = "Berth-Disk"


class LookHttp:
    def __init__(self, machines: Machines, operations: Operations) -> None:
        self._subjects = Subjects(machines, operations)
        self._readers = Readers()

    def routes(self) -> list[web.RouteDef]:
        base = "/v1/machines/{mid}/checkpoints/{cid}"
        return [web.get(f"{base}/files", self.files, allow_head=False),
                web.get(f"{base}/files/content", self.content, allow_head=False),
                web.head(f"{base}/files/content", self.content_head), web.get(f"{base}/diff", self.diff)]

    async def files(self, request: web.Request) -> web.StreamResponse:
        """One entry; of a directory the entries too, `limit` at a time."""
        query = http.Query(request)
        path, recursive = filenames.checked(query.raw("path")), query.flag("recursive")
        limit, after = query.integer("limit", LIMIT, low=1, high=MOST), query.raw("cursor") or b""
        query.done()
        subject = self._subject(request)
        said = await self._readers.ask("stat", [subject.source], path=filenames.b64(path), limit=limit,
                                       after=filenames.b64(after), recursive=recursive)
        subject.still_there()
        value = filenames.stat_json(said["stat"])
        if "entries" in said:
            value["entries"] = [filenames.stat_json(entry) for entry in said["entries"]]
            value["next_cursor"] = _cursor(said["more"], value["entries"])
        return http.reply(value, headers={DISK: said["condition"]})

    async def content_head(self, request: web.Request) -> web.StreamResponse:
        path, subject = self._named(request)
        async with self._readers.asked("read", [subject.source], path=filenames.b64(path)) as (said, _process):
            if refused := conditions(request, said["etag"]):
                return refused
            return web.Response(headers={**content_headers(said["etag"]), "Content-Length": str(said["size"]),
                                         DISK: said["condition"]})

    async def content(self, request: web.Request) -> web.StreamResponse:
        path, subject = self._named(request)
        async with self._readers.asked("read", [subject.source], path=filenames.b64(path)) as (said, process):
            if refused := conditions(request, said["etag"]):
                return refused
            subject.still_there()
            return await _sent(request, subject, said, process)

    async def diff(self, request: web.Request) -> web.StreamResponse:
        """From the checkpoint to `against`: what was added is there and was not here."""
        query = http.Query(request)
        against = query.text("against", HEAD) or HEAD
        limit, after = query.integer("limit", LIMIT, low=1, high=MOST), query.raw("cursor") or b""
        query.done()
        mid, cid = request.match_info["mid"], request.match_info["cid"]
        async with self._subjects.compared(mid, cid) as before, self._subjects.compared(mid, against) as after_it:
            said = await self._readers.ask("diff", [before.source, after_it.source], limit=limit,
                                           after=filenames.b64(after))
            for subject in (before, after_it):
                subject.still_there()
        results = [{**filenames.named("path", change["path_b64"]), "change": change["change"],
                    "size_before": change["size_before"], "size_after": change["size_after"]}
                   for change in said["changes"]]
        return http.reply({"results": results, "next_cursor": _cursor(said["more"], results)},
                          headers={DISK: ", ".join(said["conditions"])})

    def _subject(self, request: web.Request) -> Subject:
        return self._subjects.find(request.match_info["mid"], request.match_info["cid"])

    def _named(self, request: web.Request) -> tuple[bytes, Subject]:
        query = http.Query(request)
        path = filenames.checked(query.raw("path"))
        query.done()
        return path, self._subject(request)


async def _sent(request: web.Request, subject: Subject, said: Json, process: Talking) -> web.StreamResponse:
    """Exactly what the headers promise, or a connection that breaks."""
    wanted = part(request, said)
    start, length = wanted or (0, said["size"])
    response = web.StreamResponse(status=200 if wanted is None else 206, headers={
        **content_headers(said["etag"]), "Content-Length": str(length), DISK: said["condition"]})
    if wanted is not None:
        response.headers["Content-Range"] = f"bytes {start}-{start + length - 1}/{said['size']}"
    await process.say(json.dumps([start, length]).encode() + b"\n")
    await response.prepare(request)
    while length > 0:
        async with asyncio.timeout(SILENCE_S):
            piece = await process.stdout.read(PIECE_BYTES)
        if not piece:
            raise ConnectionResetError("the disk ended before the file did")
        if subject.is_head:
            _or_break(subject)
        await response.write(piece[:length])
        length -= len(piece[:length])
    await response.write_eof()
    return response


def _or_break(subject: Subject) -> None:
    try:
        subject.still_there()
    except Exception as error:
        raise ConnectionResetError("the machine woke while its disk was read") from error


def _cursor(more: bool, shown: list[Json]) -> str | None:
    """The last path, percent-encoded: it goes back as it is into `?cursor=`."""
    return str(shown[-1]["path_encoded"]) if more and shown else None
