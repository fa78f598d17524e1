"""One process between its fork and its execve: it has begun once its report is closed, or says why it could not.

Made by `exectable.py`, one for each start; calls `spawn` and the loop. Nothing here waits: a working directory or a
program on a file system that hangs holds up its own start and no other call.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable

from sandboxes.guest.agent import spawn
from sandboxes.guest.agent.loop import HUP, IN, Loop, Timer
from sandboxes.guest.agent.refusal import Refusal

BEGIN_S = 30.0
REPORT_BYTES = 16


class Beginning:
    """`begun` or `refused` is called, once; `cloned` with each pid.

    `at_home`: nobody asked for the folder, so "/" will do.
    """

    def __init__(self, loop: Loop, spawner: spawn.Spawner, command: spawn.Command, at_home: bool,
                 cloned: Callable[[int], None], begun: Callable[[], None], refused: Callable[[Refusal], None]) -> None:
        self._loop, self._spawner, self.command, self._at_home = loop, spawner, command, at_home
        self._cloned, self._begun, self._refused = cloned, begun, refused
        self._report = -1
        self._timer: Timer | None = None
        self.pid = 0

    def go(self) -> None:
        """Raises Refusal when not even a fork was possible."""
        self.pid, self._report = self._spawner.clone(self.command)
        self._cloned(self.pid)
        self._loop.watch(self._report, IN | HUP, self._ready)
        self._timer = self._loop.after(BEGIN_S, self._too_late)

    def process_ended(self, pid: int) -> None:
        """Its wait status is here, so whatever it had to say is said. That of a first attempt says nothing new."""
        if self._report >= 0 and pid == self.pid:
            self._ready(0)

    def _ready(self, _events: int) -> None:
        said = self._take_report()
        if not said:
            self._begun()
            return
        refusal = spawn.refusal_of_report(self.command, said)
        if self._at_home and refusal.extra.get("field") == "cwd":
            self._at_home, self.command = False, self.command._replace(cwd=b"/")
            try:
                self.go()
            except Refusal as other:
                self._refused(other)
        else:
            self._refused(refusal)

    def _take_report(self) -> bytes:
        said = b""
        with contextlib.suppress(BlockingIOError):  # it ended as a program, and the zygote still holds the other end
            said = os.read(self._report, REPORT_BYTES)
        self._loop.unwatch(self._report)
        os.close(self._report)
        self._report = -1
        if self._timer is not None:
            self._timer.cancel()
        return said

    def _too_late(self) -> None:
        self._take_report()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._refused(Refusal("busy", f"the process did not begin within {BEGIN_S:g} s: its working directory or "
                                      "program may be on a file system that does not answer", retry_after_s=5))
