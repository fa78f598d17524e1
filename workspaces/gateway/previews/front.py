"""Everything that is asked for under a preview's name comes in here, before any other route. Called by `app`; calls
`entry`, `house`, `passage`, `frames`. Whatever is raised becomes a page for a person and a problem for a program.
"""

from __future__ import annotations

from workspaces.api.errors import Problem
from workspaces.gateway.exchange import Exchange
from workspaces.gateway.gate import Gate
from workspaces.gateway.previews import entry, frames, house, passage
from workspaces.gateway.previews.entry import Visit
from workspaces.gateway.previews.rewriting import Outside
from workspaces.gateway.socket import Socket
from workspaces.preview_names import of_host


async def serve(gate: Gate, exchange: Exchange, host: str) -> None:
    exchange.passed_on = True  # what is asked of a program is nobody's act here
    person, outside = is_person(exchange), None
    try:
        outside = outside_of(gate, exchange, host)
        await _served(gate, exchange, outside, person)
    except Problem as problem:
        if exchange.answered:
            raise
        await house.refuse(gate, exchange, outside, problem, person=person)


async def serve_socket(gate: Gate, exchange: Exchange, socket: Socket, host: str) -> None:
    """Raises Problem: `app` answers the handshake with it."""
    exchange.passed_on = True
    outside = outside_of(gate, exchange, host)
    await frames.forward(gate, exchange, socket, outside, await _admitted(gate, exchange, outside))


def outside_of(gate: Gate, exchange: Exchange, host: str) -> Outside:
    name = of_host(host, gate.config.preview_domain)
    if name is None:
        raise Problem("not_found", "There is no preview here: a name is PORT--WORKSPACE.", reason="no_such_name")
    address, scheme = gate.access.client(exchange)
    return Outside(name, gate.config.preview_domain, scheme, host.strip().lower(), address)


def is_person(exchange: Exchange) -> bool:
    """Somebody looks at it: a page is asked for, not a part of one."""
    mode = exchange.header(b"sec-fetch-mode")
    return (exchange.method in ("GET", "HEAD") and "text/html" in (exchange.header(b"accept") or "").lower()
            and mode in (None, "navigate"))


async def _served(gate: Gate, exchange: Exchange, outside: Outside, person: bool) -> None:
    if exchange.path.startswith(house.PREFIX):
        await house.answer(gate, exchange, outside)
        return
    if exchange.method in ("CONNECT", "TRACE"):
        raise Problem("method_not_allowed", "Neither is passed on.")
    if person and entry.link_of(exchange):
        await house.by_link(gate, exchange, outside)
        return
    try:
        visit = await _admitted(gate, exchange, outside)
    except Problem as problem:
        if problem.code == "preview_forbidden" and is_siblings_preflight(exchange, outside):
            await _allow_preflight(exchange)
            return
        raise
    await passage.forward(gate, exchange, outside, visit, person=person)


async def _admitted(gate: Gate, exchange: Exchange, outside: Outside) -> Visit:
    """As `entry.enter`; whoever is refused is counted by where they come from."""
    try:
        visit = await entry.enter(gate, exchange, outside)
    except Problem as problem:
        if problem.status in (401, 403):
            gate.rates.stranger(outside.address)
        raise
    exchange.actor, exchange.actor_name = visit.actor, f"{visit.actor.type}:{visit.actor.name}"
    return visit


def is_siblings_preflight(exchange: Exchange, outside: Outside) -> bool:
    """A page of another port of this workspace asks whether it may ask. Browsers ask that without a cookie, so it is
    answered here without a word to the program; the request that follows needs the pass, and the program's own answer
    to it decides whether the page may read."""
    return (exchange.method == "OPTIONS" and exchange.header(b"access-control-request-method") is not None
            and outside.sibling(exchange.header(b"origin") or "") is not None)


async def _allow_preflight(exchange: Exchange) -> None:
    asked = [(b"access-control-allow-origin", b"origin"),
             (b"access-control-allow-methods", b"access-control-request-method"),
             (b"access-control-allow-headers", b"access-control-request-headers")]
    said = [(name, (exchange.header(source) or "").encode("latin-1")) for name, source in asked]
    await exchange.begin(204, [*(pair for pair in said if pair[1]), (b"access-control-allow-credentials", b"true"),
                               (b"vary", b"origin"), (b"cache-control", b"no-store")])
    await exchange.write(b"", more=False)
