"""Tools for checkpoints: checkpoint, list_checkpoints, restore, fork. Listed by `catalog`; each is REST's own calls."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from mcp.types import ToolAnnotations
from pydantic import Field

from workspaces.gateway.mcp.files import cursor_of
from workspaces.gateway.mcp.places import TIMEOUT_S, TimeoutS, told, waiting
from workspaces.gateway.mcp.tool import (
    ADDS,
    READS,
    Data,
    IdempotencyKey,
    InWorkspace,
    ObjectId,
    Said,
    Session,
    Tool,
)

KEPT = ("id", "name", "comment", "kind", "state", "state_reason", "memory", "memory_usable", "consistency", "parent",
        "created_at", "disk_bytes", "memory_bytes", "expires_at")


class Take(InWorkspace):
    name: Annotated[str | None, Field(max_length=600, description="What it is, in a few words")] = None
    comment: Annotated[str | None, Field(max_length=2000)] = None
    memory: Annotated[bool | None, Field(description="Keep running processes too; default: where that can be")] = None
    timeout_s: TimeoutS = TIMEOUT_S
    idempotency_key: IdempotencyKey = None


class ListCheckpoints(InWorkspace):
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: Annotated[str | None, Field(description="next_cursor of the answer before")] = None


class Restore(InWorkspace):
    checkpoint: ObjectId
    safety: Annotated[bool, Field(description="First keep what is there now as a checkpoint of its own")] = True
    timeout_s: TimeoutS = TIMEOUT_S
    idempotency_key: IdempotencyKey = None


class Fork(InWorkspace):
    name: Annotated[str, Field(min_length=1, max_length=300, description="Of the new workspace")]
    checkpoint: Annotated[str | None, Field(description="From this checkpoint; default: from this moment")] = None
    count: Annotated[int, Field(ge=1, le=20, description="So many; then the names are numbered")] = 1
    timeout_s: TimeoutS = TIMEOUT_S
    idempotency_key: IdempotencyKey = None


def keyed(given: Take | Restore | Fork) -> dict[str, str]:
    return {"idempotency-key": given.idempotency_key} if given.idempotency_key else {}


async def take(session: Session, given: Take) -> Said:
    body = given.model_dump(exclude_none=True, include={"name", "comment", "memory"})
    row = await session.api.post(f"{session.base(given)}/checkpoints", body, waiting(given.timeout_s), keyed(given))
    return Said(line(row), short(row))


async def listing(session: Session, given: ListCheckpoints) -> Said:
    query = f"limit={given.limit}" + (f"&cursor={quote(given.cursor, safe='%')}" if given.cursor else "")
    seen = await session.api.get(f"{session.base(given)}/checkpoints", query)
    following = cursor_of(seen.get("next"))
    rest = f'\n[there are more: ask again with cursor="{following}"]' if following else ""
    lines = [line(row) for row in seen["results"]] or ["No checkpoints."]
    return Said("\n".join(lines) + rest, {"results": [short(row) for row in seen["results"]],
                                          "next_cursor": following})


async def restore(session: Session, given: Restore) -> Said:
    path = f"{session.base(given)}/checkpoints/{given.checkpoint}/restore"
    row = await session.api.post(path, {"safety": given.safety}, waiting(given.timeout_s), keyed(given))
    if "approval" in row:
        return Said("A member has to approve this first; nothing has happened yet.", {"approval": row["approval"]})
    safety = row.get("safety_checkpoint")
    said = told(row, f"; restoring {safety} undoes this" if safety else "")
    return Said(said.text, {**said.data, "safety_checkpoint": safety} if safety else said.data)


async def fork(session: Session, given: Fork) -> Said:
    body = given.model_dump(exclude_none=True, include={"name", "checkpoint", "count"})
    seen = await session.api.post(f"{session.base(given)}/fork", body, waiting(given.timeout_s), keyed(given))
    made = [told(row) for row in seen["results"]]
    return Said("\n".join(one.text.partition("\n")[0] for one in made), {"results": [one.data for one in made]})


def short(row: Data) -> Data:
    return {name: row[name] for name in KEPT if row.get(name) is not None}


def line(row: Data) -> str:
    memory = "with memory" if row.get("memory_usable") else "disk only"
    reason = f" ({row['state_reason']})" if row.get("state_reason") else ""
    name = f" {row['name']!r}" if row.get("name") else ""
    return f"checkpoint {row['id']}{name} {row['state']}{reason}, {row['kind']}, {memory}, of {row['created_at']}"


TOOLS = (
    Tool("checkpoint", "Take a checkpoint", (
        "Keep the workspace's disk, and its memory where the machine can, as they are now. Takes about a second; what "
        "runs goes on. Take one before anything risky."
    ), "checkpoints", Take, take, ADDS),
    Tool("list_checkpoints", "List checkpoints", (
        "The workspace's checkpoints, newest first, in pieces that next_cursor goes on from."
    ), "checkpoints", ListCheckpoints, listing, READS),
    Tool("restore", "Go back to a checkpoint", (
        "Put disk (and memory, if the checkpoint has it) of this workspace back to a checkpoint. What came after it is "
        "first kept as a safety checkpoint, whose id undoes this. Commands that run now end as lost (rolled_back)."
    ), "checkpoints", Restore, restore, ToolAnnotations(read_only_hint=False, destructive_hint=True,
                                                        idempotent_hint=False, open_world_hint=False)),
    Tool("fork", "Fork a workspace", (
        "Make new workspaces that begin where this one is, or at a checkpoint, memory included when there is any. This "
        "one goes on untouched."
    ), "workspaces:write", Fork, fork, ADDS),
)
