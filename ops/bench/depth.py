"""Benches that are repeated after 1, 10 and 100 checkpoints: what came before must not be felt. Called by them."""

from __future__ import annotations

from collections.abc import Iterator

from ops.bench.stage import Stage

DEPTHS = (1, 10, 100)


def deeper(stage: Stage, workspace: str) -> Iterator[int]:
    """Yields each depth once so many checkpoints were taken. They hold no memory: it is the disk's chain that grows."""
    taken = 0
    for depth in DEPTHS:
        while taken < depth:
            checkpoint(stage, workspace, memory=False)
            taken += 1
        yield depth


def checkpoint(stage: Stage, workspace: str, *, memory: bool) -> dict[str, object]:
    """One that is ready; the disk differs from the one before."""
    client = stage.rest()
    client.call("POST", f"/api/v1/workspaces/{workspace}/execs",
                {"command": ["dd", "if=/dev/urandom", "of=/home/user/differs", "bs=64k", "count=1", "status=none"]})
    made: dict[str, object] = client.call(
        "POST", f"/api/v1/workspaces/{workspace}/checkpoints?wait=true&timeout_s=300", {"memory": memory})
    if made["state"] != "ready":
        raise RuntimeError(f"the checkpoint is {made['state']}")
    return made


def chain_depth(stage: Stage, workspace: str) -> int:
    return int(stage.hostd().call("GET", f"/v1/machines/{workspace}")["chain_depth"])
