"""The parts of egressd that wait for nothing: what reads strangers' bytes, what remembers, what counts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from ipaddress import IPv4Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxes.egress.daemon import claims, heads, nflog
from sandboxes.egress.daemon import hello as hellos
from sandboxes.egress.daemon.asks import Asks, Denied
from sandboxes.egress.daemon.buckets import Bucket
from sandboxes.egress.daemon.claims import Claim, Unclear
from sandboxes.egress.daemon.journal import Journal, Row
from sandboxes.egress.daemon.names import Names
from sandboxes.egress.wire import Wire
from tests.egress.hellos import ECH, hello, records
from tests.egress.town import ORIGIN, OTHER


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


# -- TLS ---------------------------------------------------------------------------------------------------------------

@given(st.integers(1, 400))
def test_a_name_is_read_from_a_hello_in_any_number_of_records_and_bytes(size: int) -> None:
    whole = records(hello("A.test"), size)
    assert hellos.read(whole) == hellos.Hello("a.test", False)
    assert all(hellos.read(whole[:cut]) is None for cut in range(0, len(whole), 7))
    assert hellos.read(whole + b"\x17\x03\x03\0\x05early") == hellos.Hello("a.test", False)


@pytest.mark.parametrize("data", [
    records(hello("a.test", "b.test")), records(hello("a.test", twice=True)),
    b"\x16\x03\x01\0\0" + records(hello("a.test")), b"\x15\x03\x01\0\x02\x01\0" + records(hello("a.test")),
    records(b"\x02" + hello("a.test")[1:]), b"\x16\x03\x01\x50\0" + bytes(99), b"\x80\x2e\x01\x03\x01" + bytes(50),
    records(hello("\u00e4.test")), records(b"\x01\xff\xff\xff" + bytes(100)),
], ids=range(9))
def test_what_is_not_quite_a_hello_is_none(data: bytes) -> None:
    with pytest.raises(hellos.NotTls):
        hellos.read(data)


def test_a_hello_may_say_no_name_or_hide_it() -> None:
    assert hellos.read(records(hello())) == hellos.Hello(None, False)
    assert hellos.read(records(hello("a.test", extensions=(ECH,)))) == hellos.Hello("a.test", True)


@given(st.binary(max_size=300), st.integers(0, 200), st.binary(max_size=20))
def test_no_bytes_of_a_stranger_bring_a_reader_down(noise: bytes, at: int, patch: bytes) -> None:
    patched = bytearray(records(hello("a.test")))
    patched[at:at + len(patch)] = patch
    for data in (noise, bytes(patched), b"GET / HTTP/1.1\r\n" + noise):
        with contextlib.suppress(Unclear):
            claims.of(data)
    list(nflog.packets(noise))


# -- what a connection claims ------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("data", "claim"), [
    (b"", None), (b"GET / HT", None), (b"GET / HTTP/1.1\r\nHost: a.te", None),
    (b"GET / HTTP/1.1\r\nHost: A.test:80\r\n\r\n", Claim("http", frozenset({"a.test"}))),
    (b"GET http://b.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", Claim("http", frozenset({"a.test", "b.test"}))),
    (b"GET / HTTP/1.0\r\n\r\n", Claim("http", frozenset())), (b"SSH-2.0-x", claims.OTHER),
    (b"EHLO me\r\n", claims.OTHER), (b"\0\0\0\x08\x04\xd2\x16\x2f", claims.OTHER), (b"GET /\r\n", claims.OTHER),
])
def test_first_bytes_say_what_they_claim(data: bytes, claim: Claim | None) -> None:
    assert claims.of(data) == claim


@pytest.mark.parametrize("data", [
    b"\r\nGET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n",
    b"CONNECT b.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a.test@b.test\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost : a.test\r\n\r\n", b"\x16\x03\x01\0\x05hello", b"A" * 9000,
], ids=range(7))
def test_what_a_generous_server_might_take_is_refused_as_unclear(data: bytes) -> None:
    with pytest.raises(Unclear):
        claims.of(data)


# -- HTTP --------------------------------------------------------------------------------------------------------------

class Judge:
    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def __call__(self, head: heads.Head) -> None:
        if head.hosts != {"a.test"}:
            raise heads.Refused("host_mismatch", head)
        self.seen.append((head.method, head.path))


TWO = (b"POST /one HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello"
       b"PUT /two HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
       b"GET /three HTTP/1.1\r\nhOST: a.test\r\n\r\n")


@given(st.lists(st.integers(1, 40), max_size=12))
def test_every_request_is_judged_and_written_anew_however_it_is_cut(cuts: list[int]) -> None:
    judge, at, out = Judge(), 0, b""
    requests = heads.Requests(judge)
    for cut in [*cuts, 9999]:
        out += requests.feed(TWO[at:at + cut])
        at += cut
    assert judge.seen == [("POST", "/one"), ("PUT", "/two"), ("GET", "/three")]
    again = Judge()
    assert heads.Requests(again).feed(out).count(b"HTTP/1.1") == 3 and again.seen == judge.seen
    assert b"Content-Length: 5\r\n\r\nhello" in out and b"hOST: a.test" in out


@pytest.mark.parametrize("second", [
    b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"nonsense\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET",
    b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    b"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: xchunked\r\n\r\n",
])
def test_a_request_behind_an_allowed_one_is_not_let_through_with_it(second: bytes) -> None:
    with pytest.raises(heads.Refused):
        heads.Requests(Judge()).feed(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n" + second)


def test_an_upgrade_waits_for_its_answer_and_http2_in_clear_is_not_offered() -> None:
    asked = b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: upgrade\r\nUpgrade: %b\r\n\r\n"
    taken = heads.Requests(Judge())
    assert taken.feed(asked % b"websocket" + b"raw") and taken.awaits_answer
    assert taken.feed(b"more") == b""
    assert taken.answered(b"HTTP/1.1 101 Switching") == b"rawmore" and taken.feed(b"x") == b"x"
    declined = heads.Requests(Judge())
    declined.feed(asked % b"websocket")
    with pytest.raises(heads.Refused):
        declined.feed(b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
        declined.answered(b"HTTP/1.1 200 OK")
    assert b"h2c" not in heads.Requests(Judge()).feed(asked % b"h2c")


# -- what is remembered and counted ------------------------------------------------------------------------------------

def test_an_address_is_usable_for_its_name_for_a_while_and_then_asked_for_again() -> None:
    """Field case 135: a short promise is stretched, and what is over is not forgotten but asked for again."""
    clock = Clock()
    names, first, second = Names(clock), IPv4Address(ORIGIN), IPv4Address(OTHER)
    names.learn("a.test", [first], 0)
    names.learn("b.test", [first, second], 300)
    clock.now += 59
    assert (names.fresh(first), names.fresh(second)) == (["a.test", "b.test"], ["b.test"])
    clock.now += 2
    assert (names.fresh(first), names.stale(first)) == (["b.test"], ["a.test"])
    names.learn("a.test", [first], 0)
    assert names.fresh(first) == ["a.test", "b.test"]


def test_what_names_are_remembered_is_bounded_and_pretended_addresses_are_given_once() -> None:
    names = Names(Clock())
    for number in range(9000):
        names.learn(f"n{number}.test", [IPv4Address(number)], 60)
    assert names.fresh(IPv4Address(0)) == [] and names.fresh(IPv4Address(8999)) == ["n8999.test"]
    given = {name: names.pretend(name) for name in map("p{}.test".format, range(1500))}
    assert len(set(given.values())) == 1500 and names.meant(given["p1499.test"]) == "p1499.test"
    assert names.meant(given["p0.test"]) is None and names.pretend("p1499.test") == given["p1499.test"]


def test_a_bucket_owes_what_has_flowed_and_fills_evenly() -> None:
    clock = Clock()
    bucket = Bucket(100, clock)
    assert bucket.spend(100) == 0.0 and bucket.spend(50) == 0.5
    clock.now += 0.5
    assert not bucket.try_spend(1)
    clock.now += 0.1
    assert bucket.try_spend(10) and not bucket.try_spend(1)
    bucket.change(0)
    assert bucket.spend(1e9) == 0.0 and bucket.try_spend(1e9)


async def test_repeats_of_a_refusal_are_one_row_and_what_does_not_fit_is_counted(
        monkeypatch: pytest.MonkeyPatch) -> None:
    from sandboxes.egress.daemon import journal as module
    monkeypatch.setattr(module, "REPEATS_S", 0.05)
    monkeypatch.setattr(module, "MOST_KEPT", 3)
    rang: list[int] = []
    journal = Journal(lambda: rang.append(1))
    row = Row("m", "a.test", "", 53, "dns", "refused", "rules", "no_rule")
    for _ in range(5):
        journal.note(row)
    first = journal.batch()
    assert [each.count for each in first] == [1] and journal.batch() == []
    journal.lost()
    assert [each.count for each in journal.batch()] == [1]
    journal.taken()
    while len(rang) < 2:
        await asyncio.sleep(0.01)
    assert [each.count for each in journal.batch()] == [4]
    for number in range(4):
        journal.note(Row("m", "", ORIGIN, number, "tcp", "allowed", "mode"))
    assert journal.dropped == {"m": 2}


async def test_one_question_serves_all_who_wait_and_a_no_is_remembered() -> None:
    told: list[Any] = []
    clock = Clock()
    asks = Asks(clock, told.append, wait_s=30)
    waiting = [asyncio.create_task(asks.wait("a.test", None, 443)) for _ in range(3)]
    while not told:
        await asyncio.sleep(0)
    asks.look_again(lambda ask: ask.name == "a.test")
    await asyncio.gather(*waiting)
    denied = asyncio.create_task(asks.wait("", IPv4Address(ORIGIN), 22))
    while len(told) < 2:
        await asyncio.sleep(0)
    asks.deny(told[1].ask_id)
    for attempt in (denied, asks.wait("", IPv4Address(ORIGIN), 22)):
        with pytest.raises(Denied, match="asked_denied"):
            await attempt
    assert len(told) == 2
    with pytest.raises(Denied, match="asked_timeout"):
        await Asks(clock, told.append, wait_s=0.01).wait("b.test", None, 443)


async def test_a_wire_carries_messages_and_descriptors_in_order_and_ends_at_nonsense() -> None:
    one, other = socket.socketpair()
    got: list[tuple[Any, list[int]]] = []
    ended = asyncio.Event()
    here = Wire(one, lambda wire, message, fds: None, ended.set)
    Wire(other, lambda wire, message, fds: got.append((message, fds)), lambda: None)
    pipes = [os.pipe() for _ in range(3)]
    here.send({"type": "a", "text": "x" * 300_000}, pipes[0])
    here.send({"type": "b"})
    here.send({"type": "c"}, [*pipes[1], *pipes[2]])
    while len(got) < 3:
        await asyncio.sleep(0)
    assert [(message["type"], len(fds)) for message, fds in got] == [("a", 2), ("b", 0), ("c", 4)]
    os.write(got[2][1][1], b"hi")
    assert os.read(got[2][1][0], 2) == b"hi"
    for _, fds in got:
        for fd in fds:
            os.close(fd)
    one.send(b"\xff\xff\xff\xff")
    await asyncio.wait_for(ended.wait(), 20)
