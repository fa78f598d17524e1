"""A small world for the tests of egress: namespaces with hosts in them, and machines whose only lead is egressd.

    guest's namespace ─ veth ─ machine's namespace (the product's rules) ··sockets··▶ egressd in `world` ─ veth ─ hosts
    10.77.0.2                  10.77.0.1                                             203.0.113.1               servers

Servers are sockets of the namespace `hosts`, served by a thread of the tests; egressd is a process of its own, and the
tests speak to it as hostd does. Nothing of it touches the network of the machine that the tests run on.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sandboxes.egress.client import EgressClient, Served
from sandboxes.linux import doors, netns
from tests.egress import servers
from tests.stack import until

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
WORLD, DNS, ORIGIN, OTHER, THIRD = "203.0.113.1", "203.0.113.53", "203.0.113.10", "198.51.100.20", "203.0.113.30"
METADATA, NEIGHBOUR = "169.254.169.254", "192.168.7.7"
ADDRESSES = (DNS, ORIGIN, OTHER, THIRD, METADATA, NEIGHBOUR)
DEADLINE_S = 30.0


def run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
    return done.stdout


def inside(namespace: str, work: Callable[[], T]) -> T:
    """In a thread of its own that is in that namespace."""
    answer: list[Any] = []

    def enter() -> None:
        try:
            answer.append((netns._enter(Path("/run/netns", namespace), work), None))
        except BaseException as error:
            answer.append((None, error))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    result, error = answer[0]
    if error is not None:
        raise error
    return result


def _words(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


@dataclass
class Town:
    folder: Path
    word: str = field(default_factory=lambda: secrets.token_hex(3))
    rows: list[dict[str, Any]] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)
    asked: list[dict[str, Any]] = field(default_factory=list)
    options: tuple[str, ...] = ()
    #: Whether the tests speak to egressd themselves, in hostd's place.
    alone: bool = True

    def __post_init__(self) -> None:
        self.world, self.hosts = f"bt-{self.word}-world", f"bt-{self.word}-hosts"
        self.socket = self.folder / "egress.sock"
        self.loop = asyncio.new_event_loop()
        self.process: subprocess.Popen[bytes] | None = None
        self.client: EgressClient | None = None
        self.machines: list[Machine] = []

    # -- making and ending ---------------------------------------------------------------------------------------------

    def begin(self) -> None:
        for name in (self.world, self.hosts):
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "-n", self.world, "link", "add", "wide", "type", "veth", "peer", "name", "wide", "netns", self.hosts)
        for name, addresses in ((self.world, (WORLD,)), (self.hosts, ADDRESSES)):
            run("ip", "-n", name, "link", "set", "wide", "up")
            for address in addresses:
                run("ip", "-n", name, "address", "add", f"{address}/32", "dev", "wide")
            run("ip", "-n", name, "route", "add", "default", "dev", "wide")
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.servers = servers.Servers(self.folder, lambda make: inside(self.hosts, make))
        self.do(self.servers.begin())
        self.start()
        if self.alone:
            self.client = self.do(self._connect())
            until(lambda: self.client and self.client.connected, "egressd answers")

    def start(self) -> None:
        with (self.folder / "egressd.log").open("ab") as log:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", self.world, sys.executable, "-m", "sandboxes.egress", "--socket",
                 str(self.socket), "--resolver", f"{DNS}:53", *self.options], cwd=ROOT, stdout=log, stderr=log)

    async def _connect(self) -> EgressClient:
        client = EgressClient(self.socket, self._take, self.asked.append)
        for machine in self.machines:
            if machine.path.exists():
                await client.serve(machine.machine_id, machine.served())
        client.begin()
        return client

    def away(self) -> contextlib.AbstractContextManager[None]:
        """As hostd restarts: nobody is connected within; afterwards another hostd is, which finds its machines."""
        @contextlib.contextmanager
        def gone() -> Iterator[None]:
            assert self.client is not None
            self.do(self.client.end())
            yield
            self.client = self.do(self._connect())
            until(lambda: self.client and self.client.connected, "the next hostd is connected")

        return gone()

    async def _take(self, rows: list[dict[str, Any]], dropped: dict[str, int]) -> None:
        self.rows += rows
        for machine_id, count in dropped.items():
            self.dropped[machine_id] = self.dropped.get(machine_id, 0) + count

    def end(self) -> None:
        for machine in self.machines:
            machine.end()
        if self.client is not None:
            self.do(self.client.end())
        self.end_egressd()
        with contextlib.suppress(Exception):
            self.do(self.servers.end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        for name in (self.world, self.hosts):
            subprocess.run(["ip", "netns", "del", name], check=False)

    def end_egressd(self, *, hard: bool = False) -> None:
        if self.process is not None:
            self.process.kill() if hard else self.process.terminate()
            self.process.wait(20)

    def do(self, work: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(awaited(), self.loop).result(DEADLINE_S)

    def open_files(self) -> int:
        """Of egressd."""
        found = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()
                 and str(self.socket).encode() in _words(entry)]
        return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in found)

    @property
    def log(self) -> str:
        return (self.folder / "egressd.log").read_text(errors="replace")

    def machine(self, policy: dict[str, Any] | None = None, **document: Any) -> Machine:
        machine = Machine(self, f"m{len(self.machines)}")
        self.machines.append(machine)
        machine.begin()
        if policy is not None:
            machine.obey(policy, **document)
        return machine

    @property
    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.servers.ca))


class Machine:
    """A guest without a machine: a namespace whose only link leads to the product's own namespace and rules."""

    def __init__(self, town: Town, machine_id: str) -> None:
        self.town, self.machine_id = town, machine_id
        self.guest = f"bt-{town.word}-{machine_id}"
        self.revision = 0
        self.document: dict[str, Any] = {}

    def begin(self) -> None:
        run("ip", "netns", "add", self.guest)
        self.town.do(netns.create(self.town.word, self.machine_id, self._lead))
        run("ip", "-n", self.guest, "link", "set", "lo", "up")
        run("ip", "-n", self.guest, "link", "set", "eth0", "up")
        run("ip", "-n", self.guest, "address", "add", "10.77.0.2/30", "dev", "eth0")
        run("ip", "-n", self.guest, "route", "add", "default", "via", "10.77.0.1")
        self.serve()

    @property
    def path(self) -> Path:
        return netns.path_of(self.town.word, self.machine_id)

    def _lead(self) -> None:
        """In the machine's namespace: a cable in the place of the tap."""
        doors.guard()
        run("ip", "link", "add", "tap0", "type", "veth", "peer", "name", "eth0", "netns", self.guest)
        run("ip", "address", "add", "10.77.0.1/30", "dev", "tap0")
        run("ip", "link", "set", "tap0", "up")

    def serve(self) -> None:
        assert self.town.client is not None
        self.town.do(self.town.client.serve(self.machine_id, self.served()))

    def served(self) -> Served:
        return Served(self.path.stat().st_ino, lambda: netns.enter(self.path, doors.open_all), self.document or None)

    def obey(self, policy: dict[str, Any], **document: Any) -> None:
        assert self.town.client is not None
        self.revision += 1
        self.document = {"revision": self.revision, "policy": policy, **document}
        assert self.town.do(self.town.client.obey(self.machine_id, self.document, DEADLINE_S))

    def allow(self, *rules: dict[str, Any], ask: bool = False, **document: Any) -> None:
        self.obey({"mode": "rules", "rules": list(rules), "ask": ask}, **document)

    def do(self, work: Callable[[], T]) -> T:
        return inside(self.guest, work)

    def run(self, *words: str, **how: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["ip", "netns", "exec", self.guest, *words], capture_output=True, text=True, check=False,
                              timeout=DEADLINE_S, **how)

    def rows(self, **like: Any) -> list[dict[str, Any]]:
        return [row for row in self.town.rows if row["machine_id"] == self.machine_id
                and all(row[key] == value for key, value in like.items())]

    def row(self, **like: Any) -> dict[str, Any]:
        """The first row like this, once it is there."""
        until(lambda: self.rows(**like), f"a row {like} of {self.rows()}")
        return self.rows(**like)[0]

    def socket(self, address: str, port: int) -> socket.socket:
        def connect() -> socket.socket:
            return socket.create_connection((address, port), timeout=DEADLINE_S)

        return self.do(connect)

    def end(self) -> None:
        assert self.town.client is not None
        self.town.loop.call_soon_threadsafe(self.town.client.gone, self.machine_id)
        self.town.do(netns.delete(self.town.word, self.machine_id))
        subprocess.run(["ip", "netns", "del", self.guest], check=False, capture_output=True)


@contextlib.contextmanager
def running_town(*options: str, alone: bool = True) -> Iterator[Town]:
    with tempfile.TemporaryDirectory(prefix="bt-") as folder:
        town = Town(Path(folder), options=options, alone=alone)
        try:
            town.begin()
            yield town
        finally:
            town.end()
