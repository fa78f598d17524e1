"""bench start: a stopped workspace started with ?wait=true, and a first `true` in it, beside the floor of create."""

from __future__ import annotations

import statistics
import time

from ops.bench import bare
from ops.bench.figure import Figure
from ops.bench.round_trip import timed_rest
from ops.bench.stage import Stage

ROUNDS = 5


def run(stage: Stage) -> list[Figure]:
    workspace = str(stage.create("bench-start")["id"])
    ours: list[float] = []
    floor: list[float] = []
    for _ in range(ROUNDS):
        change(stage, workspace, "stop", "stopped")
        started = time.perf_counter()
        change(stage, workspace, "start", "running")
        timed_rest(stage.rest(), workspace)
        ours.append(time.perf_counter() - started)
        floor.append(bare.resume_s(stage))
    stage.purge(workspace)
    return [Figure("start", statistics.median(ours), "s", statistics.median(floor), "QEMU resumed by hand",
                   "at most 1.3 times", {"rounds": ROUNDS})]


def change(stage: Stage, workspace: str, verb: str, wanted: str) -> None:
    after = stage.rest().call("POST", f"/api/v1/workspaces/{workspace}/{verb}?wait=true&timeout_s=120", {})
    if after["state"] != wanted:
        raise RuntimeError(f"after {verb} it is {after['state']}: {after.get('state_reason')}")
