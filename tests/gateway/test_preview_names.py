"""A preview's name, and what a program is told and may say: pure rules, and whatever a generator thinks of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspaces.gateway.previews import house
from workspaces.gateway.previews.rewriting import Outside, cookie_of, for_guest, for_visitor, located
from workspaces.preview_names import PreviewName, of_host, of_label, of_origin
from workspaces.preview_page import page

WID = "a2" * 10
DOMAIN = "preview.localhost"
OUT = Outside(PreviewName(3000, WID), DOMAIN, "http", f"3000--{WID}.{DOMAIN}:8000", "10.0.0.9")


@pytest.mark.parametrize("host", [
    f"3000--{WID}.{DOMAIN}", f"3000--{WID}.{DOMAIN}:8000", f"3000--{WID.upper()}.PREVIEW.localhost.",
    f"3000--{WID}.{DOMAIN}.:80"])
def test_one_of_ours_is_read(host: str) -> None:
    assert of_host(host, DOMAIN) == (3000, WID)


@pytest.mark.parametrize("host", [
    f"0--{WID}.{DOMAIN}", f"65536--{WID}.{DOMAIN}", f"-1--{WID}.{DOMAIN}", f"03000--{WID}.{DOMAIN}", DOMAIN,
    f"3000--{WID}.{DOMAIN}.evil.example", f"3000--{WID}{DOMAIN}", f"x.3000--{WID}.{DOMAIN}", f"3000-{WID}.{DOMAIN}",
    f"3000--{WID[:-1]}.{DOMAIN}", f"3000--{WID}1.{DOMAIN}", f"3000--{WID}.{DOMAIN}:80@evil", f"3000--{WID}@{DOMAIN}",
    f"٣--{WID}.{DOMAIN}", f"3000--{WID}\n.{DOMAIN}", ""])
def test_what_only_looks_like_one_is_none(host: str) -> None:
    assert of_host(host, DOMAIN) is None


@given(st.text(max_size=60))
def test_no_text_is_taken_for_a_name_that_is_spelled_otherwise(text: str) -> None:
    found = of_label(text)
    assert found is None or found.label == text.lower()


@pytest.mark.parametrize("origin", [f"http://3000--{WID}.{DOMAIN}:8000/", f"http://x@3000--{WID}.{DOMAIN}", "null",
                                    f"ftp://3000--{WID}.{DOMAIN}", f"http://3000--{WID}.{DOMAIN}\\@evil", "http://"])
def test_what_is_no_origin_of_ours_is_none(origin: str) -> None:
    assert of_origin(origin, DOMAIN) is None


def test_a_page_of_another_port_is_told_of_locally_and_one_of_another_workspace_is_not() -> None:
    sibling = f"http://8000--{WID}.{DOMAIN}:8000".encode()
    other = f"http://8000--{'b' * 20}.{DOMAIN}:8000".encode()
    assert (b"origin", b"http://localhost:8000") in for_guest([(b"origin", sibling)], OUT)
    foreign = for_guest([(b"origin", other)], OUT)
    assert (b"origin", other) in foreign and (b"x-forwarded-host", OUT.host.encode()) in foreign
    hop = [(b"referer", OUT.of_port(3000).encode() + b"/.berth/enter?code=s3cret")]
    assert not any(name == b"referer" for name, _ in for_guest(hop, OUT)), "a code is in no Referer"


@pytest.mark.parametrize(("said", "is_led_to"), [
    (b"http://localhost:3000/a?b#c", f"http://3000--{WID}.{DOMAIN}:8000/a?b#c"),
    (b"http://127.0.0.1:5000", f"http://5000--{WID}.{DOMAIN}:8000"),
    (b"https://[::1]:3000/", f"http://3000--{WID}.{DOMAIN}:8000/"),
    (b"http://localhost/x", f"http://80--{WID}.{DOMAIN}:8000/x"), (b"/relative", "/relative"),
    (b"http://localhost:99999/", "http://localhost:99999/"), (b"http://localhost.evil/", "http://localhost.evil/"),
    (b"http://localhost:3000@evil/", "http://localhost:3000@evil/"), (b"//localhost:3000/", "//localhost:3000/")])
def test_a_local_location_is_the_previews(said: bytes, is_led_to: str) -> None:
    assert located(said, OUT).decode() == is_led_to


@pytest.mark.parametrize("stolen", [b"berth_session=x", b"BERTH_preview=x", b"__Host-berth_session=x", b"berth_csrf =x",
                                    b"=berth_session=x", b" berth_session", b"", b"__secure-berth_x=1; Secure"])
def test_a_cookie_named_like_ours_never_comes_out(stolen: bytes) -> None:
    assert cookie_of(stolen) is None


def test_a_cookie_keeps_all_but_its_domain() -> None:
    assert cookie_of(b'a="b; c"; DOMAIN = .localhost; Path=/x; SameSite=Lax') == b'a="b; c"; Path=/x; SameSite=Lax'


@given(st.lists(st.tuples(st.sampled_from([b"set-cookie", b"location", b"x", b"connection", b"content-length"]),
                          st.binary(max_size=40).map(lambda v: v.replace(b"\r", b"").replace(b"\n", b"")))))
def test_nothing_a_program_says_makes_a_cookie_of_ours_or_a_header_more(headers: list[tuple[bytes, bytes]]) -> None:
    said = for_visitor(headers, OUT, "", 200)
    assert len(said) <= len(headers)
    for name, value in said:
        if name == b"set-cookie":
            assert b"=" in value and not value.strip().lower().startswith((b"berth_", b"__host-berth_", b"="))


@pytest.mark.parametrize("path", ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)",
                                  "x", ""])
def test_a_target_is_on_this_origin(path: str) -> None:
    led = house.local(path)
    assert led.startswith("/") and led[1:2] not in ("/", "\\")


@given(st.text(max_size=50))
def test_a_target_breaks_no_header(path: str) -> None:
    assert house.local(path).isascii() and not set(house.local(path)) & set("\r\n\0 ")


def test_a_page_escapes_what_it_was_told() -> None:
    from workspaces.api.errors import Problem
    evil = "<script>alert(1)</script>\"'"
    html = page(Problem("guest_reset", evil), again=f"/.berth/wait?path={evil}", every_s=2, link=evil)
    assert "<script" not in html and "alert(1)</" not in html.replace("&lt;/script", "")
