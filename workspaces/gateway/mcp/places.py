"""Tools for workspaces as wholes: list, get, create, start, standby, ports, network. Listed by `catalog`; they are REST
calls."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote, urlencode

from pydantic import Field

from workspaces.gateway.mcp.files import cursor_of
from workspaces.gateway.mcp.tool import (
    ADDS,
    READS,
    SETTLES,
    Arguments,
    Data,
    IdempotencyKey,
    InWorkspace,
    Said,
    Session,
    Tool,
)

TIMEOUT_S = 45.0
#: So many refused attempts are shown.
REFUSALS = 20
TimeoutS = Annotated[float, Field(ge=0, le=300, description="Wait so long for it; too short is no error")]

#: What a model needs to know of a workspace to choose one.
SHORT = ("id", "name", "state", "state_reason", "owner", "role", "image", "last_activity_at")
#: What is said of one, all of it but what is only of use to a browser.
LONG = (*SHORT, "cpus", "memory_mib", "disk_gib", "disk_used_bytes", "gpu", "labels", "idle", "next_transition",
        "awake_because", "head_checkpoint", "created_at", "purge_at", "preview_url_template")


class ListWorkspaces(Arguments):
    name: Annotated[str | None, Field(description="Only this name")] = None
    state: Annotated[str | None, Field(
        description="Only in this state: running, standby, stopped, failed, deleted (the trash), …")] = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: Annotated[str | None, Field(description="next_cursor of the answer before")] = None


class GetWorkspace(InWorkspace):
    pass


class CreateWorkspace(Arguments):
    name: Annotated[str, Field(min_length=1, max_length=300, description="Not the name of another one of yours")]
    image: Annotated[str | None, Field(description="Default: default")] = None
    cpus: Annotated[int | None, Field(ge=1, le=64)] = None
    memory_mib: Annotated[int | None, Field(ge=256)] = None
    disk_gib: Annotated[int | None, Field(ge=1)] = None
    env: Annotated[dict[str, str] | None, Field(description="Environment of everything that runs in it")] = None
    labels: dict[str, str] | None = None
    from_checkpoint: Annotated[str | None, Field(description="Begin with this checkpoint's disk and memory")] = None
    timeout_s: TimeoutS = TIMEOUT_S
    idempotency_key: IdempotencyKey = None


class Change(InWorkspace):
    timeout_s: TimeoutS = TIMEOUT_S


def told(workspace: Data, more: str = "") -> Said:
    """One workspace, in a line and as data."""
    data = {name: workspace[name] for name in LONG if workspace.get(name) is not None}
    reason = f" ({workspace['state_reason']})" if workspace.get("state_reason") else ""
    lines = [f"workspace {workspace['id']} {workspace['name']!r} is {workspace['state']}{reason}{more}"]
    lines += [f"{name}: {data[name]}" for name in LONG if name in data and name not in SHORT]
    return Said("\n".join(lines), data)


async def listing(session: Session, given: ListWorkspaces) -> Said:
    asked = {k: v for k, v in (("name", given.name), ("state", given.state), ("limit", given.limit)) if v is not None}
    query = urlencode(asked) + (f"&cursor={quote(given.cursor, safe='%')}" if given.cursor else "")
    seen = await session.api.get("/api/v1/workspaces", query)
    rows = [{name: row[name] for name in SHORT if row.get(name) is not None} for row in seen["results"]]
    following = cursor_of(seen.get("next"))
    lines = [f"{row['id']} {row['name']!r} {row['state']}, of {row['owner']}" for row in rows] or ["No workspaces."]
    rest = f'\n[there are more: ask again with cursor="{following}"]' if following else ""
    return Said("\n".join(lines) + rest, {"results": rows, "next_cursor": following})


async def get(session: Session, given: GetWorkspace) -> Said:
    return told(await session.api.get(session.base(given)))


async def create(session: Session, given: CreateWorkspace) -> Said:
    fields = given.model_dump(exclude_none=True, exclude={"timeout_s", "idempotency_key"})
    keyed = {"idempotency-key": given.idempotency_key} if given.idempotency_key else {}
    return told(await session.api.post("/api/v1/workspaces", fields, waiting(given.timeout_s), keyed))


async def start(session: Session, given: Change) -> Said:
    return told(await session.api.post(f"{session.base(given)}/start", {}, waiting(given.timeout_s)))


async def standby(session: Session, given: Change) -> Said:
    return told(await session.api.post(f"{session.base(given)}/standby", {}, waiting(given.timeout_s)))


async def ports(session: Session, given: GetWorkspace) -> Said:
    seen = await session.api.get(f"{session.base(given)}/ports")
    found = seen.get("results", [])
    lines = [" ".join(f"{k}={v}" for k, v in one.items() if v is not None) if isinstance(one, dict) else str(one)
             for one in found]
    return Said("\n".join(lines or ["Nothing listens."]), {"results": found})


async def network(session: Session, given: GetWorkspace) -> Said:
    policy = (await session.api.get(f"{session.base(given)}/network"))["network"]
    log = await session.api.get(f"{session.base(given)}/network/log", f"verdict=refused&limit={REFUSALS}")
    refused = log["results"]
    lines = [f"mode: {policy['mode']}", *(f"may reach {rule}" for rule in policy.get("rules", ()))]
    lines += [f"refused: {one['name'] or one['address']}:{one['port']} ({one['reason']})" for one in refused]
    return Said("\n".join(lines), {"network": policy, "refused": refused})


def waiting(timeout_s: float) -> str:
    return f"wait=true&timeout_s={timeout_s:g}"


TOOLS = (
    Tool("list_workspaces", "List workspaces", (
        "The workspaces that this token may see, with their ids and states, in pieces that next_cursor goes on from."
    ), "workspaces:read", ListWorkspaces, listing, READS, beyond=True),
    Tool("get_workspace", "Look at a workspace", (
        "State, size, labels, why it is awake and when it will rest. Never wakes it."
    ), "workspaces:read", GetWorkspace, get, READS),
    Tool("create_workspace", "Create a workspace", (
        "Make a workspace of your own and wait until it runs. It keeps its disk until it is deleted, and rests by "
        "itself when nothing happens in it."
    ), "workspaces:write", CreateWorkspace, create, ADDS, beyond=True),
    Tool("start_workspace", "Start a workspace", (
        "Wake it from standby or start it from stopped, and wait until it runs. Seldom needed: exec and file calls "
        "wake it by themselves. Already running is fine. It is also the way out of the state failed."
    ), "workspaces:write", Change, start, SETTLES),
    Tool("standby_workspace", "Put a workspace to rest", (
        "Keep disk and memory and free the machine: running processes are frozen and go on at the next call of any "
        "kind. Where the machine cannot keep memory it stops, and processes end."
    ), "workspaces:write", Change, standby, SETTLES),
    Tool("ports", "List listening ports", (
        "TCP ports that programs in the workspace listen on; preview_url_template of get_workspace says where a "
        "browser reaches one. Never wakes it."
    ), "previews", GetWorkspace, ports, READS),
    Tool("network", "What it may reach", (
        "Which destinations the workspace may reach, and its newest refused attempts with the reason for each. What is "
        "refused stays refused however it is tried; a person changes the policy. Never wakes it."
    ), "network", GetWorkspace, network, READS),
)
