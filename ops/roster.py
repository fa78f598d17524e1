"""The processes of one instance, in the order they start: what each is, when it is ready, how it ends.

Read by the supervisor (all of it), `down` and `status` (the names). Pure but for the readiness probes.

    redis ── egressd ── hostd ── worker ── beat ── courier ── daphne ── gateway (the public port)
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ops import probes
from ops.instance import Instance

PYTHON = sys.executable


@dataclass(frozen=True)
class Service:
    name: str
    argv: list[str]
    #: True when the process does its work; a process without a probe counts as ready while it lives.
    ready: Callable[[], bool] = lambda: True
    #: How long it may take to end after TERM.
    grace_s: float = 10


def services(instance: Instance) -> list[Service]:
    return [
        Service("redis", _redis(instance), lambda: probes.redis_answers(instance.redis_socket)),
        Service("egressd", [PYTHON, "-m", "sandboxes.egress", "--socket", str(instance.egress_socket)],
                lambda: probes.listens(instance.egress_socket)),
        Service("hostd", [PYTHON, "-m", "sandboxes.host", "--state", str(instance.host_state), "--socket",
                          str(instance.hostd_socket), "--images", str(instance.images), "--driver", instance.driver,
                          "--egress", str(instance.egress_socket)],
                lambda: probes.status(instance.hostd_socket, "/v1/host") == 200),
        Service("worker", _celery("worker", "--pool=threads", "--concurrency=8", "--without-gossip",
                                  "--without-mingle", "--without-heartbeat", "--loglevel=INFO"), grace_s=15),
        Service("beat", _celery("beat", "--loglevel=INFO", f"--schedule={instance.run / 'beat-schedule'}",
                                "--pidfile=")),
        Service("courier", [PYTHON, "manage.py", "courier"]),
        Service("daphne", [_script("daphne"), "--unix-socket", str(instance.daphne_socket), "--verbosity", "0",
                           "workspaces.config.asgi:application"],
                lambda: probes.status(instance.daphne_socket, "/") is not None),
        Service("gateway", [PYTHON, "-m", "workspaces.gateway", "--host", instance.host, "--port",
                            str(instance.port)],
                lambda: probes.status((instance.connect_host, instance.port), "/healthz") == 200),
    ]


#: The public door closes first, so that nothing is woken while the rest ends; the broker goes last.
STOP_ORDER = ("gateway", "beat", "courier", "worker", "daphne", "hostd", "egressd", "redis")


def _redis(instance: Instance) -> list[str]:
    """A broker on a Unix socket alone. Its log of writes survives a restart, so no queued task is lost."""
    return ["redis-server", "--port", "0", "--unixsocket", str(instance.redis_socket), "--unixsocketperm", "700",
            "--dir", str(instance.data / "redis"), "--appendonly", "yes", "--appendfsync", "everysec",
            "--save", "", "--daemonize", "no", "--maxmemory-policy", "noeviction"]


def _celery(command: str, *arguments: str) -> list[str]:
    return [_script("celery"), "-A", "workspaces.config.celery", command, *arguments]


def _script(name: str) -> str:
    """A program of this virtual environment."""
    return str(Path(sys.executable).parent / name)
