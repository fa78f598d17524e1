"""The whole product on real machines: a short soak, and previews of programs that run in a guest of QEMU's.

What previews do is walked by the very tests that walk it on the fake driver; here `stack` is the real one.
"""

from __future__ import annotations

import random

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.gateway.preview_client import PAGE, Preview, anna, base, program, serve, workspace  # noqa: F401
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


def test_a_terminal_keeps_its_shell_and_what_it_said_through_standby(stack: Stack, anna: httpx.Client,  # noqa: F811
                                                                     base: str) -> None:  # noqa: F811
    begun = anna.post(f"{base}/execs", json={"command": ["bash"], "tty": {"cols": 80, "rows": 24}}).json()
    with terminal(stack, base, begun["id"]) as opened:
        opened.send(INPUT + b"here=$((40+2)); echo marker-$here\n")
        said_until(opened, b"marker-42")
    asleep(anna, base)
    assert anna.post(f"{base}/start?wait=true&timeout_s=120").json()["state"] == "running"
    with terminal(stack, base, begun["id"]) as opened:
        said_until(opened, b"marker-42")  # said again by nobody: it is what was kept
        opened.send(INPUT + b"echo still-$((here+1))\n")
        said_until(opened, b"still-43")
        opened.send(INPUT + b"exit\n")


INPUT, OUTPUT = b"\x00", b"\x01"


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
