"""What a machine may reach, as its host is told: a document with a number that only grows. Pure; made by upstairs'
`networks`, handed through the hatch, read by steps.

A host that never was told anything refuses everything, so a machine that may reach nothing and never could needs no
telling (`revision` 0), and its start no round trip.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Network:
    revision: int = 0
    #: As `egress.policy.parse_document` reads it.
    document: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reaches_out(self) -> bool:
        """It is good for nothing on a host that lets nobody out."""
        return bool(self.revision) and self.document["policy"]["mode"] != "deny-all"


UNTOLD = Network()
