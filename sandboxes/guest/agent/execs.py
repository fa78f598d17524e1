"""One exec: a process, its tree, its two outputs, its end. Made by `exectable.py`; calls `trees`, `output`, the loop.

    start ──▶ running ──wait status──▶ draining ──what was in the pipes is read──▶ ended
                 │ timeout_s: TERM to the tree, KILL after a grace    (timed out or killed: also the tree is gone)

The end is the wait status of the process that was started, never the closing of a pipe: a grandchild may hold that
for ever. Exactly what lies in the pipes at that moment is still read (FIONREAD), then the exec has ended. Children
left over live on, as people expect of `server &`; their output is drained and dropped so that it never stops or kills
them. A timeout or `exec.kill` ends the whole tree, left-over children too.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import struct
import termios
import time
from typing import Any

from sandboxes.guest.agent import tty
from sandboxes.guest.agent.loop import HUP, IN, Loop, Timer
from sandboxes.guest.agent.outcomes import outcome_of
from sandboxes.guest.agent.output import Output
from sandboxes.guest.agent.outputreader import OutputReader
from sandboxes.guest.agent.stdin import Stdin
from sandboxes.guest.agent.trees import Tree

STDOUT, STDERR = 1, 2
READ_BYTES = 64 * 1024
#: Between TERM and KILL when the time is up.
TERM_GRACE_S = 1.0
GONE_POLL_S = 0.02
#: What a terminal's left-over children may still add once its process has ended.
TTY_DRAIN_BYTES = 1024 * 1024


class Exec:
    def __init__(self, loop: Loop, exec_id: str, tree: Tree, max_output_bytes: int | None) -> None:
        self.exec_id, self.tree = exec_id, tree
        self.pid = 0
        self.cwd = b""
        self.started_at = time.time()
        self.ended_at: float | None = None
        self.outcome: dict[str, Any] | None = None
        self.outputs = {STDOUT: Output(max_output_bytes), STDERR: Output(max_output_bytes)}
        self.stdin: Stdin | None = None
        self.master = -1
        self.readers: list[OutputReader] = []
        self._loop = loop
        self._fds: dict[int, int] = {}
        self._watched: set[int] = set()
        self._status: int | None = None
        self._forced: str | None = None
        self._timers: list[Timer] = []
        #: After the wait status: how many bytes of each output still belong to the exec.
        self._left: dict[int, int] = {}

    # -- beginning -------------------------------------------------------------------------------------------------

    def begin(self, pid: int, fds: dict[int, int], timeout_s: float | None) -> None:
        """The process runs; `fds` are our ends of its outputs."""
        self.pid, self._fds = pid, fds
        for stream in fds:
            self._watch(stream)
        if timeout_s is not None:
            self._timers.append(self._loop.after(timeout_s, self._time_is_up))

    @property
    def ended(self) -> bool:
        """Whether the process has ended; its output may still be on the way."""
        return self._status is not None

    @property
    def state(self) -> str:
        return "running" if self.outcome is None else "ended"

    def to_json(self) -> dict[str, Any]:
        return {
            "exec_id": self.exec_id, "pid": self.pid, "state": self.state, "tty": self.master >= 0,
            "started_at": self.started_at, "ended_at": self.ended_at, "outcome": self.outcome,
            "stdin_open": self.stdin is not None and self.stdin.open,
            "offsets": {"stdout": self.outputs[STDOUT].end, "stderr": self.outputs[STDERR].end},
            "stdout_truncated": self.outputs[STDOUT].truncated, "stderr_truncated": self.outputs[STDERR].truncated,
        }

    # -- output ----------------------------------------------------------------------------------------------------

    def room_made(self, stream: int) -> None:
        """The host acknowledged something: a held-back process may go on."""
        if stream in self._fds:
            self._watch(stream)

    def _wanted(self, stream: int) -> int:
        """How many bytes may be read now: what there is room for, and after the wait status what is still owed."""
        if self.outcome is not None:
            return READ_BYTES
        most = min(READ_BYTES, self.outputs[stream].room)
        return most if self._status is None else min(most, self._left.get(stream, 0))

    def _watch(self, stream: int) -> None:
        """Watches the pipe exactly while something of it is wanted."""
        wanted = self._wanted(stream) > 0
        if wanted and stream not in self._watched:
            self._watched.add(stream)
            self._loop.watch(self._fds[stream], IN | HUP, lambda _events: self._read(stream))
        elif not wanted and stream in self._watched:
            self._watched.remove(stream)
            self._loop.unwatch(self._fds[stream])

    def _read(self, stream: int) -> None:
        data = self._take_bytes(stream, self._wanted(stream))
        if self.outcome is not None:
            return
        self.outputs[stream].add(data)
        if self._status is not None:
            self._left[stream] = self._left.get(stream, 0) - len(data)
        if stream in self._fds:
            self._watch(stream)
        if data:
            self._tell_readers()
        if self._status is not None:
            self._end_if_drained()

    def _take_bytes(self, stream: int, most: int) -> bytes:
        """Reads once. At the end of the pipe its descriptor is closed."""
        try:
            data = os.read(self._fds[stream], most)
        except BlockingIOError:
            return b""
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            data = b""
        if not data:
            self._close_output(stream)
        return data

    def _close_output(self, stream: int) -> None:
        fd = self._fds.pop(stream)
        self._watched.discard(stream)
        self._loop.unwatch(fd)
        os.close(fd)
        if fd == self.master:
            self.master = -1

    def _tell_readers(self) -> None:
        for reader in self.readers:
            reader.more()

    # -- the end ---------------------------------------------------------------------------------------------------

    def reaped(self, status: int) -> None:
        """The kernel's word that the process has ended."""
        self._status = status
        self._cancel_timers()
        if self.stdin is not None:
            self.stdin.process_ended()
        if self._forced is not None:
            self.tree.kill()
        if self.master >= 0:
            self._left[STDOUT] = TTY_DRAIN_BYTES
            self._await_quiet(-1)
        else:
            self._left = {stream: _readable_bytes(fd) for stream, fd in self._fds.items()}
        for stream in list(self._fds):
            self._watch(stream)
        self._end_if_drained()

    def _await_quiet(self, seen: int) -> None:
        """A terminal is drained when it was silent for a moment and nobody held it back."""
        if STDOUT not in self._fds or self.outcome is not None:
            return
        end = self.outputs[STDOUT].end
        if end == seen and self.outputs[STDOUT].room:
            self._left[STDOUT] = 0
            self._end_if_drained()
        else:
            self._timers.append(self._loop.after(tty.QUIET_S, lambda: self._await_quiet(end)))

    def _end_if_drained(self) -> None:
        if self.outcome is not None or any(self._left.get(stream, 0) > 0 for stream in self._fds):
            return
        if self._forced is not None and self.tree.alive():
            self._cancel_timers()
            self._timers.append(self._loop.after(GONE_POLL_S, self._end_once_gone))
            return
        assert self._status is not None
        self._cancel_timers()
        self.ended_at = time.time()
        self.outcome = outcome_of(self._status, self._forced)
        for stream in list(self._fds):
            self._watch(stream)
        self._tell_readers()

    def _end_once_gone(self) -> None:
        self.tree.kill()
        self._end_if_drained()

    def _time_is_up(self) -> None:
        if self._status is None and self._forced is None:
            self._forced = "timed_out"
            self.tree.signal(signal.SIGTERM)
            self.tree.signal(signal.SIGCONT)
            self._timers.append(self._loop.after(TERM_GRACE_S, self.tree.kill))

    def kill(self) -> None:
        """Ends the whole tree now; of an ended exec, what it left over."""
        if self._status is None and self._forced is None:
            self._forced = "killed"
        self.tree.kill()

    def _cancel_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def abandon(self) -> None:
        """The exec is forgotten. Outputs that left-over children hold are drained on, until the last closes them."""
        for reader in list(self.readers):
            reader.abandon()


def _readable_bytes(fd: int) -> int:
    return int(struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))[0])
