"""bench create: POST with ?wait=true, then the result of a first `true`, beside QEMU resumed by hand to the same.

Template warm on both sides. Rounds alternate, so that whatever else the machine does falls on both.
"""

from __future__ import annotations

import statistics
import time

from ops.bench import bare
from ops.bench.figure import Figure
from ops.bench.round_trip import timed_rest
from ops.bench.stage import Stage

ROUNDS = 5


def run(stage: Stage) -> list[Figure]:
    stage.purge(str(stage.create("bench-warm")["id"]))
    ours: list[float] = []
    floor: list[float] = []
    for n in range(ROUNDS):
        started = time.perf_counter()
        workspace = str(stage.create(f"bench-create-{n}")["id"])
        running = time.perf_counter()
        timed_rest(stage.rest(), workspace)
        ours.append(time.perf_counter() - started)
        first_true = time.perf_counter() - running
        stage.purge(workspace)
        floor.append(bare.resume_s(stage))
    return [Figure("create", statistics.median(ours), "s", statistics.median(floor), "QEMU resumed by hand",
                   "at most 1.3 times", {"of_it_first_true_s": round(first_true, 3), "rounds": ROUNDS})]
