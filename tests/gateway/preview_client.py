"""A preview as tests ask for one, and a workspace with programs in it. Used by the previews' stack tests."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.stack import Stack, free_port, until

PROGRAMS = Path(__file__).with_name("guest_programs.py").read_bytes()
PAGE = {"Accept": "text/html,application/xhtml+xml"}


@dataclass
class Preview:
    """One port of one workspace as a visitor asks for it: by its own name, at the gateway's address."""

    stack: Stack
    workspace: str
    port: int
    token: str = ""

    @property
    def host(self) -> str:
        return f"{self.port}--{self.workspace}.preview.localhost:{self.stack.port}"

    @property
    def origin(self) -> str:
        return f"http://{self.host}"

    def headers(self, more: dict[str, str] | None = None) -> dict[str, str]:
        own = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return {"Host": self.host, **own, **(more or {})}

    def ask(self, method: str, target: str, headers: dict[str, str] | None = None, **how: Any) -> httpx.Response:
        with httpx.Client(base_url=self.stack.base_url, timeout=how.pop("timeout", 60)) as client:
            return client.request(method, target, headers=self.headers(headers), **how)

    def get(self, target: str, headers: dict[str, str] | None = None, **how: Any) -> httpx.Response:
        return self.ask("GET", target, headers, **how)

    @contextlib.contextmanager
    def stream(self, method: str, target: str, headers: dict[str, str] | None = None, **how: Any
               ) -> Iterator[httpx.Response]:
        with httpx.Client(base_url=self.stack.base_url, timeout=60) as client, \
                client.stream(method, target, headers=self.headers(headers), **how) as response:
            yield response

    def socket(self, target: str, headers: dict[str, str] | None = None, **how: Any) -> ClientConnection:
        return connect(f"ws://{self.host}{target}", sock=socket.create_connection(("127.0.0.1", self.stack.port), 30),
                       additional_headers={k: v for k, v in self.headers(headers).items() if k != "Host"},
                       max_size=None, compression=None, open_timeout=60, **how)

    def raw(self, data: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.stack.port), 30) as plain:
            plain.sendall(data)
            got = b""
            with contextlib.suppress(OSError):
                while piece := plain.recv(65536):
                    got += piece
            return got


@pytest.fixture(scope="module")
def anna(stack: Stack) -> Iterator[httpx.Client]:
    with stack.client("anna", timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
def workspace(stack: Stack, anna: httpx.Client) -> str:
    made = str(stack.workspace("anna")["id"])
    path = {"path": "/home/user/programs.py"}
    assert anna.put(f"/api/v1/workspaces/{made}/files/content", params=path, content=PROGRAMS).status_code == 201
    return made


@pytest.fixture(scope="module")
def base(workspace: str) -> str:
    return f"/api/v1/workspaces/{workspace}"


def serve(anna: httpx.Client, base: str, port: int, *words: str) -> str:
    """The exec's id, once it listens."""
    ran = anna.post(f"{base}/execs", json={"command": ["python3", "-u", "programs.py", str(port), *words],
                                           "background": True})
    assert ran.status_code == 202, ran.text
    until(lambda: any(p["port"] == port for p in anna.get(f"{base}/ports").json()["results"]), "it listens")
    return str(ran.json()["id"])


@pytest.fixture(scope="module")
def program(stack: Stack, anna: httpx.Client, workspace: str, base: str) -> Preview:
    port = free_port()
    serve(anna, base, port)
    return Preview(stack, workspace, port, stack.token("anna"))


@pytest.fixture(scope="module")
def session(stack: Stack) -> str:
    return session_of(stack, "anna")


def session_of(stack: Stack, user: str) -> str:
    """A signed-in browser's cookie, made as signing in makes it."""
    return stack.manage("shell", "--verbosity", "0", "-c", f"""
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from workspaces.models import User
user = User.objects.get(username={user!r})
made = SessionStore()
made[SESSION_KEY], made[BACKEND_SESSION_KEY] = str(user.pk), "django.contrib.auth.backends.ModelBackend"
made[HASH_SESSION_KEY] = user.get_session_auth_hash()
made.save()
print(made.session_key)""").splitlines()[-1]


def hop(stack: Stack, preview: Preview, session: str, target: str = "/page") -> dict[str, str]:
    """The cookie that a browser holds after the sign-in hop, made step by step."""
    stranger = Preview(stack, preview.workspace, preview.port)
    led = stranger.get(target, PAGE)
    assert led.status_code == 303 and led.headers["Berth-Error"] == "preview_forbidden"
    to = httpx.URL(led.headers["Location"])
    assert (to.host, to.port, to.path) == ("localhost", stack.port, "/previews/sign-in")
    signed = httpx.get(f"{stack.base_url}{to.raw_path.decode()}",
                       headers={"Host": f"localhost:{stack.port}", "Cookie": f"berth_session={session}"},
                       timeout=60)
    assert signed.status_code == 303, signed.text
    back = httpx.URL(signed.headers["Location"])
    assert f"{back.scheme}://{back.netloc.decode()}" == preview.origin
    entered = stranger.get(back.raw_path.decode())
    assert entered.status_code == 303
    again = stranger.get(back.raw_path.decode())
    assert (again.status_code, again.json()["code"]) == (403, "preview_forbidden"), "a code is good once"
    cookie = entered.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and "Path=/" in cookie and "Domain" not in cookie
    kept = {"Cookie": cookie.partition(";")[0]}
    arrived = stranger.get(entered.headers["Location"], kept)
    assert (arrived.status_code, arrived.headers["Location"]) == (303, target)
    return kept
