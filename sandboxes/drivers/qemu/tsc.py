"""The frequency of the host's time stamp counter, which a guest under TCG sees as its own.

Called by `facts.py`. A guest told a wrong figure has a clock that runs at the wrong speed, so it is measured: the
counter is read by four machine instructions before and after a pause of the monotonic clock.
"""

from __future__ import annotations

import ctypes
import mmap
import time
from collections.abc import Callable

#: rdtsc; shl rdx, 32; or rax, rdx; ret
READ_TSC = bytes((0x0F, 0x31, 0x48, 0xC1, 0xE2, 0x20, 0x48, 0x09, 0xD0, 0xC3))
#: Two measurements closer than this are the same counter: a guest keeps the figure it was captured with.
TOLERANCE = 0.001


def measure_khz(pause_s: float = 0.1) -> int:
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(READ_TSC)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(address)
    first_ns, first = _pair(read)
    time.sleep(pause_s)
    last_ns, last = _pair(read)
    return round((last - first) * 1_000_000 / (last_ns - first_ns))


def _pair(read: Callable[[], int]) -> tuple[int, int]:
    """Clock and counter at one instant: the closest of several tries."""
    best = None
    for _ in range(20):
        before, counter, after = time.monotonic_ns(), read(), time.monotonic_ns()
        if best is None or after - before < best[0]:
            best = (after - before, (before + after) // 2, counter)
    assert best is not None
    return best[1], best[2]


def settle(known_khz: int | None, measured_khz: int) -> int:
    """The figure to go by: the one of before, unless this is another counter."""
    if known_khz and abs(known_khz - measured_khz) <= known_khz * TOLERANCE:
        return known_khz
    return measured_khz
