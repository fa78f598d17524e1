"""Both ends of the link meet over a real socket: torn streams, other epochs, slow and vanished readers."""

from __future__ import annotations

import asyncio
import resource
import secrets

import pytest

from sandboxes.errors import AgentLost, Conflict, FileError, Invalid, NotFound, SandboxError, StaleGeneration
from sandboxes.guest import protocol as wire
from sandboxes.guest.agent.session import Session
from sandboxes.guest.link import GuestLink
from sandboxes.guest.linkerrors import error_of
from tests.guest.guest import DEADLINE_S, Guest, unb64, until

BIG = 50_000_000
SPAM = "head -c 50000000 /dev/zero | tr '\\0' x"


async def raw(guest: Guest) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_unix_connection(guest.socket)


async def next_message(reader: asyncio.StreamReader, kind: int) -> dict:
    frames, joiner = wire.FrameReader(), wire.MessageJoiner()
    async with asyncio.timeout(DEADLINE_S):
        while data := await reader.read(65536):
            for frame in frames.feed(data):
                if frame.kind == kind and (body := joiner.add(frame)) is not None:
                    return body
    raise AssertionError("the agent closed the connection")


def hello(nonce: str, epoch: int) -> bytes:
    return b"".join(wire.encode_message(wire.HELLO, 0, 0, {"nonce": nonce, "epoch": epoch, "protocol": 1}))


# -- sessions ----------------------------------------------------------------------------------------------------------

async def test_a_link_tells_who_answers(guest: Guest):
    info = guest.link.info
    assert info["protocol"] == wire.GENERATION and info["agent_version"] and len(info["boot_id"]) == 16
    async with guest.another_link() as again:
        assert again.link.info["state"] == "attached"
        assert isinstance(again.link.info["execs"], list)


async def test_a_new_link_takes_the_place_of_the_one_before(guest: Guest):
    async with guest.another_link() as newer:
        async with asyncio.timeout(DEADLINE_S):
            await guest.link.closed
        with pytest.raises(AgentLost):
            await guest.link.request("ping")
        await newer.link.request("ping")


async def test_half_a_frame_of_a_former_host_does_not_disturb_the_next(guest: Guest):
    """The same connection carries both, as on a virtio port whose host end was reopened."""
    reader, writer = await raw(guest)
    torn = wire.encode(wire.DATA, 7, 99, secrets.token_bytes(wire.MAX_PAYLOAD_BYTES))
    writer.write(torn[:5000] + hello("first", 1))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await next_message(reader, wire.WELCOME)
    writer.write(wire.PADDING + hello("first", 1))
    assert (await next_message(reader, wire.WELCOME))["nonce"] == "first"
    writer.close()


async def test_a_second_hello_is_answered_behind_padding_and_keeps_the_session(guest: Guest):
    reader, writer = await raw(guest)
    writer.write(hello("same", 1))
    await next_message(reader, wire.WELCOME)
    writer.write(hello("same", 1))
    answered = await asyncio.wait_for(reader.readexactly(len(wire.PADDING)), DEADLINE_S)
    assert answered == wire.PADDING
    number = wire.session_number("same", 1)
    writer.write(b"".join(wire.encode_message(wire.OPEN, 1, number, {"method": "ping", "params": {}})))
    assert await next_message(reader, wire.RESULT) == {}
    writer.close()


async def test_frames_of_another_session_or_epoch_are_refused(guest: Guest):
    reader, writer = await raw(guest)
    writer.write(hello("mine", 1))
    await next_message(reader, wire.WELCOME)
    for number, (nonce, epoch) in enumerate([("mine", 2), ("other", 1)], 1):
        body = {"method": "no.such", "params": {}}
        writer.write(b"".join(wire.encode_message(wire.OPEN, number, wire.session_number(nonce, epoch), body)))
    right = wire.encode_message(wire.OPEN, 9, wire.session_number("mine", 1), {"method": "ping", "params": {}})
    writer.write(b"".join(right))
    frames = wire.FrameReader()
    seen: list[wire.Frame] = []
    async with asyncio.timeout(DEADLINE_S):
        while not any(frame.stream == 9 for frame in seen):
            seen += frames.feed(await reader.read(65536))
    assert [(frame.kind, frame.stream) for frame in seen] == [(wire.RESULT, 9)]
    writer.close()


async def test_a_socket_nobody_listens_on_is_an_agent_lost_in_time(tmp_path):
    with pytest.raises(AgentLost):
        await GuestLink.open(tmp_path / "none.sock", 1, timeout_s=0.3)


