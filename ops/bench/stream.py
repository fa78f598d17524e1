"""bench stream: 32 MiB of an exec's output as server-sent events through the gateway, beside the same from hostd.

The exec has ended, so both read the same bytes from the same files at their own pace; nothing of a guest is in it.
"""

from __future__ import annotations

import time

from ops.bench.figure import Figure
from ops.bench.stage import Client, Stage

OUTPUT_BYTES = 32 * 1024 * 1024
ROUNDS = 3
PIECE_BYTES = 256 * 1024


def run(stage: Stage) -> list[Figure]:
    workspace = str(stage.create("bench-stream")["id"])
    begun = stage.rest().call("POST", f"/api/v1/workspaces/{workspace}/execs", {
        "command": ["sh", "-c", f"head -c {OUTPUT_BYTES} /dev/zero | tr '\\0' x"], "background": True,
        "max_output_bytes": OUTPUT_BYTES})
    path = f"execs/{begun['id']}"
    ended = stage.rest().call("GET", f"/api/v1/workspaces/{workspace}/{path}?wait_s=120")
    if ended["outcome"] != {"kind": "exited", "code": 0} or ended["stdout_truncated"]:
        raise RuntimeError(f"the output was not made: {ended['outcome']}")
    figures = [
        compared("exec_stream", stage, f"/api/v1/workspaces/{workspace}/{path}/stream",
                 f"/v1/machines/{workspace}/{path}/stream"),
        compared("exec_output", stage, f"/api/v1/workspaces/{workspace}/{path}/output",
                 f"/v1/machines/{workspace}/{path}/output"),
    ]
    stage.purge(workspace)
    return figures


def compared(name: str, stage: Stage, through: str, straight: str) -> Figure:
    """The best of some rounds each, in turns."""
    best = {"through": 0.0, "straight": 0.0}
    for _ in range(ROUNDS):
        best["through"] = max(best["through"], rate(stage.rest(), through))
        best["straight"] = max(best["straight"], rate(stage.hostd(), straight))
    goal = "ratio at least 0.7" if name == "exec_stream" else ""  # raw bytes come faster than any link carries them
    return Figure(name, best["through"], "MB/s", best["straight"], "straight from hostd", goal)


def rate(client: Client, path: str) -> float:
    """MB of output a second. Fewer bytes than there are is no figure."""
    started = time.perf_counter()
    client.connection.request("GET", path, headers=client.headers)
    response = client.connection.getresponse()
    seen = 0
    while piece := response.read(PIECE_BYTES):
        seen += len(piece)
    seconds = time.perf_counter() - started
    client.connection.close()
    if response.status != 200 or seen < OUTPUT_BYTES:
        raise RuntimeError(f"GET {path}: {response.status}, {seen} of {OUTPUT_BYTES} bytes")
    return OUTPUT_BYTES / 1e6 / seconds
