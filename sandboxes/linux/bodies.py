"""A process that outlives hostd, known by pid and start time, so that a recycled pid is never mistaken for it.

Called by the drivers. Reads /proc; waits through a pidfd. hostd becomes a *subreaper*: bodies are started by an
intermediate that exits, so while this hostd lives it is their parent and learns how they ended; when it dies they
go on under pid 1, and the next hostd still sees their end, but not the way of it ("unknown").
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def become_reaper() -> None:
    """Orphans among our descendants come to us instead of pid 1. It does not tie their life to ours."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the command's name; empty when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text[text.rindex(")") + 2:].split()


@dataclass(frozen=True)
class Body:
    """One incarnation of a process."""

    pid: int
    start_ticks: int

    @staticmethod
    def of(pid: int) -> Body | None:
        fields = _stat_fields(pid)
        return Body(pid, int(fields[19])) if fields else None

    def exists(self) -> bool:
        """True for a zombie, too: its pid is not free yet."""
        fields = _stat_fields(self.pid)
        return bool(fields) and int(fields[19]) == self.start_ticks

    def alive(self) -> bool:
        fields = _stat_fields(self.pid)
        return bool(fields) and int(fields[19]) == self.start_ticks and fields[0] not in "ZX"

    def signal(self, number: int) -> None:
        """Sends a signal to exactly this incarnation; nothing when it is gone."""
        with contextlib.suppress(ProcessLookupError), _pidfd(self) as fd:
            signal.pidfd_send_signal(fd, number)

    async def ended(self) -> str:
        """Returns when the process is gone: "exited", "killed:SIGKILL", or "unknown" where another was its parent."""
        try:
            with _pidfd(self) as fd:
                await _readable(fd)
        except ProcessLookupError:
            return "unknown"
        return await self._learned()

    async def _learned(self) -> str:
        """The intermediate that started it may not have gone yet, and until then it is not our child."""
        for _ in range(100):
            reason = self.how_it_ended()
            if reason != "unknown" or not self.exists():
                return reason
            await asyncio.sleep(0.01)
        return "unknown"

    def how_it_ended(self) -> str:
        """Leaves the zombie in place, so that every holder of this body reads the same reason; `bury` takes it away."""
        try:
            status = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except ChildProcessError:
            return "unknown"
        if status is None or not self.exists():
            return "unknown"
        if status.si_code == os.CLD_EXITED:
            return "exited"
        return f"killed:{signal.Signals(status.si_status).name}"

    async def kill(self) -> None:
        self.signal(signal.SIGKILL)
        await self.ended()

    def bury(self) -> None:
        """Frees the pid of a dead child of ours. Nothing for a living process or one that is not our child."""
        if self.exists() and not self.alive():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, os.WNOHANG)


@contextlib.contextmanager
def _pidfd(body: Body) -> Iterator[int]:
    """A descriptor of this very incarnation; ProcessLookupError when it is gone."""
    fd = os.pidfd_open(body.pid)
    try:
        if not body.exists():
            raise ProcessLookupError(body.pid)
        yield fd
    finally:
        os.close(fd)


async def _readable(fd: int) -> None:
    """A pidfd becomes readable when its process has ended."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def seen() -> None:
        if not ended.done():
            ended.set_result(None)

    loop.add_reader(fd, seen)
    try:
        await ended
    finally:
        loop.remove_reader(fd)
