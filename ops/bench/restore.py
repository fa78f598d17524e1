"""bench restore: going back to a checkpoint, to the result of a first `true`, beside a wake of the same workspace.

After 1, 10 and 100 checkpoints. Both resume a memory image over a disk; a restore also keeps what was, first.
"""

from __future__ import annotations

import statistics
import time

from ops.bench.depth import chain_depth, checkpoint, deeper
from ops.bench.figure import Figure
from ops.bench.round_trip import timed_rest
from ops.bench.stage import Stage
from ops.bench.start import change

ROUNDS = 3


def run(stage: Stage) -> list[Figure]:
    workspace = str(stage.create("bench-restore")["id"])
    figures = [measured(stage, workspace, depth) for depth in deeper(stage, workspace)]
    stage.purge(workspace)
    return figures


def measured(stage: Stage, workspace: str, depth: int) -> Figure:
    point = checkpoint(stage, workspace, memory=True)
    ours: list[float] = []
    wakes: list[float] = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        after = stage.rest().call("POST", f"/api/v1/workspaces/{workspace}/checkpoints/{point['id']}/restore"
                                          "?wait=true&timeout_s=300", {})
        if after["state"] != "running":
            raise RuntimeError(f"after the restore it is {after['state']}: {after.get('state_reason')}")
        timed_rest(stage.rest(), workspace)
        ours.append(time.perf_counter() - started)
        change(stage, workspace, "standby", "standby")
        started = time.perf_counter()
        timed_rest(stage.rest(), workspace)
        wakes.append(time.perf_counter() - started)
    return Figure(f"restore_after_{depth}", statistics.median(ours), "s", statistics.median(wakes),
                  "wake of the same workspace", "at most 1.5 times",
                  {"chain_depth": chain_depth(stage, workspace), "rounds": ROUNDS})
