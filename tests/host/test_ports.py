"""Ports of a guest over hostd: what listens, raw connections to it, and that nothing else can be reached by them."""

from __future__ import annotations

import asyncio
import hashlib
import os
import select
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sandboxes.guest.agent.ports import address_of
from sandboxes.host.work import MOST_TOLD, Meter
from tests.host.client import Hostd, eventually, new_id

ECHO = """
import socket, sys, threading
family, address = (socket.AF_INET6, sys.argv[1]) if ':' in sys.argv[1] else (socket.AF_INET, sys.argv[1])
server = socket.socket(family)
server.bind((address, 0)); server.listen(); print(server.getsockname()[1], flush=True)
def serve(peer):
    try:
        while data := peer.recv(65536): peer.sendall(data)
        peer.sendall(b'bye'); peer.close()
    except OSError as error: print('reset', error, flush=True)
while True: threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""


async def listener(hostd: Hostd, machine: str, program: str = ECHO, *arguments: str) -> tuple[int, str]:
    """(the port a program in the guest listens on, its exec)."""
    record = await hostd.exec(machine, ["python3", "-c", program, *arguments], background=True)

    async def said() -> bytes:
        path = f"/v1/machines/{machine}/execs/{record['id']}/output?stream=stdout"
        return (await hostd.call("GET", path)).body
    return int(await eventually(said, "it listens")), str(record["id"])


@asynccontextmanager
async def connected(hostd: Hostd, machine: str, port: int | str) -> AsyncIterator[tuple[asyncio.StreamReader,
                                                                                     asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_unix_connection(str(hostd.socket))
    try:
        writer.write(f"GET /v1/machines/{machine}/ports/{port}/connect HTTP/1.1\r\nHost: h\r\n"
                     "Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n".encode())
        yield reader, writer
    finally:
        writer.transport.abort()


async def opened(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 ") and b"upgrade: tcp" in head.lower(), head


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1", "::"])
async def test_bytes_go_both_ways_and_each_direction_ends_by_itself(steady: tuple[Hostd, str], address: str):
    hostd, machine = steady
    port, exec_id = await listener(hostd, machine, ECHO, address)
    listed = (await hostd.call("GET", f"/v1/machines/{machine}/ports")).json["results"]
    mine = next(each for each in listed if each["port"] == port)
    assert (mine["process"], mine["user"], mine["protocol"]) == ("python3", "user", "tcp") and mine["pid"] > 1
    assert mine["address"] == address and mine["reachable"] is True
    async with asyncio.timeout(30), connected(hostd, machine, port) as (reader, writer):
        await opened(reader)
        writer.write(b"\x00\xffhello\n")
        assert await reader.readexactly(8) == b"\x00\xffhello\n"
        writer.write_eof()
        assert await reader.read() == b"bye"
    await hostd.call("DELETE", f"/v1/machines/{machine}/execs/{exec_id}")

    async def gone() -> bool:
        results = (await hostd.call("GET", f"/v1/machines/{machine}/ports")).json["results"]
        return port not in [each["port"] for each in results]
    await eventually(gone, "the port is closed")
    async with asyncio.timeout(30), connected(hostd, machine, port) as (reader, _writer):
        refused = await reader.readuntil(b"}")
        assert refused.startswith(b"HTTP/1.1 502 ") and b"preview_not_listening" in refused


async def test_a_slow_end_stalls_the_other_and_a_hundred_megabytes_arrive(steady: tuple[Hostd, str]):
    hostd, machine = steady
    port, _ = await listener(hostd, machine, ECHO, "127.0.0.1")
    before = hostd.rss_bytes()
    block, count = os.urandom(1 << 20), 64
    async with asyncio.timeout(120), connected(hostd, machine, port) as (reader, writer):
        await opened(reader)
        sent = 0

        async def send() -> None:
            nonlocal sent
            for _ in range(count):
                writer.write(block)
                await writer.drain()
                sent += len(block)
            writer.write_eof()
        sending = asyncio.create_task(send())
        last = -1
        while last != sent or not sent:  # nobody reads: what is on the way stays there
            last = sent
            await asyncio.sleep(0.5)
        assert sent < 32 * len(block) and hostd.rss_bytes() - before < 16 * 1024 * 1024
        digest = hashlib.sha256()
        while data := await reader.read(1 << 16):
            digest.update(data)
        await sending
        assert digest.digest() == hashlib.sha256(block * count + b"bye").digest()


async def test_a_client_that_goes_resets_the_program_and_a_program_that_resets_breaks_the_client(
        steady: tuple[Hostd, str]):
    hostd, machine = steady
    port, exec_id = await listener(hostd, machine, ECHO, "127.0.0.1")
    async with asyncio.timeout(30), connected(hostd, machine, port) as (reader, writer):
        await opened(reader)
        writer.write(b"x")
        await reader.readexactly(1)

    async def reset() -> bool:
        answer = await hostd.call("GET", f"/v1/machines/{machine}/execs/{exec_id}/output?stream=stdout")
        return b"reset" in answer.body
    await eventually(reset, "the program sees its client gone")
    breaking = ("import socket, struct\ns = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); "
                "print(s.getsockname()[1], flush=True)\np = s.accept()[0]; p.recv(1)\n"
                "p.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0)); p.close()\n")
    port, _ = await listener(hostd, machine, breaking)
    async with asyncio.timeout(30), connected(hostd, machine, port) as (reader, writer):
        await opened(reader)
        writer.write(b"x")
        assert await reader.read() == b""
        poll = select.poll()
        poll.register(writer.get_extra_info("socket").fileno(), select.POLLHUP)
        assert poll.poll(5000), "closed both ways, and not only ended"


async def test_only_ports_of_the_machine_itself_can_be_named(steady: tuple[Hostd, str]):
    hostd, machine = steady
    with socket.socket() as others:  # the host's own: in a real machine it is another network
        others.bind(("127.0.0.1", 0))
        others.listen()
        for port, status, code in (
                ("0", 404, "not_found"), ("65536", 404, "not_found"), ("80.1", 404, "not_found"),
                ("10.0.0.1:80", 404, "not_found"), ("-1", 404, "not_found"), ("1", 502, "preview_not_listening"),
                (str(others.getsockname()[1]), 502, "preview_not_listening")):
            answer = await hostd.call("GET", f"/v1/machines/{machine}/ports/{port}/connect",
                                      headers={"Connection": "Upgrade", "Upgrade": "tcp"})
            assert (answer.status, answer.json["code"]) == (status, code), port
    plain = await hostd.call("GET", f"/v1/machines/{machine}/ports/80/connect")
    assert (plain.status, plain.json["code"]) == (400, "invalid")
    off = await hostd.call("GET", f"/v1/machines/{new_id()}/ports")
    assert (off.status, off.json["code"]) == (409, "not_running")


async def test_more_connections_than_there_is_room_for_are_told_so(steady: tuple[Hostd, str]):
    hostd, machine = steady
    port, _ = await listener(hostd, machine, ECHO, "127.0.0.1")
    writers = []
    try:
        for _ in range(256):
            reader, writer = await asyncio.open_unix_connection(str(hostd.socket))
            writers.append(writer)
            writer.write(f"GET /v1/machines/{machine}/ports/{port}/connect HTTP/1.1\r\nHost: h\r\n"
                         "Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n".encode())
            await asyncio.wait_for(opened(reader), 30)
        async with asyncio.timeout(30), connected(hostd, machine, port) as (reader, _writer):
            assert b'"busy"' in await reader.readuntil(b"}")
    finally:
        for writer in writers:
            writer.transport.abort()

    async def room() -> bool:
        async with connected(hostd, machine, port) as (reader, _writer):
            return (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
    await eventually(room, "there is room again")


def test_addresses_read_as_people_write_them():
    assert address_of("0100007F") == "127.0.0.1" and address_of("00000000") == "0.0.0.0"
    assert address_of("0" * 32) == "::" and address_of("0" * 24 + "01000000") == "::1"
    assert address_of("0000000000000000FFFF00000100007F") == "127.0.0.1"


def test_a_new_port_is_told_once_and_a_guest_of_nonsense_tells_nothing():
    meter = Meter(ports=frozenset())
    assert meter.ports_now({"ports": [80, 22]}) == ([22, 80], []) and meter.ports_now({"ports": [80]}) == ([], [22])
    for said in ({}, {"ports": None}, {"ports": ["80", True, -1, 99999, {}]}):
        Meter(ports=frozenset()).ports_now(said)
        assert Meter(ports=frozenset()).ports_now(said) == ([], [])
    assert Meter().ports_now({"ports": [80]}) == ([], []), "what was there before anybody looked is no news"
    assert MOST_TOLD <= 16


def _descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def test_connections_leave_nothing_behind(steady: tuple[Hostd, str]):
    hostd, machine = steady
    port, _ = await listener(hostd, machine, ECHO, "127.0.0.1")
    assert hostd.process is not None

    async def once(ends: bool) -> None:
        async with asyncio.timeout(30), connected(hostd, machine, port) as (reader, writer):
            await opened(reader)
            writer.write(b"x")
            if ends:
                writer.write_eof()
                assert await reader.read() == b"xbye"
    await once(True)
    before = _descriptors(hostd.process.pid)
    for number in range(30):
        await once(number % 2 == 0)

    async def as_before() -> bool:
        return _descriptors(hostd.process.pid) <= before
    await eventually(as_before, "every descriptor is closed")
