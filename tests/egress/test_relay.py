"""What goes through egressd and what does not, from a guest's place: names, TLS, HTTP, limits, changes of mind."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import time

import dns.message
import dns.query
import dns.rcode
import pytest

from tests.egress.hellos import ECH, hello, records
from tests.egress.town import ORIGIN, OTHER, THIRD, Machine, Town
from tests.stack import until

A = {"domain": "a.test"}
ALERT = b"\x15\x03\x03\x00\x02\x02\x31"


@pytest.fixture
def guest(town: Town) -> Machine:
    town.servers.names.update({"a.test": (300, [ORIGIN]), "b.test": (300, [OTHER]), "cdn.test": (300, [ORIGIN]),
                               "x.wild.test": (300, [OTHER]), "evil.test": (300, [THIRD])})
    return town.machine()


def ask(guest: Machine, name: str, kind: str = "A", server: str = "10.77.0.1", *, tcp: bool = False) -> list[str]:
    """The addresses; raises what the answer's code says."""
    question = dns.message.make_query(name, kind, use_edns=0)
    how = dns.query.tcp if tcp else dns.query.udp
    answer = guest.do(lambda: how(question, server, timeout=20))
    assert answer.rcode() == 0, dns.rcode.to_text(answer.rcode())
    return [record.address for each in answer.answer for record in each]


def said(guest: Machine, address: str, port: int, *pieces: bytes) -> bytes:
    """All that comes back until the end; what was broken off ends there."""
    got = b""
    with contextlib.suppress(OSError), guest.socket(address, port) as there:
        there.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            there.sendall(piece)
            time.sleep(0.005 if len(pieces) > 1 else 0)
        there.shutdown(socket.SHUT_WR)
        while data := there.recv(65536):
            got += data
    return got


