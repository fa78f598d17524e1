"""The one way to start a process in `sandboxes/`: a list of arguments, one log line that can be pasted, a deadline.

Called by everything below `sandboxes/` that needs a program of the host (qemu-img, ip, mke2fs…). Calls the
operating system alone. Never a shell, never a string to split. A body that must outlive hostd is started by
`spawner.py`, which logs through `log_line` here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shlex
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger("berth.processes")

#: What a program of the host gets to see. Nothing of hostd's own environment, which may carry secrets.
CLEAN_ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}


@dataclass(frozen=True)
class Completed:
    argv: tuple[str, ...]
    code: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        return self.stdout.decode("utf-8", "replace")

    @property
    def complaint(self) -> str:
        """The last thing the program said about what went wrong, short enough for an error's detail."""
        return self.stderr.decode("utf-8", "replace").strip()[-600:]


class ProcessFailed(Exception):
    """A program of the host ended with an error, did not start, or did not end in time."""

    def __init__(self, argv: Sequence[str], complaint: str, code: int | None) -> None:
        super().__init__(f"{argv[0]} failed ({'no exit' if code is None else code}): {complaint}")
        self.argv = tuple(argv)
        self.complaint = complaint
        self.code = code


def log_line(argv: Sequence[str]) -> str:
    """The command as a line that can be pasted into a shell, and so it is logged."""
    line = shlex.join(argv)
    log.info("%s", line)
    return line


def _started(argv: Sequence[str]) -> tuple[str, ...]:
    log_line(argv)
    return tuple(argv)


def _judge(done: Completed, ok: Sequence[int]) -> Completed:
    if done.code not in ok:
        raise ProcessFailed(done.argv, done.complaint, done.code)
    return done


async def run(argv: Sequence[str], *, timeout_s: float = 60.0, stdin: bytes = b"", ok: Sequence[int] = (0,),
              env: Mapping[str, str] | None = None, pass_fds: Sequence[int] = ()) -> Completed:
    """Runs a program to its end. Raises ProcessFailed on another exit than `ok`, or past `timeout_s` (killed).

    Without input it gets none, not an empty pipe: on a busy host a short program has ended before that is written to.
    """
    line = _started(argv)
    try:
        process = await asyncio.create_subprocess_exec(
            *line, stdin=subprocess.PIPE if stdin else subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, pass_fds=tuple(pass_fds), start_new_session=True,
            env=dict(CLEAN_ENV if env is None else env))
    except OSError as error:
        raise ProcessFailed(argv, str(error), None) from error
    try:
        async with asyncio.timeout(timeout_s):
            out, err = await process.communicate(stdin or None)
    except TimeoutError as error:
        raise ProcessFailed(argv, f"no end within {timeout_s:g} s", None) from error
    finally:
        if process.returncode is None:
            await _end(process)
    return _judge(Completed(line, process.returncode or 0, out, err), ok)


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, 9)
    await process.wait()


@dataclass(frozen=True)
class Talking:
    """A program that is spoken with while it runs."""

    process: asyncio.subprocess.Process
    stdout: asyncio.StreamReader

    async def say(self, data: bytes) -> None:
        """Raises ConnectionError when it has ended."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        await self.process.stdin.drain()


@contextlib.asynccontextmanager
async def talking(argv: Sequence[str], *, pass_fds: Sequence[int] = ()) -> AsyncIterator[Talking]:
    """A program whose answers are read as they come. It is killed when the caller leaves, however that happens."""
    line = _started(argv)
    try:
        process = await asyncio.create_subprocess_exec(
            *line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=tuple(pass_fds),
            start_new_session=True, env=dict(CLEAN_ENV))
    except OSError as error:
        raise ProcessFailed(argv, str(error), None) from error
    assert process.stdout is not None
    try:
        yield Talking(process, process.stdout)
    finally:
        if process.returncode is None:
            await _end(process)


def run_blocking(argv: Sequence[str], *, timeout_s: float = 60.0, stdin: bytes = b"", ok: Sequence[int] = (0,),
                 env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Completed:
    """`run` for callers without an event loop (the image build, doctor)."""
    line = _started(argv)
    try:
        done = subprocess.run(line, input=stdin, capture_output=True, timeout=timeout_s, check=False, cwd=cwd,
                              start_new_session=True, env=dict(CLEAN_ENV if env is None else env))
    except OSError as error:
        raise ProcessFailed(argv, str(error), None) from error
    except subprocess.TimeoutExpired as error:
        raise ProcessFailed(argv, f"no end within {timeout_s:g} s", None) from error
    return _judge(Completed(line, done.returncode, done.stdout, done.stderr), ok)
