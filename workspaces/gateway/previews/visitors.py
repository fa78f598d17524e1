"""As whom a visitor acts, kept for seconds and asked anew after every nudge that may have changed it. Called by
`entry`; calls `upstairs`. Knows no HTTP.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable

from workspaces.actors import Actor
from workspaces.gateway.lookups import Table
from workspaces.gateway.nudges import EVERYTHING
from workspaces.gateway.upstairs import Upstairs
from workspaces.preview_names import PreviewName

Before = Callable[[], None]


class Visitors:
    def __init__(self, upstairs: Upstairs) -> None:
        self._upstairs = upstairs
        self._kept: Table[Actor] = Table()

    def forget(self, kind: str, subject: str) -> None:
        """Whoever makes, ends or may make a share, or a session, rings."""
        if kind == "workspace":
            self._kept.drop_if(lambda key, _actor: key.startswith(subject + "/"))
        elif kind in ("session", "user", "token", EVERYTHING):
            self._kept.drop_all()

    async def by_pass(self, secret: str, name: PreviewName, before: Before) -> Actor:
        """`before` what is not known is looked up: a guess is to cost whoever guesses, not the database."""
        return await self._get(_key(name, "pass", secret), before, lambda: self._upstairs.preview_by_pass(secret, name))

    async def by_link(self, token: str, name: PreviewName, before: Before) -> Actor:
        return await self._get(_key(name, "link", token), before, lambda: self._upstairs.preview_by_link(token, name))

    async def by_nothing(self, name: PreviewName, before: Before) -> Actor:
        return await self._get(_key(name, "public", ""), before, lambda: self._upstairs.preview_by_nothing(name))

    async def _get(self, key: str, before: Before, load: Callable[[], Awaitable[Actor]]) -> Actor:
        async def loaded() -> Actor:
            before()
            return await load()
        return await self._kept.get(key, loaded)


def _key(name: PreviewName, how: str, secret: str) -> str:
    hashed = hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
    return f"{name.workspace_id}/{name.port}/{how}/{hashed}"
