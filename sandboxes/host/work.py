"""What works in each machine, for the idle rule upstairs: stamps, counts and samples. It decides nothing.

Called by `app.py` (the sampler), the handlers (stamps) and `machines.py` (observations); asks each guest's agent once
in SAMPLE_S. The agent's own figures are used, not the body's: they mean the same on every driver, cost one small call
that also brings the holds, and do not count what emulation itself burns. A guest that lies stays awake, no more.

    work:  an exec that is not a terminal runs; begins and ends of execs, input, file calls; CPU above BUSY_SHARE; holds
    not:   an open terminal in which nothing is typed and nothing computes
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

from sandboxes.errors import SandboxError
from sandboxes.host import log
from sandboxes.host.body import Body
from sandboxes.host.clock import text_of
from sandboxes.host.execs import Execs

Json = dict[str, Any]
SAMPLE_S = 10.0
ANSWER_S = 8.0
#: Of one processor. What an idle guest does by itself stays well below.
BUSY_SHARE = 0.1
MOST_HOLDS = 64
REASON_CHARACTERS = 200


@dataclass
class Meter:
    """Of one body. Begins with its body: that it began is work."""

    stamped_at: float = field(default_factory=time.time)
    cpu_busy: bool = False
    holds: list[Json] = field(default_factory=list)
    _sampled: tuple[float, float] | None = None

    def stamp(self) -> None:
        self.stamped_at = time.time()

    def take(self, said: Json, now: float) -> None:
        """One answer of the agent, at a moment of the monotonic clock."""
        cpu_s = said.get("cpu_s")
        if isinstance(cpu_s, int | float):
            if self._sampled is not None and now > self._sampled[0]:
                self.cpu_busy = (cpu_s - self._sampled[1]) / (now - self._sampled[0]) >= BUSY_SHARE
                if self.cpu_busy:
                    self.stamp()
            self._sampled = (now, cpu_s)
        self.holds = [hold for each in list(said.get("holds") or ())[:MOST_HOLDS] if (hold := _hold(each)) is not None]

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

    def __init__(self, bodies: dict[str, Body], meters: dict[str, Meter]) -> None:
        self._bodies, self._meters = bodies, meters
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
            await asyncio.gather(*(self._sample(body) for body in list(self._bodies.values())))

    async def _sample(self, body: Body) -> None:
        try:
            said = await body.now().request("work", {}, timeout_s=ANSWER_S)
        except SandboxError as error:
            log.line("work.not_sampled", machine_id=body.machine_id, code=error.code)
            return
        meter = self._meters.get(body.machine_id)
        if meter is not None:
            meter.take(said, time.monotonic())
