"""What the server answers, as frozen dataclasses. Made by `shape.read`; pure. `raw` is the whole object as it came.

Sizes carry their unit; times are aware datetimes; what was not sent is None.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from berth_client.outcome import Exited, Outcome, read_outcome
from berth_client.shape import each, instant, of, read
from berth_client.wire import Json


def at(said: str | None = None) -> Any:
    return field(default=None, metadata={"read": instant, **({"said": said} if said else {})})


def raw() -> Any:
    return field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Actor:
    """Who did it. `type` is user, token or system."""

    type: str
    name: str
    raw: Json = raw()


@dataclass(frozen=True)
class Transition:
    """What will happen by itself, when, and by which rule."""

    to: str
    because: str = ""
    at: datetime | None = at()
    raw: Json = raw()


@dataclass(frozen=True)
class Workspace:
    id: str
    name: str
    state: str
    state_reason: str | None = None
    owner: str = ""
    role: str | None = None
    image: str = ""
    cpus: int = 0
    memory_mib: int = 0
    disk_gib: int = 0
    disk_used_bytes: int | None = None
    gpu: Json | None = None
    env: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    idle: Json = field(default_factory=dict)
    network: Json = field(default_factory=dict)
    secrets: list[Json] = field(default_factory=list)
    approvals: Json = field(default_factory=dict)
    created_at: datetime | None = at()
    last_activity_at: datetime | None = at()
    last_activity_kind: str | None = None
    next_transition: Transition | None = field(default=None, metadata={"read": of(Transition)})
    purge_at: datetime | None = at()
    head_checkpoint: str | None = None
    forked_from: Json | None = None
    host: str | None = None
    accelerator: str | None = None
    preview_url_template: str = ""
    raw: Json = raw()

    def preview_url(self, port: int) -> str:
        return self.preview_url_template.replace("{port}", str(port))

    @property
    def safety_checkpoint(self) -> str | None:
        """Of a restore's answer: the checkpoint that undoes it."""
        return self.raw.get("safety_checkpoint")

    @property
    def waits_for_approval(self) -> bool:
        """Of the answer to a restore or a delete: a member is asked first; nothing was done yet."""
        return self.approval is not None

    @property
    def approval(self) -> Approval | None:
        said = self.raw.get("approval")
        return None if said is None else read(Approval, said)


@dataclass(frozen=True)
class Checkpoint:
    id: str
    name: str
    state: str
    comment: str = ""
    kind: str = "manual"
    state_reason: str | None = None
    actor: Actor | None = field(default=None, metadata={"read": of(Actor)})
    memory: bool = False
    memory_usable: bool = False
    consistency: str | None = None
    parent: str | None = None
    created_at: datetime | None = at()
    disk_bytes: int | None = None
    memory_bytes: int | None = None
    pause_ms: float | None = None
    expires_at: datetime | None = at()
    raw: Json = raw()


@dataclass(frozen=True)
class Change:
    """One path of a diff: `change` is added, modified, removed or type."""

    path: str
    change: str
    path_encoded: str = ""
    size_before: int | None = None
    size_after: int | None = None
    raw: Json = raw()


@dataclass(frozen=True)
class Exec:
    """A command. Its output is bytes; `stdout` and `stderr` are the text of it, with U+FFFD for what is none."""

    id: str
    command: str | list[str]
    state: str
    user: str = ""
    cwd: str | None = None
    outcome: Outcome | None = field(default=None, metadata={"read": read_outcome})
    continued_from: str | None = None
    started_at: datetime | None = at()
    ended_at: datetime | None = at()
    duration_ms: float | None = None
    stdout_bytes: bytes = field(default=b"", repr=False, metadata={"said": "stdout_b64", "read": base64.b64decode})
    stderr_bytes: bytes = field(default=b"", repr=False, metadata={"said": "stderr_b64", "read": base64.b64decode})
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    actor: Actor | None = field(default=None, metadata={"read": of(Actor)})
    raw: Json = raw()

    @property
    def stdout(self) -> str:
        return (self.stdout_bytes or b"").decode(errors="replace")

    @property
    def stderr(self) -> str:
        return (self.stderr_bytes or b"").decode(errors="replace")

    @property
    def ended(self) -> bool:
        return self.state == "ended"

    @property
    def exit_code(self) -> int | None:
        """What it exited with; None when it did not exit by itself, or not yet."""
        return self.outcome.code if isinstance(self.outcome, Exited) else None

    @property
    def ok(self) -> bool:
        return self.exit_code == 0


