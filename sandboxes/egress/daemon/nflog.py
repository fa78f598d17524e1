"""Reads what the kernel tells of packets that the namespace's rules refused. Pure but for the one read.

linux/netfilter/nfnetlink_log.h: a netlink message, in it attributes, in one of them the packet's first bytes.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address

_PACKET, _PAYLOAD = (4 << 8) | 0, 9
_PROTOCOLS = {1: "icmp", 2: "igmp", 6: "tcp", 17: "udp", 41: "ipv6", 47: "gre", 50: "esp", 132: "sctp"}
READ_BYTES, AT_ONCE = 1 << 16, 32


@dataclass(frozen=True)
class Packet:
    protocol: str
    address: IPv4Address | None
    port: int


def read(told: socket.socket) -> Iterator[Packet]:
    """What is here now. That the kernel had to leave some out (ENOBUFS) is no more than a limit of the log."""
    for _ in range(AT_ONCE):
        try:
            data = told.recv(READ_BYTES)
        except OSError:
            return
        yield from packets(data)


def packets(data: bytes) -> Iterator[Packet]:
    at = 0
    while at + 20 <= len(data):
        length, kind = struct.unpack_from("=IH", data, at)
        if length < 20:
            return
        if kind == _PACKET:
            payload = _attribute(data[at + 20:at + length], _PAYLOAD)
            if payload:
                yield _packet(payload)
        at += (length + 3) & ~3


def _attribute(data: bytes, wanted: int) -> bytes:
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            break
        if kind & 0x7FFF == wanted:
            return data[at + 4:at + length]
        at += (length + 3) & ~3
    return b""


def _packet(payload: bytes) -> Packet:
    """An IPv6 packet's destination is not told: no address of it leaves in any case."""
    if payload[0] >> 4 != 4 or len(payload) < 20:
        return Packet("ipv6", None, 0)
    number, header = payload[9], (payload[0] & 0xF) * 4
    port = 0
    if number in (6, 17, 132) and len(payload) >= header + 4 and not int.from_bytes(payload[6:8], "big") & 0x1FFF:
        port = int.from_bytes(payload[header + 2:header + 4], "big")
    return Packet(_PROTOCOLS.get(number, f"ip-{number}"), IPv4Address(payload[16:20]), port)
