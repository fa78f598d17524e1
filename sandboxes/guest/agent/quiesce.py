"""`quiesce` and `thaw`: user processes frozen, everything on disk, the root file system frozen; and back.

Called through the method table before and after a capture. All by this process' own system calls. Should the host
never say thaw, the agent does so itself after MOST_FROZEN_S of the machine's own time: a capture that is only
crash-consistent is better than a workspace that hangs. Calls that start something or touch files wait meanwhile
(`session.py`), so that nobody is refused for a checkpoint's sake.

What is resumed from a capture is still frozen: `resume` has the disk thawed before it writes the machine's names.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from typing import Any

from sandboxes.guest.agent import params as p
from sandboxes.guest.agent.loop import Loop, Timer
from sandboxes.guest.agent.machine import ATTACHED, Machine
from sandboxes.guest.agent.refusal import Refusal
from sandboxes.guest.agent.streams import Stream
from sandboxes.guest.agent.world import USERS_CGROUP

FIFREEZE, FITHAW = 0xC0045877, 0xC0045878
MOST_FROZEN_S = 30.0
FREEZE_DEADLINE_S = 5.0
LOOK_AGAIN_S = 0.005


class Quiesce:
    def __init__(self, loop: Loop, machine: Machine, real: bool, thawed: Callable[[], None]) -> None:
        self._loop, self._machine, self._real, self._thawed = loop, machine, real, thawed
        self._timer: Timer | None = None
        self._disk_frozen = False

    def quiesce(self, _stream: Stream, params: p.Params) -> dict[str, Any]:
        """Already so: done."""
        if self._machine.state != ATTACHED or self._machine.quiesced:
            return {}
        if self._real:
            self._freeze()
        self._machine.quiesced = True
        self._timer = self._loop.after(p.seconds(params, "most_s") or MOST_FROZEN_S, self._thaw)
        return {}

    def thaw(self, _stream: Stream, _params: p.Params) -> dict[str, Any]:
        self._thaw()
        return {}

    def _freeze(self) -> None:
        try:
            _freeze_users(True)
            os.sync()
            _root_ioctl(FIFREEZE)
            self._disk_frozen = True
        except OSError as error:
            _freeze_users(False)
            raise Refusal("step_failed", f"quiesce: {error}") from error

    def _thaw(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.thaw_disk()
        if self._machine.quiesced and self._real:
            _freeze_users(False)
        self._machine.quiesced = False
        self._thawed()

    def thaw_disk(self) -> None:
        """The disk alone: user processes stay frozen. Repeatable."""
        if self._disk_frozen:
            self._disk_frozen = False
            _root_ioctl(FITHAW)


def _root_ioctl(request: int) -> None:
    fd = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, request, 0)
    finally:
        os.close(fd)


def _freeze_users(frozen: bool) -> None:
    """Returns when the kernel says that all are. Raises TimeoutError when one cannot be frozen."""
    (USERS_CGROUP / "cgroup.freeze").write_text("1" if frozen else "0")
    deadline = time.monotonic() + FREEZE_DEADLINE_S
    while frozen and "frozen 1" not in (USERS_CGROUP / "cgroup.events").read_text():
        if time.monotonic() > deadline:
            raise TimeoutError("a process cannot be frozen")
        time.sleep(LOOK_AGAIN_S)
