"""Ways into a workspace: `forward` (a local port to one in the guest) and `ports`. Called by `main`.

Each local connection is a tunnel of its own. Only this machine can connect: it listens on 127.0.0.1.
"""

from __future__ import annotations

import argparse
import asyncio
from contextlib import suppress
from functools import partial

from berth_client import AsyncOneWorkspace, Tunnel
from berth_client.cli import say
from berth_client.cli.asked import async_server, id_of, server, workspace
from berth_client.problems import BadConfig, BerthError

LOOPBACK = "127.0.0.1"
PIECE_BYTES = 64 * 1024


def ports(asked: argparse.Namespace) -> int:
    with server(asked) as berth:
        one = workspace(berth, asked.workspace)
        found = list(one.ports.list())
        seen = one.get()
    if asked.json:
        say.document([{**port.raw, "url": seen.preview_url(port.port)} for port in found])
        return 0
    say.table(("PORT", "PROCESS", "URL"),
              ((port.port, port.process, seen.preview_url(port.port) if port.reachable else "not on 127.0.0.1")
               for port in found))
    return 0


def forward(asked: argparse.Namespace) -> int:
    pairs = [port_pair(said) for said in asked.ports]
    with server(asked) as berth:
        workspace_id = id_of(berth, asked.workspace)
    try:
        asyncio.run(forwarding(asked, workspace_id, pairs))
    except KeyboardInterrupt:
        return 0  # the way to end it
    return 0


def port_pair(said: str) -> tuple[int, int]:
    """LOCAL:GUEST, or one number for both; local 0 is any that is free."""
    local, _, guest = said.rpartition(":")
    try:
        pair = int(local or guest), int(guest)
    except ValueError:
        raise BadConfig(f"{said!r} is not PORT or LOCAL:PORT.") from None
    if not (0 <= pair[0] <= 65535 and 1 <= pair[1] <= 65535):
        raise BadConfig(f"{said!r}: a port is 1 to 65535.")
    return pair


async def forwarding(asked: argparse.Namespace, workspace_id: str, pairs: list[tuple[int, int]]) -> None:
    async with async_server(asked) as berth:
        one = berth.workspace(workspace_id)
        servers = [await asyncio.start_server(partial(carried, one, guest), LOOPBACK, local) for local, guest in pairs]
        for listening, (_, guest) in zip(servers, pairs, strict=True):
            local = listening.sockets[0].getsockname()[1]
            if asked.json:
                say.document({"local": f"{LOOPBACK}:{local}", "port": guest})
            else:
                say.note(f"{LOOPBACK}:{local} → {asked.workspace}:{guest}   (Ctrl-C ends it)")
        await asyncio.gather(*(listening.serve_forever() for listening in servers))


async def carried(one: AsyncOneWorkspace, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
                  ) -> None:
    """One connection, until either side ends. What failed is said; the others go on."""
    try:
        async with one.tunnel(port) as tunnel:
            await both_ways(tunnel, reader, writer)
    except BerthError as error:
        say.note(f"port {port}: {say.shown(str(error))}")
    except OSError:
        pass  # the local side went away
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def both_ways(tunnel: Tunnel, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Each direction to its own end; the first that breaks ends both."""
    async def inward() -> None:
        while data := await reader.read(PIECE_BYTES):
            await tunnel.write(data)
        await tunnel.write_eof()

    async def outward() -> None:
        while data := await tunnel.read():
            writer.write(data)
            await writer.drain()
        writer.write_eof()

    tasks = [asyncio.create_task(inward()), asyncio.create_task(outward())]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
