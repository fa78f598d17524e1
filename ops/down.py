"""`./berth down`: machines shut down cleanly with their intent kept, then every process ends, in order, by pid.

A living supervisor does it (TERM to it, and its log is shown); when it is gone, this module does the same from
the pid files. Afterwards it looks for what should not be left: QEMU processes, namespaces, taps of this instance.
"""

from __future__ import annotations

import signal
import time

from ops import hostside, pids, programs, say
from ops.instance import Instance, from_environment
from ops.roster import STOP_ORDER, services
from ops.say import SetupFailed, line

SUPERVISOR_WITHIN_S = 180.0


def down() -> int:
    instance = from_environment()
    supervisor = pids.read(instance.run / "supervisor.pid")
    if supervisor is not None:
        follow_supervisor(instance, supervisor)
    elif any(pids.read(instance.run / f"{name}.pid") for name in STOP_ORDER):
        line("The supervisor is gone; ending what it left.")
        drain(instance)
        end_leftovers(instance)
    else:
        line("Nothing runs here.")
    return report_left(instance)


def follow_supervisor(instance: Instance, supervisor: pids.Process) -> None:
    """Asks it to stop and shows its log meanwhile."""
    log = instance.log / "supervisor.log"
    seen = log.stat().st_size if log.exists() else 0
    supervisor.signal(signal.SIGTERM)
    deadline = time.monotonic() + SUPERVISOR_WITHIN_S
    gone = False
    while not gone:
        gone = pids.wait_gone(supervisor, 0.3)
        seen = show_from(instance, seen)
        if time.monotonic() > deadline:
            line("The supervisor does not end; ending it and the processes it left.")
            pids.end(supervisor, 0)
            end_leftovers(instance)


def show_from(instance: Instance, seen: int) -> int:
    try:
        with (instance.log / "supervisor.log").open("rb") as log:
            log.seek(seen)
            new = log.read()
    except OSError:
        return seen
    if new:
        line(new.decode(errors="replace").rstrip("\n"))
    return seen + len(new)


def drain(instance: Instance) -> None:
    """Every running machine shuts down cleanly; what was wanted stays wanted, so the next `up` starts it again."""
    try:
        with say.quick("workspaces shut down") as note:
            programs.manage(instance, "berth_drain", on_line=note)
    except SetupFailed as failed:
        line(f"not every workspace shut down cleanly: {failed}")


def end_leftovers(instance: Instance) -> None:
    """Ends processes of this instance that nobody supervises (a supervisor that was killed)."""
    grace = {service.name: service.grace_s for service in services(instance)}
    for name in STOP_ORDER:
        file = instance.run / f"{name}.pid"
        process = pids.read(file)
        if process is not None:
            line(f"ending {name} (pid {process.pid}), left by a former run")
            pids.end(process, grace[name])
        file.unlink(missing_ok=True)


def report_left(instance: Instance) -> int:
    left = hostside.left(instance)
    for what in left:
        line(f"still here: {what}")
    return 1 if left else 0
