"""What both hands know of httpx: how a request is handed to it, and what its exceptions mean here.

Called by `hands` and `hands_async`. Redirects are never followed: the token goes to the address it is for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from berth_client import __version__
from berth_client.problems import BadConfig, BerthError, StreamBroken, Unreachable
from berth_client.retry import Retry, refusal
from berth_client.wire import Answer, Request

CONNECT_S = 10.0
POOL_S = 60.0
#: Sockets and streams are long, so few connections would be a bottleneck.
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=32)
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)


@dataclass(frozen=True)
class Link:
    """Where, as whom, how patiently. Its token is in no repr."""

    base_url: str
    token: str = field(repr=False)
    retry: Retry = field(default_factory=Retry)
    options: dict[str, Any] = field(default_factory=dict, repr=False)

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", "Accept": "application/json, */*",
                "Accept-Encoding": "identity", "User-Agent": f"berth-client/{__version__}"}

    def socket_url(self, target: str) -> str:
        return f"ws{self.base_url.removeprefix('http')}{target}"


def arguments(link: Link, request: Request) -> dict[str, Any]:
    """For `httpx.Client.build_request`."""
    return {"method": request.method, "url": link.base_url + request.target, "headers": list(request.headers),
            "content": request.body, "timeout": timeouts(request.read_timeout_s)}


def timeouts(read_s: float) -> httpx.Timeout:
    return httpx.Timeout(connect=CONNECT_S, read=read_s, write=max(read_s, 60.0), pool=POOL_S)


@contextmanager
def failures_named() -> Iterator[None]:
    """httpx's exceptions as this package's; the cause is kept."""
    try:
        yield
    except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
        raise BadConfig(f"Not an address: {error}") from error
    except httpx.TransportError as error:
        said = f"{type(error).__name__}: {error}".rstrip(": ")
        raise Unreachable(said, sent=not isinstance(error, NEVER_SENT)) from error


@contextmanager
def breaks_named() -> Iterator[None]:
    """While a body is read: what ends early is broken, never taken for whole."""
    try:
        yield
    except httpx.TransportError as error:
        raise StreamBroken(f"The answer broke off: {type(error).__name__}") from error


def answer_of(response: httpx.Response) -> Answer:
    return Answer(response.status_code, response.headers, response.content)


def good(answer: Answer) -> Answer:
    """The answer, if it is a good one. Raises what it is instead."""
    error: BerthError | None = refusal(answer)
    if error is not None:
        raise error
    return answer
