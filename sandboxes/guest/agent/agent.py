"""The agent put together: loop, session, execs, and the table of methods. Made by `__main__`; holds no logic itself."""

from __future__ import annotations

from typing import Any

from sandboxes.guest.agent import VERSION
from sandboxes.guest.agent.clock import Resume
from sandboxes.guest.agent.connect import Connect
from sandboxes.guest.agent.execcalls import ExecCalls
from sandboxes.guest.agent.exectable import ExecTable
from sandboxes.guest.agent.filecalls import FileCalls
from sandboxes.guest.agent.holds import Holds
from sandboxes.guest.agent.loop import Loop
from sandboxes.guest.agent.machine import ATTACHED, Machine
from sandboxes.guest.agent.metrics import metrics
from sandboxes.guest.agent.ports import Ports
from sandboxes.guest.agent.poweroff import Shutdown
from sandboxes.guest.agent.quiesce import Quiesce
from sandboxes.guest.agent.session import Session
from sandboxes.guest.agent.spawn import Spawner
from sandboxes.guest.agent.streams import Stream
from sandboxes.guest.agent.work import Work
from sandboxes.guest.agent.world import USERS_CGROUP, Attach, Entry, Root
from sandboxes.guest.protocol import GENERATION

WAITS = {"exec.start", "exec.output", "exec.stdin", "exec.signal", "exec.resize", "exec.kill", "port.connect"}


class Agent:
    """`real` is the agent of a machine; without it the one of a host's folder (`--fake`)."""

    def __init__(self, machine: Machine, spawner: Spawner, real: bool) -> None:
        self.loop = Loop()
        self.machine = machine
        self.table = ExecTable(self.loop, spawner)
        if real:
            self.table.users_cgroup = USERS_CGROUP
        self.execs = ExecCalls(machine, self.table)
        self.files = FileCalls(self.loop, machine)
        self.holds = Holds(self.loop)
        self.session = Session(self._methods(real), self.info, machine.refuse_epoch, self._must_wait)

    def _methods(self, real: bool) -> dict[str, Any]:
        quiesce = Quiesce(self.loop, self.machine, real, lambda: self.session.make_held_calls())
        ports = Ports(own_only=not real)
        return {
            "ping": ping, "metrics": metrics, "work": Work(self.holds, real, ports),
            "port.list": ports.listing, "port.connect": Connect(self.loop, self.machine, ports),
            "resume": Resume(self.machine, real, quiesce.thaw_disk),
            "attach": Attach(self.machine, Entry(self.machine) if real else _already_there),
            "quiesce": quiesce.quiesce, "thaw": quiesce.thaw,
            "shutdown": Shutdown(self.loop, self.machine, self.table, real),
            **self.execs.methods(), **self.files.methods(),
        }

    def _must_wait(self, method: str) -> bool:
        """What would start something or touch a file, and what may speak of an exec whose start waits."""
        return self.machine.quiesced and (method in WAITS or method.startswith("file."))

    def info(self) -> dict[str, Any]:
        return {"agent_version": VERSION, "protocol": GENERATION, "boot_id": self.machine.boot_id,
                "state": self.machine.state, "execs": self.execs.listing()}

    def end_predecessors(self) -> None:
        """What a former agent of this machine started: its pipes broke with it and nobody can say how it will end, so
        the host calls it lost. It must not go on unseen."""
        if self.machine.state == ATTACHED:
            for group in USERS_CGROUP.iterdir():
                if group.is_dir():
                    (group / "cgroup.kill").write_text("1")


def ping(_stream: Stream, _params: dict[str, Any]) -> dict[str, Any]:
    return {}


def _already_there(_root: Root) -> None:
    """The fake driver's mount namespace is the machine's world."""
