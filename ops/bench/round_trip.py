"""bench exec: the REST round trip of `true` in a running workspace, beside the same exec straight to hostd.

The two are measured alternately, so that whatever else the machine does falls on both.
"""

from __future__ import annotations

import secrets
import time

from ops.bench.figure import Figure, median_ms, p95_ms
from ops.bench.stage import Client, Stage

ROUNDS, WARM_UP = 40, 5
ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"


def run(stage: Stage) -> list[Figure]:
    workspace = stage.create("bench-exec")
    rest, hostd = stage.rest(), stage.hostd()
    through: list[float] = []
    straight: list[float] = []
    for n in range(ROUNDS + WARM_UP):
        seconds = (timed_rest(rest, workspace["id"]), timed_hostd(hostd, workspace["id"]))
        if n >= WARM_UP:
            through.append(seconds[0])
            straight.append(seconds[1])
    stage.purge(workspace["id"])
    added = median_ms(through) - median_ms(straight)
    return [Figure("exec", median_ms(through), "ms", median_ms(straight), "straight to hostd",
                   "at most 10 ms added at the median",
                   {"added_ms": round(added, 2), "p95_ms": round(p95_ms(through), 2), "rounds": ROUNDS})]


def timed_rest(client: Client, workspace_id: str) -> float:
    started = time.perf_counter()
    ended = client.call("POST", f"/api/v1/workspaces/{workspace_id}/execs", {"command": ["true"]})
    seconds = time.perf_counter() - started
    check(ended)
    return seconds


def timed_hostd(client: Client, machine_id: str) -> float:
    started = time.perf_counter()
    ended = client.call("POST", f"/v1/machines/{machine_id}/execs?wait_s=60",
                        {"exec_id": new_id(), "command": ["true"]})
    seconds = time.perf_counter() - started
    check(ended)
    return seconds


def check(ended: dict[str, object]) -> None:
    """A fast wrong answer is no figure."""
    if ended.get("outcome") != {"kind": "exited", "code": 0}:
        raise RuntimeError(f"true ended as {ended.get('outcome')}")


def new_id() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(20))
