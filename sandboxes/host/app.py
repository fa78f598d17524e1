"""hostd's HTTP application: wires the parts, adopts machines on start, lets go of them on the way out.

Called by `__main__.py` and by tests; the routes are the seam of docs/interfaces.md section 2.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import metadata
from pathlib import Path

from aiohttp import web

from sandboxes.drivers.base import Driver
from sandboxes.host import capacity, http, log, requests
from sandboxes.host.adopt import adopt, let_go
from sandboxes.host.archives import ArchivesHttp
from sandboxes.host.execs_http import ExecsHttp
from sandboxes.host.figures import Figures
from sandboxes.host.files import FilesHttp
from sandboxes.host.filewatch import FileWatchHttp
from sandboxes.host.look.routes import LookHttp
from sandboxes.host.machines import Machines
from sandboxes.host.networks_http import NetworksHttp
from sandboxes.host.operations import Operations
from sandboxes.host.ports import PortsHttp
from sandboxes.host.recording import RecordingHttp
from sandboxes.host.stream import StreamHttp
from sandboxes.host.terminal import TerminalHttp
from sandboxes.host.warm import Warmth
from sandboxes.host.work import Sampler
from sandboxes.lifecycle import OperationState, Phase

#: What the application holds, for tests within the same process.
MACHINES = web.AppKey("machines", Machines)
OPERATION_WAIT_S = 10.0
FEED_WAIT_S = 60.0


class MachinesHttp:
    def __init__(self, machines: Machines, operations: Operations, images: dict[str, str], warmth: Warmth,
                 figures: Figures) -> None:
        self._machines, self._operations, self._images, self._warmth = machines, operations, images, warmth
        self._figures = figures

    def routes(self) -> list[web.RouteDef]:
        one = "/v1/machines/{mid}"
        return [
            web.get("/v1/host", self.host), web.get("/v1/feed", self.feed), web.get("/v1/machines", self.list),
            web.get(one, self.read), web.post(f"{one}/operations", self.operate),
            web.get(one + "/operations/{oid}", self.operation), web.get(f"{one}/metrics", self.metrics),
            web.get(f"{one}/up", self.up),
        ]

    async def host(self, request: web.Request) -> web.StreamResponse:
        http.Query(request).done()
        record = await capacity.host(self._machines, _version(), self._images)
        return http.reply({**record, "default_template": self._warmth.state})

    async def feed(self, request: web.Request) -> web.StreamResponse:
        query = http.Query(request)
        after, wait_s = query.integer("after", 0), query.seconds("wait_s", 0.0, FEED_WAIT_S)
        query.done()
        return http.reply(await self._machines.feed.read(after, wait_s))

    async def list(self, request: web.Request) -> web.StreamResponse:
        """`brief`: what is known without a look at any file, for who asks of a thousand every few seconds."""
        query = http.Query(request)
        brief = query.flag("brief")
        query.done()
        there = [machine for machine in self._machines.registry if machine.phase is not Phase.ABSENT]
        if brief:
            return http.reply({"results": [self._machines.glimpse(machine) for machine in there]})
        return http.reply({"results": [await self._machines.observe(machine) for machine in there]})

    async def read(self, request: web.Request) -> web.StreamResponse:
        http.Query(request).done()
        return http.reply(await self._machines.observe(self._machines.registry.find(request.match_info["mid"])))

    async def operate(self, request: web.Request) -> web.StreamResponse:
        http.Query(request).done()
        machine_id = request.match_info["mid"]
        self._machines.registry.find(machine_id)
        asked = requests.read_operation(await http.json_body(request), machine_id)
        operation = await self._operations.begin(machine_id, asked, http.actor_of(request))
        return http.reply(operation.to_json(), 202)

    async def operation(self, request: web.Request) -> web.StreamResponse:
        query = http.Query(request)
        wait_s, observe = query.seconds("wait_s", 0.0, OPERATION_WAIT_S), query.flag("observe")
        query.done()
        machine_id = request.match_info["mid"]
        operation = await self._operations.wait(machine_id, request.match_info["oid"], wait_s)
        said = operation.to_json()
        if observe and operation.state is OperationState.DONE:
            said["machine"] = await self._machines.observe(self._machines.registry.find(machine_id))
        return http.reply(said)

    async def up(self, request: web.Request) -> web.StreamResponse:
        query = http.Query(request)
        wait_s = query.seconds("wait_s", 0.0, OPERATION_WAIT_S)
        query.done()
        return http.reply({"running": await self._machines.up(request.match_info["mid"], wait_s)})

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        query = http.Query(request)
        asks = query.choice("now", ("true", "false"), "true") == "true"
        query.done()
        mid = request.match_info["mid"]
        return http.reply(await self._figures.shown(mid) if asks else self._figures.kept(mid))


def _version() -> str:
    try:
        return metadata.version("berth")
    except metadata.PackageNotFoundError:
        return "0.1.0"


def build(state: Path, driver: Driver, images: dict[str, str], egress: Path | None = None) -> web.Application:
    """The application over one state folder. Adoption is part of its start: it serves only when all is found."""
    machines = Machines(state, driver, egress)
    operations = Operations(machines)
    terminals, watches, ports = TerminalHttp(machines), FileWatchHttp(machines), PortsHttp(machines)
    warmth = Warmth(driver)
    sampler = Sampler(machines)
    figures = Figures(machines)
    app = web.Application(middlewares=[http.border], client_max_size=http.BODY_BYTES)
    for part in (ExecsHttp(machines), FilesHttp(machines), ArchivesHttp(machines), watches, ports,
                 StreamHttp(machines), terminals, RecordingHttp(machines), LookHttp(machines, operations),
                 NetworksHttp(machines),
                 MachinesHttp(machines, operations, images, warmth, figures)):
        app.router.add_routes(part.routes())

    async def life(_app: web.Application) -> AsyncIterator[None]:
        await adopt(machines)
        machines.way_out.begin()  # who is served must be known by then: what egressd serves beyond that has ended
        log.line("hostd.ready", machines=len(machines.bodies))
        warmth.begin()
        sampler.begin()
        figures.begin()
        yield
        await figures.end()
        await sampler.end()
        await warmth.end()
        await operations.close()
        await let_go(machines)
        await machines.way_out.end()
        log.line("hostd.gone")

    async def leaving(_app: web.Application) -> None:
        await terminals.close()
        await watches.close()
        await ports.close()
        machines.feed.wake()

    app[MACHINES] = machines
    app.cleanup_ctx.append(life)
    app.on_shutdown.append(leaving)
    return app