async def test_a_peer_that_never_answers_is_an_agent_lost_in_time(tmp_path):
    async def swallow(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            pass
    server = await asyncio.start_unix_server(swallow, tmp_path / "mute.sock")
    with pytest.raises(AgentLost):
        await GuestLink.open(tmp_path / "mute.sock", 1, timeout_s=1.0)
    server.close()


async def test_garbage_from_the_guest_before_its_welcome_is_skipped(tmp_path):
    """What was in flight when the machine was captured arrives first after a resume."""
    async def noisy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames, joiner = wire.FrameReader(), wire.MessageJoiner()
        while data := await reader.read(65536):
            for frame in frames.feed(data):
                said = joiner.add(frame)
                old = wire.encode(wire.DATA, 1, 77, bytes(9000))
                answer = {"nonce": said["nonce"], "epoch": 1, "protocol": 1, "info": {"state": "waiting"}}
                writer.write(old[3000:] + old + b"".join(wire.encode_message(wire.WELCOME, 0, 5, answer)))
    server = await asyncio.start_unix_server(noisy, tmp_path / "noisy.sock")
    link = await GuestLink.open(tmp_path / "noisy.sock", 1, timeout_s=10)
    assert link.info == {"state": "waiting"}
    await link.close()
    server.close()


# -- calls and errors --------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("code", "kind"), [
    ("invalid", Invalid), ("not_found", NotFound), ("file_not_found", FileError), ("precondition_failed", FileError),
    ("stdin_closed", Conflict), ("exec_ended", Conflict), ("stale_generation", StaleGeneration),
    ("of_a_newer_agent", SandboxError)])
def test_an_agents_code_becomes_its_class_and_stays_the_code(code, kind):
    error = error_of({"code": code, "detail": "why", "reason": "because", "etag": "e", "retry_after_s": 1})
    assert type(error) is kind and error.code == code
    assert error.to_json() == {"code": code, "detail": "why", "reason": "because", "etag": "e", "retry_after_s": 1}


async def test_an_unknown_method_is_invalid_and_harms_nothing(guest: Guest):
    with pytest.raises(Invalid, match=r"no\.such"):
        await guest.link.request("no.such", {})
    assert await guest.link.request("ping") == {}


async def test_a_message_larger_than_the_link_carries_is_invalid_before_it_is_sent(guest: Guest):
    with pytest.raises(Invalid):
        await guest.link.request("ping", {"x": "y" * (wire.MAX_MESSAGE_BYTES + 1)})
    assert await guest.link.request("ping") == {}


async def test_answers_larger_than_a_frame_arrive_whole(guest: Guest):
    await guest.run("mkdir many && cd many && seq -f 'a-rather-long-name-for-a-file-%g' 1 900 | xargs touch")
    entries = (await guest.file("list", "/home/user/many", limit=1000))["entries"]
    assert len(entries) == 900
    assert unb64(entries[0]["path_b64"]) == b"/home/user/many/a-rather-long-name-for-a-file-1"


async def test_many_calls_at_once_each_get_their_own_answer(guest: Guest):
    ran = await asyncio.gather(*(guest.run(f"echo {number}") for number in range(20)))
    assert [int(each.stdout) for each in ran] == list(range(20))


async def test_a_closed_link_ends_its_streams_with_agent_lost(guest: Guest):
    async with guest.another_link() as other:
        stream = await other.output(await other.start("sleep 30"))
        await stream.head()
        reading = asyncio.create_task(stream.__anext__())
        await asyncio.sleep(0)
        await other.link.close()
        with pytest.raises(AgentLost):
            await reading
        with pytest.raises(AgentLost):
            await other.link.request("ping")


# -- backpressure ------------------------------------------------------------------------------------------------------

async def test_a_stream_nobody_reads_stops_its_sender_and_no_other(guest: Guest):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    exec_id = await guest.start(SPAM)
    stalled = await guest.output(exec_id)
    await stalled.head()
    await until(lambda: len(stalled._chunks) * wire.MAX_PAYLOAD_BYTES >= wire.WINDOW_BYTES)
    for number in range(20):
        assert await guest.link.request("ping") == {}
        assert (await guest.run(f"echo {number}")).stdout == b"%d\n" % number
    assert sum(len(data) for _, data in stalled._chunks) <= wire.WINDOW_BYTES
    agent = (await guest.run("cat /proc/$PPID/status", user="root")).stdout
    assert int(agent.split(b"VmRSS:")[1].split()[0]) < 60_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000

    size = 0
    async for _tag, data in stalled:
        assert not data.strip(b"x")
        size += len(data)
    assert size == BIG
    assert (await stalled.result())["outcome"] == {"kind": "exited", "code": 0}


async def test_input_nobody_reads_stops_its_writer_and_no_other(guest: Guest):
    exec_id = await guest.start("sleep 60", stdin=True)
    stream = await guest.link.stream("exec.stdin", {"exec_id": exec_id, "eof": True})
    writing = asyncio.create_task(stream.write(bytes(BIG)))
    while stream._send_credit > 0:
        await asyncio.sleep(0.02)
    assert await guest.link.request("ping") == {}
    assert (await guest.run("echo still here")).stdout == b"still here\n"
    assert not writing.done()
    await guest.link.request("exec.kill", {"exec_id": exec_id})
    with pytest.raises(Conflict) as refused:
        await writing
    # A dying process closes its input before its end is known: either is true.
    assert refused.value.code in ("exec_ended", "stdin_closed")
    assert refused.value.extra["accepted_bytes"] < BIG


