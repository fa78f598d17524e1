"""The agent meets a host that sends anything: it never falls, keeps a bounded amount, and serves the next one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandboxes.guest import protocol as wire
from sandboxes.guest.agent.session import MOST_STREAMS, UNFINISHED_BYTES, Session
from sandboxes.guest.agent.streams import Stream
from tests.guest.guest import DEADLINE_S, Guest

EPOCH = 7
NUMBER = wire.session_number("n", EPOCH)
HELLO = wire.encode_message(wire.HELLO, 0, 0, {"nonce": "n", "epoch": EPOCH, "protocol": wire.GENERATION})[0]

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3), max_leaves=8)
methods = st.sampled_from(["echo", "sink", "fails", "exec.start", "exec.output", "exec.stdin", "file.read", ""])
bodies = st.one_of(
    st.fixed_dictionaries({"method": methods | anything, "params": anything}),
    st.fixed_dictionaries({"nonce": st.just("n") | anything,
                           "epoch": st.sampled_from([EPOCH, 0, -1, 10**30]) | anything}),
    anything)
payloads = st.one_of(
    bodies.map(lambda body: json.dumps(body).encode()), st.binary(max_size=200), st.just(b"[" * 20_000),
    st.integers(0, 2**32 - 1).map(wire.CRC.pack), st.just(bytes(wire.MAX_PAYLOAD_BYTES)))
frames = st.builds(
    wire.encode, kind=st.integers(0, 15), stream=st.integers(0, 4), session=st.sampled_from([NUMBER, NUMBER, 0, 5]),
    payload=payloads.map(lambda data: data[:wire.MAX_PAYLOAD_BYTES]), tag=st.sampled_from([0, 0, 1, 2, 255]))
noise = st.one_of(st.binary(max_size=100), st.just(wire.MAGIC * 9), frames.map(lambda frame: frame[:-1]))
talk = st.lists(st.one_of(frames, frames, frames, noise, st.just(HELLO)), max_size=40)


class Served:
    """A session over methods of every manner: one answers, one takes bytes, one gives them, one breaks."""

    def __init__(self) -> None:
        self.taken = 0
        self.session = Session({"echo": lambda _stream, params: params, "sink": self.sink, "fails": self.fails,
                                "file.read": self.source}, dict, lambda _epoch: None, lambda method: method == "held")

    def sink(self, stream: Stream, _params: dict[str, Any]) -> None:
        def take(_tag: int, data: bytes) -> None:
            self.taken += len(data)
        stream.on_data = take

    def source(self, stream: Stream, _params: dict[str, Any]) -> None:
        stream.pull_from(lambda most: (0, bytes(most)))

    def fails(self, _stream: Stream, _params: dict[str, Any]) -> None:
        raise RuntimeError("on purpose")

    def said(self) -> list[wire.Frame]:
        reader, found = wire.FrameReader(), []
        for _ in range(100):
            pending = self.session.fill()
            found += reader.feed(bytes(pending))
            pending.clear()
        return found


@settings(max_examples=300, deadline=None)
@given(talk)
def test_no_host_makes_a_session_fall_and_the_next_hello_is_answered(sent: list[bytes]):
    served = Served()
    for data in sent:
        served.session.feed(data)
        assert len(served.session.fill()) < 1 << 20
    served.session.lost()
    served.session.feed(wire.PADDING + HELLO)
    number = wire.session_number("n", EPOCH)
    served.session.feed(wire.encode_message(wire.OPEN, 9, number, {"method": "echo", "params": {"a": 1}})[0])
    answers = [json.loads(frame.payload) for frame in served.said() if frame.kind == wire.RESULT and frame.stream == 9]
    assert answers == [{"a": 1}]


def opened(served: Served, method: str, stream: int = 1) -> None:
    served.session.feed(wire.encode_message(wire.OPEN, stream, NUMBER, {"method": method})[0])


@pytest.mark.parametrize("method", ["sink", "held"])
def test_more_than_the_window_ends_the_stream_and_not_the_session(method: str):
    """`sink` never gives credit back; what is `held` waits for a thaw, and must not gather without bound."""
    served = Served()
    served.session.feed(HELLO)
    opened(served, method)
    for _ in range(100):
        served.session.feed(wire.encode(wire.DATA, 1, NUMBER, bytes(wire.MAX_PAYLOAD_BYTES)))
    assert served.taken <= wire.WINDOW_BYTES
    errors = [json.loads(frame.payload) for frame in served.said() if frame.kind == wire.ERROR]
    assert [error["code"] for error in errors] == ["invalid"]
    opened(served, "echo", 2)
    assert [frame.stream for frame in served.said() if frame.kind == wire.RESULT] == [2]


def test_messages_that_never_end_and_streams_without_number_are_bounded():
    served = Served()
    served.session.feed(HELLO)
    part = bytes(wire.MAX_PAYLOAD_BYTES)
    for stream in range(1, 1 + 2 * UNFINISHED_BYTES // len(part)):
        served.session.feed(wire.encode(wire.OPEN, stream, NUMBER, part, wire.MORE))
    assert served.session._joiner.held_bytes <= UNFINISHED_BYTES
    served.session.lost()
    served.session.feed(HELLO)
    for stream in range(1, MOST_STREAMS + 50):
        opened(served, "sink", stream)
    assert len(served.session._streams) == MOST_STREAMS


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(talk, st.booleans())
def test_a_real_agent_serves_the_next_host_after_any_talk(home: Any, sent: list[bytes], cut: bool):
    """Over its own socket: torn connections, wrong epochs, frames of calls that start, read and write."""
    async def meet() -> None:
        socket = home.run / "agent.sock"
        reader, writer = await asyncio.open_unix_connection(socket)
        with contextlib.suppress(ConnectionError):
            writer.write(HELLO + b"".join(sent) + (b"\xb5Br\xa7" if cut else b""))
            await writer.drain()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reader.read(65536), 0.02)
        writer.close()
        guest = Guest(socket, await _linked(socket))
        try:
            assert await guest.link.request("ping", timeout_s=DEADLINE_S) == {}
        finally:
            await guest.link.close()
    asyncio.run(meet())


async def _linked(socket: Any) -> Any:
    from sandboxes.guest.link import GuestLink
    link = await GuestLink.open(socket, 2**40, timeout_s=DEADLINE_S)
    await link.request("attach", {"hostname": "box", "machine_id": "0" * 32, "env": {}, "root": {}})
    return link


async def test_its_memory_stays_where_it_was(home: Any):
    """After a flood of each kind, measured from inside by the agent's own process."""
    link = await _linked(home.run / "agent.sock")
    guest = Guest(home.run / "agent.sock", link)

    async def rss_kib() -> int:
        return int((await guest.run("grep VmRSS: /proc/$PPID/status", login=False)).stdout.split()[1])
    before = await rss_kib()
    session, part = link._session, os.urandom(wire.MAX_PAYLOAD_BYTES)
    exec_id = await guest.start("sleep 60", stdin=True)
    for stream in range(10**6, 10**6 + 500):
        await link.send([wire.encode(wire.OPEN, stream, session, part, wire.MORE) for _ in range(8)])
        body = {"method": "exec.stdin", "params": {"exec_id": exec_id}}
        await link.send([*wire.encode_message(wire.OPEN, 2 * stream, session, body),
                         *(wire.encode(wire.DATA, 2 * stream, session, part) for _ in range(3)),
                         wire.encode(wire.CANCEL, 2 * stream, session)])
    assert await rss_kib() - before < 96 * 1024 + 8 * 1024
    await link.request("exec.kill", {"exec_id": exec_id})
    await link.close()
