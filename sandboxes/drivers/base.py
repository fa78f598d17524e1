"""The driver interface: what hostd asks of a way to run machines, and the facts a driver declares.

hostd (`sandboxes/host/`) calls it; `qemu/` and `fake.py` implement it; one contract suite holds both.
A caller asks for a fact (`capabilities.memory_images`), never for a driver's name. A driver never knows
workspaces, users, HTTP, or exec spools. It gives a *live machine* with a Unix socket behind which a guest
agent speaks `sandboxes/guest/protocol.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sandboxes.spec import MachineSpec, Shape

#: Told the name of each stage while it happens ("disk", "network", "memory", "agent"); must not block.
OnStage = Callable[[str], None]
#: What makes a prepared change true, called at the one moment when it may be; raises to call it off.
Commit = Callable[[], Awaitable[None]]
#: Entered when a machine is to stand still for a capture, left when it may go on.
Still = AbstractAsyncContextManager[object]
#: More files than this lie one upon another in no disk that a driver keeps in order (`collapse`).
DEEPEST = 16


async def nothing() -> None:
    """A commit that asks for nothing."""


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
    egress: bool = False          # a body has a network namespace of its own, by which egressd can let it out


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

    @property
    def standby(self) -> Path:
        """A capture. That it is there, complete, is what "parked" means; it comes and goes by one rename."""
        return self.path / "standby"

    def checkpoint(self, checkpoint_id: str) -> Path:
        return self.path / "checkpoints" / checkpoint_id


@dataclass(frozen=True)
class Capture:
    """A point a machine's disk can go back to, and (`memory_bytes` > 0) its memory, too. `folder` holds what only the
    driver understands. Layers are shared by hard link: who needs one has a name for it, and the last name frees it.
    """

    folder: Path
    pause_ms: float
    memory_bytes: int
    fingerprint: str


@dataclass(frozen=True)
class Use:
    """What a capture holds on the host's disk, by its own files: the layers below its topmost are other captures'."""

    disk_bytes: int
    memory_bytes: int


class LiveMachine(Protocol):
    """A body that runs. It is not a child of hostd and outlives it."""

    pid: int
    agent_socket: Path
    #: "" or "host_disk_full": why the guest stands still though its body lives. It goes on by itself.
    condition: str
    #: Its network namespace with the rules of `linux/doors.py` in force; None where it has none of its own.
    namespace: Path | None

    async def wait_end(self) -> str:
        """Returns when the body is gone, with a reason word: "exited", "killed:SIGKILL", "unknown"."""

    async def kill(self) -> None:
        """Ends the body at once and returns when it is gone. Repeatable."""

    async def fit_disk(self, disk_gib: int) -> None:
        """Tells the guest's root device its real size (a template has a placeholder's)."""

    async def capture(self, into: Path, *, memory: bool = True, still: Still | None = None) -> Capture:
        """Captures disk and memory (or the disk alone) at one instant; the machine goes on over a fresh head.

        `still` is entered when all that can be done beforehand is, and left as soon as the machine may go on: it
        quiesces the guest and its link for a caller who wants `clean` consistency. On failure the machine goes on.
        Where the capabilities deny memory images, memory is refused as Conflict, reason `no_memory_images`.
        """

    async def park(self, into: Path, commit: Commit, still: Still | None = None) -> Capture:
        """A capture after which the machine stands still; then `commit`; then the body is ended.

        `still` as above, but entered at once, beside all that can be done beforehand, and left at the end. When
        anything up to the commit's end fails, the machine goes on.
        """


class Driver(Protocol):
    async def capabilities(self) -> Capabilities:
        """Facts, measured once and cached for this boot of the host."""

    async def prepare(self, shape: Shape, on_stage: OnStage) -> None:
        """Makes what a start of this shape needs (the template). Idempotent; concurrent calls join."""

    async def create_disk(self, home: MachineHome, spec: MachineSpec) -> None:
        """Makes the root disk's writable head. Idempotent. Raises DiskFull before anything is half made."""

    async def disk_used_bytes(self, home: MachineHome) -> int:
        """Disk, standby and checkpoints together, each file once; not what all machines share."""

    # Without a body. Each of these is whole or did not happen.

    async def freeze(self, home: MachineHome, into: Path) -> Capture:
        """The disk as it is becomes a capture without memory; a fresh head opens over it."""

    async def adopt(self, home: MachineHome, capture_folder: Path, before_swap: Commit = nothing) -> None:
        """The disk becomes a fresh head over that capture's. A body that lives is ended by `before_swap`, which is
        called when nothing can fail any more but the swap itself.
        """

    async def tidy(self, home: MachineHome) -> None:
        """Takes away what a dead hostd had half made beside the disk. With a body or without."""

    async def share(self, capture_folder: Path, into: Path, *, memory: bool) -> Capture:
        """The same capture under a second name, with or without its memory. Costs no space."""

    async def fits(self, capture_folder: Path, spec: MachineSpec) -> str:
        """"" when that capture's memory can be resumed as this machine here, else the reason why not:
        `memory_image_missing`, `memory_image_unfit`. Damage shows when it is resumed."""

    async def usage(self, capture_folder: Path) -> Use: ...

    async def depth(self, home: MachineHome) -> int:
        """How many files lie one upon another in the disk, its base not counted. 0: no disk."""

    async def collapse(self, home: MachineHome, max_depth: int) -> int:
        """Shortens the disk's chain when it is deeper, by a new file; shared layers are never written. Answers the
        depth. With a body or without, and of a parked machine's standby, too."""

    async def launch(self, home: MachineHome, spec: MachineSpec, on_stage: OnStage) -> LiveMachine:
        """A body in the state "agent waits, root not mounted". On any failure nothing of it is left."""

    async def resume(self, home: MachineHome, spec: MachineSpec, capture: Capture,
                     on_stage: OnStage) -> LiveMachine:
        """A body that goes on from a capture (fresh head over its layer). Raises Conflict, with one of the reasons
        of `fits` or `memory_image_damaged`, before anything runs.
        """

    async def find(self, home: MachineHome) -> LiveMachine | None:
        """The body that a former hostd left running, or None. Cleans what a dead body left (socket, netns, tap). One
        that stands still because a capture was cut off goes on.
        """

    async def release(self, home: MachineHome) -> None:
        """Takes down what belongs to a body that has ended: namespace, tap, cgroup, sockets. Repeatable."""

    async def destroy(self, home: MachineHome) -> None:
        """`release`, then the disk too. Repeatable."""

    async def strays(self, known: set[str]) -> list[str]:
        """Bodies, namespaces and taps of this instance whose machine_id is not in `known`: ended and named."""

    async def close(self) -> None: ...
