"""Forks a process that becomes a user's: own session, own cgroup, pipes or a terminal. Called by `beginning.py` alone.

The work is done by the zygote (`zygote.py`), which this starts and starts again. Neither posix_spawn nor a wrapper
program would do: the one can take neither a user's identity nor a cgroup, the other costs each exec an execve more.
What fails before `execve` comes back through a pipe that `execve` closes.
"""

from __future__ import annotations

import contextlib
import errno
import marshal
import os
import select
import signal
import socket
from typing import NamedTuple

from sandboxes.guest.agent import zygote
from sandboxes.guest.agent.accounts import Account
from sandboxes.guest.agent.refusal import Refusal, refusal_of

#: The agent serves nobody while it waits for a fork, which only a stopped zygote keeps it waiting for.
ANSWER_S = 15.0
_NO_ROOM = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


class Command(NamedTuple):
    """What `start` needs, everything resolved. `stdio` are the three descriptors the child gets."""

    argv: list[bytes]
    program: bytes
    environment: dict[bytes, bytes]
    cwd: bytes
    account: Account
    stdio: tuple[int, int, int]
    terminal: bool
    cgroup_fd: int

    def order(self) -> zygote.Order:
        account = self.account
        return (self.argv, _paths(self.program, self.environment), self.environment, self.cwd, account.uid,
                account.gid, account.groups, self.terminal)


def _paths(program: bytes, environment: dict[bytes, bytes]) -> list[bytes]:
    """Where the program may be: along PATH, without the places where nothing is. A look here costs less than one in
    the child, whose memory is a copy that each step makes dearer."""
    if b"/" in program:
        return [program]
    folders = environment.get(b"PATH", b"/usr/bin:/bin").split(b":")
    paths = [(folder or b".") + b"/" + program for folder in folders]
    return [path for path in paths if not path.startswith(b"/") or os.path.lexists(path)]


class Spawner:
    """The agent's end of the zygote. Made as early as may be, so that it is small."""

    def __init__(self) -> None:
        self._conn: socket.socket | None = None
        self._pid = 0
        self._open()

    def _open(self) -> socket.socket:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        pid = os.fork()
        if pid == 0:
            try:
                ours.close()
                zygote.serve(its)
            finally:
                os._exit(0)
        its.close()
        ours.settimeout(ANSWER_S)
        self._conn, self._pid = ours, pid
        return ours

    def _drop(self) -> None:
        """It is dead, or stopped by root: the next start makes another. Its end is seen where all children's are."""
        if self._conn is not None:
            self._conn.close()
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        self._conn = None

    def clone(self, command: Command) -> tuple[int, int]:
        """(pid, report): a child of ours that is on its way to its program. The report is closed by a good `execve`, or
        says first what was in the way. Raises Refusal when there is no child."""
        report, child_report = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            return self._ask(command, child_report), report
        except BaseException:
            os.close(report)
            raise
        finally:
            os.close(child_report)

    def _ask(self, command: Command, report: int) -> int:
        data = marshal.dumps(command.order())
        descriptors = [*command.stdio, report, *([command.cgroup_fd] if command.cgroup_fd >= 0 else [])]
        conn = self._conn if self._lives() and self._conn is not None else self._open()
        try:
            socket.send_fds(conn, [zygote.LENGTH.pack(len(data))], descriptors)
            conn.sendall(data)
            answer = conn.recv(zygote.REPLY.size, socket.MSG_WAITALL)
        except OSError:
            answer = b""
        if len(answer) < zygote.REPLY.size:
            self._drop()
            raise Refusal("busy", "the guest's process for starting others was ended; ask again", retry_after_s=1)
        pid = int(zygote.REPLY.unpack(answer)[0])
        if pid < 0:
            raise refusal_to_start(OSError(-pid, os.strerror(-pid)))
        return pid

    def _lives(self) -> bool:
        """Nothing is ever said by it unasked, so what can be read is its end."""
        if self._conn is None:
            return False
        poll = select.poll()
        poll.register(self._conn, select.POLLIN | select.POLLHUP)
        if poll.poll(0):
            self._drop()
            return False
        return True


def refusal_to_start(error: OSError) -> Refusal:
    """No process, pipe or cgroup could be made."""
    if error.errno in _NO_ROOM:
        return Refusal("busy", f"the guest can start no process now: {error.strerror}", retry_after_s=1)
    return refusal_of(error, "starting a process")


def refusal_of_report(command: Command, said: bytes) -> Refusal:
    stage, number = said[0], int(said[1:])
    error = OSError(number, os.strerror(number))
    if number == errno.E2BIG:
        return Refusal("invalid", "the command line and environment are too long for the guest's kernel",
                       field="command")
    if stage == zygote.CWD:
        return Refusal("invalid", f"cwd {os.fsdecode(command.cwd)!r}: {error.strerror}", field="cwd")
    if number in _NO_ROOM:
        return refusal_to_start(error)
    return refusal_of(error, f"{zygote.STAGES[stage]} of {os.fsdecode(command.program)!r}")
