"""bench checkpoint: how long an idle workspace stands still for one, beside the same done by hand; and how that grows.

By hand: quiesce, device state, a copy of the pages that differ, thaw, of the same memory. Growth: the pause
with more and more memory written since the last one, which is what a checkpoint has to copy.
"""

from __future__ import annotations

import statistics

from ops.bench import by_hand
from ops.bench.depth import chain_depth, checkpoint, deeper
from ops.bench.figure import Figure
from ops.bench.stage import Stage
from ops.bench.standby import hold_memory, holding
from ops.bench.start import change

ROUNDS, GROWTH_MIB = 3, (0, 32, 64, 128, 256)


def run(stage: Stage) -> list[Figure]:
    spec = stage.create("bench-checkpoint")
    workspace = str(spec["id"])
    figures = [measured(stage, workspace, spec, depth) for depth in deeper(stage, workspace)]
    figures.append(growth(stage, workspace))
    stage.purge(workspace)
    return figures


def measured(stage: Stage, workspace: str, spec: dict[str, object], depth: int) -> Figure:
    ours: list[float] = []
    floor: list[float] = []
    for _ in range(ROUNDS):
        change(stage, workspace, "standby", "standby")
        capture = by_hand.keep(stage, workspace)
        floor.append(by_hand.pause_ms(stage, capture, spec))
        change(stage, workspace, "start", "running")
        ours.append(pause_ms(stage, workspace))
    return Figure(f"checkpoint_pause_after_{depth}", statistics.median(ours), "ms", statistics.median(floor),
                  "quiesce, device state and copy by hand", "at most 1.5 times",
                  {"chain_depth": chain_depth(stage, workspace), "rounds": ROUNDS})


def growth(stage: Stage, workspace: str) -> Figure:
    """The pause after each amount; beside the largest stands the smallest."""
    pauses: dict[int, float] = {}
    for mib in GROWTH_MIB:
        held = hold_memory(stage, workspace, holding(mib))
        pauses[mib] = pause_ms(stage, workspace)
        stage.rest().call("DELETE", f"/api/v1/workspaces/{workspace}/execs/{held}", expect=(200, 202, 204))
    plot = {f"{mib}_mib_dirty": f"{'#' * round(pause / max(pauses.values()) * 40)} {pause:.0f} ms"
            for mib, pause in pauses.items()}
    return Figure("checkpoint_pause_growth", pauses[GROWTH_MIB[-1]], "ms", pauses[0], "nothing written", "",
                  {**plot})


def pause_ms(stage: Stage, workspace: str) -> float:
    return float(str(checkpoint(stage, workspace, memory=True)["pause_ms"]))
