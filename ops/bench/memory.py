"""bench memory: ten idle workspaces from one template; what each really costs, beside what each seems to cost.

Proportional set size counts a page that n machines share as one nth; resident size counts it fully each time. The
distance between the two is what the template saves. Source: /proc/PID/smaps_rollup.
"""

from __future__ import annotations

import time
from pathlib import Path

from ops import hostside
from ops.bench.figure import Figure
from ops.bench.stage import Stage

WORKSPACES = 10
SETTLE_S = 10.0


def run(stage: Stage) -> list[Figure]:
    ids = [str(stage.create(f"bench-memory-{n}")["id"]) for n in range(WORKSPACES)]
    time.sleep(SETTLE_S)  # idle is what is measured: start-up's own pages have been let go
    rows = [rollup(process.pid) for machine_id, process in hostside.bodies(stage.instance).items() if machine_id in ids]
    for workspace in ids:
        stage.purge(workspace)
    if len(rows) != WORKSPACES:
        raise RuntimeError(f"{len(rows)} of {WORKSPACES} machines were found")
    return [Figure("memory_per_vm", mean(rows, "Pss"), "MiB", mean(rows, "Rss"), "resident size, sharing not counted",
                   detail={"private_mib": round(mean(rows, "Private_Clean") + mean(rows, "Private_Dirty"), 1),
                           "shared_mib": round(mean(rows, "Shared_Clean") + mean(rows, "Shared_Dirty"), 1),
                           "workspaces": WORKSPACES})]


def mean(rows: list[dict[str, int]], key: str) -> float:
    """MiB over all machines."""
    return sum(row[key] for row in rows) / len(rows) / 1024


def rollup(pid: int) -> dict[str, int]:
    """Kilobytes by name."""
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {name: int(value.split()[0]) for name, _, value in (row.partition(":") for row in rows)}
