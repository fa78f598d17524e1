"""What the server says of networks, as frozen dataclasses. Read by `acts.network`; pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from berth_client.model import at, raw
from berth_client.wire import Json


@dataclass(frozen=True)
class Network:
    """`network` is what `set` takes; the rest is what bounds it."""

    network: Json
    revision: int = 0
    in_force: bool = False
    supported: bool = True
    bound: Json | None = None
    private_allowed: list[str] = field(default_factory=list)
    limits: Json = field(default_factory=dict)
    raw: Json = raw()


@dataclass(frozen=True)
class Attempt:
    """One connection that ended, or was refused; `reason` says why it was."""

    seq: int
    verdict: str
    at: datetime | None = at()
    name: str | None = None
    address: str | None = None
    port: int = 0
    protocol: str = "tcp"
    rule: str = ""
    reason: str = ""
    bytes_in: int = 0
    bytes_out: int = 0
    ms: int = 0
    count: int = 1
    raw: Json = raw()
