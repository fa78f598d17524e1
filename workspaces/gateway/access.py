"""Who asks, and whether a browser was tricked into asking. Every route and socket of the gateway begins here.

Called by `app` and the routes; calls `lookups` (and through them `upstairs`). A program shows a Bearer token;
a browser its session cookie, and then a change needs Django's own CSRF check and a socket an exact Origin.
Secrets are looked up by hash, kept nowhere, and logged never.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, parse_cookie
from django.middleware.csrf import CsrfViewMiddleware

from workspaces.actors import Actor
from workspaces.api.errors import Problem
from workspaces.gateway.config import Config
from workspaces.gateway.exchange import Exchange
from workspaces.gateway.headers import client_of
from workspaces.gateway.lookups import Table
from workspaces.gateway.nudges import EVERYTHING
from workspaces.gateway.upstairs import Place, Upstairs

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
COOKIE_HEADER_BYTES = 16 * 1024


class Access:
    def __init__(self, config: Config, upstairs: Upstairs) -> None:
        self._config = config
        self._upstairs = upstairs
        self._tokens: Table[Actor] = Table()
        self._sessions: Table[Actor] = Table()
        self._places: Table[Place] = Table()

    def forget(self, kind: str, subject: str) -> None:
        """A nudge: what it may touch is asked anew. Revocations are rare, so they empty a whole table."""
        if kind == "workspace":
            self._places.drop_if(lambda key, _place: key.endswith("/" + subject))
            return
        if kind in ("token", "user", EVERYTHING):
            self._tokens.drop_all()
        if kind in ("session", "user", EVERYTHING):
            self._sessions.drop_all()
        if kind != "session":
            self._places.drop_all()

    async def actor(self, exchange: Exchange) -> Actor:
        """Who asks, or the problem that says why nobody does. A cookie that changes something passes CSRF first."""
        bearer = bearer_of(exchange)
        if bearer is not None:
            return await self._token_actor(bearer)
        cookies = cookies_of(exchange)
        actor = await self._session_actor(cookies)
        if exchange.scope["type"] == "websocket":
            self._check_origin(exchange)
        elif exchange.method not in SAFE_METHODS:
            refuse_forgery(self._as_django_sees_it(exchange, cookies))
        return actor

    async def identified(self, exchange: Exchange) -> Actor | None:
        """Whose credential it is, if there is one, whatever it is sent for. Decides nothing. Raises as `actor`."""
        bearer, cookies = bearer_of(exchange), cookies_of(exchange)
        if bearer is not None:
            return await self._token_actor(bearer)
        return await self._session_actor(cookies) if cookies.get(settings.SESSION_COOKIE_NAME) else None

    def remembers(self, exchange: Exchange) -> bool:
        """Whether this credential was good a moment ago."""
        bearer = bearer_of(exchange)
        if bearer is not None:
            return self._tokens.knows(_hashed(bearer))
        return self._sessions.knows(_hashed(cookies_of(exchange).get(settings.SESSION_COOKIE_NAME, "")))

    async def place(self, actor: Actor, workspace_id: str) -> Place:
        """The workspace for this actor; not there and not theirs are one and the same refusal."""
        if actor.workspace_ids is not None and workspace_id not in actor.workspace_ids:
            raise Problem("not_found", "No such workspace.")
        key = f"{actor.user_id}:{actor.token_id or ''}/{workspace_id}"
        return await self._places.get(key, lambda: self._upstairs.place(actor, workspace_id))

    async def metadata_place(self, actor: Actor, workspace_id: str) -> Place:
        """As `place`, and for an admin everybody's: for what is no contents."""
        if not actor.is_admin:
            return await self.place(actor, workspace_id)
        key = f"{actor.user_id}:{actor.token_id or ''}:metadata/{workspace_id}"
        return await self._places.get(key, lambda: self._upstairs.metadata_place(actor, workspace_id))

    def client(self, exchange: Exchange) -> tuple[str, str]:
        """(address, scheme) of the client, as far as it can be believed."""
        peer = (exchange.scope.get("client") or ("", 0))[0]
        scheme = "https" if exchange.scope["scheme"] in ("https", "wss") else "http"
        return client_of(peer, exchange.header(b"x-forwarded-for"), exchange.header(b"x-forwarded-proto"), scheme,
                         self._config.trusted_proxies)

    async def of_token(self, secret: str, before: Callable[[], None]) -> Actor:
        """Of a preview's visitor; `before` what is not known is looked up."""
        if not self._tokens.knows(_hashed(secret)):
            before()
        return await self._token_actor(secret)

    async def _token_actor(self, secret: str) -> Actor:
        key = _hashed(secret)
        return await self._tokens.get(key, lambda: self._upstairs.actor_from_token(secret))

    async def _session_actor(self, cookies: dict[str, str]) -> Actor:
        session = cookies.get(settings.SESSION_COOKIE_NAME)
        if not session:
            raise Problem("unauthenticated", "Send a token, or sign in.")
        key = _hashed(session)
        return await self._sessions.get(key, lambda: self._upstairs.actor_from_session(session))

    def _check_origin(self, exchange: Exchange) -> None:
        """An upgrade is a GET that CSRF and CORS never see: with a cookie only our very own origin may ask."""
        origin = exchange.header(b"origin")
        if origin is None or origin not in self._origins(exchange):
            raise Problem("origin_refused", "This origin may not open a socket with a cookie.")

    def refuse_strange_origin(self, exchange: Exchange) -> None:
        """A page of somebody else's, or one whose name was pointed at this address after it was loaded."""
        origin, own = exchange.header(b"origin"), self._origins(exchange)
        if not own or (origin is not None and origin not in own):
            raise Problem("origin_refused", "Neither another site's page nor a name that is not ours may ask this.")

    def _origins(self, exchange: Exchange) -> set[str]:
        """What a page of ours calls itself here; nothing where the Host is none of ours."""
        request = self._as_django_sees_it(exchange, {})
        try:
            own = f"{request.scheme}://{request.get_host()}"
        except DisallowedHost:
            return set()
        return {own, *(o for o in settings.CSRF_TRUSTED_ORIGINS if "*" not in o)}

    def _as_django_sees_it(self, exchange: Exchange, cookies: dict[str, str]) -> HttpRequest:
        request = _BareRequest(self.client(exchange)[1])
        request.method = exchange.method
        request.path = exchange.path
        request.COOKIES = cookies
        names = {"HTTP_HOST": b"host", "HTTP_ORIGIN": b"origin", "HTTP_REFERER": b"referer",
                 settings.CSRF_HEADER_NAME: settings.CSRF_HEADER_NAME[5:].replace("_", "-").lower().encode()}
        for key, header in names.items():
            value = exchange.header(header)
            if value is not None:
                request.META[key] = value
        if settings.SECURE_PROXY_SSL_HEADER:
            request.META[settings.SECURE_PROXY_SSL_HEADER[0]] = request._get_scheme()
        request.META["SERVER_PORT"] = str((exchange.scope.get("server") or ("", 80))[1] or 80)
        return request


