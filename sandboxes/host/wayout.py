"""The way out of machines, as hostd sees it: whom egressd serves, what it obeys, what it tells. Held by `machines.py`.

Called by boot, watch and adopt (a body is there, a body has ended) and by the HTTP handlers (`networks_http.py`). Calls
egressd through `egress/client.py`; documents are `networks.py`'s. Without egressd every connection is refused in the
machine's own namespace.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sandboxes.drivers.base import LiveMachine
from sandboxes.egress.client import EgressClient, Served
from sandboxes.egress.policy import Document
from sandboxes.errors import DiskFull, NotFound
from sandboxes.host import log
from sandboxes.host.netlog import NetLog
from sandboxes.host.refusals import Refusals
from sandboxes.linux import doors, netns

Json = dict[str, Any]
TELL_EVERY_S = 0.25
MOST_ASKS = 1000
LOG_FOLDER = "network"

#: A machine's id, the fact's kind, its data.
Tell = Callable[[str, str, Json], None]


class WayOut:
    """`socket` None: no egressd is meant to be here."""

    def __init__(self, folder_of: Callable[[str], Path], socket: Path | None, document_of: Callable[[str], Document],
                 tell: Tell, is_there: Callable[[str], bool]) -> None:
        self._folder_of, self._document_of, self._tell, self._is_there = folder_of, document_of, tell, is_there
        #: Questions to members that are open: their id -> the machine.
        self._asks: dict[str, str] = {}
        self._logs: dict[str, NetLog] = {}
        self._refusals: dict[str, Refusals] = {}
        self._teller: asyncio.Task[None] | None = None
        self.egress = EgressClient(socket, self._take_rows, self._asked) if socket is not None else None

    def begin(self) -> None:
        if self.egress is not None:
            self.egress.begin()
            self._teller = asyncio.create_task(self._tell_refusals(), name="refusals")

    async def end(self) -> None:
        if self._teller is not None:
            self._teller.cancel()
            await asyncio.gather(self._teller, return_exceptions=True)
        if self.egress is not None:
            await self.egress.end()

    # -- bodies --------------------------------------------------------------------------------------------------------

    async def embodied(self, machine_id: str, live: LiveMachine) -> None:
        """When this returns, who connects is waited for, if egressd is there."""
        path = live.namespace
        if self.egress is None or path is None:
            return
        try:
            space = path.stat().st_ino
        except OSError as error:
            log.failure("network.no_namespace", error, machine_id=machine_id)
            return
        await self.egress.serve(machine_id, Served(space, lambda: netns.enter(path, doors.open_all),
                                                   self._document(machine_id)))

    def _document(self, machine_id: str) -> Json | None:
        document = self._document_of(machine_id)
        return document.as_json() if document.revision else None

    async def obey(self, machine_id: str, document: Document) -> None:
        """It is in force when this returns, if egressd is there."""
        if self.egress is not None and document.revision:
            await self.egress.obey(machine_id, document.as_json())

    def disembodied(self, machine_id: str) -> None:
        """Its connections are cut."""
        if self.egress is not None:
            self.egress.gone(machine_id)

    async def purge(self, machine_id: str) -> None:
        self.disembodied(machine_id)
        self._logs.pop(machine_id, None)
        self._refusals.pop(machine_id, None)
        await asyncio.to_thread(shutil.rmtree, self._folder_of(machine_id) / LOG_FOLDER, True)

    # -- what was tried ------------------------------------------------------------------------------------------------

    def log(self, machine_id: str) -> NetLog:
        if machine_id not in self._logs:
            self._logs[machine_id] = NetLog(self._folder_of(machine_id) / LOG_FOLDER)
        return self._logs[machine_id]

    async def _take_rows(self, rows: list[Json], dropped: dict[str, int]) -> None:
        """Of a machine that is no more, nothing is kept."""
        by_machine: dict[str, list[Json]] = {machine_id: [] for machine_id in dropped}
        for row in rows:
            by_machine.setdefault(row["machine_id"], []).append(row)
        for machine_id, its in by_machine.items():
            if not self._is_there(machine_id):
                continue
            try:
                await asyncio.to_thread(self.log(machine_id).append, its, dropped.get(machine_id, 0))
            except (DiskFull, OSError) as error:
                log.failure("network.log_not_written", error, machine_id=machine_id)
            for row in its:
                if row["verdict"] == "refused":
                    self._refusals.setdefault(machine_id, Refusals()).add(row)

    async def _tell_refusals(self) -> None:
        while True:
            await asyncio.sleep(TELL_EVERY_S)
            for machine_id, refusals in list(self._refusals.items()):
                fact = refusals.due(time.monotonic())
                if fact is not None:
                    self._tell(machine_id, "network.refused", fact)

    # -- questions to members ------------------------------------------------------------------------------------------

    def _asked(self, asked: Json) -> None:
        if self._is_there(asked["id"]):
            self._asks = {**self._asks, asked["ask_id"]: asked["id"]}
            for old in list(self._asks)[:-MOST_ASKS]:
                del self._asks[old]
            fact = {name: asked[name] for name in ("ask_id", "name", "address", "port")}
            self._tell(asked["id"], "network.asked", fact)

    def denied(self, machine_id: str, ask_id: str) -> None:
        """Raises NotFound where no connection of that name waits."""
        if self.egress is None or self._asks.pop(ask_id, None) != machine_id:
            raise NotFound("no connection of that name waits here")
        self.egress.denied(machine_id, ask_id)
