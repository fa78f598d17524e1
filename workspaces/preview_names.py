"""A preview's name: `{port}--{workspace id}.{preview domain}`. Pure. Read by the gateway's previews, the API and pages.

A name is one of ours exactly or not at all, so that nothing but a port of one workspace can ever be named by one.
"""

from __future__ import annotations

import re
from typing import NamedTuple

LABEL = re.compile(r"\A([1-9][0-9]{0,4})--([a-z2-7]{20})\Z")
MOST_PORT = 65535


class PreviewName(NamedTuple):
    port: int
    workspace_id: str

    @property
    def label(self) -> str:
        return f"{self.port}--{self.workspace_id}"


def of_label(label: str) -> PreviewName | None:
    found = LABEL.match(label.lower())
    if found is None or int(found[1]) > MOST_PORT:
        return None
    return PreviewName(int(found[1]), found[2])


def of_host(host: str, domain: str) -> PreviewName | None:
    """A Host header, or an origin's authority. A name that only looks like one of ours is None."""
    name, _, port = host.strip().lower().partition(":")
    suffix = "." + domain.partition(":")[0].lower()
    if (port and not port.isdigit()) or not name.rstrip(".").endswith(suffix):
        return None
    return of_label(name.rstrip(".").removesuffix(suffix))


def of_origin(origin: str, domain: str) -> PreviewName | None:
    """`http://3000--….preview.localhost:8000` and nothing after it."""
    scheme, _, rest = origin.partition("://")
    if scheme not in ("http", "https") or not rest or set(rest) & set("/\\@?#"):
        return None
    return of_host(rest, domain)
