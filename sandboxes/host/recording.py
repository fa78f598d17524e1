"""HTTP for recordings of terminals: begin, end, and read one as an asciicast file. Called by `app.py`.

A recording is a stretch of a terminal's own output that is kept whole (`scroll.py`), so it needs nobody who watches,
goes on when hostd is killed, and costs a quiet terminal nothing. One a terminal: a new one takes the former's place.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from sandboxes.errors import Conflict, NotFound
from sandboxes.host import cast, fields, http
from sandboxes.host.machines import Machines
from sandboxes.host.records import Record
from sandboxes.host.scroll import Scroll

BATCH_BYTES = 64 * 1024
BODY: dict[str, tuple[fields.Check, object]] = {"on": (fields.boolean, fields.REQUIRED)}


class RecordingHttp:
    def __init__(self, machines: Machines) -> None:
        self._machines = machines

    def routes(self) -> list[web.RouteDef]:
        path = "/v1/machines/{mid}/execs/{eid}/recording"
        return [web.get(path, self.read), web.put(path, self.switch)]

    async def switch(self, request: web.Request) -> web.StreamResponse:
        """`{"on": true}` begins one, `{"on": false}` ends it; repeatable. Answers with the exec."""
        http.Query(request).done()
        wanted = fields.read(await http.json_body(request), BODY)["on"]
        machine_id, exec_id = request.match_info["mid"], request.match_info["eid"]
        execs = self._machines.execs(machine_id)
        _require_terminal(execs.record(exec_id))
        running = execs.running.get(exec_id)
        if running is None and wanted:
            raise Conflict("the exec has ended", code="exec_ended")
        if running is not None and running.record.is_recorded != wanted:
            running.record_output(http.actor_of(request)["name"] if wanted else None)
            self._machines.keyboards.tell((machine_id, exec_id))
        return http.reply(execs.record(exec_id).public())

    async def read(self, request: web.Request) -> web.StreamResponse:
        """The recording so far; with `kept`, all output that is kept, recorded or not."""
        query = http.Query(request)
        kept = query.flag("kept")
        query.done()
        execs = self._machines.execs(request.match_info["mid"])
        record = execs.record(request.match_info["eid"])
        _require_terminal(record)
        recording = record.recording
        if recording is None and not kept:
            raise NotFound("nothing of this terminal was recorded")
        with execs.opened(record) as scroll:
            assert isinstance(scroll, Scroll)
            first, last = scroll.start, scroll.total
            if recording is not None and not kept:
                first, last = recording["from"], min(scroll.total, recording["to"] or scroll.total)
            return await _send(request, record, scroll, first, last)


async def _send(request: web.Request, record: Record, scroll: Scroll, first: int, last: int) -> web.StreamResponse:
    name = f"{record.exec_id}.cast"
    response = web.StreamResponse(headers={
        "Content-Type": cast.MEDIA, "X-Content-Type-Options": "nosniff",
        "Content-Disposition": f'attachment; filename="{name}"'})
    await response.prepare(request)
    batch = bytearray()
    tty = record.request["tty"]
    for line in cast.lines(scroll, first, last, (tty["cols"], tty["rows"]), _title(record)):
        batch += line
        if len(batch) >= BATCH_BYTES:
            await response.write(bytes(batch))
            batch.clear()
            await asyncio.sleep(0)  # a quick client never makes a write wait: let others run
    await response.write(bytes(batch))
    await response.write_eof()
    return response


def _require_terminal(record: Record) -> None:
    if not record.is_tty:
        raise Conflict("this exec has no terminal", code="exec_not_tty")


def _title(record: Record) -> str:
    command = record.request["command"]
    return (command if isinstance(command, str) else " ".join(command))[:200]
