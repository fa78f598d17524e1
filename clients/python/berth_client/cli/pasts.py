"""Commands for a workspace's pasts: checkpoint, checkpoints, restore, fork, diff. Called by `main`."""

from __future__ import annotations

import argparse

from berth_client import Checkpoint
from berth_client.cli import say
from berth_client.cli.asked import ID, server, workspace
from berth_client.cli.lives import ended_as
from berth_client.client import OneWorkspace
from berth_client.problems import NotFound


def checkpoint(asked: argparse.Namespace) -> int:
    with server(asked) as berth:
        made = workspace(berth, asked.workspace).checkpoints.create(
            asked.name, comment=asked.comment, memory=False if asked.no_memory else None, wait_s=asked.wait_s)
    if asked.json:
        say.document(made.raw)
    else:
        print(f"{made.id}  {made.state}  {'with' if made.memory else 'without'} memory")
        if made.state == "failed":
            say.note(f"error: the checkpoint failed: {made.state_reason}")
    return 1 if made.state == "failed" else 0


def checkpoints(asked: argparse.Namespace) -> int:
    with server(asked) as berth:
        found = list(workspace(berth, asked.workspace).checkpoints.list(limit=200))
    if asked.json:
        say.document([one.raw for one in found])
        return 0
    say.table(("ID", "NAME", "KIND", "STATE", "MEMORY", "DISK", "CREATED"),
              ((one.id, one.name, one.kind, one.state, say.size(one.memory_bytes) if one.memory else "-",
                say.size(one.disk_bytes), one.created_at) for one in found))
    return 0


def restore(asked: argparse.Namespace) -> int:
    with server(asked) as berth:
        one = workspace(berth, asked.workspace)
        now = one.checkpoints.restore(point(one, asked.checkpoint).id, safety=not asked.no_safety,
                                      wait_s=asked.wait_s)
    code = ended_as(asked, now, "restore")
    if now.safety_checkpoint and not asked.json:
        say.note(f"To undo it: berth-cli restore {asked.workspace} {now.safety_checkpoint}")
    return code


def fork(asked: argparse.Namespace) -> int:
    with server(asked) as berth:
        one = workspace(berth, asked.workspace)
        origin = point(one, asked.checkpoint).id if asked.checkpoint else None
        made = one.fork(asked.name, checkpoint=origin, count=asked.count, wait_s=asked.wait_s)
    if asked.json:
        say.document([new.raw for new in made])
    else:
        say.table(("NAME", "ID", "STATE"), ((new.name, new.id, new.state) for new in made))
    return 1 if any(new.state == "failed" for new in made) else 0


def diff(asked: argparse.Namespace) -> int:
    signs = {"added": "A", "modified": "M", "removed": "D", "type": "T"}
    with server(asked) as berth:
        one = workspace(berth, asked.workspace)
        against = asked.against if asked.against == "head" else point(one, asked.against).id
        changes = one.checkpoints.diff(point(one, asked.checkpoint).id, against=against)
        if asked.json:
            say.document([change.raw for change in changes])
            return 0
        for change in changes:
            print(f"{signs.get(change.change, '?')}  {say.shown(change.path)}")
    return 0


def point(one: OneWorkspace, name: str) -> Checkpoint:
    """By id, or the newest of that name."""
    if ID.match(name):
        return one.checkpoints.get(name)
    found = next(iter(one.checkpoints.list(name=name, limit=1)), None)
    if found is None:
        raise NotFound(404, {"code": "not_found", "detail": f"There is no checkpoint named {name!r}."})
    return found
