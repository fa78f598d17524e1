"""`?wait=true&timeout_s=` on changes of a workspace: Daphne makes the change, the waiting is done here.

Called by `routes`. A waiting request costs a few hundred bytes here and a thread there, so it is here: the
parameters are taken off, Daphne answers the change, and when the visible state is what was asked for (or the
time is over, or it failed) the object is fetched anew and answered. Waiting never turns into an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from workspaces.actors import Actor
from workspaces.api.errors import STATUS, Problem
from workspaces.gateway.daphne import headers_for
from workspaces.gateway.departure import Departure
from workspaces.gateway.exchange import Exchange, Headers
from workspaces.gateway.gate import Gate
from workspaces.gateway.nudges import pause
from workspaces.gateway.passing import to_daphne

DEFAULT_S, LONGEST_S = 30.0, 300.0
LOOK_EVERY_S = 1.0
PREFIX = "/api/v1/workspaces"
RAW = frozenset({b"content-length", b"content-type"})

#: verb -> what it leads to; None: whatever the workspace comes to rest in.
REACHED: dict[str, frozenset[str] | None] = {
    "create": frozenset({"running"}), "start": frozenset({"running"}), "restart": frozenset({"running"}),
    "stop": frozenset({"stopped"}), "standby": frozenset({"standby", "stopped"}),
    "delete": frozenset({"deleted"}), "undelete": None, "restore": None,
}
RESTING = frozenset({"running", "standby", "stopped", "failed", "deleted"})


@dataclass(frozen=True)
class Wish:
    wait: bool
    timeout_s: float
    target: str     # path and query without the two parameters


Answer = tuple[int, Headers, bytes]


@dataclass(frozen=True)
class Wait:
    """A change that was answered, and how to look at what became of it."""

    gate: Gate
    actor: Actor
    verb: str
    wish: Wish
    headers: Headers
    path: str

    async def get(self, path: str) -> tuple[int, Headers, bytes, Any]:
        return await self.gate.daphne.json("GET", path, self.headers)


def wish_of(exchange: Exchange) -> Wish:
    pairs = parse_qsl(exchange.query_string, keep_blank_values=True)
    asked = dict(pairs)
    rest = urlencode([(k, v) for k, v in pairs if k not in ("wait", "timeout_s")])
    path = exchange.raw_target.partition("?")[0]
    return Wish(_flag(asked.get("wait")), _seconds(asked.get("timeout_s")), f"{path}?{rest}" if rest else path)


def _flag(value: str | None) -> bool:
    if value in (None, "", "false", "0"):
        return False
    if value in ("true", "1"):
        return True
    raise Problem("invalid", "wait is true or false.", errors={"wait": ["true or false."]})


def _seconds(value: str | None) -> float:
    try:
        seconds = float(value) if value else DEFAULT_S
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST_S:
        raise Problem("invalid", "timeout_s is out of range.",
                      errors={"timeout_s": [f"A number from 0 to {LONGEST_S:g}."]})
    return seconds


async def change(gate: Gate, exchange: Exchange, verb: str) -> None:
    """A change that may be waited for. Without `wait=true` it is Daphne's alone."""
    wish = wish_of(exchange)
    client = gate.access.client(exchange)
    if not wish.wait:
        await to_daphne(gate, exchange)
        return
    actor = await gate.admit(exchange)
    limits = gate.config.limits
    body = await exchange.body(limits.json_body_bytes, limits.body_timeout_s)
    headers = headers_for(exchange, client)
    exchange.passed_on = True
    async with Departure(exchange.receive):
        status, answered, raw, value = await gate.daphne.json(exchange.method, wish.target, headers, body)
        if 200 <= status < 300 and isinstance(value, dict):
            look = [(k, v) for k, v in headers if k not in RAW and k != b"idempotency-key"]
            wait = Wait(gate, actor, verb, wish, look, exchange.path)
            began = asyncio.get_running_loop().time()
            approved = await after_approval(wait, value)
            if approved is not None:
                left_s = max(0.0, wish.timeout_s - (asyncio.get_running_loop().time() - began))
                wait = replace(wait, wish=replace(wish, timeout_s=left_s))
                status, answered, raw = await _after(wait, (status, answered, raw), approved)
    await exchange.begin(status, [*[h for h in answered if h[0] != b"content-length"],
                                  (b"content-length", b"%d" % len(raw))])
    await exchange.write(raw, more=False)


