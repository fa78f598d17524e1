"""bench files: upload and download of a file through REST, beside the same bytes straight to and from hostd.

The two are measured alternately, so that whatever else the machine does falls on both. What is compared is the way: the
guest's own writing (with its fsync) is in both figures.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from urllib.parse import quote

from ops.bench.figure import Figure
from ops.bench.stage import Client, Stage

SIZE_MIB, ROUNDS = 64, 5
PIECE = bytes(range(256)) * 1024
READ_BYTES = 256 * 1024
PATH = quote("/home/user/bench-file", safe="/")
GOAL = "at least 0.7 of it"


def run(stage: Stage) -> list[Figure]:
    workspace = str(stage.create("bench-files")["id"])
    rest, hostd = f"/api/v1/workspaces/{workspace}", f"/v1/machines/{workspace}"
    ways = {"up_rest": lambda: upload(stage.rest(), rest), "up_hostd": lambda: upload(stage.hostd(), hostd),
            "down_rest": lambda: download(stage.rest(), rest), "down_hostd": lambda: download(stage.hostd(), hostd)}
    rates = measured(ways)
    stage.purge(workspace)
    return [Figure("file_upload", rates["up_rest"], "MiB/s", rates["up_hostd"], "straight to hostd", GOAL),
            Figure("file_download", rates["down_rest"], "MiB/s", rates["down_hostd"], "straight from hostd", GOAL)]


def measured(ways: dict[str, Callable[[], None]]) -> dict[str, float]:
    """The median rate of each, after one round that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for round_number in range(ROUNDS + 1):
        for name, way in ways.items():
            started = time.perf_counter()
            way()
            if round_number:
                seconds[name].append(time.perf_counter() - started)
    return {name: SIZE_MIB / statistics.median(each) for name, each in seconds.items()}


def upload(client: Client, base: str) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(SIZE_MIB * 1024 * 1024 // len(PIECE)):
            yield PIECE
    headers = {**client.headers, "Content-Type": "application/octet-stream",
               "Content-Length": str(SIZE_MIB * 1024 * 1024)}
    client.connection.request("PUT", f"{base}/files/content?path={PATH}", pieces(), headers)
    answer = client.connection.getresponse()
    said = answer.read()
    if answer.status not in (200, 201):
        raise RuntimeError(f"upload: {answer.status} {said[:300]!r}")
    client.connection.close()


def download(client: Client, base: str) -> None:
    client.connection.request("GET", f"{base}/files/content?path={PATH}", headers=client.headers)
    answer = client.connection.getresponse()
    got = 0
    while data := answer.read(READ_BYTES):
        got += len(data)
    if answer.status != 200 or got != SIZE_MIB * 1024 * 1024:
        raise RuntimeError(f"download: {answer.status}, {got} bytes")
    client.connection.close()
