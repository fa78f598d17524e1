"""`metrics`: what the machine uses, as its own kernel says. Called through the method table."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sandboxes.guest.agent.streams import Stream

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def metrics(_stream: Stream, _params: dict[str, Any]) -> dict[str, Any]:
    memory = _memory_kib()
    disk = os.statvfs("/")
    return {
        "cpu_s": cpu_s(), "load1": os.getloadavg()[0],
        "memory_total_bytes": memory["MemTotal"] * 1024,
        "memory_used_bytes": (memory["MemTotal"] - memory["MemAvailable"]) * 1024,
        "disk_total_bytes": disk.f_blocks * disk.f_frsize,
        "disk_used_bytes": (disk.f_blocks - disk.f_bfree) * disk.f_frsize,
        **_network(),
    }


def _network() -> dict[str, int]:
    """Of all interfaces but the loopback, since they came up. A kernel without a network has none."""
    try:
        lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    except OSError:
        return {}
    fields = [line.partition(":")[2].split() for line in lines if line.partition(":")[0].strip() != "lo"]
    return {"network_rx_bytes": sum(int(words[0]) for words in fields),
            "network_tx_bytes": sum(int(words[8]) for words in fields)}


def _memory_kib() -> dict[str, int]:
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) for words in lines if len(words) >= 2}


def cpu_s() -> float:
    """All CPUs' time but idle and waiting for a disk."""
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / _TICKS_PER_S
