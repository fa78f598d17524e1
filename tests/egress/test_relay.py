"""What goes through egressd and what does not, from a guest's place."""

from __future__ import annotations

import socket

from tests.egress.town import ORIGIN, Town


def test_an_allowed_range_is_reached_and_all_else_refused(town: Town) -> None:
    guest = town.machine()
    guest.allow({"cidr": f"{ORIGIN}/32", "ports": [7]})
    with guest.socket(ORIGIN, 7) as there:
        there.sendall(b"hello")
        there.shutdown(socket.SHUT_WR)
        assert there.recv(100) == b"hello"
        assert there.recv(100) == b""
    row = guest.row(verdict="allowed")
    assert (row["address"], row["port"], row["bytes_in"], row["bytes_out"]) == (ORIGIN, 7, 5, 5)