@dataclass(frozen=True)
class Chunk:
    """A piece of an exec's output. `stream` is stdout or stderr; `next_offset` is where a later reader goes on."""

    stream: str
    data: bytes
    offset: int
    next_offset: int


@dataclass(frozen=True)
class Ended:
    """The last thing that a followed exec says."""

    outcome: Outcome


@dataclass(frozen=True)
class File:
    """A path in the guest. `path` is text with U+FFFD for what is none, `path_encoded` is exact."""

    path: str
    type: str
    path_encoded: str = ""
    size: int | None = None
    mode: str | None = None
    owner: str | None = None
    group: str | None = None
    mtime: datetime | None = at()
    etag: str | None = None
    target: str | None = None
    raw: Json = raw()

    @property
    def is_folder(self) -> bool:
        return self.type in ("directory", "dir", "folder")


@dataclass(frozen=True)
class Written:
    path: str
    size: int
    etag: str
    path_encoded: str = ""
    raw: Json = raw()


@dataclass(frozen=True)
class Match:
    """A line that holds what was searched for; `column` counts bytes."""

    line: int
    column: int
    text: str
    raw: Json = raw()


@dataclass(frozen=True)
class Found(File):
    """What a search found; `cut` when only its beginning was searched."""

    matches: tuple[Match, ...] = field(default=(), metadata={"read": each(Match)})
    cut: bool = False


@dataclass(frozen=True)
class Unpacked:
    """How much of an archive is there now: all of it."""

    entries: int
    bytes: int
    path: str = ""
    raw: Json = raw()


@dataclass(frozen=True)
class Event:
    """`seq` has no gaps within a workspace."""

    seq: int
    kind: str
    actor: Actor = field(metadata={"read": of(Actor)})
    at: datetime | None = at()
    cause: str | None = None
    data: Json = field(default_factory=dict)
    raw: Json = raw()


@dataclass(frozen=True)
class Hold:
    id: str
    reason: str
    source: str = field(default="api", metadata={"said": "from"})
    actor: Actor | None = field(default=None, metadata={"read": of(Actor)})
    created_at: datetime | None = at()
    expires_at: datetime | None = at()
    raw: Json = raw()


@dataclass(frozen=True)
class Token:
    """`secret` is there once: in the answer that made it. It is in no repr."""

    id: str
    name: str
    hint: str = ""
    scopes: list[str] = field(default_factory=list)
    workspace_ids: list[str] | None = None
    created_at: datetime | None = at()
    expires_at: datetime | None = at()
    last_used_at: datetime | None = at()
    secret: str | None = field(default=None, repr=False)
    raw: Json = raw()


@dataclass(frozen=True)
class Me:
    name: str
    is_admin: bool = False
    actor: Actor | None = field(default=None, metadata={"read": of(Actor)})
    scopes: list[str] = field(default_factory=list)
    quota: Json = field(default_factory=dict)
    used: Json = field(default_factory=dict)
    raw: Json = raw()


@dataclass(frozen=True)
class Port:
    """Something in the guest listens there; `reachable` by previews and tunnels, which come from 127.0.0.1."""

    port: int
    address: str | None = None
    protocol: str = "tcp"
    reachable: bool = True
    process: str | None = None
    pid: int | None = None
    user: str | None = None
    raw: Json = raw()




@dataclass(frozen=True)
class Member:
    """`reason` and `expires_at` are of an admin who broke the glass."""

    user: str
    role: str
    added_at: datetime | None = at()
    added_by: str | None = None
    reason: str | None = None
    expires_at: datetime | None = at()
    raw: Json = raw()


@dataclass(frozen=True)
class Approval:
    """An act of a token that waits, or waited, for a member. `request` says what is to be done, `result` what came of
    it. `state` is pending, approved, denied, expired or withdrawn."""

    id: str
    kind: str
    state: str
    workspace: str = ""
    actor: Actor | None = field(default=None, metadata={"read": of(Actor)})
    pattern: str | None = None
    exec: str | None = None
    request: Json = field(default_factory=dict)
    created_at: datetime | None = at()
    expires_at: datetime | None = at()
    decided_at: datetime | None = at()
    decided_by: Actor | None = field(default=None, metadata={"read": of(Actor)})
    result: Json = field(default_factory=dict)
    raw: Json = raw()


@dataclass(frozen=True)
class Share:
    """A port's address for others. `token` is there once."""

    url: str
    token: str | None = field(default=None, repr=False)
    expires_at: datetime | None = at()
    raw: Json = raw()
