"""HTTP for execs: start, read, output, stdin, signal, resize, kill. Called by `app.py`; calls `execs.py` and the link.

Live streams are in `stream.py` (server-sent events) and `terminal.py` (WebSocket).
"""

from __future__ import annotations

import asyncio
import base64
import time

from aiohttp import web

from sandboxes.errors import Conflict
from sandboxes.host import http, requests
from sandboxes.host.execs import Execs
from sandboxes.host.filenames import whole
from sandboxes.host.machines import Machines
from sandboxes.host.outputs import Output
from sandboxes.host.records import Json, Record
from sandboxes.host.running import Running
from sandboxes.host.tape import STDERR, STDOUT

STREAMS = {"stdout": STDOUT, "stderr": STDERR}
PIECE_BYTES = 256 * 1024
INLINE_ON_LOOP_BYTES = 256 * 1024
KILL_S = 10.0
#: Answers that hold a lot at once are made and sent one after the other: a crowd of them must not fill the host.
HUGE_BYTES = 8 * 1024 * 1024
SENT_WITHIN_S = 60.0


class ExecsHttp:
    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._huge = asyncio.Semaphore(2)

    def routes(self) -> list[web.RouteDef]:
        one = "/v1/machines/{mid}/execs/{eid}"
        return [
            web.post("/v1/machines/{mid}/execs", self.start), web.get("/v1/machines/{mid}/execs", self.list),
            web.get(one, self.read), web.delete(one, self.kill), web.get(f"{one}/output", self.output),
            web.post(f"{one}/stdin", self.stdin), web.post(f"{one}/signal", self.signal),
            web.post(f"{one}/resize", self.resize),
        ]

    async def start(self, request: web.Request) -> web.StreamResponse:
        query = http.Query(request)
        encoding, wait_s = _encoding(query), query.seconds("wait_s", -1.0)
        query.done()
        body = requests.read_exec(await http.json_body(request))
        if wait_s < 0:
            wait_s = _default_wait_s(body)
        machine_id = request.match_info["mid"]
        execs = self._machines.execs_to_start_on(machine_id)
        running = await execs.start(body, http.actor_of(request), lambda: self._machines.running_body(machine_id))
        await execs.wait_end(body["exec_id"], wait_s)
        if running is not None and running.tape.total == 0:  # at hand, and nothing to read
            return _at_once(running, encoding)
        return await self._reply(request, execs, execs.record(body["exec_id"]), encoding)

    async def list(self, request: web.Request) -> web.StreamResponse:
        query = http.Query(request)
        limit = query.integer("limit", 50, low=1, high=200)
        before = query.integer("cursor", -1, low=0)
        state = query.choice("state", ("", "starting", "running", "ended"), "")
        query.done()
        page, following = self._execs(request).page(limit, before if before >= 0 else None, state or None)
        return http.reply({"results": [record.public() for record in page],
                           "next": None if following is None else str(following)})

    async def read(self, request: web.Request) -> web.StreamResponse:
        query = http.Query(request)
        encoding, wait_s = _encoding(query), query.seconds("wait_s", 0.0)
        query.done()
        execs, exec_id = self._execs(request), request.match_info["eid"]
        await execs.wait_end(execs.record(exec_id).exec_id, wait_s)
        return await self._reply(request, execs, execs.record(exec_id), encoding, always=200)

    async def output(self, request: web.Request) -> web.StreamResponse:
        """What is kept so far from `offset`, with its length known in advance, in pieces: flat memory."""
        query = http.Query(request)
        tag = STREAMS[query.choice("stream", tuple(STREAMS), "stdout")]
        offset = query.integer("offset", 0)
        query.done()
        execs = self._execs(request)
        with execs.opened(execs.record(request.match_info["eid"])) as tape:
            start = max(offset, tape.start) if tag == STDOUT else offset
            end = max(start, tape.size[tag])
            response = web.StreamResponse(headers={
                "Berth-Offset": str(start), "Berth-Next-Offset": str(end), "X-Content-Type-Options": "nosniff",
                "Content-Type": "application/octet-stream", "Content-Length": str(end - start)})
            await response.prepare(request)
            for at in range(start, end, PIECE_BYTES):
                await response.write(tape.read(tag, at, min(PIECE_BYTES, end - at)))
            await response.write_eof()
            return response

    async def stdin(self, request: web.Request) -> web.StreamResponse:
        """The raw body into the exec, as fast as it reads; `?eof=true` closes it behind."""
        query = http.Query(request)
        eof = query.flag("eof")
        query.done()
        running = self._running(request)
        self._may_type(request, running.record)
        running.input_at = time.time()
        link = await running.body.soon(5)
        stream = await link.stream("exec.stdin", {"exec_id": running.record.exec_id, "eof": eof}, reads=False)
        try:
            result = await http.pour(request, stream)
        finally:
            await stream.cancel()
        return http.reply({"accepted_bytes": whole(result.get("accepted_bytes"))})

    async def signal(self, request: web.Request) -> web.StreamResponse:
        http.Query(request).done()
        name = requests.read_signal(await http.json_body(request))
        running = self._running(request)
        link = await running.body.soon(5)
        await link.request("exec.signal", {"exec_id": running.record.exec_id, "signal": name, "tree": False})
        return http.reply(running.record.public(), 202)

    async def resize(self, request: web.Request) -> web.StreamResponse:
        http.Query(request).done()
        size = requests.read_resize(await http.json_body(request))
        running = self._running(request)
        if not running.record.is_tty:
            raise Conflict("this exec has no terminal", code="exec_not_tty")
        await running.resize(size)
        self._machines.keyboards.tell((request.match_info["mid"], running.record.exec_id))
        return http.reply(running.record.public())

    async def kill(self, request: web.Request) -> web.StreamResponse:
        """Ends the whole tree and answers with the end. An exec that has ended stays as it is: 200."""
        query = http.Query(request)
        encoding = _encoding(query)
        query.done()
        execs, exec_id = self._execs(request), request.match_info["eid"]
        record = execs.record(exec_id)
        running = execs.running.get(exec_id)
        if running is not None:
            await running.kill(http.actor_of(request)["name"])
            await execs.wait_end(exec_id, KILL_S)
        return await self._reply(request, execs, execs.record(record.exec_id), encoding)

    def _may_type(self, request: web.Request, record: Record) -> None:
        """Into what was started with `stdin_open`, and into a terminal whose keyboard nobody else holds."""
        place = (request.match_info["mid"], record.exec_id)
        if record.is_tty:
            if holder := self._machines.keyboards.held_by_other(place, http.actor_of(request)["name"]):
                raise Conflict(f"{holder} holds the keyboard", reason="keyboard_held", holder=holder)
        elif not record.request["stdin_open"]:
            raise Conflict("this exec takes no stdin: it was not started with stdin_open", code="stdin_closed")

    # -- inside ------------------------------------------------------------------------------------------------------

    def _execs(self, request: web.Request) -> Execs:
        return self._machines.execs(request.match_info["mid"])

    def _running(self, request: web.Request) -> Running:
        execs, exec_id = self._execs(request), request.match_info["eid"]
        running = execs.running.get(exec_id)
        if running is None:
            execs.record(exec_id)
            raise Conflict("the exec has ended", code="exec_ended")
        return running

    async def _reply(self, request: web.Request, execs: Execs, record: Record, encoding: str,
                     always: int | None = None) -> web.StreamResponse:
        status = always or (200 if record.state == "ended" else 202)
        with execs.opened(record) as tape:
            if tape.total <= INLINE_ON_LOOP_BYTES:
                return http.reply(inlined(record, tape, encoding), status)
            if tape.total <= HUGE_BYTES:
                return http.reply(await asyncio.to_thread(inlined, record, tape, encoding), status)
            async with self._huge:
                response = http.reply(await asyncio.to_thread(inlined, record, tape, encoding), status)
                async with asyncio.timeout(SENT_WITHIN_S):
                    await response.prepare(request)
                    await response.write_eof()
                return response


def _at_once(running: Running, encoding: str) -> web.Response:
    value = inlined(running.record, running.tape, encoding)
    return http.reply(value, 200 if running.record.state == "ended" else 202)


def inlined(record: Record, tape: Output, encoding: str) -> Json:
    """The public record with the output kept so far; of a terminal's, the newest `max_output_bytes`."""
    value = record.public()
    for name, tag in STREAMS.items():
        end = tape.size[tag]
        start = max(tape.start if tag == STDOUT else 0, end - record.limit_bytes)
        data = tape.read(tag, start, end - start)
        value[f"{name}_truncated"] |= tape.truncated[tag] or start > 0
        if encoding == "base64":
            value[f"{name}_b64"] = base64.b64encode(data).decode()
            del value[name]
        else:
            value[name] = data.decode(errors="replace")
    return value


def _encoding(query: http.Query) -> str:
    return query.choice("encoding", ("text", "base64"), "text")


def _default_wait_s(body: Json) -> float:
    if body["wait_s"] is not None:
        return float(body["wait_s"])
    return 0.0 if body["background"] or body["tty"] is not None else 60.0
