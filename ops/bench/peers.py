"""bench peers: previews beside jupyter-server-proxy, terminals beside Jupyter's own, all on the fake driver.

There a workspace's programs are processes of this machine, as a Jupyter server's are, so that what is compared is what
carries the bytes and no emulation. The peers live in an environment of their own (`peers.lock`), made in the cache.
"""

from __future__ import annotations

import http.client
import json
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from websockets.sync.client import ClientConnection, connect

from ops import frontend
from ops.bench import preview, terminal
from ops.bench.exec_rate import rate
from ops.bench.figure import Figure, median_ms
from ops.bench.stage import Client, Stage, free_port
from ops.say import SetupFailed

LOCK = Path(__file__).with_name("peers.lock")
ROUNDS = 3
PROXY, TERMINAL = "jupyter-server-proxy", "Jupyter's terminal (terminado)"


@dataclass
class Jupyter:
    port: int
    token: str

    def client(self) -> Client:
        return Client(http.client.HTTPConnection("127.0.0.1", self.port, timeout=120),
                      {"Authorization": f"token {self.token}"})

    def terminal(self) -> ClientConnection:
        name = self.client().call("POST", "/api/terminals", {})["name"]
        return connect(f"ws://127.0.0.1:{self.port}/terminals/websocket/{name}", max_size=None, compression=None,
                       additional_headers={"Authorization": f"token {self.token}"})


def run(stage: Stage) -> list[Figure]:
    workspace = str(stage.create("bench-peers")["id"])
    try:
        with jupyter(stage.instance.cache) as peer:
            return [*previews(stage, workspace, peer), *terminals(stage, workspace, peer)]
    finally:
        stage.purge(workspace)


def previews(stage: Stage, workspace: str, peer: Jupyter) -> list[Figure]:
    """One program of the workspace, whose port both can reach."""
    port = free_port()
    below = f"/proxy/{port}"
    stage.rest().call("POST", f"/api/v1/workspaces/{workspace}/execs",
                      {"command": ["python3", "-c", preview.program(port)], "background": True})
    preview.until_listening(stage, workspace, port)

    def ours() -> Client:
        return preview.visitor(stage, workspace, port)

    return [
        Figure("preview_rate", rate(ours, lambda client: client.call("GET", "/small")), "req/s",
               rate(peer.client, lambda client: client.call("GET", f"{below}/small")), PROXY),
        Figure("preview_down", max(preview.down_mb_s(ours()) for _ in range(ROUNDS)), "MB/s",
               max(preview.down_mb_s(peer.client(), below) for _ in range(ROUNDS)), PROXY),
        Figure("preview_up", max(preview.up_mb_s(ours()) for _ in range(ROUNDS)), "MB/s",
               max(preview.up_mb_s(peer.client(), below) for _ in range(ROUNDS)), PROXY),
    ]


def terminals(stage: Stage, workspace: str, peer: Jupyter) -> list[Figure]:
    output_mb_s, growth_mib = terminal.flood(stage, workspace)
    return [
        Figure("terminal_echo", median_ms(terminal.echo_s(stage, workspace)), "ms", median_ms(peer_echo_s(peer)),
               TERMINAL),
        Figure("terminal_output", output_mb_s, "MB/s", peer_flood_mb_s(peer), TERMINAL, "flat memory",
               {"memory_growth_mib": round(growth_mib, 1)}),
    ]


def peer_echo_s(peer: Jupyter) -> list[float]:
    times = []
    with peer.terminal() as socket:
        type_in(socket, "stty -echo; echo be''gun; exec sh -c 'stty echo; exec cat'\r")
        heard_until(socket, "begun")
        for n in range(terminal.KEYS + terminal.WARM_UP):
            key = "abcdefghij"[n % 10]
            started = time.perf_counter()
            type_in(socket, key)
            heard_until(socket, key)
            times.append(time.perf_counter() - started)
    return times[terminal.WARM_UP:]


def peer_flood_mb_s(peer: Jupyter) -> float:
    with peer.terminal() as socket:
        type_in(socket, f"stty -opost -echo; head -c {terminal.OUTPUT_BYTES} /dev/zero | tr '\\0' x; sleep 1\r")
        heard_until(socket, "xxxx")
        started, seen = time.perf_counter(), 0
        while seen < terminal.OUTPUT_BYTES - 128 * 1024:
            seen += len(heard(socket))
        return seen / 1e6 / (time.perf_counter() - started)


def type_in(socket: ClientConnection, text: str) -> None:
    socket.send(json.dumps(["stdin", text]))


def heard(socket: ClientConnection) -> str:
    kind, *words = json.loads(socket.recv(timeout=60))
    return str(words[0]) if kind == "stdout" else ""


def heard_until(socket: ClientConnection, wanted: str) -> None:
    said = ""
    while wanted not in said:
        said += heard(socket)


@contextmanager
def jupyter(cache: Path) -> Iterator[Jupyter]:
    """A Jupyter server with its proxy, loopback alone, its own folder, gone afterwards."""
    home = environment(cache)
    made, folder = Jupyter(free_port(), secrets.token_urlsafe(24)), Path(tempfile.mkdtemp(prefix="berth-bench-peer-"))
    options = {"ip": "127.0.0.1", "port": made.port, "root_dir": folder, "open_browser": False, "allow_root": True,
               "terminado_settings": '{"shell_command": ["sh"]}'}
    env = {"PATH": f"{home / 'bin'}:/usr/bin:/bin", "HOME": str(folder), "JUPYTER_TOKEN": made.token}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([str(home / "bin" / "jupyter-server"),
                                    *(f"--ServerApp.{name}={value}" for name, value in options.items())],
                                   env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)
        try:
            until_answering(made, process, folder / "log")
            yield made
        finally:
            process.terminate()
            process.wait(30)
            shutil.rmtree(folder, ignore_errors=True)


def until_answering(peer: Jupyter, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            peer.client().call("GET", "/api/status")
            return
        except (OSError, http.client.HTTPException) as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SetupFailed(f"the peer does not answer:\n{log.read_text()[-2000:]}") from error
        time.sleep(0.2)


def environment(cache: Path) -> Path:
    """Made once for a lock, by the same uv that made ours."""
    home = cache / "peers" / frontend.digest([LOCK])
    if not (home / "whole").exists():
        uv = max((cache / "uv").glob("*/bin/uv"), default=None)
        if uv is None:
            raise SetupFailed("there is no uv in the cache; ./berth up fetches it")
        for words in (["venv", "-q", "--clear", "--python", sys.executable, str(home)],
                      ["pip", "sync", "-q", "--require-hashes", "--python", str(home / "bin" / "python"), str(LOCK)]):
            if subprocess.run([str(uv), *words], check=False, stdin=subprocess.DEVNULL).returncode:
                raise SetupFailed("the peers could not be installed")
        (home / "whole").touch()
    return home
