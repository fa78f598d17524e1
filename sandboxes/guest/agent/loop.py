"""The agent's event loop: file descriptors, timers, and functions posted by worker threads.

Called by everything in the agent; calls the functions it was given. Knows nothing of frames or execs. Time is
CLOCK_MONOTONIC: it stands still with the machine and no `settimeofday` moves it.
"""

from __future__ import annotations

import heapq
import os
import select
import sys
import time
from collections import deque
from collections.abc import Callable

Ready = Callable[[int], None]
IN, OUT, HUP, EDGE = select.EPOLLIN, select.EPOLLOUT, select.EPOLLHUP, select.EPOLLET


class Timer:
    """A function to be called once, unless cancelled before."""

    __slots__ = ("at", "call")

    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at = at
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None

    def __lt__(self, other: Timer) -> bool:
        return self.at < other.at


class Loop:
    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._ready: dict[int, Ready] = {}
        self._timers: list[Timer] = []
        self._posted: deque[Callable[[], None]] = deque()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._running = True
        self.before_wait: list[Callable[[], None]] = []
        self.watch(self._wake_fd, IN, self._woken)

    def watch(self, fd: int, events: int, ready: Ready) -> None:
        """Calls ready(events) when the descriptor is; a second call for the same descriptor changes what is watched."""
        if fd in self._ready:
            self._epoll.modify(fd, events)
        else:
            self._epoll.register(fd, events)
        self._ready[fd] = ready

    def unwatch(self, fd: int) -> None:
        """Before the descriptor is closed. Repeatable."""
        if self._ready.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def after(self, delay_s: float, call: Callable[[], None]) -> Timer:
        timer = Timer(time.monotonic() + delay_s, call)
        heapq.heappush(self._timers, timer)
        return timer

    def post(self, call: Callable[[], None]) -> None:
        """Has the loop call a function soon. The one method that other threads may use."""
        self._posted.append(call)
        os.eventfd_write(self._wake_fd, 1)

    def stop(self) -> None:
        self._running = False

    def run(self) -> None:
        while self._running:
            for prepare in self.before_wait:
                prepare()
            for fd, events in self._epoll.poll(self._wait_s()):
                ready = self._ready.get(fd)
                if ready is not None:
                    guarded(ready, events)
            self._run_timers()

    def _wait_s(self) -> float:
        while self._timers and self._timers[0].call is None:
            heapq.heappop(self._timers)
        if not self._timers:
            return -1
        return max(0.0, self._timers[0].at - time.monotonic())

    def _run_timers(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0].at <= now:
            call = heapq.heappop(self._timers).call
            if call is not None:
                guarded(call)

    def _woken(self, _events: int) -> None:
        os.eventfd_read(self._wake_fd)
        for _ in range(len(self._posted)):
            guarded(self._posted.popleft())


def guarded(call: Callable[..., None], *args: int) -> None:
    """One failed callback is reported and ends nothing else: the agent serves all that runs in the machine."""
    try:
        call(*args)
    except Exception:
        import traceback
        traceback.print_exc(file=sys.stderr)
