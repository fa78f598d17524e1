"""What the gateway was told: sockets, sizes, times. Read once at start, frozen after.

Made by `__main__` (and by tests), handed to every part of the gateway. Reads the environment and, for what
Django decides too (the preview domain, the Redis address), Django's settings; knows no request.
"""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

MIB = 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """Sizes in bytes, times in seconds, counts of things at once."""

    json_body_bytes: int = 2 * MIB
    stranger_body_bytes: int = 64 * 1024
    header_bytes: int = 32 * 1024
    head_timeout_s: float = 20.0
    body_timeout_s: float = 30.0          # for a whole JSON body
    upload_idle_s: float = 120.0          # between two pieces of a streamed one
    requests_per_actor: int = 256
    daphne_requests_per_client: int = 64  # by credential, else by address
    sockets_per_actor: int = 256
    rate_per_token_s: float = 300.0       # requests in the long run; 0 is no bound
    rate_burst_per_token: float = 3000.0
    rate_per_address_s: float = 50.0      # of those who are not known
    rate_burst_per_address: float = 500.0
    wake_timeout_s: float = 60.0
    longest_wake_s: float = 300.0
    host_patience_s: float = 15.0         # how long a restarting hostd is waited for
    recheck_s: float = 5.0                # an open socket asks again whether it may be open
    socket_message_bytes: int = 1 * MIB
    preview_message_bytes: int = 16 * MIB  # one message of a preview's socket
    preview_requests_per_visitor: int = 512
    preview_answer_s: float = 120.0       # how long a program may take to begin its answer
    socket_ping_s: float = 20.0           # a quiet socket is kept alive through proxies that cut silence
    socket_silence_s: float = 30.0        # a ping unanswered for so long: the other end is gone


@dataclass(frozen=True)
class Config:
    data_dir: Path
    host_socket: Path
    daphne_socket: Path
    redis_url: str
    preview_domain: str
    public_url: str = ""
    trusted_proxies: tuple[Network, ...] = ()
    limits: Limits = field(default_factory=Limits)

    def app_origin(self, scheme: str, preview_host: str) -> str:
        """Where a browser that asked for a preview finds the app; "" where nobody said it."""
        if self.public_url:
            return self.public_url
        _, colon, port = preview_host.partition(":")
        return f"{scheme}://localhost{colon}{port}" if self.preview_domain.endswith("localhost") else ""


def from_environment() -> Config:
    """`BERTH_DATA` places everything; `BERTH_TRUSTED_PROXIES` (comma-separated networks) names TLS fronts;
    `BERTH_RATE_…` bounds how often one may ask, `BERTH_PREVIEW_ANSWER_S` how long a previewed program may think."""
    data: Path = settings.BERTH_DATA
    run = data / "run"
    proxies = os.environ.get("BERTH_TRUSTED_PROXIES", "")
    return Config(
        data_dir=data,
        host_socket=Path(os.environ.get("BERTH_HOSTD_SOCKET", str(run / "hostd.sock"))),
        daphne_socket=Path(os.environ.get("BERTH_DAPHNE_SOCKET", str(run / "daphne.sock"))),
        redis_url=settings.REDIS_URL,
        preview_domain=settings.PREVIEW_DOMAIN.lower(),
        public_url=settings.PUBLIC_URL,
        limits=Limits(
            preview_answer_s=_number("BERTH_PREVIEW_ANSWER_S", Limits.preview_answer_s),
            rate_per_token_s=_number("BERTH_RATE_PER_TOKEN_S", Limits.rate_per_token_s),
            rate_burst_per_token=_number("BERTH_RATE_BURST_PER_TOKEN", Limits.rate_burst_per_token),
            rate_per_address_s=_number("BERTH_RATE_PER_ADDRESS_S", Limits.rate_per_address_s),
            rate_burst_per_address=_number("BERTH_RATE_BURST_PER_ADDRESS", Limits.rate_burst_per_address)),
        trusted_proxies=tuple(ipaddress.ip_network(p.strip()) for p in proxies.split(",") if p.strip()),
    )


def _number(name: str, default: float) -> float:
    said = os.environ.get(name, "")
    try:
        value = float(said) if said else default
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise SystemExit(f"{name} must be a number that is not negative, not {said!r}")
    return value
