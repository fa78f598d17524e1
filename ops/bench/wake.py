"""bench wake: a first `true` of a workspace in standby, beside its own memory image resumed by hand to the same result.

After 1, 10 and 100 checkpoints. Rounds alternate, so that whatever else the machine does falls on both.
"""

from __future__ import annotations

import statistics
import time

from ops.bench import by_hand
from ops.bench.depth import chain_depth, deeper
from ops.bench.figure import Figure
from ops.bench.round_trip import timed_rest
from ops.bench.stage import Stage
from ops.bench.start import change

ROUNDS = 3


def run(stage: Stage) -> list[Figure]:
    spec = stage.create("bench-wake")
    workspace = str(spec["id"])
    figures = [measured(stage, workspace, spec, depth) for depth in deeper(stage, workspace)]
    stage.purge(workspace)
    return figures


def measured(stage: Stage, workspace: str, spec: dict[str, object], depth: int) -> Figure:
    ours: list[float] = []
    floor: list[float] = []
    for _ in range(ROUNDS):
        change(stage, workspace, "standby", "standby")
        capture = by_hand.keep(stage, workspace)
        started = time.perf_counter()
        timed_rest(stage.rest(), workspace)
        ours.append(time.perf_counter() - started)
        floor.append(by_hand.wake_s(stage, capture, spec))
    return Figure(f"wake_after_{depth}", statistics.median(ours), "s", statistics.median(floor),
                  "QEMU resumed by hand", "at most 1.3 times",
                  {"chain_depth": chain_depth(stage, workspace), "rounds": ROUNDS})
