"""What admins are answered, as frozen dataclasses. Made by `shape.read`; pure. Kept apart from `model`, which is for
everybody. `raw` is the whole object as it came."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from berth_client.model import at, raw
from berth_client.wire import Json


@dataclass(frozen=True)
class Host:
    id: str
    name: str = ""
    version: str = ""
    schedulable: bool = False
    draining: bool = False
    reachable: bool = False
    last_seen_at: datetime | None = at()
    capabilities: Json = field(default_factory=dict)
    capacity: Json = field(default_factory=dict)
    images: Json = field(default_factory=dict)
    machines: int = 0
    strays: list[Json] = field(default_factory=list)
    raw: Json = raw()


@dataclass(frozen=True)
class Person:
    """`active=False`: may not sign in, tokens are refused, workspaces rest. In `quota` None is no limit."""

    name: str
    active: bool = True
    is_admin: bool = False
    has_password: bool = False
    groups: list[str] = field(default_factory=list)
    created_at: datetime | None = at()
    last_sign_in_at: datetime | None = at()
    quota: dict[str, int | None] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    disk_used_bytes: int = 0
    raw: Json = raw()


@dataclass(frozen=True)
class Group:
    name: str
    people: int = 0
    raw: Json = raw()


@dataclass(frozen=True)
class Policy:
    """What is set for `default`, `group:NAME` or `user:NAME`; a term has a `value` and may have an `upper_bound`."""

    scope: str
    terms: Json = field(default_factory=dict)
    changed_at: datetime | None = at()
    changed_by: str | None = None
    raw: Json = raw()


@dataclass(frozen=True)
class EffectivePolicy:
    """What holds for one person, and which scope said so."""

    user: str
    terms: Json = field(default_factory=dict)
    raw: Json = raw()


@dataclass(frozen=True)
class DryRun:
    """What would go by itself, when, and why. Not `complete`: there is more than is listed."""

    results: list[Json] = field(default_factory=list)
    complete: bool = True
    raw: Json = raw()


@dataclass(frozen=True)
class AuditEntry:
    """One act, done or refused: `outcome` is ok, or the code it was refused with."""

    id: str
    kind: str
    outcome: str
    status: int = 0
    target: str | None = None
    actor: Json | None = None
    address: str | None = None
    at: datetime | None = at()
    data: Json = field(default_factory=dict)
    raw: Json = raw()
