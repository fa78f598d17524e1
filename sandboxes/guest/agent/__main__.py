"""Starts the agent: without arguments in a machine, with `--fake --socket PATH` on a host. Started by the tools disk's
init, or by the fake driver. What the agent is made of is imported after the zygote, which stays small for it."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

from sandboxes.guest.agent.spawn import Spawner

KEPT_AT = Path("/run/berth-agent/machine.json")
OPEN_FILES = 65536
PORT_DEADLINE_S = 30.0
LEAST_LIKELY_KILLED = "-900"


def main(argv: list[str]) -> None:
    if not argv:
        _in_machine()
    elif argv[:2] == ["--fake", "--socket"] and len(argv) == 3:
        _on_host(argv[2])
    else:
        sys.exit("usage: python -m sandboxes.guest.agent [--fake --socket PATH]")


def _on_host(socket_path: str) -> None:
    os.umask(0o022)
    spawner = Spawner()
    from sandboxes.guest.agent import syscalls
    from sandboxes.guest.agent.agent import Agent
    from sandboxes.guest.agent.machine import Machine
    from sandboxes.guest.agent.port import SocketListener
    syscalls.adopt_orphans()
    _many_files()
    agent = Agent(Machine(), spawner, real=False)
    agent.holds.serve(str(Path(socket_path).with_name("hold.sock")))
    SocketListener(agent.loop, agent.session, socket_path)
    agent.loop.run()


def _in_machine() -> None:
    os.umask(0o022)
    spawner = Spawner()
    from sandboxes.guest.agent import holds, syscalls, world
    from sandboxes.guest.agent.agent import Agent
    from sandboxes.guest.agent.machine import Machine
    from sandboxes.guest.agent.port import Pipe
    syscalls.name_process("berth-agent")
    KEPT_AT.parent.mkdir(mode=0o700, exist_ok=True)
    Path("/proc/self/oom_score_adj").write_text(LEAST_LIKELY_KILLED)
    _many_files()
    world.prepare()
    agent = Agent(Machine(KEPT_AT), spawner, real=True)
    agent.holds.serve(holds.SOCKET)
    agent.end_predecessors()
    agent.session.announce()
    Pipe(agent.loop, agent.session, _await_port())
    agent.loop.run()


def _many_files() -> None:
    """Each exec holds three, each level of a walked tree one."""
    import resource
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        most = max(most, OPEN_FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _await_port() -> int:
    """The kernel may still be adding the port's device."""
    from sandboxes.guest.agent import devices
    deadline = time.monotonic() + PORT_DEADLINE_S
    while True:
        try:
            return os.open(devices.virtio_port(), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


if __name__ == "__main__":
    main(sys.argv[1:])
