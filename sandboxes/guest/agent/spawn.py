"""Starts one process as a user: own session, own cgroup, pipes or a terminal. Called by `execs.py` alone.

`os.fork` and `execve` by hand: posix_spawn can neither take a user's identity nor a controlling terminal, and a
wrapper program would cost an exec more. The child touches nothing but system calls (no imports, no locks), which is
what makes a fork beside file workers safe. What fails before `execve` comes back through a pipe that `execve` closes;
a program that is not there is the *process's* end (127, or 126), said on its own stderr.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import termios
from typing import NamedTuple

from sandboxes.guest.agent.accounts import Account
from sandboxes.guest.agent.refusal import Refusal, refusal_of

NOT_FOUND, NOT_EXECUTABLE = 127, 126
#: The soft limit a process starts with, as after any login; the agent's own is higher.
OPEN_FILES = 1024
_STAGES = ("start", "working directory", "user", "program")
_MISSING = (errno.ENOENT, errno.ENOTDIR)
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


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


def start(command: Command) -> int:
    """The pid of a process that has begun. Raises Refusal when it could not, and then nothing is left of it."""
    report, child_report = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _child(command, child_report)
    os.close(child_report)
    try:
        said = os.read(report, 16)
    finally:
        os.close(report)
    if said:
        os.waitpid(pid, 0)
        raise _refusal(command, said)
    return pid


def _refusal(command: Command, said: bytes) -> Refusal:
    stage, number = _STAGES[said[0]], int(said[1:])
    if number == errno.E2BIG:
        return Refusal("invalid", "the command line and environment are too long for the guest's kernel")
    error = OSError(number, os.strerror(number))
    if stage == "working directory":
        return Refusal("invalid", f"cwd {os.fsdecode(command.cwd)!r}: {error.strerror}", field="cwd")
    if stage == "program":
        return Refusal("invalid", f"{os.fsdecode(command.program)!r}: {error.strerror}")
    return refusal_of(error, f"{stage} of {os.fsdecode(command.program)!r}")


def _child(command: Command, report: int) -> None:
    """Between fork and exec. Never returns."""
    stage = 0
    try:
        _enter(command)
        stage = 2
        _become(command.account)
        stage = 1
        os.chdir(command.cwd)
        stage = 3
        _exec(command)
    except OSError as error:
        os.write(report, bytes([stage]) + str(error.errno or errno.EIO).encode())
    finally:
        os._exit(NOT_FOUND)


def _enter(command: Command) -> None:
    if command.cgroup_fd >= 0:
        os.write(command.cgroup_fd, b"0")
    os.setsid()
    for ignored in _IGNORED_BY_PYTHON:
        signal.signal(ignored, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    if command.terminal:
        fcntl.ioctl(command.stdio[0], termios.TIOCSCTTY, 0)
    for number, fd in enumerate(command.stdio):
        os.dup2(fd, number)
    _be_killable()


def _be_killable() -> None:
    """The agent asks the kernel's out-of-memory killer to spare it; its children must not inherit that."""
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(fd, b"0")
        os.close(fd)
    except OSError:
        pass


def _become(account: Account) -> None:
    os.setgroups(account.groups)
    os.setresgid(account.gid, account.gid, account.gid)
    os.setresuid(account.uid, account.uid, account.uid)
    os.umask(0o022)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(OPEN_FILES, most), most))


def _exec(command: Command) -> None:
    """Tries the program along PATH as execvp does. Ends the process with 127 or 126 when there is none."""
    denied = False
    for path in _candidates(command):
        try:
            os.execve(path, command.argv, command.environment)  # noqa: S606 - there is no shell to want
        except OSError as error:
            if error.errno == errno.ENOEXEC:
                script = [b"/bin/sh", path, *command.argv[1:]]
                os.execve(script[0], script, command.environment)  # noqa: S606
            elif error.errno in (errno.EACCES, errno.EPERM, errno.EISDIR):
                denied = True
            elif error.errno not in _MISSING:
                raise
    why = b"Permission denied" if denied else b"No such file or directory"
    os.write(2, b"berth: " + command.program + b": " + why + b"\n")
    os._exit(NOT_EXECUTABLE if denied else NOT_FOUND)


def _candidates(command: Command) -> list[bytes]:
    if b"/" in command.program or not command.program:
        return [command.program]
    folders = command.environment.get(b"PATH", b"/usr/bin:/bin").split(b":")
    return [(folder or b".") + b"/" + command.program for folder in folders]
