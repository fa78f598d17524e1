"""The machine's network device and its connections. Called by `world.prepare` (before a template is captured) and by
`clock.Resume` (after every launch or resume). Decides nothing about where anybody may go: the host does.

The device, its address and its way out are the same in every machine. IPv6 leaves no machine, so the device does not
begin to speak it. Connections that a memory brings along have no other end any more: they are ended here, so that a
program that only waits for bytes sees a reset and does not hang.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

from sandboxes.guest.agent import syscalls

ADDRESS, NETMASK, GATEWAY = "10.77.0.2", "255.255.255.252", "10.77.0.1"
DEVICES = Path("/sys/class/net")
MODULES = Path("/run/berth/lib/modules")

_SIOCADDRT, _SIOCGIFFLAGS, _SIOCSIFFLAGS, _SIOCSIFADDR, _SIOCSIFNETMASK = 0x890B, 0x8913, 0x8914, 0x8916, 0x891C
_IFF_UP, _RTF_UP, _RTF_GATEWAY = 1, 1, 2
_FINIT_MODULE = 313

#: linux/sock_diag.h, linux/inet_diag.h
_SOCK_DIAG, _BY_FAMILY, _DESTROY, _REQUEST, _ACK, _DUMP, _ERROR, _DONE = 4, 20, 21, 1, 4, 0x300, 2, 3
_ALL_BUT_LISTENING = 0xFFF & ~(1 << 10)
_RECEIVED_BYTES = 1 << 16


def raise_devices() -> None:
    """Repeatable. A machine without a network device has its loopback all the same."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        _up(control, "lo")
        for name in sorted(path.name for path in DEVICES.iterdir() if path.name != "lo")[:1]:
            with contextlib.suppress(OSError):
                Path("/proc/sys/net/ipv6/conf", name, "disable_ipv6").write_text("1")
            _give(control, name, _SIOCSIFADDR, ADDRESS)
            _give(control, name, _SIOCSIFNETMASK, NETMASK)
            _up(control, name)
            with contextlib.suppress(FileExistsError):
                _lead(control)
    _insert("inet_diag", "tcp_diag")


def _up(control: socket.socket, name: str) -> None:
    request = struct.pack("16sH14x", name.encode(), 0)
    flags = struct.unpack("16sH14x", fcntl.ioctl(control, _SIOCGIFFLAGS, request))[1]
    fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", name.encode(), flags | _IFF_UP))


def _sockaddr(address: str) -> bytes:
    return struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))


def _give(control: socket.socket, name: str, request: int, address: str) -> None:
    fcntl.ioctl(control, request, struct.pack("16s16s8x", name.encode(), _sockaddr(address)))


def _lead(control: socket.socket) -> None:
    """`struct rtentry`: everything goes to the gateway."""
    anywhere = _sockaddr("0.0.0.0")  # noqa: S104
    fcntl.ioctl(control, _SIOCADDRT, struct.pack(
        "=8x16s16s16sH62x", anywhere, _sockaddr(GATEWAY), anywhere, _RTF_UP | _RTF_GATEWAY))


def _insert(*names: str) -> None:
    """What may be missing: connections of a resumed memory are then ended by their next segment alone."""
    for name in names:
        for module in MODULES.glob(f"*/kernel/net/ipv4/{name}.ko"):
            with contextlib.suppress(OSError):
                fd = os.open(module, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    syscalls.call(_FINIT_MODULE, fd, b"", 0)
                finally:
                    os.close(fd)


def reset_connections() -> None:
    """Ends every TCP connection over the device. A kernel that cannot leaves them."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as diag:
        for number, identity in enumerate(list(_connections(diag)), 1):
            _ask(diag, _DESTROY, _REQUEST | _ACK, identity, number)
            diag.recv(_RECEIVED_BYTES)


def _connections(diag: socket.socket) -> Iterator[bytes]:
    """`struct inet_diag_sockid` of each."""
    _ask(diag, _BY_FAMILY, _REQUEST | _DUMP, bytes(48), 0)
    here = socket.inet_aton(ADDRESS)
    while True:
        data = diag.recv(_RECEIVED_BYTES)
        at = 0
        while at < len(data):
            length, kind = struct.unpack_from("=IH", data, at)
            if kind in (_DONE, _ERROR) or length < 16:
                return
            identity = data[at + 20:at + 68]
            if identity[4:8] == here:
                yield identity
            at += (length + 3) & ~3


def _ask(diag: socket.socket, kind: int, flags: int, identity: bytes, number: int) -> None:
    body = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, _ALL_BUT_LISTENING) + identity
    diag.send(struct.pack("=IHHII", 16 + len(body), kind, flags, number, 0) + body)
