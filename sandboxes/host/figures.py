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
from sandboxes.host.body import Body
from sandboxes.host.clock import text_of
from sandboxes.host.machines import Machines

Json = dict[str, Any]
SAMPLE_S = 30.0
KEPT = 120
ANSWER_S = 8.0
#: Nearer together than this, two looks tell more of how long their answers were on the way than of the processor.
LEAST_S = 5.0
#: An answer that took longer was held up (by a checkpoint, by a pause): nobody knows of which moment its counter is.
PROMPT_S = 1.0
#: What two clocks may disagree by before a figure over all processors is taken for none.
LEEWAY = 1.1
#: What is passed on of what an agent says.
FIGURES = frozenset((
    "cpu_s", "memory_used_bytes", "memory_total_bytes", "disk_used_bytes", "disk_total_bytes", "load1",
    "network_rx_bytes", "network_tx_bytes"))


@dataclass(frozen=True)
class Sample:
    at: float
    figures: Json
    #: Of one processor, since an earlier look; None where there is none to compare with.
    cpu_percent: float | None
    #: Of the body that answered, and whether it answered at once: else its counter is compared with nothing.
    epoch: int = 0
    is_prompt: bool = True

    def to_json(self) -> Json:
        return {"at": text_of(self.at), "cpu_percent": self.cpu_percent, **self.figures}


class Figures:
    """`clock` is Unix seconds."""

    def __init__(self, machines: Machines, clock: Any = time.time) -> None:
        self._machines, self._clock = machines, clock
        self._rings: dict[str, deque[Sample]] = {}
        #: A look that was asked for, so that a young machine's next one has something to be compared with.
        self._looks: dict[str, Sample] = {}
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
            sample = await self._look(machine_id)
            before = self._looks.get(machine_id)
            if before is None or sample.at - before.at >= LEAST_S:
                self._looks[machine_id] = sample
            now = sample.to_json()
        except SandboxError as error:
            reason = error.reason or error.code
        return {**self.kept(machine_id), "now": now, "reason": reason}

    def kept(self, machine_id: str) -> Json:
        """The hour alone: no guest is asked."""
        return {"now": None, "reason": None, "interval_s": SAMPLE_S,
                "history": [sample.to_json() for sample in self._rings.get(machine_id, ())]}

    async def _look(self, machine_id: str) -> Sample:
        body = self._machines.running_body(machine_id)
        link = await body.soon(5)
        asked = self._clock()
        said = await link.request("metrics", {}, timeout_s=ANSWER_S)
        figures = {name: value for name, value in said.items() if name in FIGURES and _is_figure(value)}
        at = self._clock()
        is_prompt = 0 <= at - asked <= PROMPT_S
        percent = cpu_percent(self._earlier(body), figures, at, self._cpus(machine_id)) if is_prompt else None
        return Sample(at, figures, percent, body.epoch, is_prompt)

    def _earlier(self, body: Body) -> list[Sample]:
        """What a new look at the same body may be compared with."""
        looks = [*self._rings.get(body.machine_id, ()), *filter(None, [self._looks.get(body.machine_id)])]
        return [look for look in looks if look.epoch == body.epoch and look.is_prompt]

    def _cpus(self, machine_id: str) -> int:
        spec = self._machines.registry.find(machine_id).spec
        return spec.shape.cpus if spec else 1

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE_S)
            await self.sample()

    async def sample(self) -> None:
        """All at once; a slow one keeps nobody waiting but the next round."""
        for kept in (self._rings, self._looks):
            for gone in [mid for mid in kept if not self._machines.is_remembered(mid)]:
                del kept[gone]
        await asyncio.gather(*(self._sample(mid) for mid in list(self._machines.bodies)))

    async def _sample(self, machine_id: str) -> None:
        try:
            sample = await self._look(machine_id)
        except SandboxError:
            return  # a gap in the hour says it
        self._rings.setdefault(machine_id, deque(maxlen=KEPT)).append(sample)


def cpu_percent(earlier: list[Sample], figures: Json, at: float, cpus: int) -> float | None:
    """Since the newest of the looks before that is far enough away. None where that cannot be known: there is no such
    look, the counter went back, or it says more than all processors could have done."""
    before = max((look for look in earlier if at - look.at >= LEAST_S and "cpu_s" in look.figures),
                 key=lambda look: look.at, default=None)
    if before is None or "cpu_s" not in figures or at <= before.at:
        return None
    percent = 100 * (figures["cpu_s"] - before.figures["cpu_s"]) / (at - before.at)
    most = 100.0 * cpus
    return round(min(percent, most), 1) if 0 <= percent <= most * LEEWAY else None


def _is_figure(value: object) -> bool:
    """JSON of a guest may hold NaN, or a million digits."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**63
