"""The program that becomes a jailed body: namespaces, mounts, limits, another user, then exec.

Started once per hostd by `spawner.py` as a file of its own (`python -I -S jail.py FD`), so that it is small, has one
thread and can be forked in a millisecond. Stdlib only; imports nothing of Berth. Each request on the socket is one
JSON plan with descriptors; the body's pid, or what went wrong, is written to the plan's report pipe, whose end of file
means that exec has happened.

    hostd ──plan, fds──▶ server ──fork──▶ intermediate ──fork──▶ body ──exec──▶ argv
                                          cgroups, netns,        mounts, root, limits,
                                          unshare, tells pid     user, no_new_privs
"""

# pathlib would double the start of this program, and exec without a shell is its purpose
# ruff: noqa: PTH103,PTH112,PTH118,PTH120,PTH123,PTH208,PTH211,S606

from __future__ import annotations

import array
import ctypes
import fcntl
import json
import os
import resource
import signal
import socket
import sys

TYPE_CHECKING = False  # typing itself costs more to import than all the rest
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any
    Plan = dict[str, Any]

FLAGS = {"mnt": 0x00020000, "uts": 0x04000000, "ipc": 0x08000000, "pid": 0x20000000, "net": 0x40000000}
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 38, 24, 47, 4
SYS_PIVOT_ROOT, MNT_DETACH = 155, 2
MAX_PLAN_BYTES, MAX_FDS, FIRST_PRIVATE_FD = 256 * 1024, 64, 256

libc = ctypes.CDLL(None, use_errno=True)


def checked(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    checked(libc.mount(source.encode(), target.encode(), kind.encode(), flags, options.encode()), f"mount {target}")


def make_mountpoint(source: str, target: str) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    elif not os.path.lexists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))


def bind(source: str, target: str, mode: str) -> None:
    make_mountpoint(source, target)
    mount(source, target, "none", MS_BIND | (MS_REC if mode == "rec" else 0))
    if mode == "ro":
        mount("none", target, "none", MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)
    elif mode == "dev":
        mount("none", target, "none", MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NOEXEC)


def tmpfs(target: str, options: str) -> None:
    os.makedirs(target, exist_ok=True)
    mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, options)


def proc(target: str) -> None:
    os.makedirs(target, exist_ok=True)
    mount("proc", target, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)


def mask_keeping(target: str, options: str) -> None:
    """An empty tmpfs over a folder, with everything that was in it bound back: one can then add names to it."""
    aside = [(name, os.open(os.path.join(target, name), os.O_PATH)) for name in os.listdir(target)]
    tmpfs(target, options)
    for name, fd in aside:
        bind(f"/proc/self/fd/{fd}", os.path.join(target, name), "rec")
        os.close(fd)


def symlink(points_to: str, at: str) -> None:
    os.makedirs(os.path.dirname(at), exist_ok=True)
    os.symlink(points_to, at)


MOUNTS: dict[str, Callable[..., None]] = {
    "bind": bind, "tmpfs": tmpfs, "proc": proc, "mask_keeping": mask_keeping, "symlink": symlink}


def enter_root(root: str) -> None:
    """`root` is a mount point that holds the whole view; it becomes /, read-only, and the old one is gone."""
    os.chdir(root)
    checked(libc.syscall(SYS_PIVOT_ROOT, b".", b"."), "pivot_root")
    checked(libc.umount2(b".", MNT_DETACH), "umount the old root")
    mount("none", "/", "none", MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)
    os.chdir("/")


def out_of_the_way(fd: int) -> int:
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FIRST_PRIVATE_FD)
    os.close(fd)
    return moved


def place_fds(fds: list[int], numbers: list[int]) -> None:
    """Moves what was received to the numbers that argv speaks of; only those survive exec."""
    high = [out_of_the_way(fd) for fd in fds]
    for fd, number in zip(high, numbers, strict=True):
        os.dup2(fd, number, inheritable=True)
        os.close(fd)


def drop_privileges(plan: Plan) -> None:
    for name, value in plan.get("rlimits", {}).items():
        resource.setrlimit(getattr(resource, name), (value, value))
    if plan.get("uid"):
        for capability in range(64):
            if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
                break
        libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
        os.setgroups(plan.get("groups", []))
        os.setresgid(plan["gid"], plan["gid"], plan["gid"])
        os.setresuid(plan["uid"], plan["uid"], plan["uid"])
    if plan.get("no_new_privs"):
        checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def reap_for(argv: list[str], env: dict[str, str], report: int) -> None:
    """A tiny pid 1: starts argv, buries orphans, ends as argv ended."""
    child = os.fork()
    if child == 0:
        guarded(report, os.execve, argv[0], argv, env)
    os.closerange(0, FIRST_PRIVATE_FD * 2)
    while True:
        pid, status = os.wait()
        if pid == child:
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def become(plan: Plan, report: int) -> None:
    """In the body: everything up to exec. Never returns."""
    os.setsid()
    os.umask(plan.get("umask", 0o077))
    if "hostname" in plan:
        socket.sethostname(plan["hostname"])
    if "mnt" in plan["namespaces"]:
        mount("none", "/", "none", MS_REC | MS_PRIVATE)
        for name, *arguments in plan.get("mounts", []):
            MOUNTS[name](*arguments)
        if plan.get("root"):
            enter_root(plan["root"])
    os.chdir(plan.get("cwd", "/"))
    drop_privileges(plan)
    for number in range(1, signal.NSIG):
        if number not in (signal.SIGKILL, signal.SIGSTOP, 32, 33):
            signal.signal(number, signal.SIG_DFL)
    if plan.get("reaper"):
        reap_for(plan["argv"], plan["env"], report)
    os.execve(plan["argv"][0], plan["argv"], plan["env"])


def tell(report: int, **answer: object) -> None:
    os.write(report, json.dumps(answer).encode() + b"\n")


def start(plan: Plan, fds: list[int], report: int) -> None:
    """In the intermediate: what must precede the body, then the body, whose pid (as the host counts) is told."""
    place_fds(fds, plan["fds"])
    for path in plan.get("cgroups", []):
        with open(path, "w") as procs:
            procs.write("0")
    if plan.get("netns"):
        fd = os.open(plan["netns"], os.O_RDONLY)
        checked(libc.setns(fd, FLAGS["net"]), "setns")
        os.close(fd)
    flags = 0
    for name in plan["namespaces"]:
        flags |= FLAGS[name]
    if flags:
        checked(libc.unshare(flags), "unshare")
    pid = os.fork()
    if pid:
        tell(report, pid=pid)
        return
    guarded(report, become, plan, report)


def guarded(report: int, function: Callable[..., None], *arguments: object) -> None:
    try:
        function(*arguments)
    except BaseException as error:
        tell(report, error=f"{type(error).__name__}: {error}")
        os._exit(71)


def receive(connection: socket.socket) -> tuple[bytes, list[int]]:
    room = socket.CMSG_SPACE(MAX_FDS * 4)
    data, ancillary, _flags, _address = connection.recvmsg(MAX_PLAN_BYTES, room)
    fds = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[:len(payload) - len(payload) % 4])
    for fd in fds:
        os.set_inheritable(fd, False)
    return data, list(fds)


def serve(connection: socket.socket) -> None:
    while True:
        data, fds = receive(connection)
        if not data:
            return
        pid = os.fork()
        if pid == 0:
            report = out_of_the_way(fds.pop())
            guarded(report, start, json.loads(data), fds, report)
            os._exit(0)
        for fd in fds:
            os.close(fd)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.set_inheritable(int(sys.argv[1]), False)
    serve(socket.socket(fileno=int(sys.argv[1])))
