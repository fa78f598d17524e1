"""The one resolver that a machine has: answers about names that it may reach, and tells nobody of the others.

Made by `machine`; asks `upstream` about allowed names. Of a question that is not allowed nothing leaves: the guest
hears at once that there is no such name (with the words "refused by policy"), so programs fail fast. Only addresses of
IPv4 are answered; all else about an allowed name is an empty answer (no keys of Encrypted Client Hello, no IPv6).
Answers that point to what is private are left out (rebinding).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset

from sandboxes.egress.daemon.upstream import NoSuchName, Unanswered
from sandboxes.egress.daemon.vetting import vetted
from sandboxes.egress.policy import askable, is_name, may_resolve

if TYPE_CHECKING:
    from sandboxes.egress.daemon.machine import Machine

MOST_ASKED, MOST_TCP, AT_ONCE = 64, 16, 32
TCP_IDLE_S = 10.0
#: What a guest may keep of an answer. Its address is usable longer (`names`).
LONGEST_TTL_S, PRETENDED_TTL_S = 300, 1
PORT = 53
WORDS = "refused by policy"


class Questions:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._asking = 0
        self._connections = 0

    def begin(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(self._machine.doors.resolver_udp.fileno(), self._datagrams)
        loop.add_reader(self._machine.doors.resolver_tcp.fileno(), self._accept)

    def close(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._machine.doors.resolver_udp.fileno())
        loop.remove_reader(self._machine.doors.resolver_tcp.fileno())

    # -- how it is asked -----------------------------------------------------------------------------------------------

    def _datagrams(self) -> None:
        udp = self._machine.doors.resolver_udp
        for _ in range(AT_ONCE):
            try:
                data, guest = udp.recvfrom(4096)
            except OSError:
                return
            self._machine.do(asyncio.ensure_future(self._answer_datagram(data, guest)))

    async def _answer_datagram(self, data: bytes, guest: tuple[str, int]) -> None:
        answer = await self.answer(data)
        if answer is not None and self._machine.doors.resolver_udp.fileno() >= 0:
            with contextlib.suppress(OSError):
                self._machine.doors.resolver_udp.sendto(_fitting(answer), guest)

    def _accept(self) -> None:
        try:
            connection, _ = self._machine.doors.resolver_tcp.accept()
        except OSError:
            return
        if self._connections >= MOST_TCP:
            connection.close()
            return
        self._connections += 1
        self._machine.do(asyncio.ensure_future(self._serve(connection)))

    async def _serve(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        try:
            while True:
                async with asyncio.timeout(TCP_IDLE_S):
                    length = struct.unpack(">H", await _exactly(connection, 2))[0]
                    data = await _exactly(connection, length)
                answer = await self.answer(data)
                if answer is None:
                    return
                wire = answer.to_wire()
                async with asyncio.timeout(TCP_IDLE_S):
                    await loop.sock_sendall(connection, struct.pack(">H", len(wire)) + wire)
        except (OSError, EOFError, TimeoutError):
            return
        finally:
            self._connections -= 1
            connection.close()

    # -- what is answered ----------------------------------------------------------------------------------------------

    async def answer(self, data: bytes) -> dns.message.Message | None:
        """None for what is no question at all."""
        try:
            question = dns.message.from_wire(data, ignore_trailing=True)
        except (dns.exception.DNSException, ValueError, IndexError, struct.error):
            return None
        if question.flags & dns.flags.QR:
            return None
        if not self._machine.questions.try_spend(1) or self._asking >= MOST_ASKED:
            self._machine.note("", None, PORT, "dns", "refused", "limits", "limit_dns")
            return _reply(question, dns.rcode.REFUSED)
        if len(question.question) != 1 or question.opcode() != 0:
            return _reply(question, dns.rcode.NOTIMP)
        self._asking += 1
        try:
            return await self._of_name(question)
        finally:
            self._asking -= 1

    async def _of_name(self, question: dns.message.Message) -> dns.message.Message:
        asked = question.question[0]
        name = asked.name.to_text(omit_final_dot=True).lower()
        verdict = may_resolve(self._machine.document, name)
        is_address = asked.rdtype == dns.rdatatype.A and asked.rdclass == dns.rdataclass.IN
        if not verdict.allowed:
            if is_name(name) and "." in name and self._may_be_asked(name):
                pretended = [self._machine.names.pretend(name)] if is_address else []
                return _addresses(question, pretended, PRETENDED_TTL_S)
            self._machine.note(name[:255], None, PORT, "dns", "refused", verdict.rule, verdict.reason)
            return _refusal(question)
        if not is_address:
            return _reply(question, dns.rcode.NOERROR)
        return await self._resolved(question, name, verdict.rule)

    def _may_be_asked(self, name: str) -> bool:
        """On any port that a rule of the bound names: which one it is, its connection will say."""
        document = self._machine.document
        bound = document.bound
        ports = {port for rule in bound.rules for port in rule.ports} or {443} if bound else {443}
        return any(askable(document, name, None, port) for port in ports)

    async def _resolved(self, question: dns.message.Message, name: str, rule: str) -> dns.message.Message:
        try:
            found = await self._machine.world.upstream.addresses(name)
        except NoSuchName:
            return _reply(question, dns.rcode.NXDOMAIN)
        except Unanswered:
            return _reply(question, dns.rcode.SERVFAIL)
        kept = [address for address in found.addresses if vetted(self._machine.document, address)]
        for address in set(found.addresses) - set(kept):
            self._machine.note(name, address, PORT, "dns", "refused", rule, "private")
        if found.addresses and not kept:
            return _refusal(question)
        self._machine.names.learn(name, kept, found.ttl_s)
        return _addresses(question, kept, min(int(found.ttl_s), LONGEST_TTL_S))


async def _exactly(connection: socket.socket, count: int) -> bytes:
    loop, data = asyncio.get_running_loop(), b""
    while len(data) < count:
        more = await loop.sock_recv(connection, count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _reply(question: dns.message.Message, rcode: dns.rcode.Rcode) -> dns.message.Message:
    answer = dns.message.make_response(question, recursion_available=True)
    answer.set_rcode(rcode)
    return answer


def _refusal(question: dns.message.Message) -> dns.message.Message:
    """No such name, for here there is none; the reason stands in an Extended DNS Error (RFC 8914)."""
    answer = _reply(question, dns.rcode.NXDOMAIN)
    if question.edns >= 0:
        why = dns.edns.EDEOption(dns.edns.EDECode.PROHIBITED, WORDS)
        answer.use_edns(0, payload=1232, options=[why])
    return answer


def _addresses(question: dns.message.Message, addresses: list[IPv4Address], ttl_s: int) -> dns.message.Message:
    answer = _reply(question, dns.rcode.NOERROR)
    if addresses:
        texts = [str(address) for address in addresses]
        answer.answer = [dns.rrset.from_text_list(question.question[0].name, ttl_s, "IN", "A", texts)]
    return answer


def _fitting(answer: dns.message.Message) -> bytes:
    """A datagram that the asker said it takes; else it is told to ask by TCP."""
    most = max(512, min(answer.request_payload or 512, 1232))
    try:
        return answer.to_wire(max_size=most)
    except dns.exception.TooBig:
        answer.flags |= dns.flags.TC
        answer.answer = []
        return answer.to_wire(max_size=most)
