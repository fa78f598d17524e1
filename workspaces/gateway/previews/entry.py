"""Who may look at a preview, and as whom. Called by `front`, `house` and `standing`; calls `visitors` and `access`.

In this order: an API token with the scope `previews`; a share's link; a pass of this browser's; a public share. A pass
counts for requests of the workspace's own pages alone: another site's page, and another workspace's, may lead a person
here and nothing else (browsers say where a request comes from; who is no browser has no cookie).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from django.conf import settings

from workspaces import previews as rows
from workspaces.actors import Actor
from workspaces.api.errors import Problem
from workspaces.gateway.access import require
from workspaces.gateway.exchange import Exchange
from workspaces.gateway.gate import Gate
from workspaces.gateway.previews import rewriting
from workspaces.gateway.previews.rewriting import Outside
from workspaces.gateway.previews.visitors import Before
from workspaces.gateway.upstairs import Place

SCOPE = "previews"
MOST_PASSES = 8  # of one name: a page of another port may have planted some beside ours
LINK = rows.LINK_PARAMETER.encode() + b"="


@dataclass(frozen=True)
class Visit:
    """`by`: token, link, pass or public. `holder`: whose bound on what is in flight it counts against."""

    actor: Actor
    place: Place
    by: str
    holder: str


def cookie_name() -> str:
    return f"{'__Host-' if settings.TLS else ''}berth_preview"


async def enter(gate: Gate, exchange: Exchange, outside: Outside) -> Visit:
    """Raises Problem: preview_forbidden, unauthenticated (an API token that is none), scope_missing."""
    actor, by = await _who(gate, exchange, outside)
    try:
        place = await gate.access.place(actor, outside.name.workspace_id)
    except Problem as problem:
        raise (rows.forbidden() if problem.status == 404 else problem) from None
    holder = f"{actor.user_id}" if by in ("token", "pass") else f"{actor.token_id} {outside.address}"
    return Visit(actor, place, by, holder)


async def _who(gate: Gate, exchange: Exchange, outside: Outside) -> tuple[Actor, str]:
    before = partial(gate.rates.may_be_stranger, outside.address)
    token = token_of(exchange)
    if token is not None:
        actor = await gate.access.of_token(token, before)
        require(actor, SCOPE)
        return actor, "token"
    link = exchange.header(b"berth-share") or link_of(exchange)
    if link:
        return await gate.visitors.by_link(link, outside.name, before), "link"
    found = await _by_passes(gate, exchange, outside, before)
    if found is not None:
        return found, "pass"
    return await gate.visitors.by_nothing(outside.name, before), "public"


async def _by_passes(gate: Gate, exchange: Exchange, outside: Outside, before: Before) -> Actor | None:
    if is_foreign(exchange, outside):
        return None
    for secret in passes_of(exchange):
        try:
            return await gate.visitors.by_pass(secret, outside.name, before)
        except Problem as problem:
            if problem.code != "preview_forbidden":
                raise
    return None


def token_of(exchange: Exchange) -> str | None:
    """An API token; for a program with an Authorization of its own there is another header."""
    said = exchange.header(b"berth-authorization") or ""
    if not said:
        said = exchange.header(b"authorization") or ""
        if not rewriting.is_ours(said.encode("latin-1", "replace")):
            return None
    return said.partition(" ")[2].strip()


def link_of(exchange: Exchange) -> str:
    for pair in exchange.scope.get("query_string", b"").split(b"&"):
        if pair.startswith(LINK):
            return str(pair.removeprefix(LINK).decode("latin-1"))
    return ""


def target_of(exchange: Exchange) -> str:
    """Path and query byte for byte as they were asked for, but for a share's link."""
    query = exchange.scope.get("query_string", b"")
    if LINK not in query:
        return exchange.raw_target
    kept = b"&".join(pair for pair in query.split(b"&") if not pair.startswith(LINK))
    raw: bytes = exchange.scope.get("raw_path") or exchange.path.encode()
    return (raw + b"?" + kept if kept else raw).decode("latin-1")


def passes_of(exchange: Exchange) -> list[str]:
    """Every value under our cookie's name, in the browser's order."""
    name, found = cookie_name().encode(), []
    for key, value in exchange.scope["headers"]:
        for pair in value.split(b";") if key == b"cookie" else ():
            said, _, secret = pair.strip().partition(b"=")
            if said == name and secret:
                found.append(secret.decode("latin-1"))
    return found[:MOST_PASSES]


def is_foreign(exchange: Exchange, outside: Outside) -> bool:
    """Another site's page (or another workspace's, which browsers count as the same site) asks with this one's pass."""
    origin = exchange.header(b"origin")
    if origin is not None:
        return outside.sibling(origin) is None
    site = exchange.header(b"sec-fetch-site")
    if site in (None, "same-origin", "none"):
        return False
    if exchange.header(b"sec-fetch-mode") == "navigate":
        framed = exchange.header(b"sec-fetch-dest") != "document"
        return exchange.method not in ("GET", "HEAD") or (framed and site == "same-site" and not _led_here(
            exchange, outside))
    return not _led_here(exchange, outside)


def _led_here(exchange: Exchange, outside: Outside) -> bool:
    scheme, _, rest = (exchange.header(b"referer") or "").partition("://")
    return outside.sibling(f"{scheme}://{rest.partition('/')[0]}") is not None
