"""A hostd in this process whose machines' agents a test writes by hand: real sockets, real frames, any lie.

The guest is hostile, root in it included, so what its agent says is only a proposal. `Agents` is a driver that starts
no machine at all: each machine's agent is a script.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from sandboxes.drivers.base import Capabilities, MachineHome, OnStage
from sandboxes.guest import protocol as wire
from sandboxes.host.app import build
from sandboxes.spec import MachineSpec, Shape
from tests.host.client import eventually, new_id

Script = Callable[["Agent", int, dict[str, Any]], Awaitable[None]]


class Agent:
    """One connection of hostd to one agent. A method without a script answers politely with an empty result."""

    def __init__(self, writer: asyncio.StreamWriter, scripts: dict[str, Script]) -> None:
        self.writer, self.scripts = writer, scripts
        self.session = 0
        self.reads = asyncio.Event()
        self.reads.set()
        self.tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader) -> None:
        frames, joiner = wire.FrameReader(), wire.MessageJoiner()
        while data := await reader.read(65536):
            for frame in frames.feed(data):
                if frame.kind == wire.HELLO and (hello := joiner.add(frame)) is not None:
                    self.session = wire.session_number(hello["nonce"], hello["epoch"])
                    self.say(wire.WELCOME, 0, {**hello, "info": {"agent_version": "h", "state": "attached"}})
                elif frame.kind == wire.OPEN and (body := joiner.add(frame)) is not None:
                    self._begin(self.scripts.get(body["method"], polite)(self, frame.stream, body["params"]))
            await self.reads.wait()

    def _begin(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def say(self, kind: int, stream: int, body: dict[str, Any]) -> None:
        self.send(*wire.encode_message(kind, stream, self.session, body))

    def send(self, *frames: bytes) -> None:
        for frame in frames:
            self.writer.write(frame)

    def frame(self, kind: int, stream: int, payload: bytes = b"", tag: int = 0) -> bytes:
        return wire.encode(kind, stream, self.session, payload, tag)


async def polite(agent: Agent, stream: int, params: dict[str, Any]) -> None:
    agent.say(wire.RESULT, stream, {})


async def starts(agent: Agent, stream: int, params: dict[str, Any]) -> None:
    agent.say(wire.RESULT, stream, {"pid": 1, "started_at": 1.0})


async def says_ok(agent: Agent, stream: int, params: dict[str, Any]) -> None:
    agent.say(wire.HEAD, stream, {"offsets": {"stdout": 0, "stderr": 0}})
    agent.send(agent.frame(wire.DATA, stream, b"ok\n", tag=1), agent.frame(wire.EOF, stream))
    agent.say(wire.RESULT, stream, {"outcome": {"kind": "exited", "code": 0}, "ended_at": 1.0})


POLITE: dict[str, Script] = {"exec.start": starts, "exec.output": says_ok}


class Live:
    condition = ""
    namespace = None
    pid = 1

    def __init__(self, agent_socket: Path, server: asyncio.Server) -> None:
        self.agent_socket, self._server = agent_socket, server
        self.over = asyncio.Event()

    async def wait_end(self) -> str:
        await self.over.wait()
        return "killed:SIGKILL"

    async def kill(self) -> None:
        self._server.close()
        self.over.set()

    async def fit_disk(self, disk_gib: int) -> None:
        pass


class Agents:
    """The driver. `scripts[machine_id]` is what that machine's agent does."""

    def __init__(self) -> None:
        self.scripts: dict[str, dict[str, Script]] = {}
        self.connections: dict[str, list[Agent]] = {}

    async def capabilities(self) -> Capabilities:
        return Capabilities(driver="agents", version="1", accelerator="none", memory_images=False, templates=False,
                            isolation="process", cgroups="none", max_cpus=1)

    async def prepare(self, shape: Shape, on_stage: OnStage) -> None: ...
    async def create_disk(self, home: MachineHome, spec: MachineSpec) -> None: ...
    async def release(self, home: MachineHome) -> None: ...
    async def destroy(self, home: MachineHome) -> None: ...
    async def close(self) -> None: ...
    async def find(self, home: MachineHome) -> None: ...

    async def disk_used_bytes(self, home: MachineHome) -> int:
        return 0

    async def strays(self, known: set[str]) -> list[str]:
        return []

    async def launch(self, home: MachineHome, spec: MachineSpec, on_stage: OnStage) -> Live:
        home.run.mkdir(parents=True, exist_ok=True)
        path = home.run / "agent.sock"
        kept = self.connections.setdefault(spec.machine_id, [])

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            agent = Agent(writer, self.scripts.get(spec.machine_id, POLITE))
            kept.append(agent)
            try:
                await agent.serve(reader)
            except ConnectionError:
                pass
            finally:
                writer.close()
        return Live(path, await asyncio.start_unix_server(connected, path))


class House:
    """One such hostd and how to ask it."""

    def __init__(self, session: aiohttp.ClientSession, agents: Agents, socket: Path) -> None:
        self.session, self.agents, self.socket = session, agents, socket

    async def call(self, method: str, path: str, **how: Any) -> tuple[int, Any, Any]:
        async with self.session.request(method, f"http://hostd/v1/machines/{path}", **how) as answer:
            raw = await answer.read()
            is_json = answer.content_type == "application/json" and raw
            return answer.status, (await answer.json() if is_json else raw), answer.headers

    async def operate(self, machine: str, kind: str, generation: int = 1, **more: Any) -> dict[str, Any]:
        body = {"operation_id": new_id(), "kind": kind, "generation": generation, **more}
        _, operation, _ = await self.call("POST", f"{machine}/operations", json=body)

        async def over() -> Any:
            _, seen, _ = await self.call("GET", f"{machine}/operations/{operation['operation_id']}?wait_s=5")
            return seen if seen["state"] != "running" else None
        return dict(await eventually(over, f"{kind} ends"))

    async def machine(self, scripts: dict[str, Script] | None = None) -> str:
        machine = new_id()
        self.agents.scripts[machine] = {**POLITE, **(scripts or {})}
        spec = {"machine_id": machine, "generation": 1, "image": "default", "disk_gib": 1, "hostname": "h", "env": {},
                "shape": {"cpus": 1, "memory_mib": 64}}
        assert (await self.operate(machine, "create_disk", spec=spec))["state"] == "done"
        booted = await self.operate(machine, "boot")
        assert booted["state"] == "done", booted
        return machine

    async def run(self, machine: str, **more: Any) -> tuple[int, Any]:
        body = {"exec_id": new_id(), "command": "x", "wait_s": 20, **more}
        status, value, _ = await self.call("POST", f"{machine}/execs", json=body)
        return status, value


@asynccontextmanager
async def house(folder: Path) -> AsyncIterator[House]:
    agents = Agents()
    runner = web.AppRunner(build(folder / "state", agents, {"default": "f"}),  # type: ignore[arg-type]
                           access_log=None, shutdown_timeout=1)
    await runner.setup()
    await web.UnixSite(runner, str(folder / "h.sock")).start()
    try:
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(folder / "h.sock"), limit=0)) as session:
            yield House(session, agents, folder / "h.sock")
    finally:
        await runner.cleanup()
