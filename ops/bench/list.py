"""bench list: a page of ten workspaces over REST, at the 95th percentile, when somebody has 10,000 of them beside 10.

Rows alone: they are stopped and no machine belongs to them, so what is measured is queries, indexes and rendering.
"""

from __future__ import annotations

import http.client
import time

from ops import programs
from ops.bench.figure import Figure, p95_ms
from ops.bench.stage import Client, Stage

FEW, MANY, REQUESTS, LISTER = 10, 10_000, 200, "lister"
PAGES = {"all": "", "by_state": "&state=stopped", "by_label": "&label.n=7"}


def run(stage: Stage) -> list[Figure]:
    token = programs.manage(stage.instance, "berth_token", LISTER).split()[-1]
    client = Client(http.client.HTTPConnection(stage.instance.connect_host, stage.instance.port, timeout=120),
                    {"Authorization": f"Bearer {token}"})
    few, many = measured(stage, client, FEW), measured(stage, client, MANY)
    return [Figure("list_p95", many["all"], "ms", few["all"], f"with {FEW} rows", "flat: at most 1.5 times",
                   {f"{name}_with_{MANY}": round(value, 2) for name, value in many.items()})]


def measured(stage: Stage, client: Client, rows: int) -> dict[str, float]:
    programs.manage(stage.instance, "berth_rows", LISTER, str(rows))
    return {name: p95_ms([once(client, query) for _ in range(REQUESTS)]) for name, query in PAGES.items()}


def once(client: Client, query: str) -> float:
    started = time.perf_counter()
    client.call("GET", f"/api/v1/workspaces?limit=10{query}")
    return time.perf_counter() - started
