"""Previews through the whole product: real programs inside a guest, shown under names of their own."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import socket
import time
from collections.abc import Iterator

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.gateway.preview_client import PAGE, Preview, anna, base, program, serve, workspace
from tests.gateway.test_files_stack import Peaks
from tests.stack import Stack, free_port, until

__all__ = ["anna", "base", "program", "workspace"]
pytestmark = pytest.mark.stack
MIB = 1024 * 1024
#: By hand with 1024: the bound is the same.
BODY_MIB = int(os.environ.get("BERTH_TEST_PREVIEW_MIB", "64"))
FLAT_MIB = 24


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
