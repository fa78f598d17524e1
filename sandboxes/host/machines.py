"""All that hostd holds at once: registry, feed, driver, live bodies and their execs. Made once by `app.py`.

Called by the handlers and by operations; calls `watch` when a body is put in. It decides nothing.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

from sandboxes.drivers.base import Driver, MachineHome
from sandboxes.errors import NotFound, NotRunning, StepFailed
from sandboxes.host import log, points
from sandboxes.host.body import Body, NoBody
from sandboxes.host.execs import Execs
from sandboxes.host.feed import Feed
from sandboxes.host.keyboard import Keyboards
from sandboxes.host.networks import Networks
from sandboxes.host.registry import Machine, Registry
from sandboxes.host.shown import Shown
from sandboxes.host.wayout import WayOut
from sandboxes.host.work import Meter
from sandboxes.lifecycle import Phase
from sandboxes.linux import space

Json = dict[str, Any]


class Machines:
    def __init__(self, state: Path, driver: Driver, egress: Path | None = None) -> None:
        self.state, self.driver = state, driver
        self.registry = Registry(state / "records")
        self.feed = Feed(state / "feed")
        self.bodies: dict[str, Body] = {}
        self._execs: dict[str, Execs] = {}
        self._shown = Shown(driver)
        self.networks = Networks(self.registry.folder_of)
        self.way_out = WayOut(self.registry.folder_of, egress, self.networks.of, self.tell_of, self.is_remembered)
        self.keyboards = Keyboards()
        self.watches: dict[str, asyncio.Task[None]] = {}
        #: What works in each live body, as far as it was seen.
        self.meters: dict[str, Meter] = {}
        #: What a former hostd did not come to, being done.
        self.settling: set[asyncio.Task[None]] = set()
        #: Who waits for a machine to run.
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        #: What an operation that is over left to be done, by machine: the next one waits for it.
        self._left: dict[str, asyncio.Task[None]] = {}
        #: What may be done while nothing else is, by machine: the next operation ends it.
        self._idling: dict[str, asyncio.Task[None]] = {}
        #: Bodies being made, whose memory and cpus are already spoken for: machine_id -> (cpus, memory_mib).
        self.reserved: dict[str, tuple[int, int]] = {}

    def home(self, machine_id: str) -> MachineHome:
        return MachineHome(self.state / "machines" / machine_id)

    def execs(self, machine_id: str) -> Execs:
        """Of a machine that is remembered. Raises NotFound for one that never was or is no more."""
        execs = self._execs.get(machine_id)
        if execs is None:
            machine = self.registry.find(machine_id)
            if machine.phase is Phase.ABSENT:
                raise NotFound("no such machine on this host")
            execs = self.adopt_execs(machine, None)
        return execs

    def execs_to_start_on(self, machine_id: str) -> Execs:
        try:
            return self.execs(machine_id)
        except NotFound as error:
            raise NotRunning("the machine is absent", reason="absent") from error

    def adopt_execs(self, machine: Machine, body: Body | NoBody | None, lost_reason: str = "machine_died") -> Execs:
        """Reads the machine's exec folder, once; those that still run go on over `body`, or wait in its memory."""
        execs = Execs(self.registry.folder_of(machine.machine_id) / "execs",
                      lambda kind, actor, data: self.tell(machine, kind, actor, data))
        self._execs[machine.machine_id] = execs
        execs.load(body, lost_reason)
        return execs

    def running_body(self, machine_id: str) -> Body:
        """The body of a machine that is up. Raises NotRunning while it is booting, stopping, off or unknown."""
        body = self.bodies.get(machine_id)
        if body is None or body.ended.is_set():
            phase = self.registry.find(machine_id).phase
            raise NotRunning(f"the machine is {phase.value}", reason=phase.value)
        if self.registry.find(machine_id).phase is not Phase.RUNNING:
            raise NotRunning("the machine is stopping", reason="stopping")
        return body

    def is_remembered(self, machine_id: str) -> bool:
        return self.registry.find(machine_id).phase is not Phase.ABSENT

    def worked(self, machine_id: str) -> None:
        """Somebody asked something of its guest."""
        meter = self.meters.get(machine_id)
        if meter is not None:
            meter.stamp()

    def is_up(self, machine_id: str) -> bool:
        """Its operation may not be over, but whoever calls into it is answered."""
        body = self.bodies.get(machine_id)
        return (body is not None and not body.ended.is_set() and body.settled
                and self.registry.find(machine_id).phase is Phase.RUNNING)

    async def up(self, machine_id: str, wait_s: float) -> bool:
        """Whether it runs, waiting a while for it."""
        if not self.is_up(machine_id) and wait_s > 0:
            rung: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waiting = self._waiting.setdefault(machine_id, set())
            waiting.add(rung)
            await asyncio.wait({rung}, timeout=wait_s)
            waiting.discard(rung)
            if not waiting:
                self._waiting.pop(machine_id, None)
        return self.is_up(machine_id)

    def came_up(self, machine_id: str) -> None:
        for rung in self._waiting.get(machine_id, ()):
            if not rung.done():
                rung.set_result(None)

    def leave(self, machine_id: str, task: asyncio.Task[None]) -> None:
        self._left[machine_id] = task
        self.settling.add(task)
        task.add_done_callback(self.settling.discard)

    def while_idle(self, machine_id: str, task: asyncio.Task[None]) -> None:
        self._idling[machine_id] = task
        self.settling.add(task)
        task.add_done_callback(self.settling.discard)

    async def undisturbed(self, machine_id: str) -> None:
        """Returns when nothing of former operations is still being done to it."""
        left, idling = self._left.pop(machine_id, None), self._idling.pop(machine_id, None)
        if idling is not None:
            idling.cancel()
            await asyncio.gather(idling, return_exceptions=True)
        if left is not None:
            await asyncio.wait({left})
            if not left.cancelled() and left.exception() is not None:
                log.line("left.failed", machine_id=machine_id, error=str(left.exception()))

    def tell(self, machine: Machine, kind: str, actor: Json | None, data: Json) -> None:
        self.feed.append(kind, machine.machine_id, machine.generation, actor, data)

    def tell_of(self, machine_id: str, kind: str, data: Json) -> None:
        """What was seen in it and nobody in particular did."""
        self.tell(self.registry.find(machine_id), kind, None, data)

    async def purge(self, machine_id: str) -> None:
        """After destroy: no exec and no output of it stays."""
        self._shown.forget(machine_id)
        await asyncio.to_thread(self.networks.forget, machine_id)
        execs = self._execs.pop(machine_id, None)
        if execs is not None:
            execs.close()
        await self.way_out.purge(machine_id)
        folder = self.registry.folder_of(machine_id) / "execs"
        await asyncio.to_thread(shutil.rmtree, folder, True)
        await asyncio.to_thread(shutil.rmtree, self.home(machine_id).path, True)

    def close(self) -> None:
        for execs in self._execs.values():
            execs.close()
        for machine_id in self.bodies:
            space.forgo(self.home(machine_id).path)
        self.feed.close()

    async def observe(self, machine: Machine) -> Json:
        current = machine.current
        return {
            "machine_id": machine.machine_id, "generation": machine.generation, "phase": machine.phase.value,
            "operation": current.to_json() if current else None,
            "disk_used_bytes": await self._disk_used_bytes(machine), "end_reason": machine.end_reason,
            "running_since": machine.running_since, "condition": self._condition(machine),
            "spec": machine.spec.to_json() if machine.spec else None, **await self._kept(machine),
            "work": self._work(machine), "network_revision": self.networks.of(machine.machine_id).revision,
        }

    def glimpse(self, machine: Machine) -> Json:
        return {"machine_id": machine.machine_id, "generation": machine.generation, "phase": machine.phase.value,
                "work": self._work(machine)}

    def _work(self, machine: Machine) -> Json | None:
        """None without a body, and at rest, where a body has its last moments: nothing works there."""
        meter = self.meters.get(machine.machine_id)
        if meter is None or machine.phase is Phase.PARKED:
            return None
        return meter.shown(self.execs(machine.machine_id))

    async def _kept(self, machine: Machine) -> Json:
        """Of its disk's chain, its memory image and its checkpoints."""
        home = self.home(machine.machine_id)
        there = machine.phase is not Phase.ABSENT
        parked = points.read(home.standby) if machine.phase is Phase.PARKED else None
        return {
            "chain_depth": await self._depth(home) if there else 0,
            "memory_image_bytes": parked.result.get("memory_bytes", 0) if parked else 0,
            "checkpoints": await self._shown.of(machine, home),
        }

    async def _depth(self, home: MachineHome) -> int:
        """0 where nobody can say what the disk is made of: one such machine must not hide all others."""
        try:
            return await self.driver.depth(home)
        except StepFailed:
            return 0

    def _condition(self, machine: Machine) -> str:
        """"" or what is wrong with a guest whose body lives: "host_disk_full", or "agent_silent"."""
        body, meter = self.bodies.get(machine.machine_id), self.meters.get(machine.machine_id)
        if body is None:
            return ""
        return body.live.condition or ("agent_silent" if meter is not None and meter.silent else "")

    def stands_still(self, body: Body) -> bool:
        """Whether its guest is kept from answering by something of the host's."""
        return bool(body.live.condition) or self.registry.find(body.machine_id).current is not None

    def agent_is(self, machine_id: str, *, silent: bool) -> None:
        """A fact for those upstairs; it decides nothing here."""
        self.tell(self.registry.find(machine_id), "machine.agent_silent" if silent else "machine.agent_heard", None, {})

    async def _disk_used_bytes(self, machine: Machine) -> int:
        if machine.phase is Phase.ABSENT:
            return 0
        try:
            return await self.driver.disk_used_bytes(self.home(machine.machine_id))
        except FileNotFoundError:
            return 0  # being destroyed at this moment
