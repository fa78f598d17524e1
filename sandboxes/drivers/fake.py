"""The driver without machines: the real guest agent as a host process over a real folder. For tests and for hosts
that cannot run machines at all; it isolates nothing, and says so (`isolation="process"`).

hostd calls it through `base.py`; it calls `linux/`. The body is a pid namespace whose first process reaps, with a
mount namespace in which /home/user, /tmp and the user table come from the machine's own disk folder. It never
knows execs or files: those are the agent's.

    home/disk/root/{home/user,tmp,etc/passwd,etc/group}   the "disk"
    home/run/agent.sock                                   where the agent listens
    home/driver/body.json                                 pid and start time of a body that may outlive hostd
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from sandboxes.drivers.base import Capabilities, Capture, Commit, MachineHome, OnStage, Still, Use, nothing
from sandboxes.drivers.records import (
    forget_body,
    mark,
    marked_bodies,
    note_body,
    note_start,
    recorded_body,
    recorded_machine_id,
)
from sandboxes.errors import AgentLost, Conflict, DiskFull
from sandboxes.linux import atomic
from sandboxes.linux.bodies import Body
from sandboxes.linux.names import instance_of
from sandboxes.linux.processes import ProcessFailed, run_blocking
from sandboxes.linux.space import reserved
from sandboxes.linux.spawner import JailPlan, Spawner
from sandboxes.spec import MachineSpec, Shape

USER_ID = 1000
USER_TABLE = ("root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000:user:/home/user:/bin/bash\n"
              "nobody:x:65534:65534::/:/bin/false\n")
GROUP_TABLE = "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n"
SCRATCH = "/tmp"  # noqa: S108 -- the machine's own, bound over the host's
SKELETON_BYTES = 1024 * 1024
CODE = Path(__file__).resolve().parents[2]


class FakeMachine:
    """A live body of the fake driver."""

    def __init__(self, home: MachineHome, body: Body) -> None:
        self.home = home
        self.body = body
        self.pid = body.pid
        self.agent_socket = home.run / "agent.sock"
        self.condition = ""
        self.namespace: Path | None = None

    async def wait_end(self) -> str:
        return await self.body.ended()

    async def kill(self) -> None:
        await self.body.kill()

    async def fit_disk(self, disk_gib: int) -> None:
        """A folder has no size of its own."""

    async def capture(self, into: Path, *, memory: bool = True, still: Still | None = None) -> Capture:
        if memory:
            raise _no_memory_images()
        async with still or contextlib.nullcontext():
            began = time.monotonic()
            await asyncio.to_thread(_copy_disk, self.home.disk, into)
        return Capture(into, (time.monotonic() - began) * 1000, 0, "")

    async def park(self, into: Path, commit: Commit, still: Still | None = None) -> Capture:
        raise _no_memory_images()


def _no_memory_images() -> Conflict:
    return Conflict("the fake driver keeps no memory images", code="no_memory_images", reason="no_memory_images")


class FakeDriver:
    def __init__(self, state_dir: Path) -> None:
        self.machines_dir = state_dir / "machines"
        self.instance = instance_of(state_dir)
        self._spawner = Spawner()

    async def capabilities(self) -> Capabilities:
        return Capabilities(driver="fake", version="1", accelerator="none", memory_images=False, templates=False,
                            isolation="process", cgroups="none", max_cpus=os.cpu_count() or 1,
                            why_not_kvm="the fake driver starts host processes, not machines")

    async def prepare(self, shape: Shape, on_stage: OnStage) -> None:
        """Nothing is shared between machines here."""

    async def create_disk(self, home: MachineHome, spec: MachineSpec) -> None:
        home.disk.mkdir(parents=True, exist_ok=True)
        root = home.disk / "root"
        if root.exists():
            return
        with reserved(home.disk, SKELETON_BYTES, f"the disk of {spec.machine_id}"):
            aside = home.disk / ".root.new"
            shutil.rmtree(aside, ignore_errors=True)
            _write_skeleton(aside)
            aside.rename(root)

    async def disk_used_bytes(self, home: MachineHome) -> int:
        folders = [home.disk, home.path / "checkpoints"]
        return sum([await asyncio.to_thread(_used_bytes, folder) for folder in folders])

    async def usage(self, capture_folder: Path) -> Use:
        return Use(await asyncio.to_thread(_used_bytes, capture_folder), 0)

    async def freeze(self, home: MachineHome, into: Path) -> Capture:
        await asyncio.to_thread(_copy_disk, home.disk, into)
        return Capture(into, 0.0, 0, "")

    async def adopt(self, home: MachineHome, capture_folder: Path, before_swap: Commit = nothing) -> None:
        home.disk.mkdir(parents=True, exist_ok=True)
        aside = home.disk / ".root.new"
        try:
            await asyncio.to_thread(_copy_root, capture_folder / "root", aside)
            await before_swap()
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        if (home.disk / "root").exists():
            atomic.exchange(aside, home.disk / "root")
        else:
            aside.rename(home.disk / "root")
        await asyncio.to_thread(shutil.rmtree, aside, True)

    async def tidy(self, home: MachineHome) -> None:
        await asyncio.to_thread(shutil.rmtree, home.disk / ".root.new", True)

    async def share(self, capture_folder: Path, into: Path, *, memory: bool) -> Capture:
        await asyncio.to_thread(_copy_disk, capture_folder, into)
        return Capture(into, 0.0, 0, "")

    async def fits(self, capture_folder: Path, spec: MachineSpec) -> str:
        return "memory_image_missing"

    async def depth(self, home: MachineHome) -> int:
        return 1 if (home.disk / "root").exists() else 0

    async def collapse(self, home: MachineHome, max_depth: int) -> int:
        return await self.depth(home)

    async def launch(self, home: MachineHome, spec: MachineSpec, on_stage: OnStage) -> FakeMachine:
        await self.release(home)
        on_stage("disk")
        await self.create_disk(home, spec)
        home.run.mkdir(parents=True, exist_ok=True)
        note_start(home, self.instance, spec.machine_id)
        try:
            on_stage("memory")
            body = await self._start(home, spec)
            note_body(home, body)
            on_stage("agent")
            machine = FakeMachine(home, body)
            await _appears(machine.agent_socket, body, timeout_s=20)
        except BaseException:
            await self.release(home)
            raise
        return machine

    async def _start(self, home: MachineHome, spec: MachineSpec) -> Body:
        console = os.open(home.run / "console.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        nothing = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        try:
            plan = _plan(home, spec, mark(self.instance, spec.machine_id))
            return await self._spawner.start(plan, {0: nothing, 1: console, 2: console})
        finally:
            os.close(console)
            os.close(nothing)

    async def resume(self, home: MachineHome, spec: MachineSpec, capture: Capture, on_stage: OnStage) -> FakeMachine:
        raise _no_memory_images()

    async def find(self, home: MachineHome) -> FakeMachine | None:
        body = recorded_body(home)
        if body is not None and body.alive():
            return FakeMachine(home, body)
        await self.release(home)
        return None

    async def release(self, home: MachineHome) -> None:
        body = recorded_body(home)
        if body is not None:
            if body.alive():
                await body.kill()
            body.bury()
        for name in ("agent.sock", "hold.sock"):
            (home.run / name).unlink(missing_ok=True)
        forget_body(home)

    async def destroy(self, home: MachineHome) -> None:
        await self.release(home)
        await asyncio.to_thread(shutil.rmtree, home.disk, True)
        shutil.rmtree(home.path / "driver", ignore_errors=True)

    async def strays(self, known: set[str]) -> list[str]:
        ended = []
        for path in sorted(self.machines_dir.glob("*/driver/body.json")):
            home = MachineHome(path.parent.parent)
            machine_id = recorded_machine_id(home)
            if machine_id and machine_id not in known:
                await self.release(home)
                ended.append(machine_id)
        for machine_id, body in marked_bodies(self.instance).items():
            if machine_id not in known:
                await body.kill()
                ended.append(machine_id)
        return ended

    async def close(self) -> None:
        self._spawner.close()


def _plan(home: MachineHome, spec: MachineSpec, body_mark: str) -> JailPlan:
    """The body's view: the host's own root, with the machine's folders over the personal ones.

    /mnt holds the run folder and /srv the code, because both may lie below what is masked.
    """
    root = home.disk / "root"
    interpreter, mounts = _interpreter()
    mounts += [
        ("bind", str(home.run), "/mnt", ""),
        ("bind", str(CODE), "/srv", "ro"),
        ("bind", str(root / "etc/passwd"), "/etc/passwd", "ro"),
        ("bind", str(root / "etc/group"), "/etc/group", "ro"),
        ("mask_keeping", "/home", "mode=0755,size=64k"),
        ("bind", str(root / "home/user"), "/home/user", ""),
        ("bind", str(root / "tmp"), SCRATCH, ""),
        ("proc", "/proc"),
    ]
    return JailPlan(
        argv=[interpreter, "-m", "sandboxes.guest.agent", "--fake", "--socket", "/mnt/agent.sock"],
        env={"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "PYTHONPATH": "/srv", "LC_ALL": "C.UTF-8",
             "PYTHONDONTWRITEBYTECODE": "1", **dict([body_mark.split("=", 1)])},
        namespaces=["mnt", "pid", "uts", "ipc"], mounts=mounts, hostname=spec.hostname, reaper=True, umask=0o022)


def _interpreter() -> tuple[str, list[tuple[str, ...]]]:
    """The host's own Python, reached through /media where it lies below what is masked."""
    interpreter, prefix = Path(sys.executable).resolve(), Path(sys.base_prefix).resolve()
    if not interpreter.is_relative_to(SCRATCH):
        return str(interpreter), []
    return str("/media" / interpreter.relative_to(prefix)), [("bind", str(prefix), "/media", "ro")]


