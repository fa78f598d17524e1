"""Starts the agent: `python -m sandboxes.guest.agent` in the VM, with `--fake --socket PATH` on a host.

Wires loop, port, session and calls together; holds no logic of its own.
"""

from __future__ import annotations

import sys
from typing import Any

from sandboxes.guest.agent import VERSION, syscalls
from sandboxes.guest.agent.clock import Resume
from sandboxes.guest.agent.execcalls import ExecCalls
from sandboxes.guest.agent.exectable import ExecTable
from sandboxes.guest.agent.loop import Loop
from sandboxes.guest.agent.machine import Machine
from sandboxes.guest.agent.port import SocketListener
from sandboxes.guest.agent.session import Session
from sandboxes.guest.agent.streams import Stream
from sandboxes.guest.agent.world import Attach
from sandboxes.guest.protocol import GENERATION


class Agent:
    def __init__(self, machine: Machine, real: bool) -> None:
        self.loop = Loop()
        self.machine = machine
        self.table = ExecTable(self.loop)
        self.execs = ExecCalls(machine, self.table)
        self.session = Session(self.methods(real), self.info, machine.refuse_epoch)

    def methods(self, real: bool) -> dict[str, Any]:
        return {
            "ping": ping, "resume": Resume(self.machine, real), "attach": Attach(self.machine, lambda _params: None),
            **self.execs.methods(),
        }

    def info(self) -> dict[str, Any]:
        return {"agent_version": VERSION, "protocol": GENERATION, "boot_id": self.machine.boot_id,
                "state": self.machine.state, "execs": self.execs.listing()}


def ping(_stream: Stream, _params: dict[str, Any]) -> dict[str, Any]:
    return {}


def main(argv: list[str]) -> None:
    if argv[:2] != ["--fake", "--socket"] or len(argv) != 3:
        sys.exit("usage: python -m sandboxes.guest.agent [--fake --socket PATH]")
    syscalls.adopt_orphans()
    agent = Agent(Machine(), real=False)
    SocketListener(agent.loop, agent.session, argv[2])
    agent.loop.run()


if __name__ == "__main__":
    main(sys.argv[1:])
