"""`./berth up`: all set-up that is missing, then serve until Ctrl-C (or, detached, until `./berth down`).

Calls prepare, roster and supervisor. One instance is one flock on `run/instance.lock`; it travels to the
detached process by descriptor, so nobody slips in between.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from typing import IO

from ops import down, logs, pids, prepare, probes, programs, say
from ops.instance import DATA_PATH_LIMIT, ROOT, Instance, from_environment
from ops.roster import STOP_ORDER, services
from ops.say import SetupFailed, line
from ops.supervisor import Supervisor

DETACHED_WITHIN_S = 300.0
WARM_WITHIN_S = 120.0


def up(host: str | None, port: int | None, detach: bool) -> int:
    instance = from_environment(host, port)
    refuse_impossible(instance)
    instance.make_folders()
    lock = take_instance(instance)
    if lock is None:
        return already_up(instance)
    if not probes.port_is_free(instance.host, instance.port):
        raise SetupFailed(f"port {instance.port} on {instance.host} is in use by another program; "
                          "choose one: ./berth up --port N")
    instance.remember_address()
    prepare.everything(instance)
    if detach:
        return serve_detached(instance, lock)
    return serve(instance)


def refuse_impossible(instance: Instance) -> None:
    if os.geteuid() != 0:
        raise SetupFailed("`up` runs as root: it makes network namespaces, and gives every machine a user of its own.")
    if len(str(instance.data)) > DATA_PATH_LIMIT:
        raise SetupFailed(f"BERTH_DATA is too long for Unix sockets below it (at most {DATA_PATH_LIMIT} characters).")


def take_instance(instance: Instance) -> IO[str] | None:
    """The lock of this data folder, or None when a running `up` holds it."""
    lock = (instance.run / "instance.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def already_up(asked: Instance) -> int:
    running = from_environment()
    line(f"Berth already runs from {running.data}; stop it with: ./berth down. "
         "A second instance needs its own BERTH_DATA and --port.")
    if (asked.host, asked.port) != (running.host, running.port):
        return 1
    say_where(running)
    return 0


def serve(instance: Instance, detached: bool = False) -> int:
    """In this process, until asked to stop. Detached, the parent says how to sign in: a code belongs in no log."""
    down.end_leftovers(instance)
    supervisor = Supervisor(instance, services(instance))
    supervisor.listen()
    pids.write(instance.run / "supervisor.pid", os.getpid())
    try:
        start_all(supervisor)
        if not (supervisor.stopping or detached):
            say_where(instance)
            line("Ctrl-C stops it; workspaces shut down cleanly first.")
        supervisor.watch()
    except KeyboardInterrupt:
        line("Stopping without waiting for machines.")
    finally:
        stop_all(supervisor)
    return 0


def start_all(supervisor: Supervisor) -> None:
    """Everything starts at once and each retries what it needs; readiness is waited for in order."""
    instance = supervisor.instance
    with say.quick("broker and host"):
        supervisor.start(["redis", "egressd", "hostd"])
        supervisor.wait_ready("redis")
        supervisor.wait_ready("egressd")
        supervisor.wait_ready("hostd")
    with say.quick("web"):
        supervisor.start([name for name in supervisor.children if name not in ("redis", "egressd", "hostd")])
        programs.manage(instance, "berth_host")
        supervisor.wait_ready("daphne")
        supervisor.wait_ready("gateway")
    with say.quick("machine template"):
        wait_warm(supervisor)


def wait_warm(supervisor: Supervisor) -> None:
    """Returns when the default shape's template is made (once per host and image, some 10 s), or soon if it is not:
    then the first start makes it, or says why not."""
    deadline = time.monotonic() + WARM_WITHIN_S
    while time.monotonic() < deadline and not supervisor.stopping:
        supervisor.look()
        try:
            _, host = probes.request(supervisor.instance.hostd_socket, "GET", "/v1/host")
        except OSError:
            host = {"default_template": "warming"}  # hostd is being started again
        if not isinstance(host, dict) or host.get("default_template") != "warming":
            return
        time.sleep(0.1)


def stop_all(supervisor: Supervisor) -> None:
    instance = supervisor.instance
    supervisor.stopping = True
    supervisor.stop(STOP_ORDER, before={"worker": lambda: down.drain(instance)})
    (instance.run / "supervisor.pid").unlink(missing_ok=True)
    line("Berth is down.")


def serve_detached(instance: Instance, lock: IO[str]) -> int:
    """Starts this module's `serve` in a session of its own and waits until the public port is healthy."""
    with logs.open_for(instance.log, "supervisor") as out:
        process = subprocess.Popen([sys.executable, "-m", "ops", "serve", "--host", instance.host, "--port",
                                    str(instance.port)], cwd=ROOT, env=instance.environment(),
                                   stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                                   pass_fds=[lock.fileno()])
    with say.quick("start"):
        wait_healthy(instance, process)
    say_where(instance)
    return 0


def wait_healthy(instance: Instance, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + DETACHED_WITHIN_S
    while probes.status((instance.connect_host, instance.port), "/healthz") != 200:
        if process.poll() is not None:
            raise SetupFailed(f"it ended while starting:\n{logs.tail(instance.log, 'supervisor', 40)}")
        if time.monotonic() > deadline:
            process.send_signal(signal.SIGTERM)
            raise SetupFailed(f"not healthy after {DETACHED_WITHIN_S:g} s:\n"
                              f"{logs.tail(instance.log, 'supervisor', 40)}")
        time.sleep(0.2)


def say_where(instance: Instance) -> None:
    """The URL, and how to sign in for the first time; `berth_admin` knows whether an admin is there."""
    code, text = programs.manage_stdout(instance, "berth_admin", "--at", instance.url)
    print(f"Berth is up at {instance.url}")
    if code == 0 and text.strip():
        print(text.strip())
    sys.stdout.flush()
