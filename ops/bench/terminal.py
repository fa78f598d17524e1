"""bench terminal: keystroke echo and 10 MB of output through the WebSocket, beside the bare PTY in the guest.

The bare PTY is measured inside the guest by a script that runs as an exec, so emulation falls on both.
"""

from __future__ import annotations

import json
import threading
import time

from websockets.sync.client import ClientConnection, connect

from ops.bench.figure import Figure, median_ms, p95_ms
from ops.bench.stage import Stage, resident_mib

KEYS, WARM_UP = 100, 10
OUTPUT_BYTES = 10 * 1000 * 1000
INPUT, OUTPUT, OUTCOME = 0, 1, 3

#: Echo by the tty's own line discipline, then a flood of known size, both over a PTY without Berth.
BARE = f"""
import os, pty, statistics, subprocess, time, json
master, slave = pty.openpty()
cat = subprocess.Popen(["cat"], stdin=slave, stdout=slave)
times = []
for n in range({KEYS + WARM_UP}):
    started = time.perf_counter()
    os.write(master, b"a"); os.read(master, 1)
    times.append(time.perf_counter() - started)
cat.kill()
master, slave = pty.openpty()
flood = subprocess.Popen(["sh", "-c", "stty -opost; head -c {OUTPUT_BYTES} /dev/zero | tr '\\\\0' x"],
                         stdin=slave, stdout=slave)
os.close(slave)
started = time.perf_counter(); seen = 0
while seen < {OUTPUT_BYTES}: seen += len(os.read(master, 65536))
print(json.dumps({{"echo_ms": statistics.median(times[{WARM_UP}:]) * 1000,
                   "mb_per_s": seen / 1e6 / (time.perf_counter() - started)}}))
"""


def run(stage: Stage) -> list[Figure]:
    workspace = str(stage.create("bench-terminal")["id"])
    bare = bare_pty(stage, workspace)
    keys = echo_s(stage, workspace)
    rate, growth = flood(stage, workspace)
    stage.purge(workspace)
    return [
        Figure("terminal_echo", median_ms(keys), "ms", bare["echo_ms"], "bare PTY in the guest",
               detail={"p95_ms": round(p95_ms(keys), 2)}),
        Figure("terminal_output", rate, "MB/s", bare["mb_per_s"], "bare PTY in the guest", "flat memory",
               {"memory_growth_mib": round(growth, 1)}),
    ]


def bare_pty(stage: Stage, workspace: str) -> dict[str, float]:
    ended = stage.rest().call("POST", f"/api/v1/workspaces/{workspace}/execs",
                              {"command": ["python3", "-c", BARE], "wait_s": 120})
    if ended.get("outcome") != {"kind": "exited", "code": 0}:
        raise RuntimeError(f"the bare PTY was not measured: {ended}")
    measured: dict[str, float] = json.loads(ended["stdout"])
    return measured


def terminal(stage: Stage, workspace: str, command: list[str]) -> ClientConnection:
    started = stage.rest().call("POST", f"/api/v1/workspaces/{workspace}/execs",
                                {"command": command, "tty": {"cols": 80, "rows": 24}})
    address = (f"ws://{stage.instance.connect_host}:{stage.instance.port}"
               f"/ws/v1/workspaces/{workspace}/terminals/{started['id']}?offset=0")
    return connect(address, additional_headers={"Authorization": f"Bearer {stage.token}"}, max_size=None,
                   compression=None)


def echo_s(stage: Stage, workspace: str) -> list[float]:
    times = []
    with terminal(stage, workspace, ["cat"]) as socket:
        for _ in range(KEYS + WARM_UP):
            started = time.perf_counter()
            socket.send(bytes([INPUT]) + b"a")
            read_output(socket, 1)
            times.append(time.perf_counter() - started)
        socket.send(bytes([INPUT]) + b"\x03")
    return times[WARM_UP:]


def read_output(socket: ClientConnection, wanted: int) -> int:
    """Reads frames until that many bytes of output came; other frames pass by."""
    seen = 0
    while seen < wanted:
        frame = socket.recv(timeout=60)
        if isinstance(frame, bytes) and frame[:1] == bytes([OUTPUT]):
            seen += len(frame) - 1
        elif isinstance(frame, bytes) and frame[:1] == bytes([OUTCOME]):
            raise RuntimeError(f"it ended after {seen} of {wanted} bytes: {frame[1:200]!r}")
    return seen


def flood(stage: Stage, workspace: str) -> tuple[float, float]:
    """MB/s, and how much gateway and hostd grew at most meanwhile."""
    pids = [stage.pid("gateway"), stage.pid("hostd")]
    before = sum(map(resident_mib, pids))
    peak = [before]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            peak[0] = max(peak[0], sum(map(resident_mib, pids)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    command = f"stty -opost; head -c {OUTPUT_BYTES} /dev/zero | tr '\\0' x; sleep 1"
    try:
        with terminal(stage, workspace, ["sh", "-c", command]) as socket:
            read_output(socket, 1)
            started = time.perf_counter()
            seen = read_output(socket, OUTPUT_BYTES - 64 * 1024)
            rate = seen / 1e6 / (time.perf_counter() - started)
    finally:
        done.set()
        watcher.join()
    return rate, peak[0] - before
