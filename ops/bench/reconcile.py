"""bench reconcile: plans a second while an instance of the fake driver grows to 1,000 workspaces; the last hundred
beside the first. What is there and wants nothing must cost nothing.

Each workspace is made and stopped: two plans. A few are under way at once, so that no more than those have a body.
"""

from __future__ import annotations

import threading
import time
from itertools import count

from ops.bench.figure import Figure
from ops.bench.stage import Stage
from ops.bench.start import change

WORKSPACES, STEP, AT_ONCE = 1000, 100, 8
PLANS_EACH = 2


def run(stage: Stage) -> list[Figure]:
    rates = [rate(stage, first, STEP) for first in range(0, WORKSPACES, STEP)]
    return [Figure("reconcile_rate", rates[-1], "plan/s", rates[0], "with none there yet", "at least 0.8 times",
                   {f"from_{n * STEP}": round(value, 2) for n, value in enumerate(rates)})]


def rate(stage: Stage, first: int, workspaces: int) -> float:
    numbers, errors, lock = count(first), list[str](), threading.Lock()

    def work() -> None:
        while not errors:
            with lock:
                number = next(numbers)
            if number >= first + workspaces:
                return
            try:
                workspace = str(stage.create(f"bench-many-{number}")["id"])
                change(stage, workspace, "stop", "stopped")
            except (OSError, RuntimeError) as error:
                errors.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(AT_ONCE)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise RuntimeError(errors[0])
    return workspaces * PLANS_EACH / (time.perf_counter() - started)
