"""Names of things on the host that two Berths on one machine share a name space for: network namespaces, cgroups.

Called by netns, cgroups and the drivers. Pure.
"""

from __future__ import annotations

import hashlib
from pathlib import Path


def instance_of(state_dir: Path) -> str:
    """A short word that is the same for the same state folder and differs between two."""
    return hashlib.sha256(str(state_dir.resolve()).encode()).hexdigest()[:8]


def netns_name(instance: str, machine_id: str) -> str:
    return f"berth-{instance}-{machine_id}"


def machine_of_netns(instance: str, name: str) -> str | None:
    prefix = f"berth-{instance}-"
    return name.removeprefix(prefix) if name.startswith(prefix) else None
