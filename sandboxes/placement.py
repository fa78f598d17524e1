"""Which host takes a new machine. Pure: asked by plans/steps with what was last heard of each host."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sandboxes.errors import HostUnreachable, NoCapacity
from sandboxes.spec import Shape


@dataclass(frozen=True)
class HostFacts:
    host_id: str
    schedulable: bool
    heard_of_lately: bool
    max_cpus: int
    free_memory_mib: int
    images: frozenset[str] = field(default_factory=frozenset)


def choose(hosts: Iterable[HostFacts], shape: Shape, image: str) -> str:
    """The host with the most free memory that fits. Raises NoCapacity or HostUnreachable, saying why."""
    everyone = list(hosts)
    if not everyone:
        raise NoCapacity("no host is registered")
    open_hosts = [h for h in everyone if h.schedulable]
    if not open_hosts:
        raise NoCapacity("every host is closed for new machines")
    awake = [h for h in open_hosts if h.heard_of_lately]
    if not awake:
        raise HostUnreachable("no host has been heard of lately")
    fitting = [h for h in awake if _fits(h, shape, image)]
    if not fitting:
        raise NoCapacity(f"no host fits {shape.cpus} cpus, {shape.memory_mib} MiB and the image {image!r}")
    return max(fitting, key=lambda h: (h.free_memory_mib, h.host_id)).host_id


def beside(hosts: Iterable[HostFacts], host_id: str, shape: Shape, image: str) -> str:
    """The one host that has what is to be shared (a checkpoint's layers), if it takes another machine of this shape.
    Raises NoCapacity or HostUnreachable."""
    there = [h for h in hosts if h.host_id == host_id]
    if there and not there[0].schedulable:
        raise NoCapacity("the host that keeps the checkpoint is closed for new machines")
    return choose(there, shape, image)


def _fits(host: HostFacts, shape: Shape, image: str) -> bool:
    return (shape.cpus <= host.max_cpus and shape.memory_mib <= host.free_memory_mib
            and (image in host.images or not host.images))
