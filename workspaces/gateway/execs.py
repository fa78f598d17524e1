"""`/api/v1/workspaces/{id}/execs…`: commands in a workspace, asked for here, run by hostd.

Called by `routes`. A new exec wakes its workspace; reading one never does, because hostd keeps what ended.
Bodies are judged by hostd alone; only what the gateway itself needs of one (`wake_timeout_s`) is read here.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

import aiohttp

from workspaces.actors import Actor
from workspaces.api.errors import STATUS, Problem
from workspaces.gateway import once, relay
from workspaces.gateway.departure import Departure
from workspaces.gateway.exchange import Exchange
from workspaces.gateway.gate import Gate
from workspaces.gateway.held import explained, pattern_of, until_decided
from workspaces.gateway.hostd import Call
from workspaces.gateway.permission import Permitted
from workspaces.gateway.repeats import exec_named
from workspaces.gateway.upstairs import Held, Place

POLL_SLACK_S = 30.0
LONGEST_WAIT_S = 300.0
STDIN_IDLE_S = 300.0
CAUSE = "exec"
PENDING = "pending_approval"


def as_actor(actor: Actor, place: Place) -> dict[str, str]:
    """Who acts, for hostd's records; it decides nothing by it."""
    return {"Berth-Actor": json.dumps(actor.to_json()), "Berth-Role": place.role}


@contextlib.asynccontextmanager
async def _explained(gate: Gate, workspace_id: str, exec_id: str) -> AsyncIterator[None]:
    """An exec that hostd has never heard of may be one that waits for a member: then the refusal says so."""
    try:
        yield
    except Problem as problem:
        raise await explained(gate, workspace_id, exec_id, problem) from None


def must_operate(place: Place) -> None:
    if not place.may_operate:
        raise Problem("forbidden", "A viewer may look, not act.", role=place.role)


async def start(gate: Gate, exchange: Exchange, workspace_id: str) -> None:
    actor, place = await gate.enter(exchange, workspace_id, "exec")
    must_operate(place)
    limits = gate.config.limits
    body = await exchange.json_object(limits.json_body_bytes, limits.body_timeout_s)
    if "exec_id" in body:
        raise Problem("invalid", "exec_id: unknown field", errors={"exec_id": ["unknown field"]})
    wake_s = wake_timeout(body.get("wake_timeout_s", None), limits.wake_timeout_s, limits.longest_wake_s)
    named = await exec_named(gate.redis, actor, workspace_id, exchange.header(b"idempotency-key"), body)
    headers = {**as_actor(actor, place), "Content-Type": "application/json"}
    sent = json.dumps({**body, "exec_id": named.exec_id}).encode()
    call = Call("POST", f"{workspace_id}/execs", exchange.query_string, headers, sent, repeatable=True,
                longest_s=LONGEST_WAIT_S + POLL_SLACK_S)
    exchange.noted["exec"] = named.exec_id
    pattern = pattern_of(actor, place, body.get("command"))
    async with Permitted(gate, exchange, place, "exec"), Departure(exchange.receive):
        if pattern is not None and not named.again:
            await gate.upstairs.hold_exec(actor, workspace_id, body, named.exec_id, pattern)
        held = await _held(gate, place, named.exec_id, body) if pattern is not None or named.again else None
        if held is not None and not held.settled:
            await exchange.json(202, held.record)
            return
        if held is not None and held.code:
            raise refused(held)
        named = replace(named, again=named.again or held is not None)
        if not named.again and await gate.autos.before(actor, place):
            place = await gate.access.place(actor, workspace_id)  # others may have woken it meanwhile
        gate.activity.happened(workspace_id, "exec")
        response = await _known(gate, call, named.exec_id, body) if named.again else None
        if response is None:
            response = await gate.wake.then(actor, place, CAUSE, wake_s, lambda: gate.hostd.send(call))
    await relay.answer_from(exchange, response)


async def _known(gate: Gate, call: Call, exec_id: str, body: dict[str, Any]) -> aiohttp.ClientResponse | None:
    """The exec that an earlier request with this key began, as it is now, without waking anything for it."""
    query = dict(parse_qsl(call.query))
    at_once = bool(body.get("background")) or body.get("tty") is not None
    query.setdefault("wait_s", str(body.get("wait_s", 0 if at_once else 60)))
    look = Call("GET", f"{call.path}/{exec_id}", urlencode(query), call.headers, repeatable=True,
                longest_s=LONGEST_WAIT_S + POLL_SLACK_S)
    try:
        return await gate.hostd.send(look)
    except Problem as problem:
        if problem.code != "not_found":
            raise
        return None


