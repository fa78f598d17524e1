"""One connection of a guest, from its first packet to its row in the log.

Made by `machine` for what its listener accepts; calls `judging` for the passage, then connects from the host to that
very address and lets bytes flow. A guest's connection that is refused is told so in the language it speaks.

    accepted ─▶ judged ─▶ connected ─▶ judged again (the document may have changed) ─▶ flows ─▶ row
                  └─▶ refused: 403, or a TLS alert, or a reset ─▶ row
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import time
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from sandboxes.egress.daemon import heads
from sandboxes.egress.daemon.judging import EVER_S, HTTP_PORT, TLS_PORT, Judge, Passage, Refusal
from sandboxes.egress.daemon.side import Side, will_reset
from sandboxes.egress.policy import decide

if TYPE_CHECKING:
    from sandboxes.egress.daemon.machine import Machine

log = logging.getLogger("berth.egress")
_SO_ORIGINAL_DST = 80
CONNECT_S, WORDS_S, FAREWELL_S = 15.0, 2.0, 1.0
KEEPALIVE_S = 60
#: TLS alert, fatal: access_denied (RFC 8446 section 6.2).
_DENIED_ALERT = bytes((21, 3, 3, 0, 2, 2, 49))


def begin(machine: Machine, connection: socket.socket) -> None:
    """Takes over an accepted connection."""
    connection.setblocking(False)
    try:
        address, port = _meant_for(connection)
    except OSError:
        connection.close()
        return
    if len(machine.relays) >= machine.document.limits.connections:
        machine.note("", address, port, "tcp", "refused", "limits", "limit_connections")
        will_reset(connection)
        connection.close()
        return
    relay = Relay(machine, address, port)
    machine.relays.add(relay)
    machine.do(asyncio.get_running_loop().create_task(relay.run(connection)))


def _meant_for(connection: socket.socket) -> tuple[IPv4Address, int]:
    """Where the guest wanted to go before the namespace turned it here."""
    raw = connection.getsockopt(socket.SOL_IP, _SO_ORIGINAL_DST, 16)
    port, address = struct.unpack_from(">2xH4s", raw)
    return IPv4Address(address), port


class Relay:
    def __init__(self, machine: Machine, address: IPv4Address, port: int) -> None:
        self._machine, self._address, self._port = machine, address, port
        self._guest = Side(self, machine.bytes)
        self._world = Side(self, machine.bytes)
        self._judge = Judge(machine, self._guest, address, port)
        self._passage: Passage | None = None
        self._requests: heads.Requests | None = None
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._refused: Refusal | None = None
        self._began = time.monotonic()

    async def run(self, connection: socket.socket) -> None:
        _keep_alive(connection)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: self._guest, connection)
            await self._relay()
        except Refusal as refusal:
            self._refused = self._refused or refusal
            await self._tell_guest()
        except OSError as error:
            self._refused = Refusal(_why(error))
            connection.close()
        except Exception:
            log.exception("a connection to %s port %d", self._address, self._port)
            self._refused = Refusal("protocol")
        finally:
            self._guest.reset()
            self._world.reset()
            self._machine.relays.discard(self)
            self._write_row()

    async def _relay(self) -> None:
        passage = self._passage = await self._judge.passage()
        await self._connect(passage)
        self.reconsider()
        if self._over.done():
            return self._finish()
        self._world.flow_to(self._guest, self._answers if passage.requests else None)
        if passage.first_words:
            await self._first_words()
        elif passage.requests:
            self._begin_requests()
        else:
            self._guest.flow_to(self._world)
        await self._over
        return self._finish()

    def _finish(self) -> None:
        """Raises what ended it, if it was a refusal."""
        if self._refused is not None:
            raise self._refused

    async def _connect(self, passage: Passage) -> None:
        loop = asyncio.get_running_loop()
        outward = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        outward.setblocking(False)
        _keep_alive(outward)
        try:
            async with asyncio.timeout(CONNECT_S):
                await loop.sock_connect(outward, (str(passage.address), passage.port))
            await loop.create_connection(lambda: self._world, sock=outward)
        except OSError as error:
            outward.close()
            raise Refusal(_why(error), passage.rule, passage.name) from error
        except BaseException:
            outward.close()
            raise

    async def _first_words(self) -> None:
        """The server speaks meanwhile. What the guest says then is no other than it could have said at once."""
        claim = await self._judge.claim(EVER_S)
        if self._over.done():
            return
        if claim.kind in ("tls", "http"):
            passage = self._passage = await self._judge.by_claim(claim)
            if passage.requests:
                self._begin_requests()
                return
        self._guest.flow_to(self._world)

    # -- plain HTTP ----------------------------------------------------------------------------------------------------

    def _begin_requests(self) -> None:
        self._requests = heads.Requests(self._judge_request)
        self._guest.flow_to(self._world, self._requests.feed)

    def _judge_request(self, head: heads.Head) -> None:
        """Raises heads.Refused. Without a name it was the address that allowed it, and any host is that address'."""
        assert self._passage is not None
        name = self._passage.name
        by_name = name and not decide(self._machine.document, None, self._passage.address, self._port).allowed
        if by_name and head.hosts != {name}:
            raise heads.Refused("host_mismatch", head)
        verdict = decide(self._machine.document, name or None, self._passage.address, self._port, head.method,
                         head.path)
        if not verdict.allowed:
            raise heads.Refused(verdict.reason, head)

    def _answers(self, data: bytes) -> bytes:
        if self._requests is not None and self._requests.awaits_answer:
            self._world_may_go_on(self._requests.answered(data))
        return data

    def _world_may_go_on(self, kept: bytes) -> None:
        if kept:
            self._world.write(kept)

    # -- what its sides tell -------------------------------------------------------------------------------------------

    def side_ended(self, side: Side) -> None:
        if self._guest.ended and self._world.ended:
            self._guest.close()
            self._world.close()

    def side_lost(self, side: Side) -> None:
        """One is gone: the other was closed after it had said all, or is broken off."""
        other = self._world if side is self._guest else self._guest
        if self._refused is not None and side is self._world:
            return self._end()  # it was broken off here; the guest is being told
        if not (self._guest.ended and self._world.ended):
            other.reset()
        return self._end() if other.lost or other.transport is None else None

    def side_failed(self, side: Side, error: Exception) -> None:
        reason = error.reason if isinstance(error, heads.Refused) else "protocol"
        self.refuse(Refusal(reason, "rules", self._passage.name if self._passage else "", "http"))

    def _end(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    # -- refusals ------------------------------------------------------------------------------------------------------

    def reconsider(self) -> None:
        """Under the document of this moment."""
        passage = self._passage
        if passage is None or self._over.done():
            return
        verdict = self._judge.verdict(passage.name or None, passage.address)
        if not verdict.allowed or (verdict.per_request and not passage.requests):
            self.cut("policy_changed")

    def cut(self, reason: str) -> None:
        """At once, both ways."""
        passage = self._passage
        self._refused = Refusal(reason, passage.rule if passage else "mode", passage.name if passage else "")
        self._guest.reset()
        self._world.reset()
        self._end()

    def refuse(self, refusal: Refusal) -> None:
        """In the midst of it: the world hears nothing more, the guest is told."""
        self._refused = self._refused or refusal
        self._world.reset()
        self._guest.turn_deaf()
        self._end()

    async def _tell_guest(self) -> None:
        """In its own language, where it speaks one that has words for it."""
        refusal, guest = self._refused, self._guest
        if refusal is None or guest.lost or guest.transport is None or guest.transport.is_closing():
            return
        kind = refusal.kind or {HTTP_PORT: "http", TLS_PORT: "tls"}.get(self._port, "")
        if kind not in ("http", "tls") or refusal.reason == "policy_changed":
            return
        await self._wait_until(lambda: bool(guest.bytes) or guest.ended, WORDS_S)
        guest.turn_deaf()
        guest.write(_DENIED_ALERT if kind == "tls" else self._words(refusal))
        guest.write_eof()
        await self._wait_until(lambda: guest.ended, FAREWELL_S)

    async def _wait_until(self, true: object, most_s: float) -> None:
        assert callable(true)
        end = time.monotonic() + most_s
        while not (true() or self._guest.lost) and (left := end - time.monotonic()) > 0:
            self._guest.news.clear()
            try:
                async with asyncio.timeout(left):
                    await self._guest.news.wait()
            except TimeoutError:
                return

    def _words(self, refusal: Refusal) -> bytes:
        unreachable = refusal.reason.startswith("upstream_")
        line = "502 Bad Gateway" if unreachable else "403 Forbidden"
        what = "no connection" if unreachable else "refused by policy"
        where = refusal.name or str(self._address)
        text = f"{what}: {refusal.reason} ({where} port {self._port})\n".encode()
        return (f"HTTP/1.1 {line}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(text)}\r\n"
                f"Connection: close\r\n\r\n").encode() + text

    # -- the log -------------------------------------------------------------------------------------------------------

    def _write_row(self) -> None:
        passage, refusal = self._passage, self._refused
        name = (refusal.name if refusal else "") or (passage.name if passage else "")
        rule = passage.rule if passage else refusal.rule if refusal else ""
        reason = refusal.reason if refusal else ""
        allowed = refusal is None and passage is not None
        if passage is not None and reason.startswith("upstream_"):
            allowed = True
        address = None if self._machine.names.meant(self._judge.address) else self._judge.address
        self._machine.note(name, address, self._port, "tcp", "allowed" if allowed else "refused", rule, reason,
                           bytes_in=self._world.bytes, bytes_out=self._guest.bytes,
                           ms=round((time.monotonic() - self._began) * 1000))


def _why(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError | ConnectionResetError):
        return "upstream_refused"
    return "upstream_timeout" if isinstance(error, TimeoutError) else "upstream_unreachable"


def _keep_alive(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
