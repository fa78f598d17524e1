"""Starts bodies that outlive hostd, through one small jail server (`jail.py`) instead of forking hostd itself.

Called by the drivers. hostd has threads and a large heap: forking it is slow and unsafe, and starting a fresh Python
for every body costs more than the jail. So one server is started on first use and asked over a socket; when it is
gone it is started again. Bodies do not notice: they are nobody's children but the reaper's (`bodies.py`).
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandboxes.errors import StepFailed
from sandboxes.linux.bodies import Body, become_reaper
from sandboxes.linux.processes import CLEAN_ENV, log_line

JAIL = Path(__file__).with_name("jail.py")


@dataclass(frozen=True)
class JailPlan:
    """What a body is started into. Field by field what `jail.py` reads; see there for the order of things."""

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=lambda: dict(CLEAN_ENV))
    cwd: str = "/"
    namespaces: Sequence[str] = ()
    netns: str = ""
    mounts: Sequence[Sequence[str]] = ()
    root: str = ""
    hostname: str = ""
    cgroups: Sequence[str] = ()
    uid: int = 0
    gid: int = 0
    groups: Sequence[int] = ()
    rlimits: Mapping[str, int] = field(default_factory=dict)
    no_new_privs: bool = False
    reaper: bool = False
    umask: int = 0o077

    def to_json(self, fds: Sequence[int]) -> bytes:
        body: dict[str, Any] = {key: value for key, value in vars(self).items() if value not in ("", None)}
        return json.dumps({**body, "env": dict(self.env), "rlimits": dict(self.rlimits), "fds": list(fds)}).encode()


class Spawner:
    def __init__(self) -> None:
        self._server: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    async def start(self, plan: JailPlan, fds: Mapping[int, int], *, timeout_s: float = 20.0) -> Body:
        """Starts a body; `fds` maps the number in the body to our descriptor. Returns once exec has happened.

        Raises StepFailed with what went wrong inside the jail; then no process is left.
        """
        log_line(plan.argv)
        read_end, write_end = os.pipe()
        try:
            self._send(plan.to_json(list(fds)), [*fds.values(), write_end])
        except BaseException:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        return _body(await _report(read_end, timeout_s))

    def _send(self, plan: bytes, fds: list[int]) -> None:
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
        try:
            self._connection().sendmsg([plan], ancillary)
        except (BrokenPipeError, ConnectionError):
            self.close()
            self._connection().sendmsg([plan], ancillary)

    def _connection(self) -> socket.socket:
        if self._socket is None or self._server is None or self._server.poll() is not None:
            self.close()
            become_reaper()
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            argv = [str(Path(sys.executable).resolve()), "-I", "-S", str(JAIL), str(theirs.fileno())]
            log_line(argv)
            self._server = subprocess.Popen(argv, pass_fds=(theirs.fileno(),), env=CLEAN_ENV, cwd="/",
                                            stdin=subprocess.DEVNULL, start_new_session=True)
            theirs.close()
        return self._socket

    def close(self) -> None:
        """Ends the server. Bodies stay."""
        if self._socket is not None:
            self._socket.close()
        if self._server is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._server.wait(5)
        self._socket = self._server = None


async def _report(read_end: int, timeout_s: float) -> list[dict[str, Any]]:
    """The lines of the report pipe up to its end of file, which is exec. A body that never gets there is killed."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", 0))
    lines: list[dict[str, Any]] = []
    try:
        async with asyncio.timeout(timeout_s):
            while line := await reader.readline():
                lines.append(json.loads(line))
    except BaseException as error:
        if body := _told(lines):
            await body.kill()
        if isinstance(error, TimeoutError):
            raise StepFailed(f"the jail did not reach exec within {timeout_s:g} s") from error
        raise
    finally:
        transport.close()
    return lines


def _told(lines: list[dict[str, Any]]) -> Body | None:
    pid = next((line["pid"] for line in lines if "pid" in line), None)
    return Body.of(pid) if pid else None


def _body(lines: list[dict[str, Any]]) -> Body:
    wrong = [line["error"] for line in lines if "error" in line]
    body = _told(lines)
    if wrong or body is None:
        if body is not None:
            body.bury()
        raise StepFailed(f"jail: {wrong[0] if wrong else 'the body ended before exec'}")
    return body
