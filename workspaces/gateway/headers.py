"""Which headers may pass from one hop to the next, and who the client is. Pure.

Called by the relays to hostd and to Daphne. Sources: RFC 9110 section 7.6.1 (hop-by-hop), RFC 7239 (forwarding).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from workspaces.gateway.config import Network

HOP_BY_HOP = frozenset({
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
    b"trailer", b"transfer-encoding", b"upgrade",
})
#: What a client could use to pretend to be a proxy, or to change its method on the way.
PRETENDED = frozenset({
    b"forwarded", b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"x-forwarded-port",
    b"x-forwarded-prefix", b"x-forwarded-server", b"x-real-ip", b"x-http-method-override", b"x-original-url",
    b"x-rewrite-url", b"berth-actor",
})
#: The only request headers that mean something to hostd; credentials and cookies never get there.
TO_HOST = frozenset({
    b"range", b"if-range", b"if-match", b"if-none-match", b"if-modified-since", b"if-unmodified-since",
    b"content-type", b"content-length",
})
FROM_HOST_DROPPED = HOP_BY_HOP | {b"server", b"date", b"set-cookie", b"x-content-type-options", b"cache-control",
                                  b"referrer-policy", b"content-disposition", b"content-security-policy"}
#: For bytes that a guest wrote: a browser must neither render nor guess (field case 019).
INERT = [
    (b"content-disposition", b"attachment"), (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"sandbox; default-src 'none'"), (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"), (b"cross-origin-resource-policy", b"same-origin"),
]


def named_by_connection(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """Headers that the sender's own Connection header declares to be for this hop only."""
    return frozenset(token.strip().lower() for name, value in headers if name == b"connection"
                     for token in value.split(b","))


def client_of(peer: str, forwarded_for: str | None, forwarded_proto: str | None, scheme: str,
              trusted: tuple[Network, ...]) -> tuple[str, str]:
    """(address, scheme) of the client. What headers say counts only when a front we were told of sent them."""
    if not _is_in(peer, trusted):
        return peer, scheme
    said = (forwarded_proto or "").strip().lower()
    scheme = said if said in ("http", "https") else scheme
    for hop in reversed([h.strip() for h in (forwarded_for or "").split(",") if h.strip()]):
        if not _is_in(hop, trusted):
            return hop, scheme
    return peer, scheme


def _is_in(address: str, networks: tuple[Network, ...]) -> bool:
    if not networks:
        return False
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(parsed in network for network in networks)


def bare_host(host: str) -> str:
    """A Host header without its port, in lower case and without a closing dot."""
    host = host.strip().lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].rstrip(".")


def is_preview_host(host: str, preview_domain: str) -> bool:
    name = bare_host(host)
    domain = bare_host(preview_domain)
    return name == domain or name.endswith("." + domain)
