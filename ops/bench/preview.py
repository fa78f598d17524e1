"""bench preview: requests a second and MB/s through a preview, beside the same program in the same guest reached
straight through hostd's raw connection, which is what a preview stands on.
"""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Callable

from ops.bench.exec_rate import rate
from ops.bench.figure import Figure
from ops.bench.stage import Client, Stage

PORT, LARGE_MIB, ROUNDS = 8000, 32, 3
MIB = 1024 * 1024



def program(port: int) -> str:
    return f"""
import http.server
LARGE = b"x" * {MIB}
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    def log_message(self, *_): pass
    def do_GET(self):
        count = {LARGE_MIB} if self.path == "/large" else 0
        self.send_response(200)
        self.send_header("Content-Length", str(count * {MIB} or 2))
        self.end_headers()
        for _ in range(count): self.wfile.write(LARGE)
        if not count: self.wfile.write(b"{{}}")
        self.wfile.flush()
    def do_POST(self):
        left = int(self.headers["Content-Length"])
        while left: left -= len(self.rfile.read(min(left, 65536)))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{{}}")
        self.wfile.flush()
http.server.ThreadingHTTPServer.request_queue_size = 128
http.server.ThreadingHTTPServer(("127.0.0.1", {port}), Handler).serve_forever()
"""


class RawConnection(http.client.HTTPConnection):
    """HTTP on hostd's `connect`, as the gateway does it."""

    def __init__(self, stage: Stage, workspace: str) -> None:
        super().__init__("localhost", timeout=120)
        self._path, self._workspace = str(stage.instance.hostd_socket), workspace

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(120)
        self.sock.connect(self._path)
        self.sock.sendall(f"GET /v1/machines/{self._workspace}/ports/{PORT}/connect HTTP/1.1\r\nHost: hostd\r\n"
                          "Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n".encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            piece = self.sock.recv(1)
            if not piece:
                raise ConnectionError("hostd refused the connection")
            head += piece
        if b" 101 " not in head:
            raise ConnectionError(head.decode("latin-1"))


def run(stage: Stage) -> list[Figure]:
    workspace = str(stage.create("bench-preview")["id"])
    stage.rest().call("POST", f"/api/v1/workspaces/{workspace}/execs",
                      {"command": ["python3", "-c", program(PORT)], "background": True})
    ways: dict[str, Callable[[], Client]] = {
        "preview": lambda: visitor(stage, workspace, PORT),
        "hostd": lambda: Client(RawConnection(stage, workspace), {})}
    until_listening(stage, workspace, PORT)
    rates = {name: rate(way, lambda client: client.call("GET", "/small")) for name, way in ways.items()}
    down = {name: max(down_mb_s(way()) for _ in range(ROUNDS)) for name, way in ways.items()}
    up = {name: max(up_mb_s(way()) for _ in range(ROUNDS)) for name, way in ways.items()}
    stage.purge(workspace)
    beside = "straight through hostd"
    return [Figure("preview_rate", rates["preview"], "req/s", rates["hostd"], beside),
            Figure("preview_down", down["preview"], "MB/s", down["hostd"], beside),
            Figure("preview_up", up["preview"], "MB/s", up["hostd"], beside)]


def visitor(stage: Stage, workspace: str, port: int) -> Client:
    made = stage.rest()
    made.headers["Host"] = f"{port}--{workspace}.preview.localhost:{stage.instance.port}"
    return made


def until_listening(stage: Stage, workspace: str, port: int) -> None:
    deadline = time.monotonic() + 60
    client, path = stage.rest(), f"/api/v1/workspaces/{workspace}/ports"
    while not any(one["port"] == port for one in client.call("GET", path)["results"]):
        if time.monotonic() > deadline:
            raise RuntimeError("the program in the guest does not listen")
        time.sleep(0.2)


def down_mb_s(client: Client, below: str = "") -> float:
    """MB a second of one large answer."""
    began, left = time.perf_counter(), LARGE_MIB * MIB
    client.connection.request("GET", f"{below}/large", headers=client.headers)
    response = client.connection.getresponse()
    while piece := response.read(256 * 1024):
        left -= len(piece)
    if left:
        raise RuntimeError(f"{left} bytes are missing")
    client.connection.close()
    return LARGE_MIB * MIB / 1e6 / (time.perf_counter() - began)


def up_mb_s(client: Client, below: str = "") -> float:
    began = time.perf_counter()
    client.connection.request("POST", f"{below}/", b"x" * (LARGE_MIB * MIB), client.headers)
    response = client.connection.getresponse()
    if response.status != 200 or response.read() != b"{}":
        raise RuntimeError(f"the upload was answered {response.status}")
    client.connection.close()
    return LARGE_MIB * MIB / 1e6 / (time.perf_counter() - began)
