"""Keeps other sites' pages from opening our WebSockets with a visitor's cookie. Called by asgi, before any session
is read; knows no consumer.

A browser always says where its page comes from; a program that says nothing carries no cookie jar of a victim, and
is asked for its token further in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http.request import validate_host

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


class SameOrigin:
    def __init__(self, inner: Any) -> None:
        self.inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if may_connect(dict(scope.get("headers", []))):
            await self.inner(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 4403})


def may_connect(headers: dict[bytes, bytes]) -> bool:
    """The origin is absent, is the very host that was asked, or is one the settings trust."""
    origin = headers.get(b"origin", b"").decode("latin-1")
    if not origin:
        return True
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    host = headers.get(b"host", b"").decode("latin-1")
    parts = urlsplit(origin)
    wanted = ("https",) if settings.TLS else ("http", "https")
    return parts.scheme in wanted and parts.netloc == host and validate_host(_name(host), settings.ALLOWED_HOSTS)


def _name(host: str) -> str:
    return host.rsplit(":", 1)[0] if host.rpartition(":")[2].isdigit() else host
