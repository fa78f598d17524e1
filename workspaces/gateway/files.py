"""`/api/v1/workspaces/{id}/files…`: the guest's files, carried and never kept.

Called by `routes`; hostd and the guest's agent do the work with the user's own permissions. A file call wakes
its workspace. Contents are answered so that no browser ever runs them on this origin.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlencode

import aiohttp

from workspaces.actors import Actor
from workspaces.api.errors import Problem
from workspaces.gateway import once, relay
from workspaces.gateway.departure import Departure
from workspaces.gateway.exchange import Exchange
from workspaces.gateway.execs import as_actor, must_operate, next_url
from workspaces.gateway.gate import Gate
from workspaces.gateway.headers import TO_HOST
from workspaces.gateway.hostd import Call
from workspaces.gateway.permission import Permitted
from workspaces.gateway.upstairs import Place

READ, WRITE = "files:read", "files:write"
CAUSE = "file"
BEGIN_S = 120.0


def only_looks(exchange: Exchange) -> bool:
    """What a page reads by itself is no use of a workspace: it keeps nobody awake, and what sleeps is `not_running`."""
    return exchange.method in ("GET", "HEAD") and exchange.header(b"berth-wake") == "never"


async def asked(gate: Gate, exchange: Exchange, actor: Actor, place: Place, call: Call) -> aiohttp.ClientResponse:
    """A call that may be made again after a wake: it has no body, or one that is held here whole."""
    if only_looks(exchange):
        async with Departure(exchange.receive):
            return await gate.hostd.send(call)
    gate.activity.happened(place.workspace_id, CAUSE)
    async with Departure(exchange.receive):
        return await gate.wake.then(actor, place, CAUSE, gate.config.limits.wake_timeout_s,
                                    lambda: gate.hostd.send(call))


def passed(exchange: Exchange, actor: Actor, place: Place) -> dict[str, str]:
    headers = as_actor(actor, place)
    for name, value in exchange.scope["headers"]:
        if name in TO_HOST and name != b"content-length":
            headers[name.decode("latin-1")] = value.decode("latin-1")
    return headers


async def listing(gate: Gate, exchange: Exchange, workspace_id: str) -> None:
    """Stat and list. The answer is small (hostd pages it), so its cursor is made a URL here."""
    actor, place = await gate.enter(exchange, workspace_id, READ)
    call = Call("GET", f"{workspace_id}/files", exchange.query_string, as_actor(actor, place), repeatable=True)
    await paged(gate, exchange, await asked(gate, exchange, actor, place, call))


async def paged(gate: Gate, exchange: Exchange, response: aiohttp.ClientResponse) -> None:
    try:
        value = json.loads(await response.read())
    except (aiohttp.ClientError, ConnectionError, ValueError):
        raise Problem("host_unreachable", "The host's answer broke off.", retry_after_s=2) from None
    if "next_cursor" in value:
        value["next"] = next_url(exchange, gate, value.pop("next_cursor"))
    await exchange.json(response.status, value)


async def search(gate: Gate, exchange: Exchange, workspace_id: str) -> None:
    """Names and contents. A page is bounded in time in the guest; `next` goes on where it ended."""
    actor, place = await gate.enter(exchange, workspace_id, READ)
    call = Call("GET", f"{workspace_id}/files/search", exchange.query_string, as_actor(actor, place), repeatable=True,
                longest_s=BEGIN_S)
    await paged(gate, exchange, await asked(gate, exchange, actor, place, call))


async def content(gate: Gate, exchange: Exchange, workspace_id: str) -> None:
    """GET and HEAD of a file's bytes."""
    await _bytes_out(gate, exchange, workspace_id, "content")


async def archive(gate: Gate, exchange: Exchange, workspace_id: str) -> None:
    """A folder as a tar stream."""
    await _bytes_out(gate, exchange, workspace_id, "archive")


async def _bytes_out(gate: Gate, exchange: Exchange, workspace_id: str, what: str) -> None:
    actor, place = await gate.enter(exchange, workspace_id, READ)
    call = Call(exchange.method, f"{workspace_id}/files/{what}", exchange.query_string,
                passed(exchange, actor, place), repeatable=True, longest_s=BEGIN_S)
    response = await asked(gate, exchange, actor, place, call)
    moved = None if only_looks(exchange) else partial(gate.activity.happened, workspace_id, CAUSE)
    async with Permitted(gate, exchange, place, READ):
        await relay.answer_from(exchange, response, inert=True, moved=moved)


