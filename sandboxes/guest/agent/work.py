"""`work`: what the host's idle rule wants to know of the guest, in one cheap call. Called through the method table.

CPU time says that something works though nothing is typed; holds say so in words. A guest may lie about both: all it
gains is to stay awake for as long as its owner's policy allows. The ports that something listens on come with it, so
that a new one is seen without being asked for.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sandboxes.guest.agent.holds import Holds
from sandboxes.guest.agent.metrics import cpu_s
from sandboxes.guest.agent.ports import Ports
from sandboxes.guest.agent.streams import Stream

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Work:
    def __init__(self, holds: Holds, real: bool, ports: Ports) -> None:
        self._holds, self._real, self._ports = holds, real, ports

    def __call__(self, _stream: Stream, _params: dict[str, Any]) -> dict[str, Any]:
        return {"cpu_s": cpu_s() if self._real else _processes_s(), "holds": self._holds.listing(),
                "ports": self._ports.numbers()}


def _processes_s() -> float:
    """On a host, the time of the processes that share the agent's /proc, and of those they have waited for."""
    ticks = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS_PER_S
