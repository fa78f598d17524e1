"""bench exec_crowd: one exec of `true` by each of 50 clients at once, again and again, on the fake driver.

Through the gateway and straight to hostd, in turns, so that whatever else the machine does falls on both. With so many
at once both are queues in front of the same forks: what the gateway adds is the difference of their percentiles.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ops.bench.figure import Figure, median_ms, p95_ms
from ops.bench.round_trip import timed_hostd, timed_rest
from ops.bench.stage import Client, Stage

#: Each waits for the others: what is added to one exec is the difference of the medians over all of them.
CLIENTS, ROUNDS, EACH = 50, 3, 6

Timed = Callable[[Client, str], float]


def run(stage: Stage) -> list[Figure]:
    workspace = str(stage.create("bench-crowd")["id"])
    through: list[float] = []
    straight: list[float] = []
    crowd(stage.rest, timed_rest, workspace, 1)  # connections, caches
    for _ in range(ROUNDS):
        through += crowd(stage.rest, timed_rest, workspace, EACH)
        straight += crowd(stage.hostd, timed_hostd, workspace, EACH)
    stage.purge(workspace)
    return [Figure("exec_crowd", p95_ms(through), "ms", p95_ms(straight), "p95 straight to hostd",
                   "at most 10 ms added for each exec under way",
                   {"clients": CLIENTS, "median_ms": round(median_ms(through), 1),
                    "median_straight_ms": round(median_ms(straight), 1),
                    "added_per_exec_ms": round((median_ms(through) - median_ms(straight)) / CLIENTS, 2)})]


def crowd(connect: Callable[[], Client], timed: Timed, workspace: str, each: int) -> list[float]:
    """Seconds of each exec. One failed answer fails the bench."""
    seconds: list[list[float]] = [[] for _ in range(CLIENTS)]
    errors: list[str] = []
    together = threading.Barrier(CLIENTS)

    def work(n: int) -> None:
        try:
            client = connect()
            together.wait()
            for _ in range(each):
                seconds[n].append(timed(client, workspace))
        except (OSError, RuntimeError, ValueError) as error:
            errors.append(str(error))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise RuntimeError(f"{len(errors)} clients failed, first: {errors[0]}")
    return [second for one in seconds for second in one]
