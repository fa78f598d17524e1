"""Every process of one exec, found and signalled as a whole, whatever sessions and parents they gave themselves.

Made by `execs.py`, one `Tree` per exec. In the VM each exec has a cgroup v2 of its own, and the kernel knows its
members. Where there is none (the fake driver's host) the members are looked up in /proc: descendants, the session,
and whoever carries the exec's mark in its first environment; the agent is their subreaper, so none escapes upwards.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

MARK = "BERTH_EXEC_ID"


class CgroupTree:
    """The exec's own cgroup below the users' one."""

    def __init__(self, users: Path, exec_id: str) -> None:
        self._path = users / exec_id
        self._path.mkdir(exist_ok=True)
        #: What the exec's environment needs so that its members are found: nothing, the kernel knows them.
        self.environment: dict[str, str] = {}

    def open_entry(self) -> int:
        """A descriptor by which a child enters by writing "0"."""
        return os.open(self._path / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)

    def begin(self, pid: int) -> None:
        """Nothing to note: the child entered before it became anything."""

    def members(self) -> list[int]:
        """Also those of cgroups that somebody made below."""
        found: list[int] = []
        for folder, _, files in os.walk(self._path):
            if "cgroup.procs" in files:
                found += map(int, Path(folder, "cgroup.procs").read_text().split())
        return found

    def alive(self) -> bool:
        try:
            return "populated 1" in (self._path / "cgroup.events").read_text()
        except FileNotFoundError:
            return False

    def lingers(self) -> bool:
        """Whether its group cannot go yet, once the exec has."""
        return self.alive()

    def signal(self, number: int) -> None:
        _signal_all(self.members(), number)

    def kill(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self._path / "cgroup.kill").write_text("1")

    def remove(self) -> None:
        """Once it is empty. Below may be empty groups that a user made."""
        for folder, _, _ in os.walk(self._path, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()


class ProcTree:
    """The same by looking through /proc, for hosts without a cgroup v2 of ours.

    Only ever the agent's own descendants, so that a number used again by a stranger is never signalled.
    """

    _leaders: ClassVar[dict[int, ProcTree]] = {}

    def __init__(self, exec_id: str) -> None:
        self.environment = {MARK: exec_id}
        self._needle = f"{MARK}={exec_id}\0".encode()
        self._leader = 0

    def open_entry(self) -> int:
        return -1

    def begin(self, pid: int) -> None:
        former = self._leaders.get(pid)
        if former is not None:
            former._leader = 0
        self._leaders[pid] = self
        self._leader = pid

    def members(self) -> list[int]:
        processes = dict(_processes())
        ours = _descendants(processes, {os.getpid()}) - {os.getpid()}
        leader = self._leader or None
        found = {pid for pid in ours if leader in (pid, processes[pid][1]) or self._marked(pid)}
        return sorted(_descendants(processes, found))

    def alive(self) -> bool:
        return bool(self.members())

    def lingers(self) -> bool:
        return False

    def signal(self, number: int) -> None:
        _signal_all(self.members(), number)

    def kill(self) -> None:
        """Until none is left: a member may fork while the others are being killed."""
        for _ in range(50):
            members = self.members()
            if not members:
                return
            _signal_all(members, signal.SIGSTOP)
            _signal_all(members, signal.SIGKILL)

    def remove(self) -> None:
        if self._leaders.get(self._leader) is self:
            del self._leaders[self._leader]
        self._leader = 0

    def _marked(self, pid: int) -> bool:
        try:
            return self._needle in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False


Tree = CgroupTree | ProcTree


def _processes() -> Iterable[tuple[int, tuple[int, int]]]:
    """(pid, (parent, session)) of every process that is not a zombie."""
    for entry in Path("/proc").iterdir():
        name = entry.name
        if not name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text(errors="replace")
        except OSError:
            continue
        state, parent, _, session = stat.rpartition(")")[2].split()[:4]
        if state not in "ZX":
            yield int(name), (int(parent), int(session))


def _descendants(processes: dict[int, tuple[int, int]], roots: set[int]) -> set[int]:
    found, size = set(roots), -1
    while size != len(found):
        size = len(found)
        found |= {pid for pid, (parent, _) in processes.items() if parent in found}
    return found


def _signal_all(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
