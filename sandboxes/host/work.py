"""What works in each machine, for the idle rule upstairs: stamps, counts and samples. It decides nothing.

Called by `app.py` (the sampler), the handlers (stamps) and `machines.py` (observations); asks each guest's agent once
in SAMPLE_S. The agent's own figures are used, not the body's: they mean the same on every driver, cost one small call
that also brings the holds, and do not count what emulation itself burns. A guest that lies stays awake, no more.

The same question is the heartbeat: an agent that answers nothing for SILENT_S while its body lives is said to be
silent, once, and heard again once it answers. Nobody is ended for it.

    work:  an exec that is not a terminal runs; begins and ends of execs, input, file calls; CPU above BUSY_SHARE; holds
    not:   an open terminal in which nothing is typed and nothing computes
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sandboxes.errors import SandboxError
from sandboxes.host import log
from sandboxes.host.body import Body
from sandboxes.host.clock import text_of
from sandboxes.host.execs import Execs

if TYPE_CHECKING:
    from sandboxes.host.machines import Machines

Json = dict[str, Any]
SAMPLE_S = 10.0
ANSWER_S = 8.0
SILENT_S = 60.0
#: Of one processor. What an idle guest does by itself stays well below.
BUSY_SHARE = 0.1
MOST_HOLDS = 64
MOST_PORTS = 512
#: Of one sample: a guest that opens and closes thousands is no news.
MOST_TOLD = 16
REASON_CHARACTERS = 200


@dataclass
class Meter:
    """Of one body. Begins with its body: that it began is work."""

    stamped_at: float = field(default_factory=time.time)
    cpu_busy: bool = False
    holds: list[Json] = field(default_factory=list)
    #: When its agent last answered, by the monotonic clock.
    heard_at: float = field(default_factory=time.monotonic)
    silent: bool = False
    #: Ports that something listens on; None before the first sample of a body that was found running.
    ports: frozenset[int] | None = None
    _sampled: tuple[float, float] | None = None

    def stamp(self) -> None:
        self.stamped_at = time.time()

    def take(self, said: Json, now: float) -> None:
        """One answer of the agent, at a moment of the monotonic clock."""
        self.heard_at = now
        cpu_s = said.get("cpu_s")
        if isinstance(cpu_s, int | float):
            if self._sampled is not None and now > self._sampled[0]:
                self.cpu_busy = (cpu_s - self._sampled[1]) / (now - self._sampled[0]) >= BUSY_SHARE
                if self.cpu_busy:
                    self.stamp()
            self._sampled = (now, cpu_s)
        self.holds = [hold for each in list(said.get("holds") or ())[:MOST_HOLDS] if (hold := _hold(each)) is not None]

    def ports_now(self, said: Json) -> tuple[list[int], list[int]]:
        """(opened, closed) since the sample before."""
        given = said.get("ports")
        now = frozenset(port for port in given[:MOST_PORTS] if type(port) is int and 0 < port < 65536) \
            if isinstance(given, list) else frozenset()
        before = now if self.ports is None else self.ports
        self.ports = now
        return sorted(now - before), sorted(before - now)

    def shown(self, execs: Execs) -> Json:
        return {"last_work_at": text_of(max(self.stamped_at, execs.worked_at)), "cpu_busy": self.cpu_busy,
                "running_execs": execs.working, "holds": self.holds}


def _hold(said: Any) -> Json | None:
    """Held to its shape: a guest may say anything."""
    try:
        return {"reason": str(said["reason"])[:REASON_CHARACTERS], "expires_at": text_of(float(said["expires_at"])),
                "from": "guest"}
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return None


class Sampler:
    """Asks every body's agent, all at once, each SAMPLE_S; a slow one keeps nobody waiting."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._task = asyncio.create_task(self._run(), name="work sampler")

    async def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE_S)
            await asyncio.gather(*(self._sample(body) for body in list(self._machines.bodies.values())))

    async def _sample(self, body: Body) -> None:
        """Of a body that an operation is at, or that waits for space, silence says nothing."""
        excused = self._machines.stands_still(body)
        said: Json | None = None
        try:
            said = await body.now().request("work", {}, timeout_s=ANSWER_S)
        except SandboxError as error:
            log.line("work.not_sampled", machine_id=body.machine_id, code=error.code)
        meter, now = self._machines.meters.get(body.machine_id), time.monotonic()
        if meter is None or self._machines.bodies.get(body.machine_id) is not body:
            return
        if said is not None:
            meter.take(said, now)
            self._tell_ports(body.machine_id, meter, said)
        elif excused or self._machines.stands_still(body):
            meter.heard_at = now
        if meter.silent != (now - meter.heard_at > SILENT_S):
            meter.silent = not meter.silent
            self._machines.agent_is(body.machine_id, silent=meter.silent)

    def _tell_ports(self, machine_id: str, meter: Meter, said: Json) -> None:
        opened, closed = meter.ports_now(said)
        for kind, ports in (("port.opened", opened), ("port.closed", closed)):
            for port in ports[:MOST_TOLD]:
                self._machines.tell_of(machine_id, kind, {"port": port})
