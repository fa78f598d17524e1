"""`shutdown`: TERM to everybody, KILL after a grace, everything on disk, power off. Called through the method table.

The answer is sent when the disk is safe, and the machine is switched off once the host has it. On a host (`--fake`)
only the user's processes end, and then the agent.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sandboxes.guest.agent import syscalls
from sandboxes.guest.agent.exectable import ExecTable
from sandboxes.guest.agent.loop import Loop
from sandboxes.guest.agent.machine import ATTACHED, Machine
from sandboxes.guest.agent.streams import Stream

POWER_OFF = 0x4321FEDC
TERM_GRACE_S = 2.0
LOOK_AGAIN_S = 0.05
#: For the answer to reach the host.
FAREWELL_S = 0.1


class Shutdown:
    def __init__(self, loop: Loop, machine: Machine, table: ExecTable, real: bool) -> None:
        self._loop, self._machine, self._table, self._real = loop, machine, table, real
        self._begun = False

    def __call__(self, stream: Stream, _params: dict[str, Any]) -> dict[str, Any] | None:
        if self._begun:
            return {}
        self._begun = True
        self._machine.stopping = True
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)
        self._await_gone(int(TERM_GRACE_S / LOOK_AGAIN_S), lambda: self._finish(stream))
        return None

    def _signal(self, number: int) -> None:
        """In the machine: everybody but pid 1, the kernel and this process."""
        if self._real:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, number)
        else:
            self._table.signal_all(number)

    def _await_gone(self, looks: int, then: Callable[[], None]) -> None:
        if looks and self._somebody_lives():
            self._loop.after(LOOK_AGAIN_S, lambda: self._await_gone(looks - 1, then))
            return
        if looks == 0:
            self._signal(signal.SIGKILL)
        then()

    def _somebody_lives(self) -> bool:
        if not self._real:
            return any(execution.tree.alive() for execution in self._table.execs.values())
        return any(entry.name.isdigit() and int(entry.name) not in (1, os.getpid()) and _is_user_process(entry)
                   for entry in Path("/proc").iterdir())

    def _finish(self, stream: Stream) -> None:
        if self._real and self._machine.state == ATTACHED:
            os.sync()
            with contextlib.suppress(OSError):
                syscalls.mount("", "/", flags=syscalls.MS_REMOUNT | syscalls.MS_RDONLY)
        stream.finish({})
        self._loop.after(FAREWELL_S, self._go)

    def _go(self) -> None:
        if self._real:
            syscalls.reboot(POWER_OFF)
        self._loop.stop()


def _is_user_process(entry: Path) -> bool:
    """Kernel threads have no executable; zombies have none any more."""
    try:
        (entry / "exe").readlink()
    except OSError:
        return False
    return True
