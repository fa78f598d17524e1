"""What a request looks like to the program, and its answer to the visitor. Pure. Used by `passage` and `frames`.

Dev servers refuse names they do not know, so the program hears its own: `Host: localhost:{port}`. A page's `Origin` and
`Referer` are told in the same language, or the two would disagree and be taken for a forgery; then the program hears
nothing of the outside name at all (some prefer `X-Forwarded-Host` to `Host` when they compare). What the program says
of `localhost` comes back as the preview's name. Our credentials never get in, and none of our names comes out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from workspaces import preview_names
from workspaces.gateway.headers import HOP_BY_HOP, named_by_connection
from workspaces.preview_names import PreviewName

Headers = list[tuple[bytes, bytes]]

#: Ours, whatever follows: on every origin, with the prefix of TLS or without.
OUR_COOKIES = re.compile(rb"\A(?:__host-|__secure-)?berth_", re.IGNORECASE)
NOT_TO_GUEST = HOP_BY_HOP | {
    b"host", b"origin", b"referer", b"cookie", b"authorization", b"content-length", b"expect", b"forwarded",
    b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"x-forwarded-port", b"x-forwarded-prefix",
    b"x-forwarded-server", b"x-real-ip", b"berth-authorization", b"berth-share", b"berth-actor"}
#: Orders to a proxy in front, and to a browser about more than this origin; `date` is said by our own server.
NOT_FROM_GUEST = HOP_BY_HOP | {
    b"date", b"alt-svc", b"clear-site-data", b"berth-error", b"x-accel-redirect", b"x-accel-charset",
    b"x-accel-expires", b"x-accel-limit-rate", b"x-sendfile", b"x-lighttpd-send-file", b"x-lighttpd-send-file2",
    b"x-reproxy-url"}
LOCAL = re.compile(r"\Ahttps?://(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\]|\[::\])(?::([0-9]{1,5}))?(?=[/?#]|\Z)",
                   re.IGNORECASE)
OURS = "berth_"


@dataclass(frozen=True)
class Outside:
    """How the visitor spells it: scheme, `3000--….preview.localhost:8000`, and from where they come."""

    name: PreviewName
    domain: str
    scheme: str
    host: str
    address: str

    @property
    def local(self) -> str:
        return f"localhost:{self.name.port}"

    def of_port(self, port: int) -> str:
        """The origin of another port of the same workspace."""
        _, _, behind = self.host.partition(":")
        label = PreviewName(port, self.name.workspace_id).label
        return f"{self.scheme}://{label}.{self.domain.partition(':')[0]}" + (f":{behind}" if behind else "")

    def sibling(self, origin: str) -> int | None:
        """The port, when this is an origin of the same workspace's."""
        found = preview_names.of_origin(origin, self.domain)
        return found.port if found is not None and found.workspace_id == self.name.workspace_id else None


def for_guest(given: Headers, outside: Outside) -> Headers:
    """The head that the program hears, but for what frames its body."""
    dropped = NOT_TO_GUEST | named_by_connection(given)
    kept: Headers = [(b"host", outside.local.encode())]
    kept += [(name, value) for name, value in given if name not in dropped]
    cookies = _cookies(given)
    if cookies:
        kept.append((b"cookie", cookies))
    kept += [(name, value) for name, value in given if name == b"authorization" and not is_ours(value)]
    told = _told_locally(given, outside)
    kept += told
    kept.append((b"x-forwarded-for", outside.address.encode("latin-1")))
    if not any(name == b"origin" for name, _ in told):
        _, _, port = outside.host.partition(":")
        kept += [(b"x-forwarded-proto", outside.scheme.encode()), (b"x-forwarded-host", outside.host.encode("latin-1")),
                 (b"x-forwarded-port", (port or {"https": "443"}.get(outside.scheme, "80")).encode())]
        kept += [(name, value) for name, value in given if name == b"origin"]
    return kept


def _told_locally(given: Headers, outside: Outside) -> Headers:
    """Origin and Referer of pages of this workspace; a Referer of anybody else passes unless it is of our own pages."""
    told: Headers = []
    for name, value in given:
        if name not in (b"origin", b"referer"):
            continue
        scheme, _, rest = value.decode("latin-1").partition("://")
        authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
        port = outside.sibling(f"{scheme}://{authority}")
        if port is not None:
            behind = rest[len(authority):]
            if not behind.startswith("/.berth/"):
                told.append((name, f"http://localhost:{port}{behind}".encode("latin-1")))
        elif name == b"referer":
            told.append((name, value))
    return told


def is_ours(authorization: bytes) -> bool:
    """An API token of this product's. Anything else is between the visitor and the program."""
    scheme, _, secret = authorization.partition(b" ")
    return scheme.lower() == b"bearer" and secret.strip().startswith(b"berth_")


def _cookies(given: Headers) -> bytes:
    """The program's own, byte for byte."""
    pairs = [pair for name, value in given if name == b"cookie" for pair in value.split(b";")]
    return b"; ".join(pair.strip() for pair in pairs if pair.strip() and not OUR_COOKIES.match(pair.strip()))


def for_visitor(given: Headers, outside: Outside, asked_origin: str, status: int) -> Headers:
    """The program's headers as the visitor may have them. `asked_origin`: what the visitor's request said."""
    dropped = NOT_FROM_GUEST | named_by_connection(given)
    if status in (204, 304):
        dropped |= {b"content-length"}  # true there, but it frames nothing
    kept: Headers = []
    for name, value in given:
        if name in dropped:
            continue
        if name == b"set-cookie":
            cleaned = cookie_of(value)
            if cleaned is not None:
                kept.append((name, cleaned))
        elif name in (b"location", b"content-location"):
            kept.append((name, located(value, outside)))
        elif name == b"access-control-allow-origin":
            kept.append((name, _allowed(value, outside, asked_origin)))
        else:
            kept.append((name, value))
    return kept


def cookie_of(value: bytes) -> bytes | None:
    """Without `Domain`, so that it stays on this origin; None where its name is (or would read as) one of ours."""
    first, *attributes = value.split(b";")
    name, equals, said = first.partition(b"=")
    if not equals or not name.strip():
        return None  # nameless: its value would be read as a name
    if OUR_COOKIES.match(name.strip()):
        return None
    kept = [part for part in attributes if part.partition(b"=")[0].strip().lower() != b"domain"]
    return b";".join([name + b"=" + said, *kept])


def located(value: bytes, outside: Outside) -> bytes:
    """`http://localhost:3000/login` as the visitor reaches it; everything else as it is."""
    said = value.decode("latin-1")
    found = LOCAL.match(said)
    if found is None:
        return value
    port = int(found[1] or 80)
    if not 0 < port <= preview_names.MOST_PORT:
        return value
    return (outside.of_port(port) + said[found.end():]).encode("latin-1")


def _allowed(value: bytes, outside: Outside, asked_origin: str) -> bytes:
    """The program allows the origin it was told of; the browser asked for another spelling of it."""
    port = outside.sibling(asked_origin)
    found = LOCAL.match(value.decode("latin-1"))
    if port is None or found is None or int(found[1] or 80) != port:
        return value
    return asked_origin.encode("latin-1")
