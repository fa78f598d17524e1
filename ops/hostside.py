"""What this instance has on the machine besides its own processes: bodies of machines, network namespaces.

Called by `down` (nothing may be left) and `status`. Reads the process table and `ip netns`; changes nothing.
"""

from __future__ import annotations

import subprocess

from ops.instance import Instance
from ops.pids import Process
from sandboxes.drivers import records
from sandboxes.linux import names


def bodies(instance: Instance) -> dict[str, Process]:
    """Living bodies by machine id; the drivers mark each with the instance's word."""
    found = records.marked_bodies(names.instance_of(instance.host_state))
    return {machine_id: Process(body.pid, body.start_ticks) for machine_id, body in found.items()}


def namespaces(instance: Instance) -> list[str]:
    word = names.instance_of(instance.host_state)
    try:
        listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return []
    known = [line.split()[0] for line in listed.splitlines() if line.strip()]
    return [name for name in known if names.machine_of_netns(word, name) is not None]


def left(instance: Instance) -> list[str]:
    """What should not be there once the instance is down; each as a line for a person."""
    return [*(f"machine {machine_id} (pid {process.pid})" for machine_id, process in bodies(instance).items()),
            *(f"network namespace {name}" for name in namespaces(instance))]
