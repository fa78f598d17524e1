"""`attach`: mounts the root disk, pivots into it, and starts the user's world. Called through the method table.

    before                                    after
    /            memory, from the initramfs   /            the root disk (old root detached)
    /run/berth   the tools disk               /run/berth   the same: /dev /proc /sys /run have moved over
    /root-disk   empty

`prepare` does, before a template is captured, all that needs no root disk. All of it by system calls of this process:
under emulation a spawned command costs more than the rest together. On a host (`--fake`) there is nothing to mount:
the fake driver has prepared the agent's mount namespace, and attach only says that the machine serves from now on.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from sandboxes.guest.agent import devices, ext4, names, network, syscalls
from sandboxes.guest.agent import params as p
from sandboxes.guest.agent.machine import ATTACHED, Machine
from sandboxes.guest.agent.refusal import Refusal
from sandboxes.guest.agent.streams import Stream

BLKFLSBUF = 0x1261
RESIZE_S = 2.0
LOOK_AGAIN_S = 0.005
ROOT_DISK = "/root-disk"
CGROUP = Path("/sys/fs/cgroup")
USERS_CGROUP = CGROUP / "users"
MOVED = ("dev", "proc", "sys", "run")
SAFE = syscalls.MS_NOSUID | syscalls.MS_NODEV


class Root(NamedTuple):
    """What the host says of the root disk: which it is, and how large it has just become at least."""

    device: str | None
    least_bytes: int


class Attach:
    """`enter(root)` makes the root file system ours, or lets it grow where it is already; a no-op on a host."""

    def __init__(self, machine: Machine, enter: Callable[[Root], None]) -> None:
        self._machine, self._enter = machine, enter

    def __call__(self, _stream: Stream, params: p.Params) -> dict[str, Any]:
        environment = p.mapping(params, "env")
        machine = self._machine
        machine.hostname = p.text(params, "hostname", None) or machine.hostname
        machine.machine_id = p.text(params, "machine_id", None) or machine.machine_id
        try:
            self._enter(_root(params))
        except OSError as error:
            where = error.filename2 or error.filename or ""
            raise Refusal("step_failed", f"attach: {where}: {error.strerror}") from error
        if machine.state != ATTACHED or environment != machine.environment:
            machine.attached(environment)
        return {}


def _root(params: p.Params) -> Root:
    root = params.get("root") or {}
    if not isinstance(root, dict):
        raise Refusal("invalid", "root must be an object")
    least_bytes = root.get("least_bytes")
    return Root(p.text(root, "device", None), least_bytes if isinstance(least_bytes, int) else 0)


def prepare() -> None:
    """What can be there before the root disk is. Repeatable: a second agent of the same machine finds it done."""
    if USERS_CGROUP.exists():
        return
    for folder in ("/dev/pts", "/dev/shm", "/run/lock"):  # noqa: S108 - a mount point, not a scratch file
        Path(folder).mkdir(exist_ok=True)
    syscalls.mount("devpts", "/dev/pts", "devpts", syscalls.MS_NOSUID | syscalls.MS_NOEXEC,
                   "gid=5,mode=620,ptmxmode=666")
    syscalls.mount("shm", "/dev/shm", "tmpfs", SAFE, "mode=1777")  # noqa: S108
    Path("/run/lock").chmod(0o1777)
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        with contextlib.suppress(FileExistsError):
            Path("/dev", name).symlink_to(target)
    syscalls.mount("cgroup2", str(CGROUP), "cgroup2", SAFE | syscalls.MS_NOEXEC)
    USERS_CGROUP.mkdir()
    network.raise_devices()


class Entry:
    """Makes the root disk the root, once per machine. A disk that was enlarged while the machine slept is larger from
    its wake on; one that cannot grow now grows when it boots next.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def __call__(self, root: Root) -> None:
        device = root.device or devices.root_disk()
        if self._machine.state == ATTACHED:
            with contextlib.suppress(OSError):
                _grow(device, "/", root.least_bytes)
            return
        self._enter(device)

    def _enter(self, device: str) -> None:
        if not os.path.ismount(ROOT_DISK):
            _mount_root(device)
        for name in MOVED:
            target = f"{ROOT_DISK}/{name}"
            Path(target).mkdir(exist_ok=True)
            if os.path.ismount(f"/{name}"):
                syscalls.mount(f"/{name}", target, flags=syscalls.MS_MOVE)
        os.chdir(ROOT_DISK)
        syscalls.pivot_root(".", ".")
        syscalls.unmount(".", syscalls.MNT_DETACH)
        os.chdir("/")
        _offer_modules()
        _offer_commands()
        names.write(self._machine.hostname, self._machine.machine_id)


def _mount_root(device: str) -> None:
    """What the page cache may hold of the device is of the template's placeholder: dropped first."""
    fd = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, BLKFLSBUF, 0)
        syscalls.mount(device, ROOT_DISK, "ext4")
        ext4.grow_to_device(fd, ROOT_DISK)
    finally:
        os.close(fd)


def _grow(device: str, mounted_at: str, least_bytes: int) -> None:
    """The device's new size is told to the kernel by an interrupt: it is waited for a little."""
    fd = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + RESIZE_S
        while ext4.device_bytes(fd) < least_bytes and time.monotonic() < deadline:
            time.sleep(LOOK_AGAIN_S)
        ext4.grow_to_device(fd, mounted_at)
    finally:
        os.close(fd)


def _offer_commands() -> None:
    """Those of the tools disk, where every shell looks. What somebody else put there stays."""
    for command in Path("/run/berth/commands").glob("*"):
        with contextlib.suppress(OSError):
            Path("/usr/local/bin", command.name).symlink_to(command)


def _offer_modules() -> None:
    """The running kernel's modules, over whatever the root disk was built with. A guest without them still runs."""
    release = os.uname().release
    source, target = Path("/run/berth/lib/modules", release), Path("/lib/modules", release)
    with contextlib.suppress(OSError):
        target.mkdir(parents=True, exist_ok=True)
        syscalls.mount(str(source), str(target), flags=syscalls.MS_BIND)
