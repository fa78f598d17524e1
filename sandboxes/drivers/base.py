"""The driver interface: what hostd asks of a way to run machines, and the facts a driver declares.

hostd (`sandboxes/host/`) calls it; `qemu/` and `fake.py` implement it; one contract suite holds both.
A caller asks for a fact (`capabilities.memory_images`), never for a driver's name. A driver never knows
workspaces, users, HTTP, or exec spools. It gives a *live machine* with a Unix socket behind which a guest
agent speaks `sandboxes/guest/protocol.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sandboxes.spec import MachineSpec, Shape

#: Told the name of each stage while it happens ("disk", "network", "memory", "agent"); must not block.
OnStage = Callable[[str], None]


@dataclass(frozen=True)
class Capabilities:
    """Facts about what machines can do here. Shown by `doctor`, the API's host record and the UI."""

    driver: str
    version: str
    accelerator: str              # "kvm", "tcg" or "none"
    memory_images: bool           # capture and resume with memory
    templates: bool               # a start is a resume
    isolation: str                # "microvm" or "process"
    cgroups: str                  # "v2", "v1", "rlimits" or "none"
    max_cpus: int
    why_not_kvm: str = ""         # empty when the accelerator is kvm


@dataclass(frozen=True)
class MachineHome:
    """One machine's folder on the host: `disk/`, `run/` and what the driver keeps of its own in `driver/`."""

    path: Path

    @property
    def disk(self) -> Path:
        return self.path / "disk"

    @property
    def run(self) -> Path:
        return self.path / "run"


@dataclass(frozen=True)
class Capture:
    """A point a machine can be resumed from. `folder` holds what only the driver understands."""

    folder: Path
    pause_ms: float
    memory_bytes: int
    fingerprint: str


class LiveMachine(Protocol):
    """A body that runs. It is not a child of hostd and outlives it."""

    pid: int
    agent_socket: Path
    #: "" or "host_disk_full": why the guest stands still though its body lives. It goes on by itself.
    condition: str

    async def wait_end(self) -> str:
        """Returns when the body is gone, with a reason word: "exited", "killed:SIGKILL", "unknown"."""

    async def kill(self) -> None:
        """Ends the body at once and returns when it is gone. Repeatable."""

    async def fit_disk(self, disk_gib: int) -> None:
        """Tells the guest's root device its real size (a template has a placeholder's)."""

    async def capture(self, into: Path) -> Capture:
        """Captures disk and memory at one instant; the machine goes on over a fresh head.

        The caller has quiesced the guest and its link if it wants `clean` consistency.
        """


class Driver(Protocol):
    async def capabilities(self) -> Capabilities:
        """Facts, measured once and cached for this boot of the host."""

    async def prepare(self, shape: Shape, on_stage: OnStage) -> None:
        """Makes what a start of this shape needs (the template). Idempotent; concurrent calls join."""

    async def create_disk(self, home: MachineHome, spec: MachineSpec) -> None:
        """Makes the root disk's writable head. Idempotent. Raises DiskFull before anything is half made."""

    async def disk_used_bytes(self, home: MachineHome) -> int: ...

    async def launch(self, home: MachineHome, spec: MachineSpec, on_stage: OnStage) -> LiveMachine:
        """A body in the state "agent waits, root not mounted". On any failure nothing of it is left."""

    async def resume(self, home: MachineHome, spec: MachineSpec, capture: Capture,
                     on_stage: OnStage) -> LiveMachine:
        """A body that goes on from a capture (fresh head over its layer). Raises Conflict when it does not fit."""

    async def find(self, home: MachineHome) -> LiveMachine | None:
        """The body that a former hostd left running, or None. Cleans what a dead body left (socket, netns, tap)."""

    async def release(self, home: MachineHome) -> None:
        """Takes down what belongs to a body that has ended: namespace, tap, cgroup, sockets. Repeatable."""

    async def destroy(self, home: MachineHome) -> None:
        """`release`, then the disk too. Repeatable."""

    async def strays(self, known: set[str]) -> list[str]:
        """Bodies, namespaces and taps of this instance whose machine_id is not in `known`: ended and named."""

    async def close(self) -> None: ...