def _write_skeleton(root: Path) -> None:
    for folder in ("home/user", "tmp", "etc"):
        (root / folder).mkdir(parents=True)
    (root / "etc/passwd").write_text(USER_TABLE)
    (root / "etc/group").write_text(GROUP_TABLE)
    (root / "tmp").chmod(0o1777)
    for name in ("passwd", "group"):  # whatever umask hostd has: users look their own names up
        (root / "etc" / name).chmod(0o644)
    with contextlib.suppress(PermissionError):
        os.chown(root / "home/user", USER_ID, USER_ID)


def _copy_disk(source: Path, into: Path) -> None:
    """A "layer" is a copy of the whole folder, whole or not there. Raises DiskFull before anything is left behind."""
    into.mkdir(parents=True, exist_ok=True)
    _copy_root(source / "root", into / "root")


def _copy_root(source: Path, into: Path) -> None:
    shutil.rmtree(into, ignore_errors=True)
    with reserved(into.parent, _used_bytes(source), "a copy of a disk"):
        try:
            run_blocking(["cp", "-a", "--reflink=auto", str(source), str(into)], timeout_s=600)
        except BaseException as error:
            shutil.rmtree(into, ignore_errors=True)
            if isinstance(error, ProcessFailed) and "No space left" in str(error):
                raise DiskFull(f"no space for a copy of a disk: {error}") from error
            raise


def _used_bytes(folder: Path) -> int:
    total = 0
    for path, _folders, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):
                total += (Path(path) / name).lstat().st_blocks * 512
    return total


async def _appears(socket_path: Path, body: Body, timeout_s: float) -> None:
    """Waits until the agent listens. Raises AgentLost when it died first or never did."""
    await until(lambda: _exists(socket_path), body, timeout_s)


async def _exists(path: Path) -> bool:
    return path.exists()


async def until(condition: Callable[[], Awaitable[bool]], body: Body, timeout_s: float) -> None:
    deadline = asyncio.get_running_loop().time() + timeout_s
    while not await condition():
        if not body.alive():
            raise AgentLost("the guest agent ended before it listened; its last words are in console.log")
        if asyncio.get_running_loop().time() > deadline:
            raise AgentLost(f"the guest agent did not listen within {timeout_s:g} s")
        await asyncio.sleep(0.02)
