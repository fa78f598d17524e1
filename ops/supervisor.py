"""Keeps the processes of one instance running: starts them, restarts one that dies, ends them in order.

Called by `up` (in the foreground or as the detached process). Calls the roster for what to run. It waits in
one place (`_sleep`), woken by a child's end or a signal. Never knows what the processes do.

    start all ──▶ wait until each is ready ──▶ watch ──(TERM, INT)──▶ close the door, drain, end the rest
                                                 └─ child died ─▶ restart after 0.5 s, 1 s, 2 s … 30 s
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable
from types import FrameType

from ops import logs, pids
from ops.instance import ROOT, Instance
from ops.roster import Service
from ops.say import SetupFailed, line

FIRST_BACKOFF_S, MAX_BACKOFF_S = 0.5, 30.0
#: A process that ran this long before it died is restarted at once again.
STEADY_S = 60.0
READY_WITHIN_S = 120.0
ROTATE_EVERY_S = 30.0


class Child:
    """One process: running, or waiting for its next start."""

    def __init__(self, service: Service, instance: Instance) -> None:
        self.service = service
        self.instance = instance
        self.process: subprocess.Popen[bytes] | None = None
        self.backoff_s = FIRST_BACKOFF_S
        self.start_at = 0.0
        self.started_at = 0.0

    @property
    def pid_file(self) -> os.PathLike[str]:
        return self.instance.run / f"{self.service.name}.pid"

    def start(self) -> None:
        with logs.open_for(self.instance.log, self.service.name) as out:
            self.process = subprocess.Popen(self.service.argv, cwd=ROOT, env=self.instance.environment(),
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                            start_new_session=True)
        self.started_at = time.monotonic()
        pids.write(self.instance.run / f"{self.service.name}.pid", self.process.pid)

    def look(self) -> None:
        """Notices an end and plans the next start; starts when it is time."""
        now = time.monotonic()
        if self.process is not None and self.process.poll() is not None:
            self._plan_restart(now)
        if self.process is None and now >= self.start_at:
            self.start()

    def _plan_restart(self, now: float) -> None:
        assert self.process is not None
        if now - self.started_at > STEADY_S:
            self.backoff_s = FIRST_BACKOFF_S
        line(f"{self.service.name} (pid {self.process.pid}) ended with {self.process.returncode}; "
             f"starting it again in {self.backoff_s:g} s. Its log: {self.instance.log}/{self.service.name}.log")
        self.start_at = now + self.backoff_s
        self.backoff_s = min(self.backoff_s * 2, MAX_BACKOFF_S)
        self.process = None

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(self.service.grace_s)
            except subprocess.TimeoutExpired:
                line(f"{self.service.name} did not end in {self.service.grace_s:g} s; killing it")
                self.process.kill()
                self.process.wait()
        self.process = None
        (self.instance.run / f"{self.service.name}.pid").unlink(missing_ok=True)


class Supervisor:
    def __init__(self, instance: Instance, services: Iterable[Service]) -> None:
        self.instance = instance
        self.children = {service.name: Child(service, instance) for service in services}
        self.stopping = False
        self._wake, self._bell = socket.socketpair()
        self._rotate_at = 0.0

    def listen(self) -> None:
        """Takes over TERM, INT, HUP and CHLD for this process."""
        self._wake.setblocking(False)
        self._bell.setblocking(False)
        signal.set_wakeup_fd(self._bell.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._asked_to_stop)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

    def _asked_to_stop(self, number: int, frame: FrameType | None) -> None:
        if self.stopping:  # asked twice: no waiting for machines to shut down
            raise KeyboardInterrupt
        self.stopping = True

    def start(self, names: Iterable[str] | None = None) -> None:
        for name in names or self.children:
            self.children[name].start()

    def wait_ready(self, name: str, within_s: float = READY_WITHIN_S) -> None:
        """Returns when the process is ready. Raises SetupFailed with its log's tail when it is not in time."""
        deadline = time.monotonic() + within_s
        child = self.children[name]
        while not self.stopping:
            self.look()
            if child.process is not None and child.service.ready():
                return
            if time.monotonic() > deadline:
                raise SetupFailed(f"{name} is not ready after {within_s:g} s. The end of its log:\n"
                                  f"{logs.tail(self.instance.log, name)}")
            self._sleep(0.1)

    def look(self) -> None:
        for child in self.children.values():
            if child.started_at:
                child.look()

    def watch(self) -> None:
        """Until asked to stop."""
        while not self.stopping:
            self.look()
            if time.monotonic() >= self._rotate_at:
                logs.rotate(self.instance.log)
                self._rotate_at = time.monotonic() + ROTATE_EVERY_S
            self._sleep(self._until_next())

    def _until_next(self) -> float:
        now = time.monotonic()
        waiting = [child.start_at - now for child in self.children.values() if child.process is None]
        return max(0.05, min([*waiting, self._rotate_at - now]))

    def _sleep(self, seconds: float) -> None:
        readable, _, _ = select.select([self._wake], [], [], seconds)
        if readable:
            self._wake.recv(4096)

    def stop(self, order: Iterable[str], before: dict[str, Callable[[], None]]) -> None:
        """Ends processes in this order; `before[name]` runs just before that process is ended."""
        for name in order:
            before.get(name, lambda: None)()
            if name in self.children:
                self.children[name].end()
