"""`resume`: the first call after every launch or resume. Time, randomness, names and the end of connections that
nobody holds at their other end, before any user process runs.

Called through the method table. On a host (`--fake`) the machine's clock, entropy and name are not ours: only the epoch
is taken.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sandboxes.guest.agent import names, network
from sandboxes.guest.agent import params as p
from sandboxes.guest.agent.machine import ATTACHED, Machine
from sandboxes.guest.agent.streams import Stream

RNDADDENTROPY = 0x40085203
RNDRESEEDCRNG = 0x5207
EPOCH_SHOWN = Path("/run/berth-epoch")


class Resume:
    def __init__(self, machine: Machine, real: bool, thaw_disk: Callable[[], None]) -> None:
        self._machine, self._real, self._thaw_disk = machine, real, thaw_disk

    def __call__(self, _stream: Stream, params: p.Params) -> dict[str, Any]:
        epoch = p.whole(params, "epoch", self._machine.epoch)
        refusal = self._machine.refuse_epoch(epoch)
        if refusal is not None:
            raise refusal
        unix_time_ns = p.whole(params, "unix_time_ns", None)
        entropy = p.octets(params, "entropy", None)
        if self._real:
            if unix_time_ns is not None:
                time.clock_settime_ns(time.CLOCK_REALTIME, unix_time_ns)
            if entropy:
                add_entropy(entropy)
            network.reset_connections()
        self._thaw_disk()
        self._take_names(params)
        self._machine.epoch = epoch
        if self._real:
            _show_epoch(epoch)
        self._machine.keep()
        return {}

    def _take_names(self, params: p.Params) -> None:
        """Written at once where the root disk is mounted, else by `attach`. A machine that wakes as who it was has its
        names already."""
        machine = self._machine
        before = machine.hostname, machine.machine_id
        hostname, machine_id = p.text(params, "hostname", None), p.text(params, "machine_id", None)
        machine.hostname, machine.machine_id = hostname or machine.hostname, machine_id or machine.machine_id
        if self._real and machine.state == ATTACHED and before != (machine.hostname, machine.machine_id):
            names.write(hostname or "", machine_id or "")


def _show_epoch(epoch: int) -> None:
    """For programs that keep randomness of their own (Python's `random` is seeded once): a file that changes with every
    resume, before any of them runs again."""
    aside = EPOCH_SHOWN.with_suffix(".new")
    aside.write_text(f"{epoch}\n")
    aside.chmod(0o644)
    aside.rename(EPOCH_SHOWN)


def add_entropy(entropy: bytes) -> None:
    """Credits the bytes to the kernel's pool and has it reseed at once, so that two clones part ways."""
    fd = os.open("/dev/random", os.O_WRONLY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, RNDADDENTROPY, struct.pack("ii", len(entropy) * 8, len(entropy)) + entropy)
        fcntl.ioctl(fd, RNDRESEEDCRNG)
    finally:
        os.close(fd)
