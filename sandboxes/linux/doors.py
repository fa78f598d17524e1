"""What a machine's namespace does with packets, and the sockets behind which egressd serves them.

Called by the drivers through `netns.create` and by hostd through `netns.enter`, so all of it runs inside of the
namespace. Nothing is ever forwarded there:

    TCP to anywhere ───────────▶ a listener, which reads where it was meant for
    names (port 53, anywhere) ─▶ a resolver
    all else ──────────────────▶ refused in words that programs understand, and told to who listens (nflog)

A segment of a connection that nobody here knows (its machine slept, or went back in time) is answered by a reset. Who
serves the sockets may come and go: without them every connection is refused. Undo is the end of the namespace.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from pathlib import Path

from sandboxes.linux import taps
from sandboxes.linux.processes import ProcessFailed, run_blocking

LISTENER_PORT, RESOLVER_PORT, LOG_GROUP = 1, 53, 1
#: In this order they are opened and handed over.
NAMES = ("listener", "resolver_udp", "resolver_tcp", "refusals")
BACKLOG = 512
LOGGED_BYTES = 96

_LOG = f"limit rate 20/second burst 40 packets log group {LOG_GROUP} snaplen {LOGGED_BYTES}"
#: Limits of packets here only keep a flood from egressd; what a workspace may is counted there.
RULES = f"""
table inet berth {{
  chain refuses {{
    type filter hook prerouting priority mangle; policy drop;
    iifname != "{taps.TAP_NAME}" accept
    ip6 daddr ff00::/8 drop
    meta nfproto ipv6 {_LOG}
    meta nfproto ipv6 drop
    ip saddr != {taps.GUEST_ADDRESS} {_LOG}
    ip saddr != {taps.GUEST_ADDRESS} drop
    meta l4proto tcp ct state invalid reject with tcp reset
    tcp flags & (fin | syn | rst | ack) != syn ct state new reject with tcp reset
    meta l4proto tcp ct state new limit rate over 200/second burst 400 packets drop
    meta l4proto tcp accept
    udp dport 53 limit rate over 500/second burst 1000 packets drop
    udp dport 53 accept
    ct state established accept
    ct state related drop
    {_LOG}
    reject with icmpx admin-prohibited
  }}
  chain turns {{
    type nat hook prerouting priority dstnat; policy accept;
    iifname "{taps.TAP_NAME}" tcp dport 53 redirect to :{RESOLVER_PORT}
    iifname "{taps.TAP_NAME}" meta l4proto tcp redirect to :{LISTENER_PORT}
    iifname "{taps.TAP_NAME}" udp dport 53 redirect to :{RESOLVER_PORT}
  }}
  chain arrives {{
    type filter hook input priority filter; policy drop;
    iifname "{taps.TAP_NAME}" ip daddr {taps.HOST_ADDRESS} tcp dport {{ {LISTENER_PORT}, {RESOLVER_PORT} }} accept
    iifname "{taps.TAP_NAME}" ip daddr {taps.HOST_ADDRESS} udp dport {RESOLVER_PORT} accept
  }}
  chain leads_nowhere {{
    type filter hook forward priority filter; policy drop;
  }}
}}
"""

#: Of the namespace. A fresh one may inherit the host's forwarding; a refusal must never wait for its turn; a segment in
#: the middle of an unknown connection is no new connection. The device gets no IPv6 address and speaks none.
SETTINGS = {
    "net/ipv4/ip_forward": "0",
    "net/ipv4/icmp_ratelimit": "0",
    "net/ipv6/conf/all/forwarding": "0",
    "net/ipv6/conf/default/accept_ra": "0",
    "net/ipv6/conf/default/addr_gen_mode": "1",
    "net/netfilter/nf_conntrack_tcp_loose": "0",
    "net/netfilter/nf_conntrack_tcp_be_liberal": "1",
}


def guarded_tap() -> int:
    """The rules are in force before there is a device that a guest could be at. Answers the tap's descriptor."""
    guard()
    return taps.open_tap()


def guard() -> None:
    """Puts the rules in force in the namespace of the calling thread. Raises OSError when they are not."""
    try:
        run_blocking(["nft", "-f", "-"], stdin=RULES.encode())
    except ProcessFailed as error:
        raise OSError(f"the rules of the namespace: {error.complaint}") from error
    for name, value in SETTINGS.items():
        _set(Path("/proc/sys", name), value)


def _set(setting: Path, value: str) -> None:
    """A kernel without IPv6 has nothing to set there."""
    with contextlib.suppress(FileNotFoundError):
        setting.write_text(value)


def open_all() -> list[int]:
    """Descriptors of the four sockets of NAMES, in the namespace of the calling thread."""
    with contextlib.ExitStack() as stack:
        sockets = [_listening(LISTENER_PORT), _bound_udp(), _listening(RESOLVER_PORT), _refusals()]
        for each in sockets:
            stack.callback(each.close)
        stack.pop_all()
        return [each.detach() for each in sockets]


def _listening(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((taps.HOST_ADDRESS, port))
    listener.listen(BACKLOG)
    return listener


def _bound_udp() -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    bound.bind((taps.HOST_ADDRESS, RESOLVER_PORT))
    return bound


# -- what was refused, told by the kernel (linux/netfilter/nfnetlink_log.h) --------------------------------------------

_NETLINK_NETFILTER, _NFNL_LOG_CONFIG, _CFG_CMD, _CMD_BIND, _CFG_MODE, _COPY_PACKET = 12, (4 << 8) | 1, 1, 1, 2, 2
_REQUEST_ACK = 5


def _refusals() -> socket.socket:
    """Tells of each packet that the rules log. Set up by who has the right to; read by who has none."""
    told = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, _NETLINK_NETFILTER)
    told.bind((0, 0))
    _configure(told, _CFG_CMD, struct.pack("=B", _CMD_BIND))
    _configure(told, _CFG_MODE, struct.pack(">IBB", LOGGED_BYTES, _COPY_PACKET, 0))
    return told


def _configure(told: socket.socket, attribute: int, value: bytes) -> None:
    padded = value.ljust((len(value) + 3) & ~3, b"\0")
    body = struct.pack(">BBH", socket.AF_UNSPEC, 0, LOG_GROUP) + struct.pack("=HH", 4 + len(value), attribute) + padded
    told.send(struct.pack("=IHHII", 16 + len(body), _NFNL_LOG_CONFIG, _REQUEST_ACK, 1, 0) + body)
    answer = told.recv(4096)
    number = -struct.unpack_from("=i", answer, 16)[0]
    if number:
        raise OSError(number, f"nflog: {os.strerror(number)}")
