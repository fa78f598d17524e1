"""What is remembered of one exec beside its output: who asked for what, and what became of it. Pure.

Made by execs, kept by `journal.py`. It holds the whole request, so that a start whose answer was never seen can be
repeated with the same id.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sandboxes.host.clock import seconds_of

Json = dict[str, Any]
TTY_BYTES = 6 * 1024 * 1024
#: A recording ends by itself there.
RECORDED_BYTES = 32 * 1024 * 1024
LATER = ("started", "stdin_sent", "killed_by", "output_from", "recording", "ended")


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
    #: The exec whose process this is, in a machine that went back in time or is another's clone.
    continued_from: str | None = None
    output_from: Json | None = None  # of a continued one: the guest's offsets at which this output begins
    #: Of a terminal: {"by", "since", "from", "until", "to"}; the last two are null while it goes on.
    recording: Json | None = None
    ended: Json | None = None      # {"outcome", "ended_at", "stdout_truncated", "stderr_truncated"}

    @property
    def is_tty(self) -> bool:
        return self.request.get("tty") is not None

    @property
    def limit_bytes(self) -> int:
        return int(self.request["max_output_bytes"])

    @property
    def promised_bytes(self) -> int:
        """How much output it may still leave on the host's disk."""
        if self.is_tty:
            return TTY_BYTES + (RECORDED_BYTES if self.recording else 0)
        return 2 * self.limit_bytes

    @property
    def is_recorded(self) -> bool:
        """Now."""
        return self.recording is not None and self.recording["to"] is None and self.ended is None

    @property
    def held_output(self) -> tuple[int, int | None] | None:
        return (self.recording["from"], self.recording["to"]) if self.recording else None

    @cached_property
    def request_bytes(self) -> int:
        """What the request holds in memory while it runs, about."""
        request, command = self.request, self.request["command"]
        words = [command] if isinstance(command, str) else command
        return sum(len(word) + 64 for word in (*words, request.get("stdin") or "", *request["env"].values()))

    @property
    def state(self) -> str:
        if self.ended is not None:
            return "ended"
        return "running" if self.started is not None else "starting"

    def asked(self) -> Json:
        """What is known when it is asked for; the rest of the fields are told later by `apply`."""
        return {"exec_id": self.exec_id, "seq": self.seq, "epoch": self.epoch, "request": self.request,
                "actor": self.actor, "asked_at": self.asked_at,
                **({"continued_from": self.continued_from} if self.continued_from else {})}

    def as_captured(self) -> Json:
        """What a capture keeps of an exec that runs in it: enough to make a record of its process' continuation."""
        return {"exec_id": self.exec_id, "request": {**self.request, "stdin": None}, "actor": self.actor,
                "started": self.started}

    def whole(self) -> Json:
        """Everything in one, as `Record(**…)` takes it."""
        return {**self.asked(), **{name: getattr(self, name) for name in LATER}}

    def apply(self, happened: Json) -> None:
        for name in LATER:
            if name in happened:
                setattr(self, name, happened[name])

    def public(self) -> Json:
        """The fields of the public contract, without output."""
        request, started, ended = self.request, self.started or {}, self.ended or {}
        return {
            "id": self.exec_id, "command": request["command"], "user": request["user"],
            "cwd": started.get("cwd") or request.get("cwd"), "tty": request.get("tty"), "state": self.state,
            "outcome": ended.get("outcome"), "continued_from": self.continued_from,
            "recording": self._public_recording(),
            "started_at": started.get("started_at"), "ended_at": ended.get("ended_at"),
            "duration_ms": _duration_ms(started.get("started_at"), ended.get("ended_at")),
            "stdout": None, "stderr": None, "stdout_truncated": bool(ended.get("stdout_truncated")),
            "stderr_truncated": bool(ended.get("stderr_truncated")), "actor": self.actor,
        }

    def _public_recording(self) -> Json | None:
        if self.recording is None:
            return None
        until = self.recording["until"] or (self.ended or {}).get("ended_at")
        return {"by": self.recording["by"], "since": self.recording["since"], "until": until}


def _duration_ms(started_at: str | None, ended_at: str | None) -> int | None:
    if started_at is None or ended_at is None:
        return None
    return max(0, round((seconds_of(ended_at) - seconds_of(started_at)) * 1000))
