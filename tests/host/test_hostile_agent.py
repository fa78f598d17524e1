"""A hostile agent costs its own workspace, never the host: memory is bounded, stop works, nobody else notices."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sandboxes.errors import AgentLost
from sandboxes.guest import protocol as wire
from sandboxes.guest.link import GuestLink
from tests.host.client import eventually
from tests.host.hostile import Agent, House, Script, house

MIB = 1024 * 1024
#: What one misbehaving link may make this process grow by, roughly: its bounds, and the allocator's slack.
BOUND_BYTES = 120 * MIB
FLOOD_BYTES = 400 * MIB


@pytest.fixture
async def hostd() -> AsyncIterator[House]:
    with tempfile.TemporaryDirectory(prefix="berth-h-") as folder:  # sockets want short paths
        async with house(Path(folder)) as made:
            yield made


def rss_bytes() -> int:
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) * 1024


async def flood(agent: Agent, frame: bytes) -> None:
    """As much as the other side takes."""
    for _ in range(FLOOD_BYTES // len(frame)):
        agent.writer.write(frame)
        await agent.writer.drain()


def floods(make: Any) -> Script:
    async def script(agent: Agent, stream: int, params: dict[str, Any]) -> None:
        for frame in make(agent, stream):
            await flood(agent, frame)
    return script


BIG = bytes(wire.MAX_PAYLOAD_BYTES)
FLOODS: dict[str, Any] = {
    "data beyond its window": lambda agent, stream: [agent.frame(wire.DATA, stream, BIG, tag=1)],
    "a message that never ends": lambda agent, stream: [agent.frame(wire.RESULT, stream, BIG, tag=wire.MORE)],
    "a head that never ends": lambda agent, stream: [agent.frame(wire.HEAD, stream, BIG, tag=wire.MORE)],
    "greetings of many streams": lambda agent, stream: (
        agent.frame(wire.WELCOME, number, BIG, tag=wire.MORE) for number in range(1, 3)),
    "bytes that are no frames": lambda agent, stream: [wire.MAGIC * 4096],
}


@pytest.mark.parametrize("how", FLOODS)
async def test_a_flood_costs_the_one_who_sends_it(hostd: House, how: str) -> None:
    """While nobody reads that stream: the call it answers waits for a result."""
    hostile = await hostd.machine({"file.stat": floods(FLOODS[how])})
    neighbour = await hostd.machine()
    before = rss_bytes()
    asked = asyncio.create_task(hostd.call("GET", f"{hostile}/files?path=/x"))
    assert (await hostd.run(neighbour))[1]["stdout"] == "ok\n"
    connections = hostd.agents.connections[hostile]

    async def over() -> bool:  # the flood was taken and dropped, or the link was
        assert rss_bytes() - before < BOUND_BYTES
        return asked.done() or all(not agent.tasks for agent in connections)
    await eventually(over, "the flood ends", 60)
    assert (await hostd.run(neighbour))[1]["stdout"] == "ok\n"
    asked.cancel()
    assert (await hostd.operate(hostile, "kill"))["state"] == "done"


@pytest.mark.parametrize("raw", [
    b"[" * 8000, b"{" + b'"a":{' * 2000, b"[]", b"\xff", b'{"code":"invalid","self":1,"detail":{}}',
    b'{"info":1}', b'{"code":["x"]}', b'{"retry_after_s":NaN,"code":"busy"}'])
@pytest.mark.parametrize("kind", [wire.HEAD, wire.RESULT, wire.ERROR, wire.WELCOME, wire.CREDIT, wire.OPEN, 99])
async def test_no_answer_leaves_a_link_half_dead(tmp_path: Path, raw: bytes, kind: int) -> None:
    """Whatever is said, the caller hears of it, and the link is either of use or closed."""
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def lies(agent: Agent, stream: int, params: dict[str, Any]) -> None:
            agent.send(agent.frame(kind, stream if kind != wire.WELCOME else 0, raw))
            agent.say(wire.RESULT, stream, {"after": True})
        await Agent(writer, {"lie": lies}).serve(reader)
    async with await asyncio.start_unix_server(connected, tmp_path / "a.sock"):
        link = await GuestLink.open(tmp_path / "a.sock", 1, timeout_s=5)
        try:
            await link.request("lie", timeout_s=5)
        except Exception as error:
            assert not isinstance(error, AgentLost) or "no answer" not in error.detail
        if not link.closed.is_set():
            assert await link.request("polite", timeout_s=60) == {}
        await link.close()


async def test_a_welcome_without_info_opens_nothing(tmp_path: Path) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonce = json.loads(wire.FrameReader().feed(await reader.read(65536))[0].payload)["nonce"]
        writer.write(b"".join(wire.encode_message(wire.WELCOME, 0, 0, {"nonce": nonce, "info": [1]})))
        await reader.read(65536)
    async with await asyncio.start_unix_server(connected, tmp_path / "a.sock"):
        with pytest.raises(AgentLost):
            await GuestLink.open(tmp_path / "a.sock", 1, timeout_s=0.5)


async def test_an_agent_that_stops_reading_cannot_keep_its_machine_from_being_stopped(hostd: House) -> None:
    async def deaf(agent: Agent, stream: int, params: dict[str, Any]) -> None:
        agent.send(wire.encode_credit(stream, agent.session, 1 << 30))
        agent.reads.clear()
    hostile = await hostd.machine({"file.write": deaf})
    upload = asyncio.create_task(hostd.call("PUT", f"{hostile}/files/content?path=/x", data=bytes(8 * MIB)))
    agent = hostd.agents.connections[hostile][-1]
    await eventually(_is(lambda: not agent.reads.is_set()), "the agent is deaf")
    stopped = await hostd.operate(hostile, "shutdown", grace_s=0.5)
    assert stopped["state"] == "done"
    upload.cancel()


async def test_an_agent_that_reads_no_credit_ends_its_link_instead_of_filling_memory(
        hostd: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandboxes.guest.link.UNREAD_BYTES", 4096)
    crumb_of: list[int] = []

    async def crumbs(agent: Agent, stream: int, params: dict[str, Any]) -> None:
        agent.reads.clear()
        crumb_of.append(stream)
        await flood_of_crumbs(agent, stream)
    hostile = await hostd.machine({"exec.output": crumbs})
    await hostd.run(hostile, background=True, wait_s=0)
    await eventually(_is(lambda: len(hostd.agents.connections[hostile]) > 1), "hostd hung up and came again", 60)
    assert crumb_of


async def flood_of_crumbs(agent: Agent, stream: int) -> None:
    """One at a time, so that each is consumed and earns a credit of its own, which nobody reads."""
    while not agent.writer.is_closing():
        agent.writer.write(agent.frame(wire.DATA, stream, b"a", tag=1))
        await agent.writer.drain()
        await asyncio.sleep(0)


def _is(condition: Any) -> Any:
    async def asked() -> bool:
        return bool(condition())
    return asked


# -- lies in what it says ----------------------------------------------------------------------------------------------

def results(**of: dict[str, Any]) -> dict[str, Script]:
    def script(body: dict[str, Any]) -> Script:
        async def said(agent: Agent, stream: int, params: dict[str, Any]) -> None:
            agent.say(wire.RESULT, stream, body)
        return said
    return {method.replace("_", "."): script(body) for method, body in of.items()}


STAT = {"path_b64": "L3g=", "type": "directory", "size": 1, "mode": 0o755, "mtime_ns": 0, "etag": "e"}


async def test_a_list_longer_than_asked_for_is_not_made_into_text(hostd: House) -> None:
    hostile = await hostd.machine(results(file_stat=STAT, file_list={"entries": [{}] * 200_000}))
    status, said, _ = await hostd.call("GET", f"{hostile}/files?path=/x&limit=10")
    assert (status, said["code"]) == (502, "agent_lost")


async def test_figures_and_words_of_an_agent_have_the_types_they_must_have(hostd: House) -> None:
    lies = {**STAT, "type": "x\r\ny", "size": {"a": 1}, "mode": [], "owner": "o" * 9000, "group": 7, "mtime_ns": 1e300}
    hostile = await hostd.machine(results(file_stat=lies, file_list={"entries": [7, None, lies]},
                                          metrics={"cpu_s": [1], "memory_used_bytes": 5, "evil": "x"}))
    status, said, _ = await hostd.call("GET", f"{hostile}/files?path=/x")
    assert status == 200 and (said["type"], said["size"], said["mode"]) == (None, 0, "0000")
    assert len(said["owner"]) <= 256 and said["group"] is None
    now = (await hostd.call("GET", f"{hostile}/metrics"))[1]["now"]
    assert set(now) == {"at", "cpu_percent", "memory_used_bytes"} and now["memory_used_bytes"] == 5


@pytest.mark.parametrize("lie", [{"size": "x" * 100_000, "etag": "e"}, {"size": 1, "etag": 'e"\r\nSet-Cookie: a=b'},
                                 {"size": -1, "etag": "e"}, {}])
async def test_what_was_written_is_no_fact_when_the_agent_makes_it_up(hostd: House, lie: dict[str, Any]) -> None:
    """Facts are kept in memory and on disk, and go up to the database."""
    hostile = await hostd.machine(results(file_write=lie))
    status, said, headers = await hostd.call("PUT", f"{hostile}/files/content?path=/x", data=b"a")
    assert (status, said["code"]) == (502, "agent_lost") and "Set-Cookie" not in headers
    async with hostd.session.get("http://hostd/v1/feed") as feed:
        assert "file.written" not in [fact["kind"] for fact in (await feed.json())["facts"]]


async def test_an_error_of_the_guest_travels_in_known_words_only(hostd: House) -> None:
    async def refuses(agent: Agent, stream: int, params: dict[str, Any]) -> None:
        agent.say(wire.ERROR, stream, {
            "code": "invalid", "detail": "a\r\nb\0\ud800" + "x" * 5000, "status": 200,
            "allow": "GET\r\nSet-Cookie: a=b",
            "content_range": "x\r\ny", "self": 1, "errors": {"a": 1}, "retry_after_s": float("inf"), "field": "pa\nth"})
    hostile = await hostd.machine({"file.stat": refuses})
    status, said, headers = await hostd.call("GET", f"{hostile}/files?path=/x")
    assert status == 400 and set(said) == {"code", "detail", "errors"}
    assert said["detail"].isprintable() and len(said["detail"]) <= 1000 and "Set-Cookie" not in headers
    assert list(said["errors"]) == ["pa\ufffdth"]


@pytest.mark.parametrize("outcome", [{"kind": "exited", "code": 10**400}, {"kind": "exited", "code": True},
                                     {"kind": "signaled", "signal": "<b>"}, {"kind": []}, 7])
async def test_an_outcome_that_no_process_has_is_lost(hostd: House, outcome: Any) -> None:
    async def ends(agent: Agent, stream: int, params: dict[str, Any]) -> None:
        agent.say(wire.RESULT, stream, {"outcome": outcome, "ended_at": float("nan"), "stdout_truncated": "yes"})
    hostile = await hostd.machine({"exec.output": ends})
    _, record = await hostd.run(hostile)
    assert record["outcome"] == {"kind": "lost", "reason": "agent_misspoke"} and record["duration_ms"] is not None


async def test_the_agents_own_word_for_being_away_is_no_busy_loop(hostd: House) -> None:
    asked: list[int] = []

    async def away(agent: Agent, stream: int, params: dict[str, Any]) -> None:
        asked.append(stream)
        agent.say(wire.ERROR, stream, {"code": "agent_lost", "detail": "x"})
    hostile = await hostd.machine({"exec.output": away})
    await hostd.run(hostile, wait_s=1)
    assert 1 <= len(asked) < 20


async def test_execs_that_promise_nothing_are_bounded_in_number(hostd: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async def runs_on(agent: Agent, stream: int, params: dict[str, Any]) -> None:
        await asyncio.sleep(600)
    monkeypatch.setattr("sandboxes.host.execs.RUNNING_MOST", 5)
    hostile = await hostd.machine({"exec.output": runs_on})
    seen = [await hostd.run(hostile, max_output_bytes=0, background=True, wait_s=0) for _ in range(6)]
    assert [status for status, _ in seen] == [202] * 5 + [409] and seen[-1][1]["code"] == "busy"


async def test_a_client_that_goes_while_the_guest_takes_nothing_is_let_go(
        hostd: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each such upload would stay with hostd for as long as the machine runs."""
    async def takes_nothing(agent: Agent, stream: int, params: dict[str, Any]) -> None:
        pass
    monkeypatch.setattr("sandboxes.host.http.LOOK_S", 0.05)
    hostile = await hostd.machine({"file.write": takes_nothing})

    def waiting() -> int:
        return [task.get_coro().__qualname__ for task in asyncio.all_tasks()].count("_poured")  # type: ignore[union-attr]
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)
        client.connect(str(hostd.socket))
        client.send(f"PUT /v1/machines/{hostile}/files/content?path=/x HTTP/1.1\r\nHost: h\r\n"
                    f"Content-Length: {8 * MIB}\r\n\r\n".encode())

        def more() -> bool:
            with contextlib.suppress(BlockingIOError):
                client.send(bytes(MIB))
                return False
            return waiting() == 1
        await eventually(_is(more), "the upload waits for the guest's window")
    await eventually(_is(lambda: not waiting()), "hostd let go of it", 10)


async def test_an_upload_of_which_the_guest_takes_nothing_ends(hostd: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async def takes_nothing(agent: Agent, stream: int, params: dict[str, Any]) -> None:
        pass
    monkeypatch.setattr("sandboxes.host.http.STALL_S", 0.3)
    hostile = await hostd.machine({"file.write": takes_nothing})
    status, said, _ = await hostd.call("PUT", f"{hostile}/files/content?path=/x", data=bytes(MIB))
    assert (status, said["code"]) == (502, "agent_lost")


@pytest.mark.parametrize("word", ["microvm,kernel=/etc/shadow", "../x", "Micro", "", 7])
async def test_a_machine_s_kind_is_one_word(hostd: House, word: Any) -> None:
    """It becomes part of QEMU's options and of a template's folder."""
    spec = {"machine_id": "m" * 20, "generation": 1, "image": "default", "disk_gib": 1, "hostname": "h", "env": {},
            "shape": {"cpus": 1, "memory_mib": 64, "machine": word}}
    body = {"operation_id": "o", "kind": "create_disk", "generation": 1, "spec": spec}
    status, said, _ = await hostd.call("POST", f"{'m' * 20}/operations", json=body)
    assert (status, said["code"]) == (400, "invalid")
