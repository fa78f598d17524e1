"""The bell: tells whoever listens that something changed, after commit. Called by events, services and tokens.

Two ways at once, both of them lossy on purpose: the channel layer (browser consumers) and the Redis channel
`berth.nudge` (the gateway's short-lived lookups). A Redis that is away never fails a change.
"""

from __future__ import annotations

import json
import logging
from functools import lru_cache
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import transaction

from workspaces.on_commit import once

logger = logging.getLogger(__name__)

CHANNEL = "berth.nudge"
#: The `type` of channel-layer messages: consumers handle it in `async def berth_nudge(self, message)`.
TYPE = "berth.nudge"


def workspace_changed(workspace_id: str, seq: int, owner_id: int, gone: bool = False) -> None:
    """On commit: groups `workspace.{id}` and `user.{owner}`, and a line for the gateway."""
    message = {"type": TYPE, "workspace": workspace_id, "seq": seq, "owner": owner_id, "gone": gone}

    def ring() -> None:
        _to_groups([f"workspace.{workspace_id}", f"user.{owner_id}"], message)
        _to_gateway("workspace", workspace_id)

    once(("nudge", workspace_id, gone), ring)


def credential_changed(kind: str, credential_id: str) -> None:
    """On commit: a token (`"token"`, its id), a session (`"session"`, its key) or all of a user (`"user"`, id)."""
    transaction.on_commit(lambda: _to_gateway(kind, credential_id))


def approved(approval_id: str) -> None:
    """On commit: an exec that waited may begin; a gateway begins it."""
    transaction.on_commit(lambda: _to_gateway("approval", approval_id))


@lru_cache(maxsize=1)
def connection() -> Any:
    """The process's Redis client (thread-safe), or None where there is no Redis at all."""
    import redis

    if not settings.REDIS_URL:
        return None
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=1)


def _to_gateway(kind: str, thing: str) -> None:
    client = connection()
    if client is None:
        return
    try:
        client.publish(CHANNEL, json.dumps({"kind": kind, "id": thing}))
    except Exception as error:  # a bell that does not ring is no reason to fail what has been committed
        logger.warning("nudge lost: %s", error)


def _to_groups(groups: list[str], message: dict[str, Any]) -> None:
    layer = get_channel_layer()
    try:
        for group in groups:
            _send(layer, group, message)
    except Exception as error:  # as above
        logger.warning("nudge lost: %s", error)


def _send(layer: Any, group: str, message: dict[str, Any]) -> None:
    """Straight through the process's own Redis client where the layer is Redis: the layer itself would open a
    connection for each event loop, and a sync caller makes a new loop each time."""
    client = connection()
    if client is not None and hasattr(layer, "_layers"):
        prefix = settings.CHANNEL_LAYERS["default"]["CONFIG"]["prefix"]
        client.publish(f"{prefix}__group__{group}", layer.serialize(message))
    else:
        async_to_sync(layer.group_send)(group, message)