async def test_a_stalled_file_stream_does_not_stop_other_file_calls(guest: Guest):
    await guest.run("head -c 30000000 /dev/urandom > big")
    stalled = [await guest.link.stream("file.read", {"path_b64": "L2hvbWUvdXNlci9iaWc=", "user": "user", "offset": 0})
               for _ in range(20)]
    for stream in stalled:
        assert (await stream.head())["size"] == 30_000_000
    assert (await guest.file("stat", "/home/user/big"))["size"] == 30_000_000
    for stream in stalled:
        await stream.cancel()


# -- reconnecting ------------------------------------------------------------------------------------------------------

async def test_output_goes_on_byte_for_byte_after_a_link_is_lost_in_the_middle(guest: Guest):
    """What was consumed is acknowledged, what was only in flight is sent again, nothing is missing or doubled."""
    exec_id = await guest.start("seq 1 400000")
    got = bytearray()
    for cut in (100_000, 700_000, 1_500_000):
        async with guest.another_link() as part:
            stream = await part.output(exec_id, stdout=len(got))
            assert (await stream.head())["offsets"]["stdout"] == len(got)
            async for _tag, data in stream:
                got += data
                if len(got) >= cut:
                    break
    async with guest.another_link() as last:
        stream = await last.output(exec_id, stdout=len(got))
        async for _tag, data in stream:
            got += data
        assert (await stream.result())["outcome"] == {"kind": "exited", "code": 0}
    assert bytes(got) == b"".join(b"%d\n" % number for number in range(1, 400_001))


async def test_a_lost_link_is_never_reported_as_an_end(guest: Guest):
    exec_id = await guest.start("echo begun; sleep 1; exit 7")
    async with guest.another_link() as other:
        stream = await other.output(exec_id)
        assert await stream.__anext__() == (1, b"begun\n")
        await other.link.close()
        with pytest.raises(AgentLost):
            await stream.__anext__()
        with pytest.raises(AgentLost):
            await stream.result()
    async with guest.another_link() as other:
        assert (await other.finish(exec_id)).outcome == {"kind": "exited", "code": 7}


async def test_an_unfinished_upload_of_a_lost_link_changes_nothing(guest: Guest):
    await guest.write("/home/user/kept", b"old")
    async with guest.another_link() as other:
        stream = await other.link.stream("file.write", {"path_b64": "L2hvbWUvdXNlci9rZXB0", "user": "user"})
        await stream.write(b"new, but cut off")
        await other.link.drain()
    async with guest.another_link() as other:
        assert await other.read("/home/user/kept") == b"old"
        await until_none_beside(other)


async def until_none_beside(guest: Guest) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while any(b"/.berth-" in name for name in await guest.names("/home/user")):
            await asyncio.sleep(0.02)


async def test_drain_returns_once_nothing_is_in_flight(guest: Guest):
    await guest.run("seq 1 1000")
    await guest.link.drain(timeout_s=DEADLINE_S)
    stalled = await guest.output(await guest.start("yes"))
    await until(lambda: len(stalled._chunks) * wire.MAX_PAYLOAD_BYTES >= wire.WINDOW_BYTES)
    held = list(stalled._chunks)
    await guest.link.drain(timeout_s=DEADLINE_S)
    assert list(stalled._chunks) == held


async def test_a_successor_of_the_agent_ends_the_sessions_of_its_predecessor(tmp_path):
    """On a virtio port the host's end stays open when the agent dies: only the next agent can say so."""
    async def dies_and_returns(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = wire.MessageJoiner().add(wire.FrameReader().feed(await reader.read(65536))[0])
        answer = {"nonce": said["nonce"], "epoch": 1, "protocol": 1, "info": {"boot_id": "1"}}
        successor = Session({}, dict, lambda _epoch: None)
        successor.announce()
        writer.write(bytes(successor.fill()) + b"".join(wire.encode_message(wire.WELCOME, 0, 5, answer)))
        await reader.read(65536)
        torn = wire.encode(wire.DATA, 1, 5, b"x" * 9000)[:4000]
        successor.announce()
        writer.write(torn + bytes(successor.fill()))
    server = await asyncio.start_unix_server(dies_and_returns, tmp_path / "dies.sock")
    link = await GuestLink.open(tmp_path / "dies.sock", 1, timeout_s=10)
    with pytest.raises(AgentLost, match="started again"):
        await link.request("ping")
    async with asyncio.timeout(DEADLINE_S):
        await link.closed
    await link.close()
    server.close()
