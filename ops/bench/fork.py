"""bench fork: five forks asked for at once, beside five asked for one after another. From a checkpoint with memory.

After 1, 10 and 100 checkpoints of the source, which goes on running.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from ops.bench.depth import chain_depth, checkpoint, deeper
from ops.bench.figure import Figure
from ops.bench.round_trip import timed_rest
from ops.bench.stage import Stage

FORKS = 5


def run(stage: Stage) -> list[Figure]:
    workspace = str(stage.create("bench-fork")["id"])
    figures = [measured(stage, workspace, depth) for depth in deeper(stage, workspace)]
    stage.purge(workspace)
    return figures


def measured(stage: Stage, workspace: str, depth: int) -> Figure:
    point = str(checkpoint(stage, workspace, memory=True)["id"])
    names: Iterator[str] = (f"fork-{depth}-{n}" for n in range(2 * FORKS))
    together = forked_s(stage, workspace, point, next(names), FORKS)
    singly = sum(forked_s(stage, workspace, point, next(names), 1) for _ in range(FORKS))
    return Figure(f"fork_of_{FORKS}_after_{depth}", together, "s", singly, f"{FORKS} single forks", "at most 1 time",
                  {"chain_depth": chain_depth(stage, workspace)})


def forked_s(stage: Stage, workspace: str, point: str, name: str, count: int) -> float:
    """Until each of them has run a `true`."""
    started = time.perf_counter()
    made = stage.rest().call("POST", f"/api/v1/workspaces/{workspace}/fork?wait=true&timeout_s=300",
                             {"name": name, "checkpoint": point, "count": count})["results"]
    for fork in made:
        timed_rest(stage.rest(), fork["id"])
    seconds = time.perf_counter() - started
    for fork in made:
        stage.purge(fork["id"])
    return seconds