async def put_content(gate: Gate, exchange: Exchange, workspace_id: str) -> None:
    await _bytes_in(gate, exchange, workspace_id, "content")


async def put_archive(gate: Gate, exchange: Exchange, workspace_id: str) -> None:
    await _bytes_in(gate, exchange, workspace_id, "archive")


async def _bytes_in(gate: Gate, exchange: Exchange, workspace_id: str, what: str) -> None:
    """An upload of any size. It cannot be sent twice, so the machine is made sure of before the first byte."""
    actor, place = await gate.enter(exchange, workspace_id, WRITE)
    must_operate(place)
    headers = passed(exchange, actor, place)
    if exchange.declared_length is not None:
        headers["Content-Length"] = str(exchange.declared_length)
    call = Call("PUT", f"{workspace_id}/files/{what}", exchange.query_string, headers, longest_s=None)
    gate.activity.happened(workspace_id, CAUSE)
    await gate.wake.then(actor, place, CAUSE, gate.config.limits.wake_timeout_s,
                         lambda: machine_runs(gate, workspace_id))
    async with Permitted(gate, exchange, place, WRITE):
        response = await relay.upload(gate.hostd, call, exchange, gate.config.limits.upload_idle_s,
                                      moved=lambda: gate.activity.happened(workspace_id, CAUSE))
    await relay.answer_from(exchange, response)


async def machine_runs(gate: Gate, workspace_id: str) -> None:
    """Raises `not_running` unless hostd says so: a few hundred microseconds before what may be gigabytes."""
    _status, seen = await gate.hostd.json(Call("GET", workspace_id, repeatable=True))
    if seen.get("phase") != "running":
        raise Problem("not_running", f"The machine is {seen.get('phase')}.")


async def change(gate: Gate, exchange: Exchange, workspace_id: str, verb: str) -> None:
    """mkdir, move, copy, chmod."""
    actor, place = await gate.enter(exchange, workspace_id, WRITE)
    must_operate(place)
    limits = gate.config.limits
    body = await exchange.json_object(limits.json_body_bytes, limits.body_timeout_s)
    call = Call("POST", f"{workspace_id}/files/{verb}", exchange.query_string,
                {**as_actor(actor, place), "Content-Type": "application/json"}, json.dumps(body).encode(),
                longest_s=None)
    if exchange.header(b"idempotency-key") is None:
        await relay.answer_from(exchange, await asked(gate, exchange, actor, place, call))
        return
    gate.activity.happened(workspace_id, CAUSE)

    async def do() -> tuple[int, Any]:
        return await gate.wake.then(actor, place, CAUSE, limits.wake_timeout_s, lambda: gate.hostd.json(call))

    async def look(path_encoded: str) -> Any:
        return await gate.wake.then(actor, place, CAUSE, limits.wake_timeout_s,
                                    lambda: stat(gate, workspace_id, path_encoded, call))

    await once.answer(gate, exchange, actor, workspace_id,
                      once.Deed([verb, exchange.query_string, body], "path_encoded", do, look))


async def stat(gate: Gate, workspace_id: str, path_encoded: str, like: Call) -> dict[str, Any]:
    """What an earlier change made, as it is now, with the eyes of the user who made it."""
    users = urlencode([pair for pair in parse_qsl(like.query) if pair[0] == "user"])
    query = f"path={path_encoded}&limit=1" + (f"&{users}" if users else "")
    call = Call("GET", f"{workspace_id}/files", query, like.headers, repeatable=True)
    _status, seen = await gate.hostd.json(call)
    return {name: value for name, value in seen.items() if name not in ("entries", "next")}


async def remove(gate: Gate, exchange: Exchange, workspace_id: str) -> None:
    actor, place = await gate.enter(exchange, workspace_id, WRITE)
    must_operate(place)
    call = Call("DELETE", f"{workspace_id}/files", exchange.query_string, as_actor(actor, place), longest_s=None)
    await relay.answer_from(exchange, await asked(gate, exchange, actor, place, call))
