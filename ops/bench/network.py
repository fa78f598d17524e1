"""bench network: what the way out costs, without machines: a namespace with the product's rules, a cable in the place
of its tap, the product's own egressd, and an origin behind another cable.

    guest ── cable ── rules ··sockets··▶ egressd ── cable ── origin            beside: one cable to the same origin

Bytes of one stream, allowed by its range and by its name (the first bytes are read then); the time to a first byte of a
new connection; and what a new document costs while fifty machines are served.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ops.bench.figure import Figure, median_ms, p95_ms
from ops.bench.stage import Stage
from ops.instance import ROOT
from sandboxes.egress.client import EgressClient, Served
from sandboxes.linux import doors, netns

ORIGIN, WORLD, PORT = "203.0.113.10", "203.0.113.1", 9000
STREAM_BYTES, ROUNDS, CONNECTIONS, MACHINES, CHANGES = 300_000_000, 5, 200, 50, 100
HELLO = b"GET / HTTP/1.1\r\nHost: origin.bench\r\n\r\n"


def run(_stage: Stage) -> list[Figure]:
    with town() as there:
        there.serve("by-range", [{"cidr": f"{ORIGIN}/32"}])
        there.serve("by-name", [{"domain": "origin.bench", "ports": [PORT]}])
        there.guest("by-name", _look_up)
        places = (there.world, f"{there.word}-by-range", f"{there.word}-by-name")
        # In turns, so that whatever else the machine does falls on all of them.
        streams = [[there.inside(place, _stream) for place in places] for _ in range(ROUNDS)]
        bare, ranged, named = (statistics.median(column) for column in zip(*streams, strict=True))
        connects = [there.inside(place, _connections) for place in places]
        for number in range(MACHINES - 2):
            there.serve(f"m{number}", [{"cidr": f"{ORIGIN}/32"}])
        changes = [there.change("by-range", number) for number in range(2, CHANGES)]
    return [
        Figure("network_range", ranged, "MB/s", bare, "one cable, no way out"),
        Figure("network_name", named, "MB/s", bare, "one cable, no way out"),
        Figure("network_connect", median_ms(connects[1]), "ms", median_ms(connects[0]), "one cable, no way out",
               detail={"p95_ms": round(p95_ms(connects[1]), 2), "by_name_ms": round(median_ms(connects[2]), 2)}),
        Figure("network_change", median_ms(changes), "ms", detail={"machines": MACHINES,
                                                                   "p95_ms": round(p95_ms(changes), 2)}),
    ]


def _stream() -> float:
    """MB a second of one download."""
    with socket.create_connection((ORIGIN, PORT), timeout=60) as there:
        there.sendall(HELLO)
        room, got, began = bytearray(1 << 20), 0, time.perf_counter()
        while got < STREAM_BYTES:
            count = there.recv_into(room)
            if not count:
                raise RuntimeError("the stream ended early")
            got += count
        return got / 1e6 / (time.perf_counter() - began)


def _connections() -> list[float]:
    """Seconds from nothing to a first byte, each over a connection of its own."""
    found = []
    for _ in range(CONNECTIONS):
        began = time.perf_counter()
        with socket.create_connection((ORIGIN, PORT), timeout=60) as there:
            there.sendall(HELLO)
            there.recv(1)
        found.append(time.perf_counter() - began)
        time.sleep(0.01)  # the rules let a flood of new connections wait
    return found


def _look_up() -> None:
    question = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x06origin\x05bench\0\0\x01\0\x01"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(10)
        asking.sendto(question, ("10.77.0.1", 53))
        if socket.inet_aton(ORIGIN) not in asking.recv(512):
            raise RuntimeError("the name was not answered")


def _pour(listener: socket.socket) -> None:
    """To each who asks, zeros until he goes."""
    def serve(there: socket.socket) -> None:
        with there, contextlib.suppress(OSError):
            there.recv(4096)
            while True:
                there.sendall(bytes(1 << 20))

    with contextlib.suppress(OSError):
        while True:
            there, _ = listener.accept()
            threading.Thread(target=serve, args=(there,), daemon=True).start()


def _answer(names: socket.socket) -> None:
    """Every question with the origin's address."""
    with contextlib.suppress(OSError):
        while True:
            question, asker = names.recvfrom(512)
            head = question[:2] + b"\x81\x80\0\x01\0\x01\0\0\0\0"
            asked = question[12:question.index(b"\0", 12) + 5]
            record = b"\xc0\x0c\0\x01\0\x01\0\0\x01\x2c\0\x04" + socket.inet_aton(ORIGIN)
            names.sendto(head + asked + record, asker)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@dataclass
