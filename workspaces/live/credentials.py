"""Who opens an events socket, judged where the socket ends. Called by the consumers; calls selectors.

The gateway in front judges the same by itself; here it is judged again, because Daphne must not depend on who
stands before it. A cookie needs an exact Origin (an upgrade is a GET that CSRF and CORS never see); a Bearer
token needs none.
"""

from __future__ import annotations

from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, parse_cookie

from workspaces import selectors
from workspaces.actors import Actor
from workspaces.api.errors import Problem

Scope = dict[str, Any]


class Credentials:
    """What a socket was opened with: kept to ask again later whether it still holds."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    @property
    def host(self) -> str:
        return self._header(b"host") or "localhost"

    async def actor(self) -> Actor:
        """Raises Problem: unauthenticated, token_expired, origin_refused, scope_missing."""
        bearer = self._header(b"authorization")
        if bearer is not None:
            kind, _, secret = bearer.partition(" ")
            if kind.lower() != "bearer" or not secret.strip():
                raise Problem("unauthenticated", "Only Bearer tokens are understood.")
            actor: Actor = await database_sync_to_async(selectors.actor_from_token)(secret.strip())
        else:
            actor = await self._session_actor()
        if not actor.may("workspaces:read"):
            raise Problem("scope_missing", "This needs the scope workspaces:read.")
        return actor

    async def _session_actor(self) -> Actor:
        session = parse_cookie(self._header(b"cookie") or "").get(settings.SESSION_COOKIE_NAME, "")
        actor: Actor | None = await database_sync_to_async(selectors.actor_from_session)(session)
        if actor is None:
            raise Problem("unauthenticated", "Send a token, or sign in.")
        if not self.origin_is_ours():
            raise Problem("origin_refused", "This origin may not open a socket with a cookie.")
        return actor

    def origin_is_ours(self) -> bool:
        """Exactly the scheme, name and port that were asked, or one that settings name in full."""
        origin = self._header(b"origin")
        request = HttpRequest()
        request.META["HTTP_HOST"] = self._header(b"host") or ""
        try:
            host = request.get_host()
        except DisallowedHost:
            return False
        scheme = self._header(b"x-forwarded-proto") or "http"
        exact = {o for o in settings.CSRF_TRUSTED_ORIGINS if "*" not in o}
        return origin is not None and (origin == f"{scheme}://{host}" or origin in exact)

    def _header(self, name: bytes) -> str | None:
        for key, value in self._scope["headers"]:
            if key.lower() == name:
                return str(value.decode("latin-1"))
        return None