def get(host: str, path: str = "/", more: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode()


def https(guest: Machine, address: str, name: str | None, host: str = "") -> bytes:
    """One request within verified TLS."""
    context = guest.town.tls
    context.check_hostname = name is not None
    with guest.socket(address, 443) as there, context.wrap_socket(there, server_hostname=name) as secure:
        secure.sendall(get(host or name or ""))
        return secure.recv(65536)


def test_bytes_flow_both_ways_whole_and_an_end_is_an_end(guest: Machine) -> None:
    guest.allow({"cidr": f"{ORIGIN}/32", "ports": [7, 9000]})
    sent = os.urandom(3_000_000)
    with guest.socket(ORIGIN, 7) as there:
        there.settimeout(30)
        got, at = b"", 0
        while len(got) < len(sent):
            at += there.send(sent[at:at + 50_000]) if at < len(sent) else 0
            got += there.recv(1 << 20)
        there.shutdown(socket.SHUT_WR)
        assert got == sent and there.recv(1) == b""
    row = guest.row(port=7)
    assert (row["verdict"], row["rule"], row["bytes_in"], row["bytes_out"]) == (
        "allowed", "rules[0]", len(sent), len(sent))
    assert len(said(guest, ORIGIN, 9000, b"5000000\n")) >= 5_000_000
    with guest.socket(ORIGIN, 9000) as there:  # who does not read holds back the other end, and going ends both
        there.sendall(b"900000000\n")
        there.recv(10)
    assert guest.row(port=9000, bytes_out=10)["bytes_in"] < 900_000_000


def test_without_a_document_and_under_deny_all_nothing_is_reached_and_every_try_is_told(town: Town) -> None:
    """Field case 042."""
    town.servers.names["secret.evil.test"] = (1, [THIRD])
    guest = town.machine()
    before = len(town.servers.asked)
    for policy in (None, {"mode": "deny-all"}, {"mode": "rules"}):
        if policy:
            guest.obey(policy)
        for server, tcp in (("10.77.0.1", False), ("8.8.8.8", False), ("1.1.1.1", True)):
            with pytest.raises(AssertionError, match="NXDOMAIN"):
                ask(guest, "secret.evil.test", "TXT", server, tcp=tcp)
        assert said(guest, ORIGIN, 80, get("a.test")).startswith(b"HTTP/1.1 403 Forbidden")
        assert said(guest, ORIGIN, 443, records(hello("a.test"))) == ALERT
        assert said(guest, ORIGIN, 853, b"x") == b"" and said(guest, ORIGIN, 22) == b""
    assert town.servers.asked[before:] == []
    assert guest.row(protocol="dns")["name"] == "secret.evil.test"
    for port in (80, 443, 853, 22):
        assert guest.row(port=port, protocol="tcp", verdict="refused")["reason"] in ("mode", "no_rule")


def test_an_allowed_name_is_resolved_reached_and_logged_by_that_name(guest: Machine) -> None:
    guest.allow(A, {"domain": "*.wild.test"})
    assert ask(guest, "A.test") == [ORIGIN] and ask(guest, "x.wild.test", server="9.9.9.9", tcp=True) == [OTHER]
    assert ask(guest, "a.test", "AAAA") == [] and ask(guest, "a.test", "HTTPS") == []
    assert b"\r\n\r\n203.0.113.10\nGET / " in https(guest, ORIGIN, "a.test")
    assert b"198.51.100.20" in https(guest, OTHER, "x.wild.test")
    assert b"\nGET /x HTTP/1.1\n" in said(guest, ORIGIN, 80, get("a.test", "/x"), get("a.test:80", "/y"))
    for name in ("a.test", "x.wild.test"):
        assert guest.row(name=name, port=443, verdict="allowed")["bytes_in"] > 500
    asked = dns.message.make_query("evil.test", "A", use_edns=0)
    refused = guest.do(lambda: dns.query.udp(asked, "10.77.0.1", timeout=20))
    assert refused.rcode() == dns.rcode.NXDOMAIN and "refused by policy" in refused.options[0].to_text()
    with pytest.raises(AssertionError, match="NXDOMAIN"):
        ask(guest, "wild.test")


@pytest.mark.parametrize(("address", "port", "pieces", "reason"), [
    (ORIGIN, 443, (records(hello("evil.test")),), "sni_mismatch"),
    (ORIGIN, 443, (records(hello()),), "sni_missing"),
    (ORIGIN, 443, (records(hello("a.test", extensions=(ECH,))),), "ech"),
    (ORIGIN, 443, (records(hello("a.test", "evil.test")),), "protocol"),
    (ORIGIN, 443, (records(hello("a.test", twice=True)),), "protocol"),
    (ORIGIN, 443, (records(hello("evil.test"), 9),), "sni_mismatch"),
    (ORIGIN, 443, tuple(records(hello("evil.test"))[at:at + 1] for at in range(90)), "sni_mismatch"),
    (ORIGIN, 443, (b"\x80\x2e\x01\x03\x01" + bytes(60),), "protocol"),
    (ORIGIN, 443, (b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",), "host_mismatch"),
    (ORIGIN, 443, (b"tunnel of my own",), "protocol"),
    (ORIGIN, 80, (b"SSH-2.0-mine\r\n",), "protocol"),
    (ORIGIN, 80, (get("evil.test"),), "host_mismatch"),
    (ORIGIN, 80, (b"GET http://evil.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",), "host_mismatch"),
    (ORIGIN, 80, (b"CONNECT evil.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n",), "protocol"),
    (ORIGIN, 80, (b"GET / HTTP/1.0\r\n\r\n",), "host_mismatch"),
    (THIRD, 443, (records(hello("a.test")),), "name_not_resolved"),
    (THIRD, 80, (get("a.test"),), "name_not_resolved"),
    (THIRD, 443, (records(hello("evil.test")),), "no_rule"),
    (ORIGIN, 7, (b"x",), "port"),
    (ORIGIN, 8080, (get("evil.test"),), "host_mismatch"),
    (ORIGIN, 8080, (b"\r\n" + get("evil.test"),), "protocol"),
    (ORIGIN, 8080, (records(hello("evil.test")),), "sni_mismatch"),
], ids=range(22))
def test_what_a_connection_says_must_agree_with_where_it_leads(guest: Machine, address: str, port: int,
                                                               pieces: tuple[bytes, ...], reason: str) -> None:
    """Field case 084."""
    guest.allow(A, {"domain": "a.test", "ports": [8080, 22]})
    ask(guest, "a.test")
    before = (len(guest.town.servers.connections), len(guest.town.servers.requests))
    answer = said(guest, address, port, *pieces)
    if port == 443 and pieces[0][:1] == b"\x16":
        assert answer == ALERT
    elif port == 80:
        assert answer.startswith(b"HTTP/1.1 403 Forbidden") and b"refused by policy" in answer
    assert guest.row(verdict="refused", protocol="tcp")["reason"] == reason
    assert len(guest.town.servers.requests) == before[1]
    if address == THIRD or port == 443:
        assert len(guest.town.servers.connections) == before[0]


def test_a_later_request_of_a_connection_is_judged_like_the_first(guest: Machine) -> None:
    guest.allow({"domain": "a.test", "ports": [80], "methods": ["GET", "POST"], "path_prefix": "/ok"})
    ask(guest, "a.test")
    before = len(guest.town.servers.requests)
    evil = b"POST /ok HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\nabc" + get("a.test", "/not")
    with guest.socket(ORIGIN, 80) as there:
        there.sendall(get("a.test", "/ok/1"))
        assert b"GET /ok/1" in there.recv(9999)
        there.sendall(evil)
        answer = b""
        while data := there.recv(9999):
            answer += data
    assert answer.count(b"403 Forbidden") == 1 and b"refused by policy: path" in answer
    for request, reason in ((get("a.test", "/ok/../x"), "path"),
                            (b"PUT /ok HTTP/1.1\r\nHost: a.test\r\n\r\n", "method"),
                            (get("cdn.test", "/ok"), "host_mismatch")):
        assert reason.encode() in said(guest, ORIGIN, 80, request)
        guest.row(reason=reason)
    assert not any("/not" in seen or "/x" in seen or "PUT" in seen for seen in guest.town.servers.requests[before:])
    guest.allow(A)
    with guest.socket(ORIGIN, 80) as there:
        there.sendall(get("a.test", "/upgrade", "Connection: upgrade\r\nUpgrade: echo\r\n") + b"raw")
        answer = b""
        while not answer.endswith(b"raw"):
            answer += there.recv(9999)
        assert answer.startswith(b"HTTP/1.1 101")


def test_a_server_that_speaks_first_is_reached_by_its_name_and_what_is_said_then_is_judged(guest: Machine) -> None:
    guest.allow({"domain": "a.test", "ports": [22]})
    ask(guest, "a.test")
    with guest.socket(ORIGIN, 22) as there:
        assert there.recv(100) == b"SSH-2.0-test\r\n"
        there.sendall(b"hello\n")
        assert there.recv(100) == b"hello\n"
    with guest.socket(ORIGIN, 22) as there:
        assert there.recv(100) == b"SSH-2.0-test\r\n"
        there.sendall(records(hello("evil.test")))
        with contextlib.suppress(ConnectionError):
            assert there.recv(100) in (b"", ALERT)
    assert guest.row(verdict="refused", port=22)["reason"] == "sni_mismatch"


def test_answers_that_lead_inside_are_left_out_and_only_what_was_vetted_is_reached(guest: Machine, town: Town) -> None:
    """Field case 083: rebinding, a rotating name, an address of one's own."""
    answers = [["169.254.169.254"], ["10.0.0.1", ORIGIN], ["203.0.113.1"], [ORIGIN], [OTHER]]
    town.servers.names["rebind.test"] = (0, lambda: answers.pop(0) if answers else [OTHER])
    guest.allow({"domain": "rebind.test"})
    with pytest.raises(AssertionError, match="NXDOMAIN"):
        ask(guest, "rebind.test")
    assert ask(guest, "rebind.test") == [ORIGIN]
    with pytest.raises(AssertionError, match="NXDOMAIN"):
        ask(guest, "rebind.test")
    for address in ("169.254.169.254", "10.0.0.1", "203.0.113.1"):
        assert guest.row(protocol="dns", address=address)["reason"] == "private"
        assert b"403" in said(guest, address, 80, get("rebind.test"))
    assert ask(guest, "rebind.test") == [ORIGIN] and ask(guest, "rebind.test") == [OTHER]
    assert b"203.0.113.10\n" in said(guest, ORIGIN, 80, get("rebind.test"))
    assert b"198.51.100.20\n" in said(guest, OTHER, 80, get("rebind.test"))
    assert b"host_mismatch" not in (refused := said(guest, THIRD, 80, get("rebind.test"))) and b"403" in refused


def test_a_transfer_outlives_its_names_time_and_an_address_kept_is_asked_for_again(guest: Machine, town: Town) -> None:
    """Field case 135. Names are usable for a second in this town."""
    current = [ORIGIN]
    town.servers.names["files.test"] = (0, lambda: current)
    guest.allow({"domain": "files.test", "ports": [80, 7]})
    assert ask(guest, "files.test") == [ORIGIN]
    with guest.socket(ORIGIN, 7) as there:
        there.sendall(b"one\n")
        assert there.recv(9) == b"one\n"
        asked = len(town.servers.asked)
        until(lambda: _over(guest, "files.test"), "the name's time is over")
        assert b"203.0.113.10\n" in said(guest, ORIGIN, 80, get("files.test"))
        assert "files.test" in town.servers.asked[asked:]
        there.sendall(b"two")
        assert there.recv(9) == b"two"
        current[:] = [OTHER]
        until(lambda: b"name_expired" in said(guest, ORIGIN, 80, get("files.test")), "the old address is refused")
        there.sendall(b"three")
        assert there.recv(9) == b"three"


def _over(guest: Machine, name: str) -> bool:
    """A second has passed since it was last learned: nothing else says so from outside."""
    time.sleep(1.1)
    return True


def test_a_changed_document_cuts_at_once_what_it_does_not_allow(guest: Machine) -> None:
    guest.allow({"cidr": f"{ORIGIN}/32"}, {"cidr": f"{OTHER}/32"})
    with guest.socket(ORIGIN, 7) as cut, guest.socket(OTHER, 7) as kept:
        for there in (cut, kept):
            there.sendall(b"x")
            assert there.recv(1) == b"x"
        guest.allow({"cidr": f"{OTHER}/32"})
        with pytest.raises(ConnectionResetError):
            cut.recv(1)
        kept.sendall(b"y")
        assert kept.recv(1) == b"y"
        guest.obey({"mode": "allow-all"}, bound={"mode": "rules", "rules": [{"domain": "a.test"}]})
        with pytest.raises(ConnectionResetError):
            kept.recv(1)
    assert guest.row(address=ORIGIN, reason="policy_changed")["bytes_out"] == 1
    assert guest.row(address=OTHER, reason="policy_changed")


def test_a_member_is_asked_and_the_connection_waits_for_the_answer(guest: Machine, town: Town) -> None:
    guest.allow(A, ask=True)
    asked, before = len(town.servers.asked), len(town.asked)
    pretended = ask(guest, "b.test")
    assert pretended[0].startswith("198.1") and town.servers.asked[asked:] == []
    with guest.socket(pretended[0], 80) as there:
        there.sendall(get("b.test"))
        until(lambda: len(town.asked) > before, "a member is asked")
        question = town.asked[before]
        assert (question["name"], question["port"], question["address"]) == ("b.test", 80, "")
        guest.allow(A, {"domain": "b.test", "ports": [80]}, ask=True)
        assert b"198.51.100.20\n" in there.recv(9999)
    assert guest.row(name="b.test", verdict="asked") and guest.row(name="b.test", verdict="allowed")
    assert b"asked_timeout" in said(guest, ask(guest, "evil.test")[0], 80, get("evil.test"))
    assert b"host_mismatch" in said(guest, ask(guest, "cdn.test")[0], 80, get("evil.test"))
    with guest.socket(THIRD, 80) as there:
        there.sendall(get("evil.test"))
        question = until(lambda: next((one for one in town.asked[before:] if one["address"] == THIRD), None), "asked")
        assert question["name"] == ""
        assert town.client is not None
        town.loop.call_soon_threadsafe(town.client.denied, guest.machine_id, question["ask_id"])
        assert b"asked_denied" in there.recv(9999)


def test_limits_hold_for_one_machine_and_touch_no_other(guest: Machine, town: Town) -> None:
    other = town.machine()
    rule = {"mode": "rules", "rules": [{"cidr": f"{ORIGIN}/32"}, A]}
    guest.obey(rule, limits={"connections": 2, "bytes_per_s": 200_000, "dns_per_s": 1})
    other.obey(rule)
    with guest.socket(ORIGIN, 7) as one, guest.socket(ORIGIN, 7) as two:
        for there in (one, two):
            there.sendall(b"x")
            assert there.recv(1) == b"x"
        assert said(guest, ORIGIN, 7, b"x") == b"" and said(other, ORIGIN, 7, b"x") == b"x"
    assert guest.row(reason="limit_connections")
    until(lambda: len(guest.rows(verdict="allowed")) == 2, "both are over")
    began = time.monotonic()
    assert len(said(guest, ORIGIN, 9000, b"600000\n")) >= 600_000
    assert time.monotonic() - began > 1.5, "600 kB at 200 kB a second, of which one second's worth is saved up"
    refused = 0
    for _ in range(6):
        with contextlib.suppress(AssertionError):
            ask(guest, "a.test")
            continue
        refused += 1
    assert refused and guest.row(reason="limit_dns")
    assert ask(other, "a.test") == [ORIGIN]


def test_when_egressd_dies_everything_is_refused_and_afterwards_all_is_as_before(guest: Machine, town: Town) -> None:
    guest.allow({"cidr": f"{ORIGIN}/32"}, A)
    with guest.socket(ORIGIN, 7) as there:
        there.sendall(b"x")
        assert there.recv(1) == b"x"
        town.end_egressd(hard=True)
        with contextlib.suppress(ConnectionResetError):
            assert there.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        guest.socket(ORIGIN, 7)
    town.start()
    until(lambda: town.client and town.client.connected, "egressd is back")
    until(lambda: _reaches(guest), "the machine is served again")
    assert ask(guest, "a.test") == [ORIGIN]


def test_hostd_may_come_and_go_without_cutting_anything_and_hears_what_was_meanwhile(guest: Machine,
                                                                                       town: Town) -> None:
    guest.allow({"cidr": f"{ORIGIN}/32", "ports": [7]})
    with guest.socket(ORIGIN, 7) as there:
        there.sendall(b"x")
        assert there.recv(1) == b"x"
        with town.away():
            there.sendall(b"y")
            assert there.recv(1) == b"y"
            assert said(guest, ORIGIN, 22) == b""
        there.sendall(b"z")
        assert there.recv(1) == b"z"
        assert guest.row(port=22)["verdict"] == "refused"
        guest.allow({"cidr": f"{OTHER}/32"})
        with pytest.raises(ConnectionResetError):
            there.recv(1)


def _reaches(guest: Machine) -> bool:
    with contextlib.suppress(ConnectionError):
        return said(guest, ORIGIN, 7, b"x") == b"x"
    return False


def test_nothing_is_left_of_connections_that_are_over(guest: Machine, town: Town) -> None:
    guest.allow({"cidr": f"{ORIGIN}/32", "ports": [7]})
    said(guest, ORIGIN, 7, b"x")
    before = town.open_files()
    for number in range(60):
        said(guest, ORIGIN, 7 if number % 2 else 443, b"x")
    until(lambda: town.open_files() <= before, "every descriptor is closed")


def test_tls_is_the_programs_own_and_is_not_opened(guest: Machine) -> None:
    guest.allow(A)
    ask(guest, "a.test")
    done = guest.run("curl", "-sS", "--cacert", str(guest.town.servers.ca), "--resolve", f"a.test:443:{ORIGIN}",
                     "https://a.test/x")
    assert "GET /x" in done.stdout, done.stderr
    with pytest.raises((ssl.SSLError, ConnectionError)):
        https(guest, ORIGIN, "evil.test")
