"""What this host has, what is spoken for, and whether one more machine fits. Called by boot and `/v1/host`.

Memory may be spoken for up to `MEMORY_OVERCOMMIT` times what the host has (machines share their template's pages),
processors up to `CPU_OVERCOMMIT` times. A reserve of the disk is never given to new machines: exec output and the
host itself live on it. Beside it each body has room for its whole memory, so that it can be put to rest whatever others
wrote meanwhile: where that room is not there, it does not begin to run.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sandboxes.drivers.base import Capabilities
from sandboxes.errors import DiskFull, NoCapacity
from sandboxes.host.machines import Machines
from sandboxes.linux import space
from sandboxes.spec import MachineSpec

MEMORY_OVERCOMMIT = float(os.environ.get("BERTH_MEMORY_OVERCOMMIT", "1.5"))
CPU_OVERCOMMIT = float(os.environ.get("BERTH_CPU_OVERCOMMIT", "16"))
HOST_KEEPS_MIB = 512
RESERVE_SHARE = 0.05
RESERVE_BYTES = 2 * 1024**3


def cpus() -> int:
    return len(os.sched_getaffinity(0))


def memory_mib() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1024**2


def disk_free_bytes(folder: Path) -> int:
    """Without the reserve: what new machines may still take."""
    disk = os.statvfs(folder)
    reserve = min(int(disk.f_blocks * disk.f_frsize * RESERVE_SHARE), RESERVE_BYTES)
    return max(0, disk.f_bavail * disk.f_frsize - reserve - space.promised_bytes(folder))


def standby_bytes(spec: MachineSpec, capabilities: Capabilities) -> int:
    """What a body of it may have to write when it is put to rest."""
    return spec.shape.memory_mib << 20 if capabilities.memory_images else 0


def used(machines: Machines) -> dict[str, int]:
    """Spoken for by bodies that live or are being made."""
    shapes = dict(machines.reserved)
    for machine_id in machines.bodies:
        spec = machines.registry.find(machine_id).spec
        if spec is not None:
            shapes[machine_id] = (spec.shape.cpus, spec.shape.memory_mib)
    return {"cpus": sum(shape[0] for shape in shapes.values()), "machines": len(shapes),
            "memory_mib": sum(shape[1] for shape in shapes.values())}


def admit(machines: Machines, spec: MachineSpec, standby_bytes: int) -> None:
    """Raises NoCapacity or DiskFull, with the figures, before anything is made."""
    spoken = used(machines)
    allowed_mib = int((memory_mib() - HOST_KEEPS_MIB) * MEMORY_OVERCOMMIT)
    if spoken["memory_mib"] + spec.shape.memory_mib > allowed_mib:
        raise NoCapacity(f"{spec.shape.memory_mib} MiB do not fit: {spoken['memory_mib']} of {allowed_mib} are taken")
    allowed_cpus = int(cpus() * CPU_OVERCOMMIT)
    if spoken["cpus"] + spec.shape.cpus > allowed_cpus:
        raise NoCapacity(f"{spec.shape.cpus} cpus do not fit: {spoken['cpus']} of {allowed_cpus} are taken")
    admit_disk(machines.state, standby_bytes)


def admit_disk(folder: Path, standby_bytes: int = 0) -> None:
    left = disk_free_bytes(folder)
    if left <= 0:
        raise DiskFull("only the host's reserve of disk space is left")
    if left < standby_bytes:
        raise DiskFull(f"to be put to rest it may need {standby_bytes >> 20} MiB; the host has {left >> 20} to give")


async def host(machines: Machines, version: str, images: dict[str, str]) -> dict[str, Any]:
    """The host record of the seam."""
    capabilities = await machines.driver.capabilities()
    facts = {name: getattr(capabilities, name) for name in capabilities.__dataclass_fields__}
    facts["egress"] = capabilities.egress and machines.way_out.egress is not None
    return {
        "version": version, "capabilities": facts,
        "capacity": {"cpus": cpus(), "memory_mib": memory_mib(), "disk_free_bytes": disk_free_bytes(machines.state),
                     "disk_promised_bytes": space.promised_bytes(machines.state)},
        "used": used(machines), "images": images, "feed_seq": machines.feed.seq,
    }
