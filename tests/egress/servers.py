"""The hosts of the tests' world: a name server that notes what it is asked, origins that say what they were sent."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import socket
import ssl
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

ANY = "0.0.0.0"
TLS_NAMES = ("a.test", "b.test", "evil.test", "*.wild.test", "cdn.test")


class Servers:
    """`make_in_hosts` runs a function in the namespace of the hosts."""

    def __init__(self, folder: Path, make_in_hosts: Callable[[Callable[[], socket.socket]], socket.socket]) -> None:
        self._make, self.ca = make_in_hosts, folder / "ca.pem"
        self._certificate = _certificate(folder, self.ca)
        #: name -> addresses, or a function that gives the next answer; with a lifetime.
        self.names: dict[str, tuple[int, list[str] | Callable[[], list[str]]]] = {}
        self.asked: list[str] = []
        self.requests: list[str] = []
        self.connections: list[tuple[str, int]] = []
        self._running: list[Any] = []

    async def begin(self) -> None:
        loop = asyncio.get_running_loop()
        udp = self._make(lambda: _bound(socket.SOCK_DGRAM, 53))
        transport, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(self._answer), sock=udp)
        self._running.append(transport)
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(self._certificate)
        for port, handler, how in ((53, self._dns_tcp, None), (80, self._http, None), (8080, self._http, None),
                                   (443, self._http, tls), (22, self._banner, None), (7, self._echo, None),
                                   (9000, self._pour, None)):
            listener = self._make(lambda port=port: _bound(socket.SOCK_STREAM, port))
            self._running.append(await asyncio.start_server(handler, sock=listener, ssl=how))

    async def end(self) -> None:
        for each in self._running:
            each.close()

    # -- names ---------------------------------------------------------------------------------------------------------

    def _answer(self, data: bytes) -> bytes:
        question = dns.message.from_wire(data)
        name = question.question[0].name.to_text(omit_final_dot=True).lower()
        self.asked.append(name)
        answer = dns.message.make_response(question, recursion_available=True)
        if name not in self.names:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        elif question.question[0].rdtype == dns.rdatatype.A:
            ttl, addresses = self.names[name]
            listed = addresses() if callable(addresses) else addresses
            if listed:
                answer.answer = [dns.rrset.from_text_list(question.question[0].name, ttl, "IN", "A", listed)]
        return answer.to_wire()

    async def _dns_tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            length = struct.unpack(">H", await reader.readexactly(2))[0]
            wire = self._answer(await reader.readexactly(length))
            writer.write(struct.pack(">H", len(wire)) + wire)
        writer.close()

    # -- origins -------------------------------------------------------------------------------------------------------

    def _came(self, writer: asyncio.StreamWriter) -> str:
        address, port = writer.get_extra_info("sockname")
        self.connections.append((address, port))
        return str(address)

    async def _http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers each request with where it came to and what it said; `/upgrade` speaks raw from then on."""
        address = self._came(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                self.requests.append(head)
                if head.startswith("GET /upgrade"):
                    writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\n")
                    await self._echo(reader, writer)
                    return
                length = next((int(line.split(":")[1]) for line in head.split("\r\n")
                               if line.lower().startswith("content-length:")), 0)
                body = await reader.readexactly(length)
                said = f"{address}\n{head.splitlines()[0]}\n".encode() + body
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(said) + said)
                await writer.drain()
        writer.close()

    async def _banner(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Who serves here speaks first."""
        self._came(writer)
        writer.write(b"SSH-2.0-test\r\n")
        with contextlib.suppress(ConnectionError):
            writer.write(await reader.readline())
        writer.close()

    async def _echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def _pour(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """As many bytes as the first line says."""
        with contextlib.suppress(ConnectionError, ValueError):
            left = int(await reader.readline())
            while left > 0:
                writer.write(bytes(min(left, 1 << 16)))
                left -= 1 << 16
                await writer.drain()
        writer.close()


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self._answer = answer

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._transport.sendto(self._answer(data), addr)


def _bound(kind: socket.SocketKind, port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, kind)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((ANY, port))
    bound.setblocking(False)
    if kind == socket.SOCK_STREAM:
        bound.listen(128)
    return bound


def _certificate(folder: Path, ca: Path) -> Path:
    """One that signs itself, for every name of the tests' origins."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
    now = datetime.datetime.now(datetime.UTC)
    made = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
            .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1000))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(each) for each in TLS_NAMES]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(key, hashes.SHA256()))
    whole = folder / "origin.pem"
    pem = made.public_bytes(serialization.Encoding.PEM)
    whole.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                        serialization.NoEncryption()) + pem)
    ca.write_bytes(pem)
    return whole
