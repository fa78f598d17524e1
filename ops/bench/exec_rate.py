"""bench exec_rate: execs and reads a second with 16 clients, on the fake driver, beside the same load on hostd.

The fake driver starts a real process for each exec, which is most of an exec's cost; reading an ended exec shows
what the gateway itself costs.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

from ops.bench.figure import Figure
from ops.bench.round_trip import new_id
from ops.bench.stage import Client, Stage

CLIENTS, SECONDS = 16, 6.0

Call = Callable[[Client], object]


def run(stage: Stage) -> list[Figure]:
    workspace = str(stage.create("bench-rate")["id"])
    execs = Figure(
        "exec_rate",
        rate(stage.rest, lambda c: c.call("POST", f"/api/v1/workspaces/{workspace}/execs", {"command": ["true"]})),
        "exec/s",
        rate(stage.hostd, lambda c: c.call("POST", f"/v1/machines/{workspace}/execs?wait_s=60",
                                           {"exec_id": new_id(), "command": ["true"]})), "straight to hostd")
    # Made after the flood: a machine keeps a bounded number of ended execs.
    ended = stage.rest().call("POST", f"/api/v1/workspaces/{workspace}/execs", {"command": ["true"]})
    reads = Figure(
        "exec_read_rate",
        rate(stage.rest, lambda c: c.call("GET", f"/api/v1/workspaces/{workspace}/execs/{ended['id']}")), "req/s",
        rate(stage.hostd, lambda c: c.call("GET", f"/v1/machines/{workspace}/execs/{ended['id']}")),
        "straight to hostd", "at least 1000 req/s with the load on other cores")
    stage.purge(workspace)
    return [execs, reads]


def rate(connect: Callable[[], Client], call: Call) -> float:
    """Answers a second over all clients. One failed answer fails the bench."""
    counts = [0] * CLIENTS
    errors: list[str] = []
    until = time.perf_counter() + SECONDS

    def work(n: int) -> None:
        client = connect()
        try:
            while time.perf_counter() < until:
                call(client)
                counts[n] += 1
        except (OSError, RuntimeError, json.JSONDecodeError) as error:
            errors.append(str(error))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(CLIENTS)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise RuntimeError(f"{len(errors)} clients failed, first: {errors[0]}")
    return sum(counts) / (time.perf_counter() - started)
