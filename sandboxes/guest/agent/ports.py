"""`port.list`: which TCP ports something listens on in this machine, and who. Called through the method table and by
`connect`. Reads /proc alone; whoever listens in a network namespace of its own (a container's) is not seen.
"""

from __future__ import annotations

import ipaddress
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sandboxes.guest.agent.stats import Names
from sandboxes.guest.agent.streams import Stream

MOST_PORTS = 512
_LISTEN = "0A"
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
#: Processes whose descriptors are looked through for one list.
MOST_PROCESSES = 20_000


class Listening(NamedTuple):
    port: int
    address: str
    uid: int
    inode: int

    @property
    def reachable(self) -> bool:
        """From the machine itself by 127.0.0.1 or ::1, as tunnels and previews come."""
        address = ipaddress.ip_address(self.address)
        return address.is_unspecified or address.is_loopback


class Ports:
    """`own_only`: the fake driver's machine shares its host's network, so only what its own processes opened counts."""

    def __init__(self, own_only: bool) -> None:
        self._own_only = own_only

    def listing(self, _stream: Stream, _params: dict[str, Any]) -> dict[str, Any]:
        found = sorted(set(_listening()))[:MOST_PORTS]
        owners = _owners({each.inode for each in found})
        names = Names()
        return {"ports": [_said(each, owners.get(each.inode), names) for each in found
                          if each.inode in owners or not self._own_only]}

    def numbers(self) -> list[int]:
        """Those that 127.0.0.1 or ::1 reaches; cheap enough to be asked for again and again."""
        found = [each for each in set(_listening()) if each.reachable]
        if self._own_only and found:
            owners = _owners({each.inode for each in found})
            found = [each for each in found if each.inode in owners]
        return sorted({each.port for each in found})[:MOST_PORTS]

    def may_reach(self, port: int) -> bool:
        return not self._own_only or port in self.numbers()


def _said(each: Listening, owner: tuple[int, str] | None, names: Names) -> dict[str, Any]:
    return {"port": each.port, "address": each.address, "user": names.user(each.uid), "reachable": each.reachable,
            "pid": owner[0] if owner else None, "process": owner[1] if owner else None}


def _listening() -> Iterator[Listening]:
    for table in _TABLES:
        try:
            lines = table.read_text().splitlines()[1:]
        except OSError:
            continue  # a kernel without IPv6
        for line in lines:
            words = line.split()
            if words[3] == _LISTEN:
                address, _, port = words[1].partition(":")
                yield Listening(int(port, 16), address_of(address), int(words[7]), int(words[9]))


def address_of(text: str) -> str:
    """The kernel's hexadecimal words, each in the processor's own order; a mapped IPv4 address reads as that."""
    words = [int(text[at:at + 8], 16) for at in range(0, len(text), 8)]
    address = ipaddress.ip_address(struct.pack(f"={len(words)}I", *words))
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _owners(inodes: set[int]) -> dict[int, tuple[int, str]]:
    """(pid, name) of a process that holds each socket: the first one found, which is the oldest."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: dict[int, tuple[int, str]] = {}
    for pid in _pids():
        if len(found) == len(inodes):
            break
        for link in _descriptors(pid):
            inode = wanted.get(link)
            if inode is not None:
                found.setdefault(inode, (pid, _name(pid)))
    return found


def _pids() -> list[int]:
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())[:MOST_PROCESSES]  # noqa: PTH208


def _descriptors(pid: int) -> Iterable[str]:
    folder = f"/proc/{pid}/fd"
    try:
        numbers = os.listdir(folder)  # noqa: PTH208
    except OSError:
        return
    for number in numbers:
        try:
            yield os.readlink(f"{folder}/{number}")  # noqa: PTH115
        except OSError:
            continue


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_bytes().rstrip(b"\n").decode("utf-8", "replace")
    except OSError:
        return ""
