"""Programs of the product that start by a fork of a process which has loaded what they import.

Called by the stacks and hostds of tests. Loading Django or aiohttp costs a processor a second or two, and a run of the
tests starts hundreds of programs; a fork costs nothing. What runs is the product's own module, as `python -m` runs it.
The nursery itself opens no database, no socket, no event loop and no thread, so that its children share nothing.

Run as a program: `python -m tests.forking NURSERY`, a request in JSON by line, an answer in JSON by line; it ends with
its input.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


class Nursery:
    """One process with everything loaded; its children by `start`."""

    def __init__(self, kind: str, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen([sys.executable, "-m", "tests.forking", kind], cwd=ROOT, text=True,
                                         env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._one = threading.Lock()

    def ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        with self._one:
            print(json.dumps(request), file=self._process.stdin, flush=True)
            return dict(json.loads(self._process.stdout.readline()))

    def start(self, module: str, arguments: Sequence[str], environment: Mapping[str, str], out: Path,
              err: Path | None = None) -> Forked:
        """`python -m MODULE ARGUMENTS…`; what it says is appended to the files."""
        begun = self.ask(module=module, arguments=list(arguments), environment=dict(environment), out=str(out),
                         err=str(err or out))
        return Forked(self, begun["pid"])

    def run(self, module: str, arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str, str]:
        """(exit code, stdout, stderr)."""
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            code = self.start(module, arguments, environment, out, err).wait(120)
            return code, out.read_text(), err.read_text()

    def end(self) -> None:
        self._process.communicate(timeout=60)


class Forked:
    """As much of `subprocess.Popen` as tests use."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self.pid, self.returncode = pid, None
        self._nursery = nursery
        self._one = threading.Lock()
        self._gone = os.pidfd_open(pid)  # it is not reaped before we ask, so the number is its own

    returncode: int | None

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return code

    def _ended(self, timeout_s: float | None) -> int | None:
        with self._one:
            if self.returncode is None and self._is_over(timeout_s):
                self.returncode = self._nursery.ask(reap=self.pid)["code"]
                os.close(self._gone)
            return self.returncode

    def _is_over(self, timeout_s: float | None) -> bool:
        waiting = select.poll()
        waiting.register(self._gone, select.POLLIN)
        return bool(waiting.poll(None if timeout_s is None else timeout_s * 1000))

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            signal.pidfd_send_signal(self._gone, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


_hosts: dict[int, Nursery] = {}


def hostd(module: str, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> Forked:
    """A hostd out of this process' one nursery of hostds."""
    mine = _hosts.get(os.getpid()) or _hosts.setdefault(os.getpid(), Nursery("hostd", os.environ))
    return mine.start(module, arguments, environment, log)


# the nursery's own side

#: What the product's programs import before they begin. Neither Daphne's own modules nor the ASGI application: loading
#: those makes an event loop.
PRODUCT = ("workspaces.config.urls", "workspaces.config.celery", "workspaces.tasks", "workspaces.courier",
           "workspaces.gateway.app", "workspaces.gateway.server", "sandboxes.host.__main__", "channels.routing",
           "celery.bin.celery", "celery.apps.worker", "celery.apps.beat", "celery.concurrency.thread",
           "kombu.transport.redis", "twisted.web.http", "autobahn.twisted.websocket",
           "django.core.management.commands.migrate")


def load(kind: str) -> None:
    if kind == "product":
        import django

        django.setup()
        for name in PRODUCT:
            importlib.import_module(name)
        return
    import sandboxes.host.__main__  # noqa: F401

    # What it imports from elsewhere stays; the product's modules read their environment when they are loaded.
    for name in [name for name in sys.modules if name.split(".")[0] in ("sandboxes", "tests") and name != "__main__"]:
        del sys.modules[name]


def serve(kind: str) -> None:
    load(kind)
    gc.freeze()  # its children look through none of it
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(reaped(request["reap"]) if "reap" in request else begun(request)), flush=True)


def reaped(pid: int) -> dict[str, int]:
    _, status = os.waitpid(pid, 0)
    return {"code": os.waitstatus_to_exitcode(status)}


def begun(request: dict[str, Any]) -> dict[str, int]:
    pid = os.fork()
    if pid == 0:
        become(request)
    return {"pid": pid}


def become(request: dict[str, Any]) -> None:
    """The program, in a process of its own, which never returns here."""
    code = 1
    try:
        os.setsid()
        out, err = (os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) for name in ("out", "err"))
        for kept, place in ((os.open(os.devnull, os.O_RDONLY), 0), (out, 1), (err, 2)):
            os.dup2(kept, place)
        os.closerange(3, 64)
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.argv = [request["module"], *request["arguments"]]
        runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
