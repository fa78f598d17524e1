"""What root in a guest may try to get past the relay: every one refused in the machine's own namespace, and logged.

The rest of the list is in `test_relay.py` (names, TLS, HTTP, rebinding) and, in a whole machine, in `test_vm.py`.
"""

from __future__ import annotations

import contextlib
import socket
import struct

import pytest

from tests.egress.town import METADATA, NEIGHBOUR, ORIGIN, WORLD, Machine, Town, run
from tests.stack import until

GUEST, GATEWAY = "10.77.0.2", "10.77.0.1"


@pytest.fixture
def guest(town: Town) -> Machine:
    """One that may reach everything: what is refused here is refused to all."""
    return town.machine({"mode": "allow-all"})


def checksum(data: bytes) -> int:
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packet(protocol: int, target: str, payload: bytes, source: str = GUEST, *, fragment: int = 0,
           options: bytes = b"") -> bytes:
    """An IPv4 packet as the guest's kernel would never send it."""
    head = struct.pack(">BBHHHBBH4s4s", 0x45 + len(options) // 4, 0, 20 + len(options) + len(payload), 7, fragment, 64,
                       protocol, 0, socket.inet_aton(source), socket.inet_aton(target)) + options
    return head[:10] + struct.pack(">H", checksum(head)) + head[12:] + payload


def raw(guest: Machine, whole: bytes, kind: int = 0x0800) -> None:
    """Past the guest's own kernel, straight onto the cable."""
    def send() -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as cable:
            cable.bind(("eth0", 0))
            to = bytes.fromhex(run("ip", "-n", f"berth-{guest.town.word}-{guest.machine_id}", "-br", "link", "show",
                                   "tap0").split()[2].replace(":", ""))
            cable.send(to + b"\x02\xbe\x47\0\0\x02" + struct.pack(">H", kind) + whole)

    guest.do(send)


def udp(source_port: int, port: int, payload: bytes = b"x" * 32) -> bytes:
    return struct.pack(">HHHH", source_port, port, 8 + len(payload), 0) + payload