async def after_approval(wait: Wait, value: dict[str, Any]) -> dict[str, Any] | None:
    """What was answered, once a member has allowed it; None when nobody has decided in time. What waits for nobody is
    allowed already. Raises what it came to instead: approval_denied, approval_timeout, or why it could not be done."""
    asked = value.get("approval")
    if not isinstance(asked, dict):
        return value
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait.wish.timeout_s
    with wait.gate.nudges.about(str(value["id"])) as changed:
        while asked["state"] == "pending" and loop.time() < deadline:
            await pause(changed, min(LOOK_EVERY_S, deadline - loop.time()))
            status, _headers, _raw, seen = await wait.get(f"{PREFIX}/{value['id']}/approvals/{asked['id']}")
            if status != 200:
                return None  # somebody who may ask and may not look
            asked = seen
    if asked["state"] == "pending":
        return None
    refuse_unapproved(asked)
    said = {"safety_checkpoint": asked["result"].get("safety_checkpoint")} if "safety_checkpoint" in value else {}
    return {**value, **said}


def refuse_unapproved(asked: dict[str, Any]) -> None:
    by = (asked.get("decided_by") or {}).get("name", "")
    if asked["state"] in ("denied", "withdrawn"):
        raise Problem("approval_denied", f"{by} said no.", approval=asked["id"])
    if asked["state"] == "expired":
        raise Problem("approval_timeout", "Nobody decided in time.", approval=asked["id"])
    code = asked["result"].get("code")
    if code:
        raise Problem(code if code in STATUS else "conflict", str(asked["result"].get("detail", "")),
                      approval=asked["id"])


async def _after(wait: Wait, answer: Answer, value: dict[str, Any]) -> Answer:
    """The answer for the end of the wait: the object as it then is, under the status that says how it went."""
    try:
        if wait.verb == "checkpoint":
            return await _after_checkpoint(wait, answer, value)
        if wait.verb == "fork":
            return await _after_fork(wait, answer, value)
        return await _after_change(wait, answer, value) if "id" in value else answer
    except Problem:
        return answer  # the change was made; that nothing newer can be said is no error of it


async def _after_change(wait: Wait, answer: Answer, value: dict[str, Any]) -> Answer:
    workspace_id, verb = str(value["id"]), wait.verb
    state = await until(wait.gate, wait.actor, workspace_id, REACHED[verb], wait.wish.timeout_s)
    status, fresh, raw, now = await wait.get(f"/api/v1/workspaces/{workspace_id}")
    if status != 200:
        return answer if verb != "delete" else (200, answer[1], answer[2])
    if "safety_checkpoint" in value:  # said once, by the restore
        raw = json.dumps({**now, "safety_checkpoint": value["safety_checkpoint"]}).encode()
    return status_of(verb, state), [*fresh, *_places(answer)], raw


async def _after_fork(wait: Wait, answer: Answer, value: dict[str, Any]) -> Answer:
    """All of them, waited for at once; each is shown as it then is."""
    ids = [str(row["id"]) for row in value["results"]]
    states = await asyncio.gather(*(until(wait.gate, wait.actor, one, REACHED["create"], wait.wish.timeout_s)
                                    for one in ids))
    looks = [await wait.get(f"/api/v1/workspaces/{one}") for one in ids]
    shown = [look[3] if look[0] == 200 else before for before, look in zip(value["results"], looks, strict=True)]
    return 200 if "failed" in states else 201, answer[1], json.dumps({"results": shown}).encode()


async def _after_checkpoint(wait: Wait, answer: Answer, value: dict[str, Any]) -> Answer:
    """Until it is taken or not. Its workspace's nudges say when to look."""
    latest = answer
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(wait.wish.timeout_s):
            with wait.gate.nudges.about(wait.path.split("/")[4]) as changed:
                while value.get("state") == "capturing":
                    status, fresh, raw, value = await wait.get(f"{wait.path}/{value['id']}")
                    if status != 200:
                        return latest
                    latest = (200 if value["state"] == "failed" else 201), [*fresh, *_places(answer)], raw
                    if value["state"] == "capturing":
                        await pause(changed, LOOK_EVERY_S)
    return latest


def _places(answer: Answer) -> Headers:
    return [header for header in answer[1] if header[0] == b"location"]


def status_of(verb: str, state: str | None) -> int:
    """Reached 200, failed 200, not in time 202; a creation stays 201 unless it failed."""
    if state == "failed":
        return 200
    if verb == "create":
        return 201
    return 202 if state is None else 200


async def until(gate: Gate, actor: Actor, workspace_id: str, wanted: frozenset[str] | None, timeout_s: float
                ) -> str | None:
    """The state that ended the wait, or None when the time did."""
    try:
        async with asyncio.timeout(timeout_s):
            with gate.nudges.about(workspace_id) as changed:
                gate.access.forget("workspace", workspace_id)
                while True:
                    try:
                        state = (await gate.access.place(actor, workspace_id)).state
                    except Problem as problem:
                        if problem.status == 404:
                            return "deleted"
                        raise
                    if state in (wanted or RESTING) or state == "failed":
                        return state
                    await pause(changed, LOOK_EVERY_S)
    except TimeoutError:
        return None
