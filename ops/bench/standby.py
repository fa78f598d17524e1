"""bench standby: how long a workspace takes to rest, beside a raw write of as many bytes to the same disk.

The bytes are those that this rest wrote: what changed since the one before. At idle, and with so much memory written
between; after 1, 10 and 100 checkpoints. A rest has a part that is the same whatever it writes (the guest is quiesced,
its devices are saved, the request is answered), beside which a write of little is nothing. So there are two figures
more: that part beside the same done by hand, and what further bytes cost beside the raw write of them. Each size also
says what it is beside both floors together.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

from ops.bench import by_hand
from ops.bench.depth import chain_depth, deeper
from ops.bench.figure import Figure
from ops.bench.stage import Stage
from ops.bench.start import change

ROUNDS, DIRTY_MIB = 3, (0, 64, 256)


@dataclass
class Rests:
    """Of one size, seconds: ours, the raw write of what each wrote, and at idle the rest of it by hand."""

    ours: list[float] = field(default_factory=list)
    raw: list[float] = field(default_factory=list)
    fixed: list[float] = field(default_factory=list)
    written_bytes: int = 0

    @property
    def our_s(self) -> float:
        return statistics.median(self.ours)

    @property
    def raw_s(self) -> float:
        return statistics.median(self.raw)


def run(stage: Stage) -> list[Figure]:
    spec = stage.create("bench-standby")
    workspace = str(spec["id"])
    figures = [figure for depth in deeper(stage, workspace) for figure in measured(stage, workspace, spec, depth)]
    stage.purge(workspace)
    return figures


def measured(stage: Stage, workspace: str, spec: dict[str, object], depth: int) -> list[Figure]:
    rests = {mib: rested(stage, workspace, spec, mib) for mib in DIRTY_MIB}
    fixed_s = statistics.median(rests[0].fixed)
    shape: dict[str, float | str] = {"chain_depth": chain_depth(stage, workspace), "rounds": ROUNDS}
    least, most = rests[DIRTY_MIB[1]], rests[DIRTY_MIB[-1]]
    return [
        *(of_size(rests[mib], mib, depth, fixed_s, shape) for mib in DIRTY_MIB),
        Figure(f"standby_fixed_after_{depth}", rests[0].our_s * 1000, "ms", fixed_s * 1000,
               "quiesce and device state by hand", "", shape),
        Figure(f"standby_per_byte_after_{depth}", most.our_s - least.our_s, "s", most.raw_s - least.raw_s,
               f"raw write of the {DIRTY_MIB[-1] - DIRTY_MIB[1]} MiB more", "at most 2 times", shape)]


def of_size(rests: Rests, mib: int, depth: int, fixed_s: float, shape: dict[str, float | str]) -> Figure:
    said = {"ratio_to_write_and_fixed_by_hand": round(rests.our_s / (fixed_s + rests.raw_s), 2),
            "written_mib": round(rests.written_bytes / 2**20, 1)}
    return Figure(f"standby_{f'with_{mib}_mib' if mib else 'idle'}_after_{depth}", rests.our_s, "s", rests.raw_s,
                  "raw write of the same bytes", "at most 2 times",
                  {**said, **shape})


def rested(stage: Stage, workspace: str, spec: dict[str, object], dirty_mib: int) -> Rests:
    found = Rests()
    for _ in range(ROUNDS):
        held = hold_memory(stage, workspace, holding(dirty_mib)) if dirty_mib else ""
        started = time.perf_counter()
        change(stage, workspace, "standby", "standby")
        found.ours.append(time.perf_counter() - started)
        found.written_bytes = written_bytes(stage, workspace)
        found.raw.append(raw_write_s(stage.instance.host_state / "bench-raw", found.written_bytes))
        if not dirty_mib:
            found.fixed.append(by_hand.rest_s(stage, by_hand.keep(stage, workspace), spec))
        change(stage, workspace, "start", "running")
        if held:
            stage.rest().call("DELETE", f"/api/v1/workspaces/{workspace}/execs/{held}", expect=(200, 202, 204))
    return found


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