class _BareRequest(HttpRequest):
    """Just enough of a request for Django's CSRF check: headers, cookies, and a form that is empty."""

    def __init__(self, scheme: str) -> None:
        super().__init__()
        self._scheme = scheme

    def _get_scheme(self) -> str:
        return self._scheme


class _Check(CsrfViewMiddleware):
    def _reject(self, request: HttpRequest, reason: str) -> str:
        return reason


def refuse_forgery(request: HttpRequest) -> None:
    """Django's own check, so that what passes here and what passes there can never differ."""
    check = _Check(lambda _request: None)  # type: ignore[arg-type]
    check.process_request(request)
    reason = check.process_view(request, None, (), {})  # type: ignore[arg-type]
    if reason:
        raise Problem("csrf_failed", str(reason))


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def bearer_of(exchange: Exchange) -> str | None:
    value = exchange.header(b"authorization")
    if value is None:
        return None
    scheme, _, secret = value.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise Problem("unauthenticated", "Only Bearer tokens are understood.")
    return secret.strip()


def cookies_of(exchange: Exchange) -> dict[str, str]:
    raw = "; ".join(v.decode("latin-1") for k, v in exchange.scope["headers"] if k == b"cookie")
    if not raw or len(raw) > COOKIE_HEADER_BYTES:
        return {}
    return parse_cookie(raw)


def require(actor: Actor, scope: str) -> None:
    if not actor.may(scope):
        raise Problem("scope_missing", f"This needs the scope {scope}.", scope=scope)
