"""What a machine is asked to be: frozen values that travel between upstairs, hostd and the drivers.

Called by everybody, calls nobody. Pure: stdlib only, no I/O. Nothing here knows who owns a machine;
`machine_id` is an opaque word (upstairs uses the workspace's id) and `generation` is a fencing number
that only grows.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Shape:
    """The part of a machine that decides which template fits it. Not the image, not the disk's size."""

    cpus: int = 1
    memory_mib: int = 512
    machine: str = "microvm"

    @property
    def key(self) -> str:
        """A word safe in file names, e.g. ``microvm-1c-512m``."""
        return f"{self.machine}-{self.cpus}c-{self.memory_mib}m"


@dataclass(frozen=True)
class MachineSpec:
    """Everything hostd needs to give a machine a body."""

    machine_id: str
    generation: int
    shape: Shape = field(default_factory=Shape)
    image: str = "default"
    disk_gib: int = 10
    hostname: str = "workspace"
    env: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> MachineSpec:
        """Unknown fields are ignored, so that a newer control plane can talk to an older hostd."""
        known = {k: data[k] for k in MachineSpec.__dataclass_fields__ if k in data}
        if isinstance(known.get("shape"), dict):
            known["shape"] = Shape(**known["shape"])
        return MachineSpec(**known)


@dataclass(frozen=True)
class ImageSet:
    """The files of one built guest image. All read-only once built; `fingerprint` names their content."""

    kernel: Path
    initramfs: Path
    tools_disk: Path
    root_disk: Path
    fingerprint: str

    @property
    def boot_fingerprint(self) -> str:
        """What a template depends on: kernel, initramfs and tools disk, never the root disk."""
        return self.fingerprint.split(":", 1)[0]
