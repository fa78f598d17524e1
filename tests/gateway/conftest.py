"""A real gateway on a free port, between stand-ins of hostd and Daphne (real aiohttp servers on Unix sockets).

The stand-ins are for what a well-behaved hostd never does on demand: stall, break off, refuse, restart. What the
whole product does is tested with the whole product (tests/stack.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from workspaces.actors import SCOPES, Actor
from workspaces.acts import Act
from workspaces.api.errors import Problem
from workspaces.gateway.app import App
from workspaces.gateway.config import Config, Limits
from workspaces.gateway.held import Begin
from workspaces.gateway.server import server
from workspaces.gateway.upstairs import Held, Place
from workspaces.preview_names import PreviewName

WID = "a" * 20
OTHERS = "b" * 20
EID = "e" * 20
TOKEN = "berth_good-token-of-anna"
AUTH = {"Authorization": f"Bearer {TOKEN}"}
ANNA = Actor(type="token", name="anna's", user_id=1, token_id="t" * 20)


@dataclass
class Books:
    """What upstairs would say, kept in memory and counted: the gateway's own `Upstairs`, replaced whole."""

    tokens: dict[str, Actor] = field(default_factory=lambda: {TOKEN: ANNA})
    sessions: dict[str, Actor] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=lambda: {WID: "running"})
    role: str = "owner"
    wakes: list[tuple[str, str]] = field(default_factory=list)
    touches: list[tuple[str, str]] = field(default_factory=list)
    autos: list[str] = field(default_factory=list)
    auto_id: str = ""
    capturing: bool = False
    reads: int = 0
    approvals: dict[str, Any] = field(default_factory=dict)
    glass: bool = False
    held: dict[str, Held] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    to_begin: list[Begin] = field(default_factory=list)
    begun: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)
    on_wake: Callable[[str], Awaitable[None]] | None = None

    async def actor_from_token(self, secret: str) -> Actor:
        self.reads += 1
        if secret == "berth_expired":
            raise Problem("token_expired", "Expired.")
        if secret not in self.tokens:
            raise Problem("unauthenticated", "Unknown token.")
        return self.tokens[secret]

    async def actor_from_session(self, session_key: str) -> Actor:
        self.reads += 1
        if session_key not in self.sessions:
            raise Problem("unauthenticated", "This session has ended.")
        return self.sessions[session_key]

    async def place(self, actor: Actor, workspace_id: str) -> Place:
        self.reads += 1
        await asyncio.sleep(0)
        if actor.user_id != 1 or workspace_id not in self.states:
            raise Problem("not_found", "No such workspace.")
        return Place(workspace_id, self.states[workspace_id], "", 1, self.role, self.approvals, self.glass)

    async def wake(self, actor: Actor, workspace_id: str, cause: str) -> None:
        self.wakes.append((workspace_id, cause))
        if self.on_wake is not None:
            await self.on_wake(workspace_id)

    async def auto_checkpoint(self, actor: Actor, workspace_id: str) -> str:
        self.autos.append(workspace_id)
        return self.auto_id

    async def is_capturing(self, checkpoint_id: str) -> bool:
        return self.capturing

    async def preview_by_pass(self, secret: str, name: PreviewName) -> Actor:
        return await self.preview_by_nothing(name)

    async def preview_by_link(self, token: str, name: PreviewName) -> Actor:
        return await self.preview_by_nothing(name)

    async def preview_by_nothing(self, name: PreviewName) -> Actor:
        self.reads += 1
        raise Problem("preview_forbidden", "Nobody is let in here.")

    async def touch(self, workspace_id: str, kind: str) -> None:
        self.touches.append((workspace_id, kind))

    async def metadata_place(self, actor: Actor, workspace_id: str) -> Place:
        return await self.place(actor, workspace_id)

    async def hold_exec(self, actor: Actor, workspace_id: str, body: dict[str, Any], exec_id: str, pattern: str
                        ) -> None:
        self.held[exec_id] = held(exec_id, "pending_approval")
        self.asked.append((exec_id, pattern, body))

    async def held_exec(self, workspace_id: str, exec_id: str) -> Held | None:
        return self.held.get(exec_id)

    async def held_execs(self, workspace_id: str) -> list[dict[str, Any]]:
        return [one.record for one in self.held.values() if one.record["state"] == "pending_approval"]

    async def withdraw_exec(self, actor: Actor, workspace_id: str, exec_id: str) -> Held | None:
        if exec_id in self.held:
            self.held[exec_id] = held(exec_id, "ended", "killed")
        return self.held.get(exec_id)

    async def execs_to_begin(self) -> list[Begin]:
        return list(self.to_begin)

    async def exec_begun(self, approval_id: str, result: dict[str, str]) -> None:
        self.begun.append((approval_id, result))
        self.to_begin = [one for one in self.to_begin if one.approval_id != approval_id]
        for one in self.held:
            self.held[one] = held(one, "ended" if result else "starting", result.get("code", ""), settled=True)

    async def audit(self, acts: Sequence[Act]) -> None:
        self.acts += acts

    def close(self) -> None:
        pass


