"""One machine as egressd knows it: its sockets, its document, the names it was told, its connections.

Made by `control` when hostd hands a machine over; calls `relay` for each connection and `questions` for names. It
knows an id and nothing else of the machine.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from sandboxes.egress.daemon import nflog, questions, relay
from sandboxes.egress.daemon.asks import Ask, Asks
from sandboxes.egress.daemon.buckets import Bucket, Clock
from sandboxes.egress.daemon.journal import Journal, Row
from sandboxes.egress.daemon.names import LEAST_S, Names
from sandboxes.egress.daemon.upstream import Upstream
from sandboxes.egress.policy import Document, decide

if TYPE_CHECKING:
    from sandboxes.egress.daemon.relay import Relay

ACCEPTED_AT_ONCE = 16
NO_FILES_S = 0.2


@dataclass(frozen=True)
class World:
    """What all machines share."""

    upstream: Upstream
    journal: Journal
    clock: Clock
    asked: Callable[[str, Ask], None]
    ask_wait_s: float = 60.0
    usable_s: float = LEAST_S


@dataclass(frozen=True)
class Doors:
    """In the machine's namespace; `space` is that namespace's number."""

    space: int
    listener: socket.socket
    resolver_udp: socket.socket
    resolver_tcp: socket.socket
    refusals: socket.socket

    @classmethod
    def of(cls, space: int, fds: list[int]) -> Doors:
        opened = [socket.socket(fileno=fd) for fd in fds]
        for each in opened:
            each.setblocking(False)
        return cls(space, *opened)

    def all(self) -> tuple[socket.socket, ...]:
        return self.listener, self.resolver_udp, self.resolver_tcp, self.refusals


@dataclass
class Machine:
    machine_id: str
    world: World
    doors: Doors
    document: Document = field(default_factory=Document)
    relays: set[Relay] = field(default_factory=set)

    def __post_init__(self) -> None:
        clock = self.world.clock
        self.names = Names(clock, self.world.usable_s)
        self.bytes = Bucket(self.document.limits.bytes_per_s, clock)
        self.questions = Bucket(self.document.limits.dns_per_s, clock, burst_s=2.0)
        self.asks = Asks(clock, lambda ask: self.world.asked(self.machine_id, ask), self.world.ask_wait_s)
        self._tasks: set[asyncio.Task[None]] = set()
        self._resolver = questions.Questions(self)

    def begin(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(self.doors.listener.fileno(), self._accept)
        loop.add_reader(self.doors.refusals.fileno(), self._refusals)
        self._resolver.begin()

    def change(self, document: Document) -> None:
        """What the new document does not allow any more is cut before this returns."""
        if document.revision < self.document.revision:
            return
        self.document = document
        self.bytes.change(document.limits.bytes_per_s)
        self.questions.change(document.limits.dns_per_s)
        for each in list(self.relays):
            each.reconsider()
        self.asks.look_again(lambda ask: decide(document, ask.name or None, ask.address, ask.port).allowed)

    def close(self) -> None:
        """Its body is gone."""
        loop = asyncio.get_running_loop()
        self._resolver.close()
        for each in (self.doors.listener, self.doors.refusals):
            loop.remove_reader(each.fileno())
        for one in list(self.relays):
            one.cut("policy_changed")
        self.asks.close()
        for task in self._tasks:
            task.cancel()
        for each in self.doors.all():
            each.close()

    def note(self, name: str, address: IPv4Address | None, port: int, protocol: str, verdict: str, rule: str,
             reason: str = "", **more: int) -> None:
        self.world.journal.note(Row(self.machine_id, name, str(address or ""), port, protocol, verdict, rule, reason,
                                    **more))

    def do(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                connection, _ = self.doors.listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self._rest()
                return
            relay.begin(self, connection)

    def _rest(self) -> None:
        """No descriptor is free: the kernel keeps who comes."""
        loop, listener = asyncio.get_running_loop(), self.doors.listener
        loop.remove_reader(listener.fileno())
        loop.call_later(NO_FILES_S, lambda: listener.fileno() >= 0 and loop.add_reader(listener.fileno(), self._accept))

    def _refusals(self) -> None:
        for packet in nflog.read(self.doors.refusals):
            self.note("", packet.address, packet.port, packet.protocol, "refused", "protocol", "protocol")
