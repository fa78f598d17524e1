"""Asks a process whether it answers: HTTP over TCP or a Unix socket, and Redis' PING. Blocking, short deadlines."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from typing import Any


class UnixConnection(http.client.HTTPConnection):
    """http.client over a Unix socket."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


def status(where: Path | tuple[str, int], path: str, timeout_s: float = 3) -> int | None:
    """The HTTP status of a GET, or None when nobody answers."""
    try:
        return request(where, "GET", path, timeout_s=timeout_s)[0]
    except (OSError, http.client.HTTPException):
        return None


def request(where: Path | tuple[str, int], method: str, path: str, body: object = None, *,
            headers: dict[str, str] | None = None, timeout_s: float = 30) -> tuple[int, Any]:
    """Status and JSON body (or None). Raises OSError when nobody answers."""
    connection = (UnixConnection(where, timeout_s) if isinstance(where, Path)
                  else http.client.HTTPConnection(where[0], where[1], timeout=timeout_s))
    try:
        sent = None if body is None else json.dumps(body)
        connection.request(method, path, sent, {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        return response.status, _json(response.read())
    finally:
        connection.close()


def _json(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None


def redis_answers(path: Path) -> bool:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(2)
            sock.connect(str(path))
            sock.sendall(b"PING\r\n")
            return sock.recv(64).startswith(b"+PONG")
    except OSError:
        return False


def listens(path: Path) -> bool:
    """Whether somebody accepts there; nothing is said to him."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(2)
            sock.connect(str(path))
    except OSError:
        return False
    return True


def port_is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, port))
        except OSError:
            return False
    return True
