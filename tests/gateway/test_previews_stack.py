"""Previews through the whole product: real programs inside a guest, shown under names of their own."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.gateway.test_files_stack import Peaks
from tests.stack import Stack, free_port, until

pytestmark = pytest.mark.stack
MIB = 1024 * 1024
#: By hand with 1024: the bound is the same.
BODY_MIB = int(os.environ.get("BERTH_TEST_PREVIEW_MIB", "64"))
FLAT_MIB = 24
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
                       headers={"Host": f"localhost:{stack.port}", "Cookie": f"berth_session={session}"})
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


def test_a_program_hears_a_local_request_and_none_of_our_secrets(program: Preview) -> None:
    said = program.ask("POST", "/a%2Fb//c;d?x=%00&y=a+b&z", {
        "Origin": program.origin, "Referer": f"{program.origin}/page?q=1", "X-Forwarded-For": "1.2.3.4",
        "X-Forwarded-Host": "evil.example", "Berth-Actor": "{}", "TE": "trailers", "X-Real-IP": "6.6.6.6",
        "Cookie": "app=1; berth_session=s3cret; berth_preview=s3cret; __Host-berth_csrf=s3cret; other=a=b",
        "X-Mine": "kept", "Connection": "X-Hop", "X-Hop": "gone", "Accept-Encoding": "br"}, content=b"body").json()
    heard: dict[str, list[str]] = {}
    for name, value in said["headers"]:
        heard.setdefault(name, []).append(value)
    local = f"localhost:{program.port}"
    assert said["target"] == "/a%2Fb//c;d?x=%00&y=a+b&z" and said["size"] == 4
    assert heard["host"] == [local] and heard["origin"] == [f"http://{local}"]
    assert heard["referer"] == [f"http://{local}/page?q=1"] and heard["accept-encoding"] == ["br"]
    assert heard["cookie"] == ["app=1; other=a=b"] and heard["x-mine"] == ["kept"]
    assert heard["x-forwarded-for"] == ["127.0.0.1"]
    gone = {"authorization", "x-hop", "te", "berth-actor", "x-real-ip", "x-forwarded-host"} & set(heard)
    assert gone == set() and "s3cret" not in json.dumps(said)

    plain = dict(map(tuple, program.get("/x", {"Berth-Authorization": f"Bearer {program.token}",
                                               "Authorization": "Basic dTpw"}).json()["headers"]))
    assert plain["authorization"] == "Basic dTpw", "the program's own credentials are its own matter"
    assert (plain["x-forwarded-host"], plain["x-forwarded-proto"]) == (program.host, "http")
    assert plain["x-forwarded-port"] == str(program.stack.port) and "berth-authorization" not in plain


def test_what_a_program_says_stays_on_its_own_origin(program: Preview) -> None:
    cookies = program.get("/cookies").headers.get_list("set-cookie")
    assert cookies == ["a=1; Path=/", "b=2; HttpOnly"]
    assert program.get("/login").headers["Location"] == f"{program.origin}/page?next=%2Fx"
    away = program.get("/away")
    assert (away.status_code, away.headers["Location"]) == (302, "http://169.254.169.254/latest/meta-data/")
    inner = program.get("/internal")
    assert inner.content == b"inner" and inner.headers["X-Mine"] == "kept"
    assert not {"x-accel-redirect", "x-sendfile", "alt-svc", "clear-site-data"} & set(inner.headers)


def test_http_is_carried_in_full(program: Preview) -> None:
    part = program.get("/ranges", {"Range": "bytes=10-19"})
    assert part.status_code == 206 and part.content == bytes(range(10, 20))
    assert part.headers["Content-Range"] == "bytes 10-19/1024" and part.headers["Accept-Ranges"] == "bytes"
    head = program.ask("HEAD", "/page")
    assert head.status_code == 200 and head.content == b"" and int(head.headers["Content-Length"]) > 40
    assert program.get("/status/204").status_code == 204 and program.get("/status/503").status_code == 503
    assert "Berth-Error" not in program.get("/status/503").headers, "the program's own refusal is its own"
    same = program.get("/not-modified")
    assert same.status_code == 304 and same.headers["ETag"] == '"x"'
    assert program.ask("PURGE", "/x").json()["method"] == "PURGE"
    assert program.get("/trailers").content == b"abc"
    assert program.get("/x", {"X-Long": "y" * 16_000}).status_code == 200
    chunked = program.ask("PUT", "/x", content=iter([b"abc", b"def"])).json()
    assert chunked["size"] == 6 and ["transfer-encoding", "chunked"] in chunked["headers"]
    assert [program.get("/page").status_code for _ in range(20)] == [200] * 20, "kept connections are reused"


def test_a_question_is_answered_while_it_is_still_asked(program: Preview) -> None:
    """Both ways at once; and Expect: 100-continue is the program's to answer."""
    with socket.create_connection(("127.0.0.1", program.stack.port), 30) as plain:
        head = "".join(f"{k}: {v}\r\n" for k, v in program.headers().items())
        plain.sendall(f"POST /early HTTP/1.1\r\n{head}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n".encode())
        got = plain.recv(65536)
        while b"heard 3" not in got:
            got += plain.recv(65536)
        plain.sendall(b"2\r\nde\r\n0\r\n\r\n")
        while b"0\r\n\r\n" not in got:
            got += plain.recv(65536)
    assert b"begun " in got and b"heard 2" in got and b"end" in got

    for target, wanted in (("/x", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200"), ("/no-thanks", b"HTTP/1.1 413")):
        with socket.create_connection(("127.0.0.1", program.stack.port), 30) as plain:
            plain.sendall(f"PUT {target} HTTP/1.1\r\n{head}Content-Length: 5\r\nExpect: 100-continue\r\n\r\n".encode())
            got = plain.recv(65536)
            if b"100 Continue" in got:
                plain.sendall(b"hello")
                while b"200 OK" not in got:
                    got += plain.recv(65536)
            assert got.startswith(wanted), got


def test_an_early_refusal_of_a_large_body_reaches_the_visitor(program: Preview) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(256):
            yield b"x" * 65536
    assert program.ask("POST", "/no-thanks", content=endless()).status_code == 413


def test_events_come_one_by_one_and_a_visitor_who_goes_is_noticed(stack: Stack, program: Preview) -> None:
    arrived: list[float] = []
    with program.stream("GET", "/events") as response:
        assert response.headers["Content-Type"] == "text/event-stream"
        for line in response.iter_lines():
            if line:
                arrived.append(time.monotonic())
            if len(arrived) == 5:
                break
    gaps = [after - before for before, after in itertools.pairwise(arrived)]
    assert max(gaps) < 5 and arrived[-1] - arrived[0] > 0.5, "one by one, not all at the end"


def test_bodies_pass_in_flat_memory_both_ways(stack: Stack, program: Preview) -> None:
    peaks = Peaks(gateway=stack.pid("gateway"), hostd=stack.pid("hostd"))
    size, digest = 0, hashlib.sha256()
    with program.stream("GET", f"/large/{BODY_MIB}") as response:
        assert response.headers["Content-Length"] == str(BODY_MIB * MIB)
        for piece in response.iter_raw():
            size += len(piece)
            digest.update(piece)
    assert size == BODY_MIB * MIB

    piece = os.urandom(MIB)
    sent = hashlib.sha256()

    def body() -> Iterator[bytes]:
        for _ in range(BODY_MIB):
            sent.update(piece)
            yield piece
    said = program.ask("POST", "/x", content=body(), timeout=600).json()
    assert (said["size"], said["sha256"]) == (BODY_MIB * MIB, sent.hexdigest())
    grown = peaks.grown_mib()
    print("grown", grown)
    assert max(grown.values()) < FLAT_MIB, grown


def test_sockets_pass_messages_subprotocols_pings_and_closes(stack: Stack, program: Preview) -> None:
    with program.socket("/ws?a=%2F", {"Origin": program.origin}, subprotocols=["other", "chosen"]) as opened:
        first = json.loads(opened.recv(30))
        local = f"localhost:{program.port}"
        assert first == {"origin": f"http://{local}", "host": local, "target": "/ws?a=%2F"}
        assert opened.subprotocol == "chosen"
        assert opened.response is not None and opened.response.headers["Set-Cookie"] == "ws=1"
        for message in ("grüße", b"\x00\xff", "x" * 3_000_000, b"y" * 100_000):
            opened.send(message)
            assert opened.recv(30) == message
        opened.send(["frag", "men", "ted"])
        assert opened.recv(30) == "fragmented"
        opened.send("in pieces")
        assert opened.recv(30) == "grüße and more"
        opened.send("ping me")
        assert opened.recv(30) == "pong of are you there"
        assert opened.ping().wait(30)
        opened.send("close me")
        with pytest.raises(ConnectionClosed) as closed:
            opened.recv(30)
        assert closed.value.rcvd is not None and (closed.value.rcvd.code, closed.value.rcvd.reason) == (
            4321, "as you wish")
    with program.socket("/ws") as opened:
        opened.recv(30)
        opened.send("reset me")
        with pytest.raises(ConnectionClosed) as closed:
            opened.recv(30)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 4502
    with pytest.raises(InvalidStatus) as refused:
        program.socket("/ws-refused")
    assert refused.value.response.status_code == 418 and refused.value.response.headers["X-Why"] == "tea"
    assert refused.value.response.body == b"no sockets here"


def test_a_visitors_close_code_reaches_the_program(stack: Stack, anna: httpx.Client, base: str, workspace: str) -> None:
    port = free_port()
    ran = serve(anna, base, port)
    preview = Preview(stack, workspace, port, stack.token("anna"))
    with preview.socket("/ws") as opened:
        opened.recv(30)
        opened.close(4000, "bye")
    until(lambda: "closed by 4000 bye" in anna.get(f"{base}/execs/{ran}").json()["stdout"], "the program heard it")


def test_each_failure_has_its_own_page_and_code(stack: Stack, anna: httpx.Client, base: str, program: Preview) -> None:
    nothing = Preview(stack, program.workspace, free_port(), program.token)
    cases = [(nothing, "/", 502, "preview_not_listening"), (program, "/reset", 502, "guest_reset"),
             (program, "/nonsense", 502, "guest_reset")]
    for preview, target, status, code in cases:
        said = preview.get(target, {"Accept": "application/json"})
        assert (said.status_code, said.json()["code"], said.headers["Berth-Error"]) == (status, code, code), target
        page = preview.get(target, PAGE)
        assert page.status_code == status and page.headers["Berth-Error"] == code
        assert code in page.text and "<script" not in page.text and "text/html" in page.headers["Content-Type"]
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]
        assert ('http-equiv="refresh"' in page.text) == (code == "preview_not_listening")
    with pytest.raises(httpx.RemoteProtocolError):
        program.get("/half")
    both = program.get("/two-lengths")
    assert both.status_code == 502 and "evil" not in both.text, "an answer of two lengths is none"
    assert program.get("/surplus").text == "ok" and program.get("/page").text != "evil"


def test_a_program_on_the_other_loopback_is_shown_too(stack: Stack, anna: httpx.Client, base: str, workspace: str
                                                      ) -> None:
    port = free_port()
    serve(anna, base, port, "::1")
    assert "Hello" in Preview(stack, workspace, port, stack.token("anna")).get("/page").text


def test_a_page_that_waits_goes_on_when_the_program_listens(stack: Stack, anna: httpx.Client, base: str,
                                                            workspace: str) -> None:
    preview = Preview(stack, workspace, free_port(), stack.token("anna"))
    page = preview.get("/deep?x=1", PAGE).text
    assert "url=/.berth/wait?path=%2Fdeep%3Fx%3D1&amp;n=1" in page
    waits = preview.get("/.berth/wait?path=%2Fdeep%3Fx%3D1&n=1", PAGE)
    assert waits.headers["Berth-Error"] == "preview_not_listening" and "n=2" in waits.text
    tired = preview.get("/.berth/wait?path=%2Fdeep&n=300", PAGE).text
    assert "refresh" not in tired and 'href="/deep"' in tired
    serve(anna, base, preview.port)
    led = preview.get("/.berth/wait?path=%2Fdeep%3Fx%3D1&n=2", PAGE)
    assert (led.status_code, led.headers["Location"]) == (303, "/deep?x=1")


def test_a_stranger_is_let_in_by_the_hop_alone_and_signing_out_ends_it(
        stack: Stack, program: Preview, session: str) -> None:
    stranger = Preview(stack, program.workspace, program.port)
    kept = hop(stack, program, session, "/page?a=%2F&b")
    assert "Hello from the guest" in stranger.get("/page", kept).text
    two = {"Cookie": f"berth_preview=planted; {kept['Cookie']}; berth_preview=also"}
    assert stranger.get("/page", two).status_code == 200, "planted ones beside it change nothing"
    other = Preview(stack, program.workspace, free_port())
    assert other.get("/page", kept).status_code == 403, "a pass is for one port"
    assert stranger.get("/page").status_code == 403 and stranger.get("/page").json()["code"] == "preview_forbidden"

    with stranger.socket("/ws", {**kept, "Origin": program.origin}) as opened:
        opened.recv(30)
        stack.manage("shell", "--verbosity", "0", "-c", f"""
from django.contrib.sessions.models import Session
from workspaces import nudges
Session.objects.filter(pk={session!r}).delete()
nudges.credential_changed("session", {session!r})""")
        with pytest.raises(ConnectionClosed) as closed:
            opened.recv(30)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 4403
    again = stranger.get("/page", {**kept, **PAGE})
    assert again.status_code == 303 and "/previews/sign-in" in again.headers["Location"]


def test_the_hop_leads_nowhere_else_and_to_nobody_elses(stack: Stack, program: Preview) -> None:
    stack.token("ben")
    cookie = {"Cookie": f"berth_session={session_of(stack, 'ben')}"}
    for to in (f"{program.port}--{program.workspace}@evil.example", "evil.example", "//evil.example",
               f"{program.port}--{program.workspace}.preview.localhost.evil", "0--" + program.workspace,
               f"65536--{program.workspace}", f"{program.port}--{program.workspace}\r\nX: y", "", "javascript:alert(1)",
               program.host):
        said = httpx.get(f"{stack.base_url}/previews/sign-in", params={"to": to, "path": "/"}, headers=cookie)
        assert said.status_code == 403 and "Location" not in said.headers, to
    label = f"{program.port}--{program.workspace}"
    theirs = httpx.get(f"{stack.base_url}/previews/sign-in", params={"to": label}, headers=cookie)
    nobodys = httpx.get(f"{stack.base_url}/previews/sign-in", params={"to": "80--" + "a" * 20}, headers=cookie)
    assert theirs.status_code == nobodys.status_code == 403 and theirs.text == nobodys.text, "they look alike"
    anna = {"Cookie": f"berth_session={session_of(stack, 'anna')}"}
    for path in ("//evil.example/x", "/\\evil.example", "https://evil.example", "/a\r\nSet-Cookie: x=1"):
        led = httpx.get(f"{stack.base_url}/previews/sign-in", params={"to": label, "path": path}, headers=anna)
        to = httpx.URL(led.headers["Location"])
        entered = Preview(stack, program.workspace, program.port).get(to.raw_path.decode())
        kept = {"Cookie": entered.headers["Set-Cookie"].partition(";")[0]}
        arrived = Preview(stack, program.workspace, program.port).get(entered.headers["Location"], kept)
        assert arrived.headers["Location"].startswith("/") and not arrived.headers["Location"].startswith(
            ("//", "/\\")) and "evil" not in arrived.headers.get("Set-Cookie", "")
    nowhere = Preview(stack, program.workspace, program.port).get("/.berth/arrive?path=/", PAGE)
    assert nowhere.status_code == 403 and "cookie" in nowhere.text, "a browser that keeps none goes in no circles"


def test_shares_let_in_whom_they_name_and_end_at_once(stack: Stack, anna: httpx.Client, base: str, program: Preview
                                                      ) -> None:
    share = f"{base}/ports/{program.port}/share"
    stranger = Preview(stack, program.workspace, program.port)
    made = anna.post(share, json={"visibility": "public", "expires_in_s": 600})
    assert made.status_code == 201 and made.json()["url"] == f"{program.origin}/", made.text
    assert made.json()["token"] is None and made.json()["expires_at"] is not None
    assert "Hello" in stranger.get("/page").text
    until(lambda: stranger.get("/page", PAGE).status_code == 200, "for a person, too")
    with stranger.socket("/ws") as opened, stranger.stream("GET", "/events") as events:
        opened.recv(30)
        lines = events.iter_lines()
        next(lines)
        assert anna.delete(share).status_code == 204
        with pytest.raises(ConnectionClosed) as closed:
            opened.recv(30)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 4403
        with pytest.raises(httpx.RemoteProtocolError):
            list(lines)
    assert stranger.get("/page").status_code == 403 and anna.delete(share).status_code == 404

    made = anna.post(share, json={"visibility": "private"})
    token, link = made.json()["token"], made.json()["link"]
    assert stranger.get("/page").status_code == 403, "private is private"
    assert stranger.get("/page", {"Berth-Share": token}).status_code == 200
    direct = stranger.get(f"/x?a=1&berth_share={token}&b=2").json()
    assert direct["target"] == "/x?a=1&b=2" and token not in json.dumps(direct)
    led = stranger.get(httpx.URL(link).raw_path.decode(), PAGE)
    assert (led.status_code, led.headers["Location"]) == (303, "/") and led.headers["Referrer-Policy"] == "no-referrer"
    kept = {"Cookie": led.headers["Set-Cookie"].partition(";")[0]}
    assert stranger.get("/page", kept).status_code == 200
    replaced = anna.post(share, json={"visibility": "signed_in"})
    assert replaced.status_code == 200 and replaced.json()["token"] is None
    assert stranger.get("/page", kept).status_code == 403, "who came by the former share is out"
    stack.token("ben")
    assert hop(stack, program, session_of(stack, "ben")) and stranger.get("/page").status_code == 403
    assert [one["visibility"] for one in anna.get(f"{base}/shares").json()["results"]] == ["signed_in"]
    assert anna.delete(share).status_code == 204
    kinds = [row["kind"] for row in anna.get(f"{base}/events?limit=200").json()["results"]]
    assert kinds.count("preview.shared") == 3 and kinds.count("preview.unshared") == 2


def test_other_pages_may_not_use_a_visitors_pass(stack: Stack, program: Preview) -> None:
    stranger = Preview(stack, program.workspace, program.port)
    kept = hop(stack, program, session_of(stack, "anna"))
    evil = f"http://3000--{'a' * 20}.preview.localhost:{stack.port}"
    sibling = f"http://3000--{program.workspace}.preview.localhost:{stack.port}"
    refused = [{"Origin": evil}, {"Origin": "null"}, {"Origin": "https://evil.example"},
               {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
               {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}]
    for headers in refused:
        assert stranger.get("/cors", {**kept, **headers}).status_code == 403, headers
        with pytest.raises(InvalidStatus):
            stranger.socket("/ws", {**kept, "Origin": evil})
    allowed = [{"Origin": program.origin}, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate",
                                            "Sec-Fetch-Dest": "document"},
               {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Referer": f"{sibling}/x"}]
    for headers in allowed:
        assert stranger.get("/cors", {**kept, **headers}).status_code == 200, headers
    asked = stranger.get("/cors", {**kept, "Origin": sibling})
    assert asked.headers["Access-Control-Allow-Origin"] == sibling, "the program allowed localhost:3000"
    ask = {"Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "content-type"}
    flight = stranger.ask("OPTIONS", "/cors", {"Origin": sibling, **ask})
    assert (flight.status_code, flight.headers["Access-Control-Allow-Origin"]) == (204, sibling)
    assert "X-Method" not in flight.headers and flight.content == b"", "the program heard nothing of it"
    assert stranger.ask("OPTIONS", "/cors", {"Origin": evil, **ask}).status_code == 403


def test_nothing_else_is_reached_by_a_previews_name(stack: Stack, program: Preview) -> None:
    auth = {"Authorization": f"Bearer {program.token}"}
    suffix = f"{program.workspace}.preview.localhost:{stack.port}"
    names = [f"0--{suffix}", f"65536--{suffix}", f"-1--{suffix}", f"08080--{suffix}", f"8080@evil--{suffix}",
             f"127.0.0.1--{suffix}", f"x.{program.host}", f"{program.port}--{'a' * 19}.preview.localhost",
             f"{program.port}---{suffix}", "preview.localhost"]
    for name in names:
        said = httpx.get(f"{stack.base_url}/page", headers={"Host": name, **auth})
        assert said.status_code in (400, 404) and "Hello" not in said.text, name
    # The gateway itself listens on this machine's 127.0.0.1, which the fake driver's guests share: it is not theirs.
    own = Preview(stack, program.workspace, stack.port, program.token).get("/healthz")
    assert (own.status_code, own.json()["code"]) == (502, "preview_not_listening")
    others = Preview(stack, "a" * 20, program.port, program.token).get("/page")
    assert (others.status_code, others.json()["code"]) == (403, "preview_forbidden")
    mine = f"Host: {program.host}\r\nAuthorization: Bearer {program.token}\r\n"
    absolute = program.raw(f"GET http://169.254.169.254/page HTTP/1.1\r\n{mine}Connection: close\r\n\r\n".encode())
    assert b"Hello from the guest" in absolute, "a target's authority is nobody"
    for smuggled in ("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                     "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd", "Transfer-Encoding: xchunked\r\n\r\n",
                     "X: y\r\n\tfolded: z\r\n Transfer-Encoding : chunked\r\n\r\n", "Host: other\r\n\r\n",
                     "Content-Length: +4\r\n\r\nabcd", "Transfer-Encoding: chunked\r\n\r\n4 \r\nabcd\r\n0\r\n\r\n"):
        got = program.raw(f"POST /x HTTP/1.1\r\n{mine}{smuggled}".encode())
        assert got.startswith(b"HTTP/1.1 400") or b"400" in got.split(b"\r\n")[0], (smuggled, got)
    # What looks like the API under a preview's name is the program's.
    assert program.get(f"/api/v1/workspaces/{program.workspace}/files").json()["method"] == "GET"
    assert httpx.get(f"{stack.base_url}/api/v1/me", headers={"Cookie": "berth_preview=x"}).status_code == 401
