"""Asks the world for the addresses of a name. Called by `questions` (for a machine) and by `judging` (an address
whose time is over). dnspython speaks the protocol, over sockets of the host's. It judges nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path

import dns.asyncbackend
import dns.asyncresolver
import dns.exception
import dns.nameserver
import dns.resolver

RESOLV_CONF = Path("/etc/resolv.conf")
LIFETIME_S, TRY_S = 6.0, 2.0
MOST_ADDRESSES = 64


class NoSuchName(Exception):
    """The world has no such name."""


class Unanswered(Exception):
    """Nobody answered, or nobody who knows."""


@dataclass(frozen=True)
class Answer:
    """No addresses: the name is there and has none (of IPv4)."""

    addresses: tuple[IPv4Address, ...]
    ttl_s: float


class Upstream:
    """`servers` as `(address, port)`; without any, the host's own are read from /etc/resolv.conf each time."""

    def __init__(self, servers: list[tuple[str, int]] | None = None) -> None:
        self._servers = servers
        self._backend = dns.asyncbackend.get_backend("asyncio")

    async def addresses(self, name: str) -> Answer:
        """Raises NoSuchName or Unanswered."""
        asking = dns.asyncresolver.Resolver(configure=False)
        asking.nameservers = [dns.nameserver.Do53Nameserver(address, port)
                              for address, port in self._servers or servers_of(RESOLV_CONF)]
        asking.timeout, asking.lifetime = TRY_S, LIFETIME_S
        try:
            found = await asking.resolve(f"{name}.", "A", raise_on_no_answer=False, search=False,
                                         backend=self._backend)
        except dns.resolver.NXDOMAIN as error:
            raise NoSuchName(name) from error
        except (dns.exception.DNSException, OSError) as error:
            raise Unanswered(f"{name}: {error}") from error
        addresses = tuple(IPv4Address(record.address) for record in found.rrset or ())[:MOST_ADDRESSES]
        return Answer(addresses, float(found.chaining_result.minimum_ttl))


def servers_of(resolv_conf: Path) -> list[tuple[str, int]]:
    try:
        lines = resolv_conf.read_text(errors="replace").splitlines()
    except OSError:
        return []
    named = [words[1] for line in lines if len(words := line.split()) >= 2 and words[0] == "nameserver"]
    return [(address, 53) for address in named]


def server_of(text: str) -> tuple[str, int]:
    """`ADDRESS[:PORT]`. Raises ValueError."""
    address, _, port = text.partition(":")
    try:
        return str(IPv4Address(address)), int(port or 53)
    except AddressValueError as error:
        raise ValueError(f"{text}: an IPv4 address, and a port if need be") from error
