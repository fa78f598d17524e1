"""Which process is which: a pid alone may be another program by now; a pid with its start time may not.

Written by the supervisor beside each process it starts (`run/NAME.pid`), read by `down` and `status`.
Source: /proc/PID/stat, field 22 (start time in clock ticks since the host's boot).
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    pid: int
    start_ticks: int

    def alive(self) -> bool:
        return start_ticks(self.pid) == self.start_ticks

    def signal(self, number: signal.Signals) -> None:
        if self.alive():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return

    def uptime_s(self) -> float:
        since_boot_s = float(Path("/proc/uptime").read_text().split()[0])
        return since_boot_s - self.start_ticks / TICKS_PER_S

    def memory_bytes(self) -> int:
        """Resident memory, or 0 for a process that is gone."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")


def start_ticks(pid: int) -> int | None:
    """None for a process that is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def of(pid: int) -> Process:
    return Process(pid, start_ticks(pid) or -1)


def write(path: Path, pid: int) -> Process:
    process = of(pid)
    aside = path.with_suffix(".new")
    aside.write_text(f"{process.pid} {process.start_ticks}\n")
    aside.rename(path)
    return process


def read(path: Path) -> Process | None:
    """The living process a pid file names, or None."""
    try:
        pid, ticks = path.read_text().split()
        process = Process(int(pid), int(ticks))
    except (OSError, ValueError):
        return None
    return process if process.alive() else None


def end(process: Process, grace_s: float) -> bool:
    """TERM, then KILL after `grace_s`. True when TERM was enough. Returns when the process is gone."""
    process.signal(signal.SIGTERM)
    if wait_gone(process, grace_s):
        return True
    process.signal(signal.SIGKILL)
    wait_gone(process, 10)
    return False


def wait_gone(process: Process, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while process.alive():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