def held(exec_id: str, state: str, code: str = "", *, settled: bool = False) -> Held:
    record = {"id": exec_id, "state": state, "outcome": {"kind": "refused", "code": code} if code else None}
    return Held(settled or bool(code), code, "said", 60.0, record)


class Double:
    """A server on a Unix socket whose answer a test decides; it remembers what it was asked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seen: list[web.Request] = []
        self.bodies: list[bytes] = []
        #: hostd's answer to whether a machine runs, and how often it was asked: on the way up nothing else is.
        self.up = asyncio.Event()
        self.asked_whether_up = 0
        self.handler: Callable[[web.Request], Awaitable[web.StreamResponse]] = self.echo
        self._runner: web.AppRunner | None = None

    async def echo(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.bodies.append(body)
        return web.json_response({"phase": "running", "method": request.method, "path": request.raw_path,
                                  "headers": sorted([k.lower(), v] for k, v in request.headers.items()),
                                  "body": body.decode("utf-8", "replace")})

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/up"):
            return await self._whether_up(request)
        self.seen.append(request)
        return await self.handler(request)

    async def _whether_up(self, request: web.Request) -> web.StreamResponse:
        self.asked_whether_up += 1
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(float(request.query["wait_s"])):
                await self.up.wait()
        return web.json_response({"running": self.up.is_set()})

    async def start(self) -> None:
        app = web.Application(client_max_size=1 << 40)
        app.router.add_route("*", "/{anything:.*}", self._answer)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.UnixSite(self._runner, str(self.path)).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None


@dataclass
class Rig:
    url: str
    port: int
    app: App
    books: Books
    hostd: Double
    daphne: Double
    config: Config


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.asynccontextmanager
async def running(limits: Limits, redis_url: str = "") -> AsyncIterator[Rig]:
    with tempfile.TemporaryDirectory(prefix="berth-gw-") as folder:
        run = Path(folder)
        config = Config(data_dir=run, host_socket=run / "hostd.sock", daphne_socket=run / "daphne.sock",
                        redis_url=redis_url or f"unix://{run / 'no-redis.sock'}", preview_domain="preview.localhost",
                        limits=limits)
        hostd, daphne, books, port = Double(config.host_socket), Double(config.daphne_socket), Books(), free_port()
        await hostd.start()
        await daphne.start()
        app = App(config, books)
        serving = server(config, app, "127.0.0.1", port)
        task = asyncio.create_task(serving.serve())
        try:
            while not serving.started:
                assert not task.done(), "the gateway did not start"
                await asyncio.sleep(0.01)
            yield Rig(f"http://127.0.0.1:{port}", port, app, books, hostd, daphne, config)
        finally:
            serving.should_exit = True
            await task
            await hostd.stop()
            await daphne.stop()


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with running(Limits(host_patience_s=3.0, recheck_s=0.3)) as made:
        yield made


@pytest.fixture
def with_limits() -> Callable[..., Any]:
    """`async with with_limits(json_body_bytes=…) as rig`: a gateway with other bounds."""
    return lambda redis_url="", **given: running(replace(Limits(), **given), redis_url)


def scoped(*scopes: str) -> Actor:
    assert set(scopes) <= SCOPES
    return replace(ANNA, scopes=frozenset(scopes))
