"""Who is let in to a preview, by what, and what ends it; what a preview's name can never reach. The whole product."""

from __future__ import annotations

import json

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.gateway.preview_client import (
    PAGE,
    Preview,
    anna,
    base,
    hop,
    program,
    session,
    session_of,
    workspace,
)
from tests.stack import Stack, free_port, until

__all__ = ["anna", "base", "program", "session", "workspace"]
pytestmark = pytest.mark.stack


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
        said = httpx.get(f"{stack.base_url}/previews/sign-in", params={"to": to, "path": "/"}, headers=cookie,
                         timeout=60)
        assert said.status_code == 403 and "Location" not in said.headers, to
    label = f"{program.port}--{program.workspace}"
    theirs = httpx.get(f"{stack.base_url}/previews/sign-in", params={"to": label}, headers=cookie, timeout=60)
    nobodys = httpx.get(f"{stack.base_url}/previews/sign-in", params={"to": "80--" + "a" * 20}, headers=cookie,
                       timeout=60)
    assert theirs.status_code == nobodys.status_code == 403 and theirs.text == nobodys.text, "they look alike"
    anna = {"Cookie": f"berth_session={session_of(stack, 'anna')}"}
    for path in ("//evil.example/x", "/\\evil.example", "https://evil.example", "/a\r\nSet-Cookie: x=1"):
        led = httpx.get(f"{stack.base_url}/previews/sign-in", params={"to": label, "path": path}, headers=anna,
                        timeout=60)
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
        said = httpx.get(f"{stack.base_url}/page", headers={"Host": name, **auth}, timeout=60)
        assert said.status_code in (400, 404) and "Hello" not in said.text, name
    # The gateway itself listens on this machine's 127.0.0.1, which the fake driver's guests share: it is not theirs.
    own = Preview(stack, program.workspace, stack.port, program.token).get("/healthz")
    assert (own.status_code, own.json()["code"]) == (502, "preview_not_listening")
    others = Preview(stack, "a" * 20, program.port, program.token).get("/page")
    assert (others.status_code, others.json()["code"]) == (403, "preview_forbidden")
    mine = f"Host: {program.host}\r\nAuthorization: Bearer {program.token}\r\nConnection: close\r\n"
    absolute = program.raw(f"GET http://169.254.169.254/page HTTP/1.1\r\n{mine}\r\n".encode())
    assert b"Hello from the guest" in absolute, "a target's authority is nobody"
    for smuggled in ("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                     "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd", "Transfer-Encoding: xchunked\r\n\r\n",
                     "X: y\r\n\tfolded: z\r\n Transfer-Encoding : chunked\r\n\r\n", "Host: other\r\n\r\n",
                     "Content-Length: +4\r\n\r\nabcd", "Transfer-Encoding: chunked\r\n\r\n4 \r\nabcd\r\n0\r\n\r\n"):
        got = program.raw(f"POST /x HTTP/1.1\r\n{mine}{smuggled}".encode())
        assert got.startswith(b"HTTP/1.1 400") or b"400" in got.split(b"\r\n")[0], (smuggled, got)
    # What looks like the API under a preview's name is the program's.
    assert program.get(f"/api/v1/workspaces/{program.workspace}/files").json()["method"] == "GET"
    me = httpx.get(f"{stack.base_url}/api/v1/me", headers={"Cookie": "berth_preview=x"}, timeout=60)
    assert me.status_code == 401
