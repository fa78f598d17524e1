"""bench standby: how long a workspace takes to rest, beside a raw write of as many bytes to the same disk.

The bytes are those that this rest wrote: what changed since the one before. At idle, where what a rest costs whatever
it writes is all there is to see, and with so much memory written between; after 1, 10 and 100 checkpoints.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from pathlib import Path

from ops.bench.depth import chain_depth, deeper
from ops.bench.figure import Figure
from ops.bench.stage import Stage
from ops.bench.start import change

ROUNDS, DIRTY_MIB = 3, (0, 64, 256)


def run(stage: Stage) -> list[Figure]:
    workspace = str(stage.create("bench-standby")["id"])
    figures = [measured(stage, workspace, depth, mib) for depth in deeper(stage, workspace) for mib in DIRTY_MIB]
    stage.purge(workspace)
    return figures


def measured(stage: Stage, workspace: str, depth: int, dirty_mib: int) -> Figure:
    ours: list[float] = []
    floor: list[float] = []
    for _ in range(ROUNDS):
        held = hold_memory(stage, workspace, holding(dirty_mib)) if dirty_mib else ""
        started = time.perf_counter()
        change(stage, workspace, "standby", "standby")
        ours.append(time.perf_counter() - started)
        written = written_bytes(stage, workspace)
        floor.append(raw_write_s(stage.instance.host_state / "bench-raw", written))
        change(stage, workspace, "start", "running")
        if held:
            stage.rest().call("DELETE", f"/api/v1/workspaces/{workspace}/execs/{held}", expect=(200, 202, 204))
    name = f"standby_{f'with_{dirty_mib}_mib' if dirty_mib else 'idle'}_after_{depth}"
    return Figure(name, statistics.median(ours), "s", statistics.median(floor), "raw write of the same bytes",
                  "at most 2 times", {"written_mib": round(written / 2**20, 1),
                                      "chain_depth": chain_depth(stage, workspace), "rounds": ROUNDS})


def holding(mib: int) -> str:
    """A program that has written so much memory, says so, and holds it."""
    return f"import os; held = [os.urandom(1 << 20) for _ in range({mib})]; print(1, flush=True); input()"


def hold_memory(stage: Stage, workspace: str, program: str) -> str:
    """An exec that has written memory and holds it. Answers its id once it has."""
    client = stage.rest()
    begun = client.call("POST", f"/api/v1/workspaces/{workspace}/execs",
                        {"command": ["python3", "-c", program], "stdin_open": True, "background": True})
    path, deadline = f"/api/v1/workspaces/{workspace}/execs/{begun['id']}", time.monotonic() + 300
    while not client.call("GET", path)["stdout"]:
        if time.monotonic() > deadline:
            raise RuntimeError("the memory was not written in time")
        time.sleep(0.1)
    return str(begun["id"])


def written_bytes(stage: Stage, workspace: str) -> int:
    """Device state and the newest file of pages: the older ones were there before."""
    folder = stage.instance.host_state / "machines" / workspace / "standby"
    pages = json.loads((folder / "image.json").read_text())["pages"]
    return sum((folder / name).stat().st_size for name in ("device.state", *pages[-1:]))


def raw_write_s(path: Path, size: int) -> float:
    """As one would by hand: one stream, on the disk when it returns. The bytes are there beforehand."""
    data = os.urandom(1 << 20)
    started = time.perf_counter()
    with path.open("wb") as file:
        for at in range(0, size, len(data)):
            file.write(data[:min(len(data), size - at)])
        file.flush()
        os.fsync(file.fileno())
    seconds = time.perf_counter() - started
    path.unlink()
    return seconds
