"""What of a hostd's machines is left behind on this host, of every kind, seen from outside. For tests that kill things.

Called after a failure, once all is settled. It reads hostd's own records for what is meant to be there, and the kernel
and the folders for what is; a word for each thing that is there and not meant to be.

    processes    that carry a machine's mark         overlays       disk files that no chain names
    namespaces   by name                             memory files   of a machine that is not parked or running
    taps         outside of every namespace          user ids, groups, sockets, folders that do not count
    leases       upstairs' rows: `leases_left`
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sandboxes.drivers.records import marked_bodies
from sandboxes.linux import netns, taps
from sandboxes.linux.cgroups import Groups
from sandboxes.linux.names import instance_of

LIVE = {"starting", "running", "stopping"}
SETTLED_WITHIN_S = 60.0


async def nothing_remains(state: Path, said: object = "", but: str | None = None) -> None:
    """Once nothing does; fails with what is still there. An answer may come before the end of what ends behind it: a
    park is answered when nothing can be lost any more, and its body goes after that. What holds `but` is let be."""
    deadline = time.monotonic() + SETTLED_WITHIN_S
    while found := [what for what in still_there(state) if but is None or but not in what]:
        assert time.monotonic() < deadline, (found, said)
        await asyncio.sleep(0.02)


def still_there(state: Path) -> list[str]:
    try:
        return remains(state)
    except FileNotFoundError as gone:  # it went while it was looked at
        return [f"{gone.filename} is going"]


def remains(state: Path) -> list[str]:
    """Empty when nothing is there that should not be."""
    phases = {path.parent.name: json.loads(path.read_text())["phase"] for path in state.glob("records/*/machine.json")}
    live = {machine_id for machine_id, phase in phases.items() if phase in LIVE}
    found = [*of_bodies(state, live)]
    for home in sorted((state / "machines").glob("*")):
        phase = phases.get(home.name, "absent")
        found += [f"{home.name} ({phase}): {what}" for what in _of_home(home, phase)]
    found += [f"half a template: {path.name}" for path in (state / "qemu" / "templates").glob(".*")]
    found += [f"half a record: {path}" for path in state.glob("records/*/.*")]
    return found


def of_bodies(state: Path, live: set[str]) -> Iterator[str]:
    """Processes, namespaces, taps, groups and user ids of machines that are not `live`."""
    instance = instance_of(state)
    uids = {path.read_text() for path in (state / "qemu" / "uids").glob("*")}
    for kind, there in (("process", set(marked_bodies(instance))), ("namespace", netns.machines(instance)),
                        ("group", Groups(instance).machines()), ("user id", uids)):
        yield from (f"{kind} of {machine_id}" for machine_id in sorted(there - live))
    for link in Path("/sys/class/net").glob("*"):
        if (link / "address").read_text().strip() == taps.HOST_MAC:
            yield f"tap {link.name} outside of every namespace"


def _of_home(home: Path, phase: str) -> Iterator[str]:
    if phase == "absent":
        yield "its folder"
        return
    yield from (f"does not count: {path.relative_to(home)}" for path in (*home.glob(".*"), *home.glob("*/.*"),
                                                                         *home.glob("checkpoints/*/.*")))
    for folder in (home / "disk", home / "standby", *(home / "checkpoints").glob("*")):
        yield from _unnamed_overlays(folder)
    if (home / "standby").exists() != (phase == "parked"):
        yield "a standby" if phase != "parked" else "no standby"
    if phase not in LIVE:
        yield from (f"of a body: {path.relative_to(home)}" for path in (*home.glob("run/*.sock"),
                                                                       *home.glob("driver/b*")))
    for folder in (home / "checkpoints").glob("*"):
        if not (folder / "checkpoint.json").exists():
            yield f"half a checkpoint: {folder.name}"


def _unnamed_overlays(folder: Path) -> Iterator[str]:
    overlays = {path.name for path in folder.glob("*.qcow2")}
    if not overlays:
        return
    chain: dict[str, Any] = json.loads((folder / "chain.json").read_text())
    named = {chain["head"], *chain["layers"]}
    yield from (f"an overlay that no chain names: {folder.name}/{name}" for name in sorted(overlays - named))
    yield from (f"a missing overlay: {folder.name}/{name}" for name in sorted(named - overlays))


def leases_left() -> list[str]:
    """Rows of upstairs that say that somebody is at work. For when nobody is."""
    from sandboxes.models import Lease, PlanRun

    held = Lease.objects.filter(expires_at__isnull=False).values_list("pk", flat=True)
    open_runs = PlanRun.objects.filter(state__in=["running", "undoing"]).values_list("plan", "machine_id")
    return [*(f"lease of {pk}" for pk in held), *(f"open plan {plan} of {pk}" for plan, pk in open_runs)]
