"""What each machine used in the last hour: one sample in SAMPLE_S, in a ring that outlives the body and not hostd.

Called by `app.py` (`GET …/metrics`; the sampler). The figures are the guest's own kernel's, told by its agent: a guest
may lie about itself and about nobody else, and each figure is held to a plain number. A machine that sleeps answers
with what was; nothing is woken for a look.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from sandboxes.errors import SandboxError
from sandboxes.host.clock import text_of
from sandboxes.host.machines import Machines

Json = dict[str, Any]
SAMPLE_S = 30.0
KEPT = 120
ANSWER_S = 8.0
#: What is passed on of what an agent says.
FIGURES = frozenset((
    "cpu_s", "memory_used_bytes", "memory_total_bytes", "disk_used_bytes", "disk_total_bytes", "load1",
    "network_rx_bytes", "network_tx_bytes"))


@dataclass(frozen=True)
class Sample:
    at: float
    figures: Json
    #: Of one processor, since the sample before; None where there is none to compare with.
    cpu_percent: float | None

    def to_json(self) -> Json:
        return {"at": text_of(self.at), "cpu_percent": self.cpu_percent, **self.figures}


class Figures:
    """`clock` is Unix seconds."""

    def __init__(self, machines: Machines, clock: Any = time.time) -> None:
        self._machines, self._clock = machines, clock
        self._rings: dict[str, deque[Sample]] = {}
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._task = asyncio.create_task(self._run(), name="figures")

    async def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def shown(self, machine_id: str) -> Json:
        """`now` is null, with the `reason`, where nobody can be asked."""
        now, reason = None, None
        try:
            now = (await self._look(machine_id)).to_json()
        except SandboxError as error:
            reason = error.reason or error.code
        return {"now": now, "reason": reason, "interval_s": SAMPLE_S,
                "history": [sample.to_json() for sample in self._rings.get(machine_id, ())]}

    async def _look(self, machine_id: str) -> Sample:
        link = await self._machines.running_body(machine_id).soon(5)
        said = await link.request("metrics", {}, timeout_s=ANSWER_S)
        figures = {name: value for name, value in said.items() if name in FIGURES and _is_figure(value)}
        ring = self._rings.get(machine_id)
        before = ring[-1] if ring else None
        at = self._clock()
        return Sample(at, figures, _cpu_percent(before, figures, at))

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE_S)
            await self.sample()

    async def sample(self) -> None:
        """All at once; a slow one keeps nobody waiting but the next round."""
        for gone in [mid for mid in self._rings if not self._machines.is_remembered(mid)]:
            del self._rings[gone]
        await asyncio.gather(*(self._sample(mid) for mid in list(self._machines.bodies)))

    async def _sample(self, machine_id: str) -> None:
        try:
            sample = await self._look(machine_id)
        except SandboxError:
            return  # a gap in the hour says it
        self._rings.setdefault(machine_id, deque(maxlen=KEPT)).append(sample)


def _cpu_percent(before: Sample | None, figures: Json, at: float) -> float | None:
    """None after a boot: a counter that went back says nothing."""
    if before is None or at <= before.at or "cpu_s" not in figures or "cpu_s" not in before.figures:
        return None
    used = figures["cpu_s"] - before.figures["cpu_s"]
    return round(100 * used / (at - before.at), 1) if used >= 0 else None


def _is_figure(value: object) -> bool:
    """JSON of a guest may hold NaN, or a million digits."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**63
