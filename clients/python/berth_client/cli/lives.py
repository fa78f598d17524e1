"""Commands for a workspace's life: create, list, show, start, stop, standby, restart, rm, undelete. Run by `main`."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from berth_client import Workspace
from berth_client.cli import say
from berth_client.cli.asked import pairs, server, workspace

REACHED = {"create": "running", "start": "running", "restart": "running", "stop": "stopped", "standby": "standby",
           "rm": "deleted"}


def create(asked: argparse.Namespace) -> int:
    with server(asked) as berth:
        made = berth.workspaces.create(
            asked.name, image=asked.image, cpus=asked.cpus, memory_mib=asked.memory_mib, disk_gib=asked.disk_gib,
            env=pairs(asked.env), labels=pairs(asked.label), from_checkpoint=asked.from_checkpoint,
            network={"mode": asked.network} if asked.network else None, wait_s=asked.wait_s)
        return ended_as(asked, made, "create")


def listing(asked: argparse.Namespace) -> int:
    with server(asked) as berth:
        found = list(berth.workspaces.list(state=asked.state, labels=pairs(asked.label), limit=200))
    if asked.json:
        say.document([one.raw for one in found])
        return 0
    say.table(("NAME", "STATE", "OWNER", "CPUS", "MEMORY", "DISK", "LAST ACTIVITY", "ID"),
              ((one.name, one.state, one.owner, one.cpus, f"{one.memory_mib} MiB", say.size(one.disk_used_bytes),
                one.last_activity_at, one.id) for one in found))
    return 0


def show(asked: argparse.Namespace) -> int:
    with server(asked) as berth:
        seen = workspace(berth, asked.workspace).get()
    if asked.json:
        say.document(seen.raw)
        return 0
    for name, value in seen.raw.items():
        print(f"{name + ':':<22}{say.shown(value if value not in ({}, []) else None)}")
    return 0


def verb(name: str) -> Callable[[argparse.Namespace], int]:
    def command(asked: argparse.Namespace) -> int:
        with server(asked) as berth:
            one = workspace(berth, asked.workspace)
            deed: Callable[..., Workspace] = getattr(one, name)
            return ended_as(asked, deed(wait_s=asked.wait_s), name)
    return command


def rm(asked: argparse.Namespace) -> int:
    with server(asked) as berth:
        return ended_as(asked, workspace(berth, asked.workspace).delete(purge=asked.purge, wait_s=asked.wait_s), "rm")


def undelete(asked: argparse.Namespace) -> int:
    """A name in the trash may be another's by now, so the trash is looked through first."""
    with server(asked) as berth:
        one = trashed(asked.workspace, [*berth.workspaces.list(state="deleted")])
        return ended_as(asked, (berth.workspace(one) if one else workspace(berth, asked.workspace)).undelete(
            wait_s=asked.wait_s), "undelete")


def trashed(name: str, trash: list[Workspace]) -> str | None:
    """The newest of that name."""
    return next((one.id for one in trash if name in (one.name, f"{one.owner}/{one.name}")), None)


def ended_as(asked: argparse.Namespace, now: Workspace, what: str) -> int:
    """Prints where it stands; 1 when it failed. Not there in time is said, and is no failure."""
    if asked.json:
        say.document(now.raw)
    else:
        print(f"{say.shown(now.name)}  {now.id}  {now.state}{f' ({now.state_reason})' if now.state_reason else ''}")
        wanted = REACHED.get(what)
        if now.approval is not None:
            say.note(f"It waits for a member's approval: berth-cli approve {now.id} {now.approval.id}")
        elif wanted and now.state not in (wanted, "failed") and asked.wait_s:
            say.note(f"Not {wanted} within {asked.wait_s:g} s; it goes on.")
    return 1 if now.state == "failed" else 0