async def _held(gate: Gate, place: Place, exec_id: str, body: dict[str, Any]) -> Held | None:
    """One that waits for a member, waited for as long as the caller waits for an exec."""
    at_once = bool(body.get("background")) or body.get("tty") is not None
    return await until_decided(gate, place, exec_id, _wait_s(body.get("wait_s"), 0 if at_once else 60))


def _wait_s(said: Any, default_s: float) -> float:
    """What is no such number, hostd refuses when it comes to it."""
    try:
        return min(max(float(default_s if said is None else said), 0.0), LONGEST_WAIT_S)
    except (TypeError, ValueError):
        return 0.0


def refused(held: Held) -> Problem:
    code = held.code if held.code in STATUS else "conflict"
    return Problem(code, held.detail or "It was not begun.", exec=held.record,
                   reason=None if code == held.code else held.code)


async def listing(gate: Gate, exchange: Exchange, workspace_id: str) -> None:
    """hostd's, and before them on the first page those that wait for a member: hostd has not heard of them."""
    actor, place = await gate.enter(exchange, workspace_id, "exec")
    waiting = [] if "cursor" in exchange.query else await gate.upstairs.held_execs(workspace_id)
    wanted = exchange.query.get("state")
    if wanted == PENDING:
        await exchange.json(200, {"results": waiting, "next": None})
        return
    call = Call("GET", f"{workspace_id}/execs", exchange.query_string, as_actor(actor, place), repeatable=True)
    status, value = await gate.hostd.json(call)
    first = waiting if wanted is None else []
    await exchange.json(status, {**value, "results": [*first, *value.get("results", [])],
                                 "next": next_url(exchange, gate, value.get("next"))})


async def one(gate: Gate, exchange: Exchange, workspace_id: str, exec_id: str) -> None:
    actor, place = await gate.enter(exchange, workspace_id, "exec")
    call = Call("GET", f"{workspace_id}/execs/{exec_id}", exchange.query_string, as_actor(actor, place),
                repeatable=True, longest_s=LONGEST_WAIT_S + POLL_SLACK_S)
    async with Permitted(gate, exchange, place, "exec"), Departure(exchange.receive):
        try:
            response = await gate.hostd.send(call)
        except Problem as problem:
            if problem.code != "not_found":
                raise
            held = await until_decided(gate, place, exec_id, _wait_s(exchange.query.get("wait_s"), 0))
            if held is None:
                raise
            if held.code or not held.settled:
                await exchange.json(200 if held.code else 202, held.record)
                return
            response = await gate.hostd.send(call)
    await relay.answer_from(exchange, response)


async def output(gate: Gate, exchange: Exchange, workspace_id: str, exec_id: str) -> None:
    await _guests_bytes(gate, exchange, workspace_id, exec_id, "output")


async def _guests_bytes(gate: Gate, exchange: Exchange, workspace_id: str, exec_id: str, what: str) -> None:
    """Bytes of a guest, which no browser may take for a page."""
    actor, place = await gate.enter(exchange, workspace_id, "exec")
    call = Call("GET", f"{workspace_id}/execs/{exec_id}/{what}", exchange.query_string, as_actor(actor, place),
                repeatable=True)
    async with Permitted(gate, exchange, place, "exec"), _explained(gate, workspace_id, exec_id):
        await relay.answer_from(exchange, await gate.hostd.send(call), inert=True)


async def stream(gate: Gate, exchange: Exchange, workspace_id: str, exec_id: str) -> None:
    """Server-sent events. A stream that breaks ends with an `error` event, never as if it were whole."""
    actor, place = await gate.enter(exchange, workspace_id, "exec")
    headers = as_actor(actor, place)
    last = exchange.header(b"last-event-id")
    if last is not None and last.isdigit():
        headers["Last-Event-ID"] = last
    call = Call("GET", f"{workspace_id}/execs/{exec_id}/stream", exchange.query_string, headers, repeatable=True)
    async with Permitted(gate, exchange, place, "exec"), _explained(gate, workspace_id, exec_id):
        await relay.events_from(exchange, await gate.hostd.send(call))