@pytest.mark.parametrize(("protocol", "payload", "named"), [
    (1, b"\x08\0\xf7\xff\0\0\0\0" + b"tunnel00", "icmp"), (17, udp(5000, 443), "udp"), (17, udp(53, 123), "udp"),
    (47, bytes(16), "gre"), (4, packet(17, ORIGIN, udp(1, 2)), "ip-4"), (41, bytes(40), "ipv6"),
    (132, bytes(16), "sctp"), (253, bytes(16), "ip-253"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_no_packet_but_tcp_and_names_leads_anywhere(guest: Machine, protocol: int, payload: bytes, named: str) -> None:
    raw(guest, packet(protocol, ORIGIN, payload))
    row = guest.row(protocol=named)
    assert (row["verdict"], row["reason"], row["address"]) == ("refused", "protocol", ORIGIN)


def test_a_refused_packet_is_answered_in_words_a_program_understands(guest: Machine) -> None:
    def ask() -> str:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as quic:
            quic.settimeout(20)
            quic.connect((ORIGIN, 443))
            quic.send(b"hello")
            try:
                quic.recv(1)
            except OSError as error:
                return type(error).__name__
        return "answered"

    assert guest.do(ask) in ("PermissionError", "OSError", "ConnectionRefusedError")


def test_forged_packets_reach_nothing_and_are_told(guest: Machine, town: Town) -> None:
    """A foreign source, a source route, fragments that hide a port, IPv6, another's hardware address."""
    before = len(town.servers.connections), len(town.servers.asked)
    syn = struct.pack(">HHIIBBHHH", 4000, 7, 1, 0, 5 << 4, 2, 65535, 0, 0)
    raw(guest, packet(6, ORIGIN, syn, source="203.0.113.99"))
    raw(guest, packet(17, ORIGIN, udp(1, 9), options=b"\x83\x07\x04" + socket.inet_aton(ORIGIN) + b"\0"))
    raw(guest, packet(17, ORIGIN, udp(1, 53)[:8], fragment=0x2000))
    raw(guest, packet(17, ORIGIN, b"rest of it", fragment=0x0001))
    raw(guest, b"\x60\0\0\0" + struct.pack(">HBB", 8, 17, 64) + bytes.fromhex("fd00" + "0" * 28) +
        bytes.fromhex("20010db8" + "0" * 24) + udp(1, 53, b""), 0x86DD)
    guest.row(protocol="ipv6")
    until(lambda: len(guest.rows(protocol="tcp", reason="protocol")) >= 1, "the foreign source is told")
    assert (len(town.servers.connections), len(town.servers.asked)) == before
    # It is still the machine that it was.
    with guest.socket(ORIGIN, 7) as there:
        there.sendall(b"x")
        assert there.recv(1) == b"x"


def test_arp_and_hardware_addresses_lead_nowhere_else(guest: Machine) -> None:
    """Whoever the guest says that it is, it is alone on its cable; a neighbour that it invents has no way."""
    run("ip", "-n", guest.guest, "address", "add", f"{NEIGHBOUR}/24", "dev", "eth0")
    run("ip", "-n", guest.guest, "address", "del", f"{NEIGHBOUR}/24", "dev", "eth0")
    run("ip", "-n", guest.guest, "route", "add", "169.254.0.0/16", "dev", "eth0")
    with pytest.raises(OSError, match=r"No route|unreachable|timed out"):
        guest.do(lambda: socket.create_connection((METADATA, 80), timeout=4))
    run("ip", "-n", guest.guest, "link", "set", "eth0", "address", "02:aa:aa:aa:aa:aa")
    with guest.socket(ORIGIN, 7) as there:
        there.sendall(b"x")
        assert there.recv(1) == b"x"


@pytest.mark.parametrize("address", [METADATA, NEIGHBOUR, WORLD, GATEWAY, "127.0.0.2", "10.77.0.2", "100.64.0.1"])
def test_what_is_near_is_refused_even_where_everything_is_allowed(town: Town, address: str) -> None:
    """The metadata address, a neighbour, the host's own address, the machine's gateway, another machine's address."""
    guest, other = town.machine({"mode": "allow-all"}), town.machine({"mode": "allow-all"})
    with other.do(lambda: socket.create_server(("", 80))) as listener:
        if address in ("127.0.0.2", GUEST):  # its own kernel would keep these to itself
            raw(guest, packet(6, address, struct.pack(">HHIIBBHHH", 4000, 80, 1, 0, 5 << 4, 2, 65535, 0, 0)))
        else:
            with contextlib.suppress(OSError), guest.socket(address, 80) as there:
                there.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert there.recv(999).startswith(b"HTTP/1.1 403")
            assert guest.row(address=address, port=80)["reason"] in ("private", "own_address")
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_an_admin_may_allow_a_private_range_and_nothing_beside_it(town: Town) -> None:
    guest = town.machine()
    guest.allow({"cidr": "0.0.0.0/0"}, private_allowed=["192.168.7.0/24"])
    with guest.socket(NEIGHBOUR, 7) as there:
        there.sendall(b"x")
        assert there.recv(1) == b"x"
    with contextlib.suppress(OSError), guest.socket(METADATA, 7) as there:
        assert there.recv(1) == b""
    assert guest.row(address=METADATA)["reason"] == "private"


def test_a_segment_of_an_unknown_connection_is_answered_by_a_reset(guest: Machine) -> None:
    """What a guest sends after it slept: its connection ended with its former body."""
    def ask() -> bytes:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800)) as cable:
            cable.settimeout(20)
            cable.bind(("eth0", 0x0800))
            segment = struct.pack(">HHIIBBHHH", 41000, 443, 1000, 2000, 5 << 4, 0x18, 65535, 0, 0) + b"data"
            pseudo = socket.inet_aton(GUEST) + socket.inet_aton(ORIGIN) + struct.pack(">BBH", 0, 6, len(segment))
            summed = checksum(pseudo + segment)
            segment = segment[:16] + struct.pack(">H", summed) + segment[18:]
            raw(guest, packet(6, ORIGIN, segment))
            while True:
                seen = cable.recv(2000)[14:]
                if seen[9] == 6 and seen[22:24] == struct.pack(">H", 41000):
                    return seen

    answer = guest.do(ask)
    assert answer[33] & 0x04, "a reset"
    assert answer[12:16] == socket.inet_aton(ORIGIN)


def test_the_hosts_side_of_the_cable_offers_nothing_else(guest: Machine) -> None:
    """Its listener and resolver asked directly are the same ones; every other port is the relay's to refuse."""
    for port in (1, 22, 8000):
        with contextlib.suppress(OSError), guest.socket(GATEWAY, port) as there:
            there.sendall(b"x")
            assert there.recv(9) == b""
        assert guest.row(address=GATEWAY, port=port)["reason"] == "private"
