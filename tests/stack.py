"""The whole product as processes, for tests that kill parts of it: `stack` fixture.

    redis ── hostd (--driver fake) ── celery worker, beat ── courier ── daphne ── gateway (a free port)

Each process can be killed (-9), ended and started again by name; one that ends by itself is started again, as the
product's supervisor does (Celery's worker ends when its broker dies under a task); all are ended by their handles.
Nothing is shared with the tests' own process but files: users and tokens are made by the product's own command.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from sandboxes.drivers import records
from sandboxes.linux import names
from tests.forking import Forked, Nursery
from tests.machine_template import lay_into

ROOT = Path(__file__).resolve().parent.parent
ORDER = ("redis", "hostd", "worker", "beat", "courier", "daphne", "gateway")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(true: Callable[[], Any], what: str, timeout_s: float = 60.0) -> Any:
    """Polls; fails with a sentence when the time is over."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = true()
        if value:
            return value
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.05)


@dataclass
class Stack:
    data: Path
    port: int
    driver: str = "fake"
    cache: Path | None = None
    processes: dict[str, subprocess.Popen[bytes] | Forked] = field(default_factory=dict)
    tokens: dict[tuple[str, ...], str] = field(default_factory=dict)
    _wanted: set[str] = field(default_factory=set)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _over: threading.Event = field(default_factory=threading.Event)

    @property
    def order(self) -> tuple[str, ...]:
        """Machines that are processes have no network of their own, and nobody to let them out."""
        return ORDER if self.driver == "fake" else ("redis", "egressd", *ORDER[1:])

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("BERTH_", "DJANGO_"))}
        return {**kept, "BERTH_DATA": str(self.data), "DJANGO_SETTINGS_MODULE": "workspaces.config.settings",
                "PYTHONUNBUFFERED": "1"}

    @functools.cached_property
    def nursery(self) -> Nursery:
        """The settings are this stack's, so the nursery is, too."""
        return Nursery("product", self.environment)

    def commands(self) -> dict[str, list[str]]:
        """Redis by its program, all others by their module."""
        run = self.data / "run"
        images = (self.cache or self.data / "cache") / "images"
        return {
            "redis": ["redis-server", "--port", "0", "--unixsocket", str(run / "redis.sock"), "--save", "",
                      "--appendonly", "yes", "--dir", str(run)],
            "egressd": ["sandboxes.egress", "--socket", str(run / "egress.sock")],
            "hostd": ["sandboxes.host", "--state", str(self.data / "host"), "--socket",
                      str(run / "hostd.sock"), "--images", str(images), "--driver", self.driver,
                      *(("--egress", str(run / "egress.sock")) if "egressd" in self.order else ())],
            "worker": ["celery", "-A", "workspaces.config.celery", "worker", "--pool=threads",
                       "--concurrency=4", "--without-gossip", "--without-mingle", "--loglevel=INFO"],
            # Not within the worker: a worker that is killed would leave it behind, and nobody would ever end it.
            "beat": ["celery", "-A", "workspaces.config.celery", "beat", "--schedule",
                     str(run / "beat-schedule"), "--pidfile=", "--loglevel=INFO"],
            "courier": ["manage", "courier"],
            "daphne": ["daphne", "-u", str(run / "daphne.sock"), "--verbosity", "0",
                       "workspaces.config.asgi:application"],
            "gateway": ["workspaces.gateway", "--host", "127.0.0.1", "--port", str(self.port)],
        }

    # processes

    def start(self, name: str) -> None:
        with self._lock:
            self._wanted.add(name)
            program, *arguments = self.commands()[name]
            log = self.data / "log" / f"{name}.log"
            if name == "redis":
                with log.open("ab") as said:
                    self.processes[name] = subprocess.Popen([program, *arguments], cwd=ROOT, stdout=said, stderr=said,
                                                            stdin=subprocess.DEVNULL, start_new_session=True)
            else:
                self.processes[name] = self.nursery.start(program, arguments, self.environment, log)

    def _supervise(self) -> None:
        while not self._over.wait(0.5):
            with self._lock:
                for name in [n for n in self._wanted if self.processes[n].poll() is not None]:
                    self.start(name)

    def kill(self, name: str) -> None:
        """As a crash: no farewell."""
        self._end(name, signal.SIGKILL)

    def stop(self, name: str) -> None:
        self._end(name, signal.SIGTERM)

    def _end(self, name: str, how: signal.Signals) -> None:
        with self._lock:
            self._wanted.discard(name)
        process = self.processes[name]
        if process.poll() is None:
            process.send_signal(how)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(60)

    def restart(self, name: str, hard: bool = True) -> None:
        self.kill(name) if hard else self.stop(name)
        self.start(name)

    def power_cut(self) -> None:
        """Every process, bodies too, is gone at one moment; then the host boots and all of it is started."""
        with self._lock:
            self._wanted.clear()
            for process in self.processes.values():
                process.send_signal(signal.SIGKILL)
            self._end_guests()
        for process in self.processes.values():
            process.wait(60)
        boot = self.data / "host" / "boot.json"
        boot.write_text(json.dumps({"boot_id": "the boot before this one"}))
        for name in self.order:
            self.start(name)
        self.ready()

    def pid(self, name: str) -> int:
        return self.processes[name].pid

    def rss_kib(self, name: str) -> int:
        status = Path(f"/proc/{self.pid(name)}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))

    def log(self, name: str) -> str:
        return (self.data / "log" / f"{name}.log").read_text(errors="replace")

    def manage(self, *arguments: str) -> str:
        code, said, problem = self.nursery.run("manage", arguments, self.environment)
        assert code == 0, f"manage.py {' '.join(arguments)}: {said}\n{problem}"
        return said.strip()

    # people and programs

    def token(self, user: str = "anna", *options: str) -> str:
        """A bearer secret; the same one for the same wish."""
        key = (user, *options)
        if key not in self.tokens:
            self.tokens[key] = self.manage("berth_token", user, *options)
        return self.tokens[key]

    def client(self, user: str = "anna", **how: Any) -> httpx.Client:
        return httpx.Client(base_url=self.base_url, headers={"Authorization": f"Bearer {self.token(user)}"},
                            timeout=how.pop("timeout", 90), **how)

    def workspace(self, user: str = "anna", name: str | None = None, **fields: Any) -> dict[str, Any]:
        """A running workspace of that user."""
        with self.client(user) as client:
            made = client.post("/api/v1/workspaces?wait=true&timeout_s=60",
                               json={"name": name or f"w-{time.monotonic_ns()}", **fields})
            assert made.status_code == 201, made.text
            assert made.json()["state"] == "running", f"{made.text}\n{self.log('worker')[-6000:]}"
            return made.json()

    # all of it

    def up(self) -> None:
        for folder in ("run", "log", "host", "cache/images"):
            (self.data / folder).mkdir(parents=True, exist_ok=True)
        self.manage("migrate", "--verbosity", "0")
        if self.cache is not None:
            lay_into(self.data / "host", self.cache)
        self.start("redis")
        until((self.data / "run" / "redis.sock").exists, "redis listens")
        for name in self.order[1:self.order.index("hostd") + 1]:
            self.start(name)
        until((self.data / "run" / "hostd.sock").exists, "hostd listens", 60 if self.driver == "fake" else 900)
        self.manage("berth_host")
        for name in ORDER[2:]:
            self.start(name)
        self.ready()
        for name, process in self.processes.items():
            assert process.poll() is None, f"{name} ended:\n{self.log(name)[-3000:]}"
        threading.Thread(target=self._supervise, daemon=True).start()

    def ready(self, timeout_s: float = 90.0) -> None:
        """Every part answers."""
        def answering() -> bool:
            with contextlib.suppress(httpx.HTTPError):
                return httpx.get(f"{self.base_url}/readyz", timeout=5).status_code == 200
            return False
        until(answering, "the whole stack is ready", timeout_s)

    def down(self) -> None:
        self._over.set()
        for name in reversed(self.order):
            if name in self.processes:
                self._end(name, signal.SIGTERM)
        self._end_guests()
        self.nursery.end()

    def _end_guests(self) -> None:
        """The fake driver's machines are processes that outlive hostd on purpose: those of this instance end here.
        Their command line names no folder of ours (they see another root); the driver's mark does."""
        for body in records.marked_bodies(names.instance_of(self.data / "host")).values():
            body.signal(signal.SIGKILL)


@contextlib.contextmanager
def running_stack(driver: str = "fake", cache: Path | None = None) -> Iterator[Stack]:
    data = Path(tempfile.mkdtemp(prefix="berth-stack-", dir=os.environ.get("BERTH_STACK_DIR")))
    made = Stack(data, free_port(), driver, cache)
    try:
        made.up()
        yield made
    finally:
        made.down()
        shutil.rmtree(data, ignore_errors=True)


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """One stack for all tests that only use it. A test that kills parts puts them back."""
    with running_stack() as made:
        yield made
