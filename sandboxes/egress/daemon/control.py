"""What hostd tells egressd, and what it is told back. The only door of egressd; one hostd at a time.

    hostd                                           egressd
      ──▶ {"type":"hostd"}                                                I am the one
      ◀── {"type":"hello","machines":{id: {"space","revision"}}}          what it serves already
      ──▶ {"type":"machine","id","space","document"?} + 4 descriptors     serve this one
      ──▶ {"type":"document","id","document"}                             obey this from now on
      ──▶ {"type":"gone","id"}                                            its body has ended
      ──▶ {"type":"denied","id","ask_id"}
      ◀── {"type":"rows","rows":[…],"dropped":{id: n}}                    one batch at a time …
      ──▶ {"type":"rows_taken"}                                           … until it is on hostd's disk
      ◀── {"type":"obeys","id","revision"}                                by this it judges from now on
      ◀── {"type":"asked","id","ask_id","name","address","port"}

When hostd goes, machines are served on; the next one hears `hello`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from typing import Any

from sandboxes.egress.daemon.asks import WAIT_S, Ask
from sandboxes.egress.daemon.journal import Journal
from sandboxes.egress.daemon.machine import Doors, Machine, World
from sandboxes.egress.daemon.names import LEAST_S
from sandboxes.egress.daemon.upstream import Upstream
from sandboxes.egress.policy import Document, Invalid, parse_document
from sandboxes.egress.wire import Message, Wire

log = logging.getLogger("berth.egress")
GATHER_S = 0.05


class Control:
    """All machines, and the connection to hostd when there is one."""

    def __init__(self, upstream: Upstream, ask_wait_s: float = WAIT_S, usable_s: float = LEAST_S) -> None:
        self.machines: dict[str, Machine] = {}
        self._wire: Wire | None = None
        self._journal = Journal(self._ring)
        self._sending: asyncio.TimerHandle | None = None
        self._world = World(upstream, self._journal, time.monotonic, self._asked, ask_wait_s, usable_s)

    def serve(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        asyncio.get_running_loop().add_reader(listener.fileno(), self._accept, listener)

    def close(self) -> None:
        for machine_id in list(self.machines):
            self._gone(machine_id)
        if self._wire is not None:
            self._wire.close()

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        Wire(connection, self._told, self._hostd_went)

    def _begin(self, wire: Wire) -> None:
        """Another hostd takes the former's place."""
        former, self._wire = self._wire, None
        if former is not None:
            former.close()
            self._journal.lost()
        self._wire = wire
        log.info("hostd is here; %d machines are served", len(self.machines))
        wire.send({"type": "hello", "machines": {
            machine.machine_id: {"space": machine.doors.space, "revision": machine.document.revision}
            for machine in self.machines.values()}})
        for machine in self.machines.values():
            machine.asks.tell_again()
        self._ring()

    def _hostd_went(self) -> None:
        """The last one, or one that another has taken the place of."""
        if self._wire is not None and self._wire.closed:
            self._wire = None
            self._journal.lost()
            log.info("hostd went; machines are served on")

    # -- what hostd says -----------------------------------------------------------------------------------------------

    def _told(self, wire: Wire, message: Message, fds: list[int]) -> None:
        if message["type"] == "hostd":
            self._begin(wire)
        if wire is not self._wire:
            _close(fds)
            return
        machine_id = str(message.get("id", ""))
        if message["type"] == "machine" and len(fds) == 4:
            self._serve(machine_id, int(message["space"]), _document(message.get("document")), fds)
            return
        _close(fds)
        if message["type"] == "rows_taken":
            self._journal.taken()
            self._ring()
        elif message["type"] == "gone":
            self._gone(machine_id)
        elif machine_id in self.machines:
            self._tell(self.machines[machine_id], message)

    def _tell(self, machine: Machine, message: Message) -> None:
        if message["type"] == "document":
            machine.change(_document(message.get("document")))
            self._obeys(machine)
        elif message["type"] == "denied":
            machine.asks.deny(str(message.get("ask_id")))

    def _serve(self, machine_id: str, space: int, document: Document, fds: list[int]) -> None:
        """A machine whose former body's namespace is still held is another one now."""
        self._gone(machine_id)
        machine = Machine(machine_id, self._world, Doors.of(space, fds), document)
        machine.begin()
        self.machines[machine_id] = machine
        self._obeys(machine)

    def _obeys(self, machine: Machine) -> None:
        if self._wire is not None:
            self._wire.send({"type": "obeys", "id": machine.machine_id, "revision": machine.document.revision})

    def _gone(self, machine_id: str) -> None:
        machine = self.machines.pop(machine_id, None)
        if machine is not None:
            machine.close()

    # -- what hostd is told --------------------------------------------------------------------------------------------

    def _asked(self, machine_id: str, ask: Ask) -> None:
        if self._wire is not None:
            self._wire.send({"type": "asked", "id": machine_id, "ask_id": ask.ask_id, "name": ask.name,
                             "address": str(ask.address or ""), "port": ask.port})

    def _ring(self) -> None:
        """Rows that come together travel together."""
        if self._wire is not None and self._sending is None:
            self._sending = asyncio.get_running_loop().call_later(GATHER_S, self._send_rows)

    def _send_rows(self) -> None:
        self._sending = None
        if self._wire is None:
            return
        rows = self._journal.batch()
        if rows:
            dropped, self._journal.dropped = self._journal.dropped, {}
            self._wire.send({"type": "rows", "rows": [row.as_json() for row in rows], "dropped": dropped})


def _document(said: Any) -> Document:
    """What cannot be understood refuses everything: hostd has read it before, so it is from another version."""
    if said is None:
        return Document()
    try:
        return parse_document(said)
    except Invalid as error:
        log.error("a document that cannot be read: %s", error)
        return Document(revision=said.get("revision", 0) if isinstance(said, dict) else 0)


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
