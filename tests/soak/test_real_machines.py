"""The whole product on real machines: a short soak, and previews of programs that run in a guest of QEMU's.

What previews do is walked by the very tests that walk it on the fake driver; here `stack` is the real one.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Page, expect, sync_playwright
from websockets.sync.client import ClientConnection, connect

from tests.browser.conftest import ARGUMENTS, CHROMIUM, WIDE
from tests.browser.hands import new_terminal, state_of, type_line
from tests.gateway.preview_client import PAGE, Preview, anna, base, program, serve, session_of, workspace  # noqa: F401
from tests.gateway.test_previews_stack import (  # noqa: F401
    test_a_program_hears_a_local_request_and_none_of_our_secrets,
    test_a_program_on_the_other_loopback_is_shown_too,
    test_a_question_is_answered_while_it_is_still_asked,
    test_an_early_refusal_of_a_large_body_reaches_the_visitor,
    test_each_failure_has_its_own_page_and_code,
    test_events_come_one_by_one_and_a_visitor_who_goes_is_noticed,
    test_http_is_carried_in_full,
    test_sockets_pass_messages_subprotocols_pings_and_closes,
)
from tests.gateway.test_previews_stack import test_bodies_pass_in_flat_memory_both_ways as bodies_pass
from tests.soak.cycles import DEEDS
from tests.soak.test_soak import SEED, soaked
from tests.stack import Stack, free_port, until

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module")
def stack(real_stack: Stack) -> Stack:
    return real_stack


def test_a_real_machines_tree_comes_through_rest_restore_and_death(real_stack: Stack) -> None:
    """Very short: memory, a point in time, a killed machine and a killed host, once each."""
    one = soaked(real_stack)
    chance = random.Random(SEED)
    for name in ("standby", "checkpoint", "restore", "machine dies", "host dies"):
        one.change(chance.randrange(1 << 30))
        DEEDS[name](one, chance)
        one.check(f"{name} (seed {SEED})")


def test_a_visitor_wakes_a_sleeping_machine_and_its_program_goes_on(stack: Stack, anna: httpx.Client,  # noqa: F811
                                                                    base: str, workspace: str) -> None:  # noqa: F811
    """A person may be shown a page that waits, a program waits; the server is the same process, not a new one."""
    port = free_port()
    serve(anna, base, port)
    preview = Preview(stack, workspace, port, stack.token("anna"))
    pid = pid_of(anna, base, port)

    asleep(anna, base)
    page = preview.get("/page", PAGE)
    assert page.status_code == 200 or page.headers["Berth-Error"] == "workspace_waking", page.text
    until(lambda: "Hello" in preview.get("/page", PAGE).text, "the page that waited shows the program", 120)
    assert pid_of(anna, base, port) == pid

    asleep(anna, base)
    assert "Hello" in preview.get("/page", {"Accept": "*/*"}, timeout=120).text
    assert pid_of(anna, base, port) == pid


def test_terminals_keep_their_shells_and_what_they_said_through_standby_also_on_the_page(
        stack: Stack, anna: httpx.Client, base: str) -> None:  # noqa: F811
    begun = anna.post(f"{base}/execs", json={"command": ["bash"], "tty": {"cols": 80, "rows": 24}}).json()
    with terminal(stack, base, begun["id"]) as opened:
        opened.send(INPUT + b"here=$((40+2)); echo marker-$here\n")
        said_until(opened, b"marker-42")
    with a_page(stack, base) as page:
        new_terminal(page)
        type_line(page, "there=$((50+2)); echo page-$there")
        expect(page.locator(".xterm-rows")).to_contain_text("page-52")
        asleep(anna, base)
        page.reload()  # somebody comes to what sleeps: it can be read, looking does not wake it, a button does
        expect(state_of(page)).to_have_text("Standby")
        expect(page.get_by_role("region", name="Files").get_by_text("Asleep: reading the disk.")).to_be_visible()
        assert anna.get(base).json()["state"] == "standby"
        page.get_by_role("button", name="Wake the workspace").click()
        expect(state_of(page)).to_have_text("Running")
        expect(page.locator(".xterm-rows")).to_contain_text("page-52")
        type_line(page, "echo still-$((there+1))")
        expect(page.locator(".xterm-rows")).to_contain_text("still-53")
    with terminal(stack, base, begun["id"]) as opened:
        said_until(opened, b"marker-42")  # said again by nobody: it is what was kept
        opened.send(INPUT + b"echo still-$((here+1))\n")
        said_until(opened, b"still-43")
        opened.send(INPUT + b"exit\n")


INPUT, OUTPUT = b"\x00", b"\x01"


@contextlib.contextmanager
def a_page(stack: Stack, base: str) -> Iterator[Page]:  # noqa: F811
    """Ended before another test begins: the synchronous hands leave an event loop running while they are open."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        context = chromium.new_context(base_url=stack.base_url, viewport=WIDE)
        context.set_default_timeout(60_000)
        context.add_cookies([{"name": "berth_session", "value": session_of(stack, "anna"), "url": stack.base_url}])
        page = context.new_page()
        page.goto(f"/workspaces/{base.rpartition('/')[2]}")
        yield page
        chromium.close()


def terminal(stack: Stack, base: str, exec_id: str) -> ClientConnection:  # noqa: F811
    address = f"ws://127.0.0.1:{stack.port}{base.replace('/api/', '/ws/')}/terminals/{exec_id}?offset=0"
    return connect(address, additional_headers={"Authorization": f"Bearer {stack.token('anna')}"}, compression=None)


def said_until(opened: ClientConnection, wanted: bytes) -> None:
    said = b""
    while wanted not in said:
        frame = opened.recv(60)
        assert isinstance(frame, bytes)
        said += frame[1:] if frame[:1] == OUTPUT else b""


def asleep(client: httpx.Client, base: str) -> None:  # noqa: F811
    slept = client.post(f"{base}/standby?wait=true&timeout_s=120")
    assert slept.json()["state"] == "standby", slept.text


def pid_of(client: httpx.Client, base: str, port: int) -> int:  # noqa: F811
    return next(int(p["pid"]) for p in client.get(f"{base}/ports").json()["results"] if p["port"] == port)


@pytest.mark.soak
def test_large_bodies_pass_a_real_machine_in_flat_memory(stack: Stack, program: Preview) -> None:  # noqa: F811
    bodies_pass(stack, program)
