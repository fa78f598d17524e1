"""Idempotency-Key on execs: the same key of the same actor on the same workspace names the same exec for 24 h.

Called by `execs`; keeps what it promised in Redis, so a restarted gateway still knows it. An exec is named
before it exists (its id is made here), and hostd answers a known id with that exec: so two requests with one
key, at once or a day apart, meet in one process.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import redis.asyncio as redis
from redis.exceptions import RedisError

from workspaces.actors import Actor
from workspaces.api.errors import Problem
from workspaces.ids import new_id

KEPT_S = 24 * 3600
LONGEST_KEY = 255


@dataclass(frozen=True)
class Named:
    exec_id: str
    again: bool   # the key was used before: the exec may be there already


async def exec_named(client: redis.Redis[Any], actor: Actor, workspace_id: str, key: str | None, body: dict[str, Any]
                     ) -> Named:
    """The exec's id for this request. Raises `idempotency_conflict` for a key that meant something else."""
    if key_of(key) is None:
        return Named(new_id(), again=False)
    name = _name(actor, workspace_id, key)
    print_ = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    exec_id = new_id()
    try:
        kept = await client.set(name, f"{exec_id} {print_}", nx=True, get=True, ex=KEPT_S)
    except (RedisError, OSError):
        raise forgotten() from None
    if kept is None:
        return Named(exec_id, again=False)
    kept_id, _, kept_print = bytes(kept).decode().partition(" ")
    if kept_print != print_:
        raise Problem("idempotency_conflict", "This Idempotency-Key was used with another body.")
    return Named(kept_id, again=True)


def key_of(said: str | None) -> str | None:
    """The header, if it is there and is one. The same rule as upstairs (`api.idempotency`)."""
    if said is not None and not (0 < len(said) <= LONGEST_KEY and said.isascii() and said.isprintable()):
        raise Problem("invalid", "An Idempotency-Key is 1 to 255 printable ASCII characters.",
                      errors={"Idempotency-Key": ["1 to 255 printable ASCII characters."]})
    return said


def forgotten() -> Problem:
    return Problem("unavailable", "The key cannot be remembered now; nothing was started.", retry_after_s=1)


def _name(actor: Actor, workspace_id: str, key: str | None) -> str:
    owner = f"{actor.user_id}\0{workspace_id}\0{key}"
    return "berth:exec-key:" + hashlib.sha256(owner.encode("utf-8", "replace")).hexdigest()
