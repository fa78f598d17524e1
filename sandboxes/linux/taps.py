"""The tap device inside a machine's own network namespace: opened here, its descriptor handed to the hypervisor.

Called by `doors.py` inside of the namespace. Every machine has the same names and addresses: a fork never clashes, and
a resumed guest finds what it knew. There is no uplink. Undo is the end of the namespace.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct

TAP_NAME = "tap0"
HOST_MAC = "02:be:47:00:00:01"
GUEST_MAC = "02:be:47:00:00:02"
HOST_ADDRESS = "10.77.0.1"
GUEST_ADDRESS = "10.77.0.2"
NETMASK = "255.255.255.252"

TUNSETIFF, IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x400454CA, 0x0002, 0x1000, 0x4000
SIOCGIFFLAGS, SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK, SIOCSIFHWADDR = 0x8913, 0x8914, 0x8916, 0x891C, 0x8924
IFF_UP = 1
ARPHRD_ETHER = 1


def open_tap() -> int:
    """A descriptor of a fresh tap that is up, in the namespace of the calling thread."""
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", TAP_NAME.encode(), IFF_TAP | IFF_NO_PI | IFF_VNET_HDR))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            _set_mac(control, HOST_MAC)
            _set_address(control, SIOCSIFADDR, HOST_ADDRESS)
            _set_address(control, SIOCSIFNETMASK, NETMASK)
            _set_up(control, TAP_NAME)
            _set_up(control, "lo")
    except BaseException:
        os.close(fd)
        raise
    return fd


def _set_mac(control: socket.socket, mac: str) -> None:
    raw = bytes.fromhex(mac.replace(":", ""))
    fcntl.ioctl(control, SIOCSIFHWADDR, struct.pack("16sH6s16x", TAP_NAME.encode(), ARPHRD_ETHER, raw))


def _set_address(control: socket.socket, request: int, address: str) -> None:
    sockaddr = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))
    fcntl.ioctl(control, request, struct.pack("16s16s8x", TAP_NAME.encode(), sockaddr))


def _set_up(control: socket.socket, name: str) -> None:
    request = struct.pack("16sH22x", name.encode(), 0)
    flags = struct.unpack("16sH22x", fcntl.ioctl(control, SIOCGIFFLAGS, request))[1]
    fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH22x", name.encode(), flags | IFF_UP))