async def stdin(gate: Gate, exchange: Exchange, workspace_id: str, exec_id: str) -> None:
    actor, place = await gate.enter(exchange, workspace_id, "exec")
    must_operate(place)
    headers = as_actor(actor, place)
    if exchange.declared_length is not None:
        headers["Content-Length"] = str(exchange.declared_length)
    call = Call("POST", f"{workspace_id}/execs/{exec_id}/stdin", exchange.query_string, headers, longest_s=None)
    gate.activity.happened(workspace_id, CAUSE)
    async with Permitted(gate, exchange, place, "exec"), _explained(gate, workspace_id, exec_id):
        response = await relay.upload(gate.hostd, call, exchange, STDIN_IDLE_S)
    await relay.answer_from(exchange, response)


async def _told(gate: Gate, exchange: Exchange, workspace_id: str, exec_id: str, method: str, what: str
                ) -> tuple[Actor, dict[str, Any], Call]:
    """What an exec is told in a small JSON body: by whom, the body, and the call that passes it down as it came."""
    actor, place = await gate.enter(exchange, workspace_id, "exec")
    must_operate(place)
    limits = gate.config.limits
    body = await exchange.json_object(limits.json_body_bytes, limits.body_timeout_s)
    headers = {**as_actor(actor, place), "Content-Type": "application/json"}
    return actor, body, Call(method, f"{workspace_id}/execs/{exec_id}/{what}", "", headers, json.dumps(body).encode())


async def _passed_down(gate: Gate, exchange: Exchange, workspace_id: str, exec_id: str, call: Call) -> None:
    async with _explained(gate, workspace_id, exec_id):
        response = await gate.hostd.send(call)
    await relay.answer_from(exchange, response)


async def command(gate: Gate, exchange: Exchange, workspace_id: str, exec_id: str, verb: str) -> None:
    """signal and resize: a small JSON body, passed down as it came."""
    actor, body, call = await _told(gate, exchange, workspace_id, exec_id, "POST", verb)
    if exchange.header(b"idempotency-key") is None:
        await _passed_down(gate, exchange, workspace_id, exec_id, call)
        return

    async def look(_exec_id: str) -> Any:
        seen = Call("GET", f"{workspace_id}/execs/{exec_id}", "", call.headers, repeatable=True)
        return (await gate.hostd.json(seen))[1]

    await once.answer(gate, exchange, actor, workspace_id,
                      once.Deed([verb, exec_id, body], "id", lambda: gate.hostd.json(call), look))


async def recording(gate: Gate, exchange: Exchange, workspace_id: str, exec_id: str) -> None:
    """An asciicast file."""
    await _guests_bytes(gate, exchange, workspace_id, exec_id, "recording")


async def record(gate: Gate, exchange: Exchange, workspace_id: str, exec_id: str) -> None:
    """Begins or ends a recording; a repeat changes nothing, so no key is needed."""
    _actor, _body, call = await _told(gate, exchange, workspace_id, exec_id, "PUT", "recording")
    await _passed_down(gate, exchange, workspace_id, exec_id, replace(call, repeatable=True))


async def kill(gate: Gate, exchange: Exchange, workspace_id: str, exec_id: str) -> None:
    actor, place = await gate.enter(exchange, workspace_id, "exec")
    must_operate(place)
    call = Call("DELETE", f"{workspace_id}/execs/{exec_id}", exchange.query_string, as_actor(actor, place),
                repeatable=True)
    try:
        response = await gate.hostd.send(call)
    except Problem as problem:
        held = None
        if problem.code == "not_found":
            held = await gate.upstairs.withdraw_exec(actor, workspace_id, exec_id)
        if held is None:
            raise
        await exchange.json(200, held.record)
        return
    await relay.answer_from(exchange, response)


def wake_timeout(value: Any, default_s: float, longest_s: float) -> float:
    if value is None:
        return default_s
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= longest_s:
        raise Problem("invalid", "wake_timeout_s is out of range.",
                      errors={"wake_timeout_s": [f"A number from 0 to {longest_s:g}."]})
    return float(value)


def next_url(exchange: Exchange, gate: Gate, cursor: str | None) -> str | None:
    """hostd's cursor as the URL that asks with it. Bytes of the query that are no text stay as they are."""
    if cursor is None:
        return None
    kept = [pair for pair in exchange.query_string.split("&") if pair and not pair.startswith("cursor=")]
    return same_url(exchange, gate, "&".join([*kept, f"cursor={cursor}"]))


def same_url(exchange: Exchange, gate: Gate, query: str) -> str:
    """What was asked, as the client asked it, with another query."""
    host = exchange.header(b"host") or "localhost"
    return f"{gate.access.client(exchange)[1]}://{host}{exchange.path}?{query}"
