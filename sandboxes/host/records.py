"""What is remembered of one exec beside its output: `ID.rec`, JSON lines (asked, then what happened, at last the end).

Called by execs; calls the file system only. Each line is appended once and never changed; a line that hostd's
death cut short does not count. The first line holds the whole request (mode 0600), so that a start whose answer
was never seen can be repeated with the same id.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandboxes.host import durable
from sandboxes.host.clock import seconds_of

Json = dict[str, Any]
TTY_BYTES = 5 * 1024 * 1024


@dataclass
class Record:
    exec_id: str
    seq: int                       # order of creation on this machine
    epoch: int                     # incarnation of the machine that it runs in
    request: Json                  # the public body, checked
    actor: Json
    asked_at: str
    started: Json | None = None    # {"started_at", "cwd"?}
    stdin_sent: bool = False       # all of the request's text, and EOF, were taken by the guest
    killed_by: str | None = None
    ended: Json | None = None      # {"outcome", "ended_at", "stdout_truncated", "stderr_truncated"}
    _size: int = field(default=0, repr=False)
    _descriptor: int = field(default=-1, repr=False, compare=False)

    @property
    def is_tty(self) -> bool:
        return self.request.get("tty") is not None

    @property
    def limit_bytes(self) -> int:
        return int(self.request["max_output_bytes"])

    @property
    def promised_bytes(self) -> int:
        """How much output it may still leave on the host's disk."""
        return TTY_BYTES if self.is_tty else 2 * self.limit_bytes

    @property
    def state(self) -> str:
        if self.ended is not None:
            return "ended"
        return "running" if self.started is not None else "starting"

    def write(self, folder: Path) -> None:
        """The first line. Raises DiskFull with nothing left behind."""
        first = {"exec_id": self.exec_id, "seq": self.seq, "epoch": self.epoch, "request": self.request,
                 "actor": self.actor, "asked_at": self.asked_at}
        with durable.space_matters("an exec record"):
            self._open(folder, os.O_CREAT | os.O_EXCL)
        try:
            self._append(first)
        except BaseException:
            self.close()
            erase(folder, self.exec_id, is_tty=self.is_tty)
            raise

    def note(self, folder: Path, **happened: Any) -> None:
        """A later line: `started`, `stdin_sent`, `killed_by` or `ended`. On disk first, then true here."""
        if self._descriptor < 0:
            self._open(folder, 0)
        self._append(happened)
        self._apply(happened)

    def _open(self, folder: Path, flags: int) -> None:
        self._descriptor = os.open(_path(folder, self.exec_id), os.O_RDWR | os.O_CLOEXEC | flags, 0o600)

    def _append(self, line: Json) -> None:
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        durable.append_all(self._descriptor, data, self._size, "an exec record")
        self._size += len(data)

    def close(self) -> None:
        """Nothing more will happen to it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _apply(self, happened: Json) -> None:
        for name in ("started", "stdin_sent", "killed_by", "ended"):
            if name in happened:
                setattr(self, name, happened[name])

    def public(self) -> Json:
        """The fields of the public contract, without output."""
        request, started, ended = self.request, self.started or {}, self.ended or {}
        return {
            "id": self.exec_id, "command": request["command"], "user": request["user"],
            "cwd": request.get("cwd") or started.get("cwd"), "tty": request.get("tty"), "state": self.state,
            "outcome": ended.get("outcome"), "continued_from": None,
            "started_at": started.get("started_at"), "ended_at": ended.get("ended_at"),
            "duration_ms": _duration_ms(started.get("started_at"), ended.get("ended_at")),
            "stdout": None, "stderr": None, "stdout_truncated": bool(ended.get("stdout_truncated")),
            "stderr_truncated": bool(ended.get("stderr_truncated")), "actor": self.actor,
        }


def _duration_ms(started_at: str | None, ended_at: str | None) -> int | None:
    if started_at is None or ended_at is None:
        return None
    return max(0, round((seconds_of(ended_at) - seconds_of(started_at)) * 1000))


def read(folder: Path, exec_id: str) -> Record | None:
    """None when there is none, or when not even its first line was finished."""
    try:
        with open(_path(folder, exec_id), "rb") as file:  # noqa: PTH123 - text paths: this is the hot path
            data = file.read()
    except FileNotFoundError:
        return None
    whole = data[:data.rfind(b"\n") + 1]
    lines = [json.loads(line) for line in whole.splitlines()]
    if not lines:
        return None
    record = Record(**lines[0], _size=len(whole))
    for line in lines[1:]:
        record._apply(line)
    return record


def found_in(folder: Path) -> list[str]:
    return [path.stem for path in folder.glob("*.rec")]


def erase(folder: Path, exec_id: str, *, is_tty: bool, quiet: bool = False) -> None:
    """The record last: while it is there, its output is findable and will be erased. `quiet`: it had no output."""
    for name in () if is_tty or quiet else ("out", "err", "idx"):
        _unlink(f"{folder}/{exec_id}.{name}")
    for piece in folder.glob(f"{exec_id}.tty.*") if is_tty else ():
        piece.unlink(missing_ok=True)
    _unlink(_path(folder, exec_id))


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108 - as above


def _path(folder: Path, exec_id: str) -> str:
    return f"{folder}/{exec_id}.rec"
