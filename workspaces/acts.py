"""What the audit is told of one act: a plain value. Made by the gateway and by Django's middleware, kept by `audit`.
Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from workspaces.actors import Actor

OK = "ok"


@dataclass(frozen=True)
class Act:
    """`actor` is None for somebody nobody knows. `outcome`: ok, or the code of the refusal."""

    kind: str
    target: str = ""
    outcome: str = OK
    status: int = 0
    actor: Actor | None = None
    address: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    at: datetime | None = None
