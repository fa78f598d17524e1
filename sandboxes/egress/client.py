"""hostd's end of the connection to egressd. Called by `host/wayout.py`; it knows sockets and documents, no machine.

It keeps what egressd shall serve and tells it all of that whenever a connection begins: egressd may be restarted at
any time, and so may hostd. A machine's sockets are opened anew only where egressd does not hold them already.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandboxes.egress.wire import Message, Wire

log = logging.getLogger("berth.egress")
AGAIN_S, AGAIN_S_MAX = 0.05, 2.0
OBEYS_S = 2.0

Json = dict[str, Any]


@dataclass
class Served:
    """A machine with a body. `space` is its namespace's number; `open_doors` gives the four descriptors."""

    space: int
    open_doors: Callable[[], Awaitable[list[int]]]
    document: Json | None


class EgressClient:
    """`on_rows` keeps rows on disk before it returns; `on_asked` passes a question on."""

    def __init__(self, path: Path, on_rows: Callable[[list[Json], dict[str, int]], Awaitable[None]],
                 on_asked: Callable[[Json], None]) -> None:
        self._path, self._on_rows, self._on_asked = path, on_rows, on_asked
        self._served: dict[str, Served] = {}
        #: Set once its `hello` is here; by then it is known what it serves already.
        self._wire: Wire | None = None
        self._handed: set[tuple[str, int]] = set()
        #: The revision that each machine's connections are judged by.
        self._obeyed: dict[str, int] = {}
        self._news = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def connected(self) -> bool:
        return self._wire is not None

    def begin(self) -> None:
        self._keeper = asyncio.create_task(self._keep(), name="egress")

    async def end(self) -> None:
        """egressd serves on."""
        tasks = [task for task in (self._keeper, *self._tasks) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._wire is not None:
            self._wire.close()

    async def serve(self, machine_id: str, served: Served) -> None:
        """Returns when its sockets are on their way: from then on a connection waits to be answered."""
        self._served[machine_id] = served
        await self._hand_over(machine_id)

    async def obey(self, machine_id: str, document: Json, within_s: float = OBEYS_S) -> bool:
        """Whether it is in force when this returns; else it will be as soon as egressd is back."""
        served = self._served.get(machine_id)
        if served is None:
            return False
        served.document = document
        self._send({"type": "document", "id": machine_id, "document": document})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while self._wire is not None and self._obeyed.get(machine_id, 0) < document["revision"]:
                    self._news.clear()
                    await self._news.wait()
        return self._obeyed.get(machine_id, 0) >= int(document["revision"])

    def gone(self, machine_id: str) -> None:
        if self._served.pop(machine_id, None) is not None:
            self._send({"type": "gone", "id": machine_id})

    def denied(self, machine_id: str, ask_id: str) -> None:
        self._send({"type": "denied", "id": machine_id, "ask_id": ask_id})

    def _send(self, message: Message) -> None:
        if self._wire is not None:
            self._wire.send(message)

    async def _hand_over(self, machine_id: str) -> None:
        wire, served = self._wire, self._served.get(machine_id)
        if wire is None or served is None or (machine_id, served.space) in self._handed:
            return
        self._handed.add((machine_id, served.space))
        while self._wire is wire and self._served.get(machine_id) is served:
            try:
                fds = await served.open_doors()
            except OSError as error:
                log.error("the doors of %s: %s", machine_id, error)
                await asyncio.sleep(AGAIN_S_MAX)
                continue
            wire.send({"type": "machine", "id": machine_id, "space": served.space, "document": served.document}, fds)
            return

    async def _keep(self) -> None:
        pause_s = AGAIN_S
        while True:
            ended = asyncio.Event()
            try:
                connection = await _connected(self._path)
            except OSError:
                await asyncio.sleep(pause_s)
                pause_s = min(AGAIN_S_MAX, pause_s * 2)
                continue
            pause_s = AGAIN_S
            wire = Wire(connection, self._told, ended.set)
            wire.send({"type": "hostd"})
            try:
                await ended.wait()
            finally:
                self._wire = None
                wire.close()
                self._obeyed.clear()
            log.warning("egressd went; machines are refused every connection until it is back")

    def _told(self, wire: Wire, message: Message, fds: list[int]) -> None:
        for fd in fds:
            socket.close(fd)
        if message["type"] == "hello":
            there = message["machines"]
            self._wire, self._handed = wire, {(machine_id, said["space"]) for machine_id, said in there.items()}
            self._tell_all(there)
        elif message["type"] == "rows":
            self._do(self._take_rows(message["rows"], message["dropped"]))
        elif message["type"] == "obeys":
            self._obeyed[message["id"]] = message["revision"]
            self._news.set()
        elif message["type"] == "asked":
            self._on_asked(message)

    def _tell_all(self, there: dict[str, Json]) -> None:
        """What it serves that is no more is gone; what it does not serve is handed over; documents are told again."""
        for machine_id in set(there) - set(self._served):
            self._send({"type": "gone", "id": machine_id})
        for machine_id, served in list(self._served.items()):
            if there.get(machine_id, {}).get("space") != served.space:
                self._do(self._hand_over(machine_id))
            elif served.document is not None:
                self._send({"type": "document", "id": machine_id, "document": served.document})

    async def _take_rows(self, rows: list[Json], dropped: dict[str, int]) -> None:
        with contextlib.suppress(OSError):
            await self._on_rows(rows, dropped)
        self._send({"type": "rows_taken"})

    def _do(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(connection, str(path))
    except BaseException:
        connection.close()
        raise
    return connection
