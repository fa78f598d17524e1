"""Limits for one body: cgroup v2 where `cgroup.controllers` offers cpu and memory, else v1, else rlimits.

Called by the drivers and `doctor`. Groups are made below hostd's own group, never above it: whoever confined hostd
confined its machines. Reads and writes the cgroup file system alone.

    own group ─┬─ berth-INSTANCE ─┬─ MACHINE     limits here; the jail writes itself into cgroup.procs
               └─ berth-hostd     └─ …           (v2 only: hostd steps aside, inner groups may hold no process)
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from dataclasses import dataclass
from pathlib import Path

KIB = 1024
PERIOD_US = 100_000
V1_CONTROLLERS = ("memory", "cpu", "pids")


@dataclass(frozen=True)
class Limits:
    memory_bytes: int
    cpus: float
    tasks: int


@dataclass(frozen=True)
class Hierarchy:
    """Where groups can be made: `kind` is "v2", "v1" or "rlimits"; `own` maps a controller to hostd's own folder."""

    kind: str
    own: dict[str, Path]
    why: str = ""


def _mounts() -> list[tuple[Path, str, set[str]]]:
    found = []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _source, where, kind, options, *_ = line.split(" ")
        if kind in ("cgroup", "cgroup2"):
            found.append((Path(where), kind, set(options.split(","))))
    return found


def _own_paths() -> dict[str, str]:
    """Controller -> our path in its hierarchy; "" is v2."""
    paths: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _number, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            paths[controller] = path.lstrip("/")
    return paths


def detect() -> Hierarchy:
    """What this host offers, by trying nothing and reading everything."""
    mounts, paths = _mounts(), _own_paths()
    why = []
    for where, kind, _options in mounts:
        if kind == "cgroup2":
            offered = set((where / "cgroup.controllers").read_text().split())
            if {"cpu", "memory"} <= offered:
                return Hierarchy("v2", {"": where / paths.get("", "")})
            why.append(f"v2 at {where} offers {' '.join(sorted(offered)) or 'nothing'}")
    own = {}
    for controller in V1_CONTROLLERS:
        for where, kind, options in mounts:
            if kind == "cgroup" and controller in options:
                own[controller] = where / paths.get(controller, "")
    if {"cpu", "memory"} <= set(own):
        return Hierarchy("v1", own, "; ".join(why))
    return Hierarchy("rlimits", {}, "; ".join(why) or "no cgroup file system is mounted")


class Groups:
    """The groups of one instance's machines."""

    def __init__(self, instance: str, hierarchy: Hierarchy | None = None) -> None:
        self.instance = instance
        self.hierarchy = hierarchy or detect()
        self._stepped_aside = False

    def create(self, machine_id: str, limits: Limits) -> list[str]:
        """Makes the machine's groups with their limits; answers the cgroup.procs files that the jail writes to."""
        try:
            if self.hierarchy.kind == "v2":
                return [self._create_v2(machine_id, limits)]
            return [self._create_v1(name, machine_id, limits) for name in self.hierarchy.own]
        except OSError as error:
            self.hierarchy = Hierarchy("rlimits", {}, f"{self.hierarchy.kind}: {error}")
            return []

    def _folder(self, controller: str, machine_id: str) -> Path:
        return self.hierarchy.own[controller] / f"berth-{self.instance}" / machine_id

    def _create_v1(self, controller: str, machine_id: str, limits: Limits) -> str:
        folder = self._folder(controller, machine_id)
        folder.mkdir(parents=True, exist_ok=True)
        if controller == "memory":
            (folder / "memory.limit_in_bytes").write_text(str(limits.memory_bytes))
        elif controller == "cpu":
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (folder / "cpu.cfs_quota_us").write_text(str(int(limits.cpus * PERIOD_US)))
        elif controller == "pids":
            (folder / "pids.max").write_text(str(limits.tasks))
        return str(folder / "cgroup.procs")

    def _create_v2(self, machine_id: str, limits: Limits) -> str:
        folder = self._folder("", machine_id)
        if not self._stepped_aside:
            self._step_aside(self.hierarchy.own[""])
        folder.mkdir(parents=True, exist_ok=True)
        _delegate(folder.parent)
        (folder / "memory.max").write_text(str(limits.memory_bytes))
        (folder / "cpu.max").write_text(f"{int(limits.cpus * PERIOD_US)} {PERIOD_US}")
        if (folder / "pids.max").exists():
            (folder / "pids.max").write_text(str(limits.tasks))
        return str(folder / "cgroup.procs")

    def _step_aside(self, own: Path) -> None:
        """A v2 group with controllers for its children holds no process itself; the root is exempt."""
        try:
            _delegate(own)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            leaf = own / "berth-hostd"
            leaf.mkdir(exist_ok=True)
            for pid in (own / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    (leaf / "cgroup.procs").write_text(pid)
            _delegate(own)
        self._stepped_aside = True

    async def delete(self, machine_id: str) -> None:
        """Removes the machine's groups; its processes have ended. Repeatable."""
        for controller in self.hierarchy.own:
            folder = self._folder(controller, machine_id)
            await _remove(folder)
            with contextlib.suppress(OSError):
                folder.parent.rmdir()

    def machines(self) -> set[str]:
        found: set[str] = set()
        for controller in self.hierarchy.own:
            folder = self._folder(controller, "x").parent
            if folder.is_dir():
                found |= {entry.name for entry in folder.iterdir() if entry.is_dir()}
        return found


def _delegate(folder: Path) -> None:
    wanted = {"cpu", "memory", "pids"} & set((folder / "cgroup.controllers").read_text().split())
    missing = wanted - set((folder / "cgroup.subtree_control").read_text().split())
    if missing:
        (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(missing)))


async def _remove(folder: Path, timeout_s: float = 2.0) -> None:
    """The kernel lets go of a dead process a moment after its end: EBUSY until then."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY or asyncio.get_running_loop().time() > deadline:
                return
            await asyncio.sleep(0.01)
        else:
            return
