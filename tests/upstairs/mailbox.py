"""A mail server on this machine that keeps what it takes: as much of SMTP as one sender needs. For upstairs' tests."""

from __future__ import annotations

import socketserver
import threading
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any, Self, cast


class _Session(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        self._say("220 here")
        while line := self.rfile.readline():
            verb = line.split(None, 1)[0].upper() if line.strip() else b""
            if verb == b"DATA":
                self._say("354 go on")
                self._take()
            self._say("221 bye" if verb == b"QUIT" else "250 yes")
            if verb == b"QUIT":
                return

    def _take(self) -> None:
        body = b""
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            body += line[1:] if line.startswith(b".") else line
        letters: list[EmailMessage] = cast(Any, self.server).letters
        letters.append(cast(EmailMessage, message_from_bytes(body, policy=policy.default)))

    def _say(self, line: str) -> None:
        self.wfile.write(line.encode() + b"\r\n")


class Mailbox:
    def __init__(self) -> None:
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Session)
        self.letters: list[EmailMessage] = []
        cast(Any, self._server).letters = self.letters
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)