class Town:
    word: str
    world: str
    client: EgressClient
    loop: asyncio.AbstractEventLoop

    def do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def inside(self, namespace: str, work: Callable[[], Any]) -> Any:
        return self.do(netns.enter(Path("/run/netns", namespace), work))

    def guest(self, machine_id: str, work: Callable[[], Any]) -> Any:
        return self.inside(f"{self.word}-{machine_id}", work)

    def serve(self, machine_id: str, rules: list[dict[str, Any]]) -> None:
        guest = f"{self.word}-{machine_id}"
        _ip("netns", "add", guest)

        def lead() -> None:
            doors.guard()
            _ip("link", "add", "tap0", "type", "veth", "peer", "name", "eth0", "netns", guest)
            _ip("address", "add", "10.77.0.1/30", "dev", "tap0")
            _ip("link", "set", "tap0", "up")

        self.do(netns.create(self.word, machine_id, lead))
        for words in (("link", "set", "eth0", "up"), ("address", "add", "10.77.0.2/30", "dev", "eth0"),
                      ("route", "add", "default", "via", "10.77.0.1")):
            _ip("-n", guest, *words)
        path = netns.path_of(self.word, machine_id)
        served = Served(path.stat().st_ino, lambda: netns.enter(path, doors.open_all), _document(1, rules))
        self.do(self.client.serve(machine_id, served))
        self.change(machine_id, 1, rules)

    def change(self, machine_id: str, revision: int, rules: list[dict[str, Any]] | None = None) -> float:
        """Seconds until it is in force."""
        document = _document(revision, rules or [{"cidr": f"{ORIGIN}/32"}, {"cidr": "198.51.100.0/24"}])
        began = time.perf_counter()
        if not self.do(self.client.obey(machine_id, document, 30)):
            raise RuntimeError("egressd does not obey")
        return time.perf_counter() - began


def _document(revision: int, rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {"revision": revision, "policy": {"mode": "rules", "rules": rules},
            "limits": {"connections": 1000, "bytes_per_s": 0, "dns_per_s": 50}}


@contextlib.contextmanager
def town() -> Iterator[Town]:
    """Everything, and nothing of it afterwards."""
    word = f"nb{secrets.token_hex(2)}"
    world, hosts = f"{word}-world", f"{word}-hosts"
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(prefix="berth-bench-") as folder, contextlib.ExitStack() as stack:
        stack.callback(_clear_away, word)
        for name in (world, hosts):
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", world, "link", "add", "wide", "type", "veth", "peer", "name", "wide", "netns", hosts)
        for name, address in ((world, WORLD), (hosts, ORIGIN)):
            _ip("-n", name, "link", "set", "wide", "up")
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "wide")
        made = Town(word, world, _client(Path(folder), loop), loop)
        for kind, port, serve in ((socket.SOCK_STREAM, PORT, _pour), (socket.SOCK_DGRAM, 53, _answer)):
            served = made.inside(hosts, partial(_bound, kind, port))
            stack.callback(served.close)
            threading.Thread(target=serve, args=(served,), daemon=True).start()
        process = subprocess.Popen(
            ["ip", "netns", "exec", world, sys.executable, "-m", "sandboxes.egress", "--socket", f"{folder}/e.sock",
             "--resolver", f"{ORIGIN}:53"], cwd=ROOT, stderr=subprocess.DEVNULL)
        stack.callback(process.wait, 20)
        stack.callback(process.terminate)
        stack.callback(lambda: made.do(made.client.end()))
        while not made.client.connected:
            time.sleep(0.01)
        yield made


def _client(folder: Path, loop: asyncio.AbstractEventLoop) -> EgressClient:
    async def begun() -> EgressClient:
        async def take(rows: list[dict[str, Any]], dropped: dict[str, int]) -> None:
            """Nobody reads this log."""

        client = EgressClient(folder / "e.sock", take, lambda asked: None)
        client.begin()
        return client

    return asyncio.run_coroutine_threadsafe(begun(), loop).result(20)


def _bound(kind: socket.SocketKind, port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, kind)
    bound.bind((ORIGIN, port))
    if kind == socket.SOCK_STREAM:
        bound.listen(128)
    return bound


def _clear_away(word: str) -> None:
    for path in Path("/run/netns").glob(f"*{word}-*"):
        subprocess.run(["ip", "netns", "del", path.name], check=False, capture_output=True)
