"""A small process that does nothing but fork: every exec begins as its copy. Started by `spawn.py`, before the agent
has imported anything else; knows descriptors and system calls, nothing of execs.

A fork costs what the forking process holds, and then a fault for each page either side touches: under emulation most
of what an exec costs. So this process imports little and stays small. The child is made with CLONE_PARENT, which makes
it the *agent's* child: its wait status never passes through here, and when this process dies no exec is lost.

    agent ─▶ length, command (marshal), stdin stdout stderr report [cgroup]     one after the other, never two at once
          ◀─ pid, or a negative errno
    child ─▶ report: a stage and an errno when it fails before `execve`; closed by a good `execve`

The child touches nothing but system calls. A program that is not there is the *process's* end (127, or 126), said on
its own stderr.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import gc
import marshal
import os
import resource
import signal
import socket
import struct
import termios
from typing import NoReturn

NOT_FOUND, NOT_EXECUTABLE = 127, 126
STAGES = ("start", "working directory", "user", "program")
START, CWD, USER, PROGRAM = range(len(STAGES))
#: The soft limit a process starts with, as after any login; the agent's own is higher.
OPEN_FILES = 1024
LENGTH, REPLY = struct.Struct("=I"), struct.Struct("=i")
MOST_DESCRIPTORS = 5
_CLONE, _CLONE_PARENT = 56, 0x8000
_MISSING = (errno.ENOENT, errno.ENOTDIR)
#: What says nothing about the program, but about the machine or the command line: no process began.
_REFUSED = (errno.E2BIG, errno.ENOMEM, errno.EAGAIN, errno.ENFILE, errno.EMFILE)
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_MAGIC_BYTES = 80

#: (argv, paths to try, environment, cwd, uid, gid, groups, whether stdin is the controlling terminal)
Order = tuple[list[bytes], list[bytes], dict[bytes, bytes], bytes, int, int, tuple[int, ...], bool]


def serve(conn: socket.socket) -> None:
    """Until the agent closes its end."""
    _settle(conn)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    while (received := _receive(conn)) is not None:
        order, descriptors = received
        pid = int(libc.syscall(_CLONE, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0))
        if pid == 0:
            _child(order, descriptors)
        conn.sendall(REPLY.pack(pid if pid > 0 else -ctypes.get_errno()))
        for fd in descriptors:
            os.close(fd)


def _settle(conn: socket.socket) -> None:
    """What every child inherits is made right once, here."""
    signal.set_wakeup_fd(-1)
    for number in (*_IGNORED_BY_PYTHON, signal.SIGCHLD, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.closerange(3, conn.fileno())
    os.closerange(conn.fileno() + 1, 1 << 20)
    os.umask(0o022)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(OPEN_FILES, most), most))
    _be_killable()
    gc.disable()
    gc.freeze()


def _be_killable() -> None:
    """The agent asks the kernel's out-of-memory killer to spare it; its children must not inherit that."""
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(fd, b"0")
        os.close(fd)
    except OSError:
        pass


def _receive(conn: socket.socket) -> tuple[Order, list[int]] | None:
    data, ancillary, _, _ = conn.recvmsg(LENGTH.size, socket.CMSG_SPACE(4 * MOST_DESCRIPTORS), socket.MSG_CMSG_CLOEXEC)
    if len(data) < LENGTH.size:
        return None
    descriptors = [fd for _, _, raw in ancillary for (fd,) in struct.iter_unpack("=i", raw)]
    left, parts = LENGTH.unpack(data)[0], []
    while left:
        part = conn.recv(min(left, 1 << 20))
        if not part:
            return None
        parts.append(part)
        left -= len(part)
    return marshal.loads(b"".join(parts)), descriptors  # noqa: S302 - from the agent, whose copy this is


def _child(order: Order, descriptors: list[int]) -> NoReturn:
    """Between fork and exec."""
    argv, paths, environment, cwd, uid, gid, groups, terminal = order
    stage = START
    try:
        if len(descriptors) > 4:
            os.write(descriptors[4], b"0")
        os.setsid()
        if terminal:
            fcntl.ioctl(descriptors[0], termios.TIOCSCTTY, 0)
        for number in range(3):
            os.dup2(descriptors[number], number)
        stage = USER
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        stage = CWD
        os.chdir(cwd)
        stage = PROGRAM
        _execute(paths, argv, environment)
    except OSError as error:
        os.write(descriptors[3], bytes([stage]) + str(error.errno or errno.EIO).encode())
    finally:
        os._exit(NOT_FOUND)


def _execute(paths: list[bytes], argv: list[bytes], environment: dict[bytes, bytes]) -> None:
    """Tries one path after the other as a shell does. Ends the process with 127 or 126 when it is none of them."""
    code, why = NOT_FOUND, b"No such file or directory"
    for path in paths:
        try:
            os.execve(path, argv, environment)  # noqa: S606 - there is no shell to want
        except OSError as error:
            if error.errno in _REFUSED:
                raise
            if error.errno not in _MISSING:
                if error.errno == errno.ENOEXEC and _is_text(path):
                    os.execve(b"/bin/sh", [b"/bin/sh", path, *argv[1:]], environment)  # noqa: S606
                code, why = NOT_EXECUTABLE, os.strerror(error.errno or errno.EIO).encode()
                if error.errno not in (errno.EACCES, errno.EPERM):
                    break
            elif code == NOT_FOUND and os.path.isfile(path):  # noqa: PTH113 - bytes, in a child
                why = b"its interpreter is not there: " + why
                break
    os.write(2, b"berth: " + argv[0] + b": " + why + b"\n")
    os._exit(code)


def _is_text(path: bytes) -> bool:
    """Whether the first line of a file that the kernel cannot execute could be a shell's, as every shell asks."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return True  # executable and not readable: the shell will say so
    try:
        return b"\0" not in os.read(fd, _MAGIC_BYTES).split(b"\n", 1)[0]
    finally:
        os.close(fd)
