"""Starts one QEMU process in its jail: descriptors for everything, a root that holds the system's programs and nothing
of Berth's, a user of its own, limits. Not a child that dies with hostd.

Called by the driver and by `templates.py`. Calls `linux/`. Knows nothing of memory images: it is handed descriptors.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sandboxes.drivers.qemu import argv
from sandboxes.linux.bodies import Body
from sandboxes.linux.cgroups import Limits
from sandboxes.linux.sealed import bounded_file
from sandboxes.linux.sockets import listening
from sandboxes.linux.spawner import JailPlan, Spawner
from sandboxes.spec import Shape

#: What QEMU needs beside the guest's memory: itself, its translation cache, buffers.
OVERHEAD_BYTES = (256 + argv.TRANSLATION_CACHE_MIB) << 20
MAX_TASKS = 128
COMPLAINT_BYTES = 64 * 1024
USR_LINKS = ("bin", "sbin", "lib", "lib64", "lib32", "libx32")


@dataclass(frozen=True)
class Files:
    """Descriptors of ours that the body gets. `layers` from the base upward."""

    tap: int
    memory: int
    kernel: int
    initramfs: int
    tools: int
    head: int
    head_read_only: int
    layers: Sequence[int] = ()
    incoming: int | None = None


@dataclass(frozen=True)
class Confinement:
    netns: str
    uid: int
    cgroups: Sequence[str]
    mark: str
    kvm: bool = False
    limits: Limits = field(default_factory=lambda: Limits(0, 0, 0))


def limits_of(shape: Shape) -> Limits:
    """Half a processor beside the guest's own, for I/O. The guest's memory counts twice: a page that it touches first
    comes to be in the base that is mapped (even one that was a hole there), then as the private copy, and the group of
    who touched it first is charged for both. With less, a guest that uses all its memory has its hypervisor killed."""
    return Limits(2 * (shape.memory_mib << 20) + OVERHEAD_BYTES, shape.cpus + 0.5, MAX_TASKS)


async def start(spawner: Spawner, plan: argv.BodyPlan, files: Files, run_folder: Path,
                confinement: Confinement) -> tuple[Body, int]:
    """Starts the body; answers it and the descriptor of its complaints (bounded: a sealed memory file).

    Raises StepFailed when it did not reach exec; then nothing runs.
    """
    with contextlib.ExitStack() as stack:
        passed = dict(_numbered(files))
        for number, name in ((argv.FD_QMP, "qmp.sock"), (argv.FD_AGENT, "agent.sock")):
            passed[number] = stack.enter_context(listening(run_folder / name)).fileno()
        nothing = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, nothing)
        complaints = bounded_file("complaints", COMPLAINT_BYTES)
        root = run_folder / "root"
        root.mkdir(exist_ok=True)
        try:
            body = await spawner.start(_jail(plan, confinement, root),
                                       {0: nothing, 1: complaints, 2: complaints, **passed})
        except BaseException:
            os.close(complaints)
            raise
    return body, complaints


def _numbered(files: Files) -> Iterator[tuple[int, int]]:
    yield argv.FD_TAP, files.tap
    yield argv.FD_MEMORY, files.memory
    yield argv.FD_KERNEL, files.kernel
    yield argv.FD_INITRAMFS, files.initramfs
    yield argv.FD_TOOLS, files.tools
    yield argv.FD_HEAD, files.head
    yield argv.FD_HEAD_READ_ONLY, files.head_read_only
    if files.incoming is not None:
        yield argv.FD_INCOMING, files.incoming
    for index, fd in enumerate(files.layers):
        yield argv.FD_FIRST_LAYER + index, fd


def _jail(plan: argv.BodyPlan, confinement: Confinement, root: Path) -> JailPlan:
    name, _, value = confinement.mark.partition("=")
    rlimits = {"RLIMIT_CORE": 0, "RLIMIT_NOFILE": 1024, "RLIMIT_MEMLOCK": 0, "RLIMIT_NPROC": MAX_TASKS}
    if not confinement.cgroups and confinement.limits.memory_bytes:
        rlimits["RLIMIT_AS"] = confinement.limits.memory_bytes + (4 << 30)
    return JailPlan(
        argv=argv.arguments(plan), env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", name: value},
        namespaces=["mnt", "pid", "ipc", "uts"], netns=confinement.netns, mounts=_view(root, confinement.kvm),
        root=str(root), hostname="berth", cgroups=confinement.cgroups, uid=confinement.uid, gid=confinement.uid,
        groups=[Path("/dev/kvm").stat().st_gid] if confinement.kvm else [], rlimits=rlimits, no_new_privs=True)


def _view(root: Path, kvm: bool) -> list[tuple[str, ...]]:
    """All that the hypervisor sees of the host: /usr read-only, its own /proc, three or four devices."""
    mounts: list[tuple[str, ...]] = [("tmpfs", str(root), "mode=0755,size=64k"), ("bind", "/usr", f"{root}/usr", "ro")]
    for name in USR_LINKS:
        at = Path("/") / name
        if at.is_symlink():
            mounts.append(("symlink", str(at.readlink()), f"{root}/{name}"))
        elif at.is_dir():
            mounts.append(("bind", str(at), f"{root}/{name}", "ro"))
    mounts.append(("bind", "/etc/ld.so.cache", f"{root}/etc/ld.so.cache", "ro"))
    for device in ("null", "zero", "urandom", *(("kvm",) if kvm else ())):
        mounts.append(("bind", f"/dev/{device}", f"{root}/dev/{device}", "dev"))
    mounts.append(("proc", f"{root}/proc"))
    return mounts
