"""Terminals of several people and in several places: the keyboard lease, tabs and splits, recordings, paste, search.

Numbers in comments are field cases.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import Watch
from tests.browser.hands import PASSWORD, new_terminal, open_workspace, prompted, sign_in, type_line
from tests.browser.test_looks import PHONE, no_barriers
from tests.stack import Stack, until

MAKE_BOB = ("from django.contrib.auth import get_user_model as g; u, _ = g().objects.get_or_create(username='bob'); "
            f"u.set_password({PASSWORD!r}); u.save()")


@pytest.fixture
def bob(stack: Stack, browser: Browser, agent: httpx.Client, workspace: dict[str, Any], watch: Watch) -> Iterator[Page]:
    """A second person, an operator of the first one's workspace, with a smaller window."""
    stack.manage("shell", "-c", MAKE_BOB)
    let_in = agent.post(f"/workspaces/{workspace['id']}/members", json={"user": "bob", "role": "operator"})
    assert let_in.status_code == 201, let_in.text
    context = browser.new_context(base_url=stack.base_url, viewport={"width": 1000, "height": 620})
    context.set_default_timeout(60_000)
    page = watch.on(context.new_page())
    page.goto("/sign-in")
    sign_in(page, "bob")
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    yield page
    context.close()


def menu(page: Page, entry: str) -> None:
    page.get_by_role("button", name="More about terminal").click()
    page.locator(".popover:popover-open").get_by_role("button", name=entry, exact=True).click()


def join(page: Page) -> Locator:
    page.get_by_role("button", name="Other terminals").click()
    page.get_by_role("button", name=re.compile("^Join shell of ")).click()
    return prompted(page)


def height(page: Page) -> int:
    return page.locator(".xterm-rows > div").count()


def test_the_keyboard_is_asked_for_given_declined_and_taken_while_both_see_it(
        page: Page, bob: Page, workspace: dict[str, Any]) -> None:  # 141
    open_workspace(page, workspace)
    rows = new_terminal(page)
    type_line(page, "echo from-$((0+1))st; stty size > /tmp/size-before")
    expect(rows).to_contain_text("from-1st")
    open_workspace(bob, workspace)
    expect(bob.locator(".terminal-area .tab")).to_have_count(0)  # somebody else's is joined, not thrust upon one
    expect(join(bob)).to_contain_text("from-1st")
    notes = bob.locator(".tabs-rest")
    expect(notes).to_contain_text("admin holds the keyboard")
    expect(bob.locator(".tab .tab-mark")).to_have_attribute("aria-label", "admin holds the keyboard")
    until(lambda: height(bob) == height(page), "who watches sees it as large as it is")
    type_line(bob, "echo bob-$((3+3))-too-early")
    no_barriers(bob)

    bob.get_by_role("button", name="Ask for the keyboard").click()
    question = page.locator(".terminal-ask")
    expect(question).to_contain_text("bob asks for the keyboard")
    expect(bob.get_by_text("Asked", exact=True)).to_be_visible()
    no_barriers(page)
    question.get_by_role("button", name="Decline").click()
    expect(notes).to_contain_text("admin declined")
    expect(question).to_have_count(0)
    bob.get_by_role("button", name="Ask for the keyboard").click()
    question.get_by_role("button", name="Give").click()
    expect(notes).to_contain_text("You hold the keyboard")
    type_line(bob, "echo by-bob-$((3+3))")
    expect(rows).to_contain_text("by-bob-6")
    assert "bob-6-too-early" not in rows.inner_text()
    expect(page.locator(".tabs-rest")).to_contain_text("bob holds the keyboard")
    until(lambda: height(bob) == height(page), "with the keyboard comes the size")

    page.get_by_role("button", name="Take the keyboard").click()  # an owner may
    expect(notes).to_contain_text("admin holds the keyboard")
    expect(bob.get_by_role("button", name="Take the keyboard")).to_have_count(0)  # an operator takes from no person
    page.get_by_role("button", name="Give back").click()
    bob.get_by_role("button", name="Take the keyboard").click()
    expect(notes).to_contain_text("You hold the keyboard")
    bob.set_viewport_size(PHONE)
    expect(bob.get_by_role("button", name="Give back")).to_be_visible()
    assert bob.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_terminals_stand_in_tabs_and_splits_which_a_reload_and_leaving_them_survive(
        page: Page, workspace: dict[str, Any], agent: httpx.Client) -> None:  # 071
    open_workspace(page, workspace)
    new_terminal(page)
    type_line(page, "echo left-$((1+1))")
    expect(page.locator(".xterm-rows")).to_contain_text("left-2")
    menu(page, "Split to the right")
    panes = page.locator(".terminal-area .pane")
    expect(panes).to_have_count(2)
    expect(panes.nth(1).locator(".xterm-rows")).to_contain_text("$")
    page.keyboard.insert_text("echo right-$((1+1)); stty size")
    page.keyboard.press("Enter")
    expect(panes.nth(1).locator(".xterm-rows")).to_contain_text("right-2")
    menu(page, "Split below")
    expect(panes).to_have_count(3)
    expect(panes.nth(2).locator(".xterm-rows")).to_contain_text("$")
    menu(page, "Name…")
    page.get_by_label("Name", exact=True).fill("build")
    page.get_by_role("button", name="Name it").click()
    expect(panes.nth(2).locator(".terminal-head")).to_contain_text("build")
    before = widths(panes)
    line = page.get_by_role("separator", name="Place between terminals").first
    line.focus()
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    until(lambda: widths(panes)[0] < before[0] - 40 and widths(panes)[1] > before[1] + 40, "the line moved")
    no_barriers(page)
    moved = widths(panes)
    page.reload()
    expect(panes).to_have_count(3)
    expect(panes.nth(0).locator(".xterm-rows")).to_contain_text("left-2")
    expect(panes.nth(1).locator(".xterm-rows")).to_contain_text("right-2")
    expect(panes.nth(2).locator(".terminal-head")).to_contain_text("build")
    assert all(abs(was - now) <= 2 for was, now in zip(moved, widths(panes), strict=True))

    panes.nth(1).get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Leave it running").click()
    expect(panes).to_have_count(2)
    running = agent.get(f"/workspaces/{workspace['id']}/execs?state=running").json()["results"]
    assert len(running) == 3
    page.reload()
    expect(panes).to_have_count(2)
    page.get_by_role("button", name="Other terminals: 1 running").click()
    no_barriers(page)
    page.get_by_role("button", name="Join shell of you").click()
    expect(page.locator(".terminal-area .tab")).to_have_count(2)
    expect(page.locator(".xterm-rows")).to_contain_text("right-2")


def widths(panes: Locator) -> list[float]:
    return [box["width"] for box in (panes.nth(at).bounding_box() for at in range(panes.count())) if box]


def test_a_terminal_nobody_watches_is_recorded_and_replayed_after_its_end(
        page: Page, workspace: dict[str, Any], agent: httpx.Client) -> None:
    base = f"/workspaces/{workspace['id']}/execs"
    shell = agent.post(base, json={"command": ["/bin/bash", "--norc"], "tty": {"cols": 90, "rows": 20}}).json()
    path = f"{base}/{shell['id']}"
    assert agent.put(f"{path}/recording", json={"on": True}).json()["recording"]["until"] is None
    open_workspace(page, workspace)
    join(page)
    expect(page.locator(".tabs-rest")).to_contain_text("Recording")
    page.get_by_role("button", name="Take the keyboard").click()
    type_line(page, "echo re''corded-$((40+2))")
    expect(page.locator(".xterm-rows")).to_contain_text("recorded-42")
    menu(page, "Stop recording")
    expect(page.locator(".tabs-rest")).not_to_contain_text("Recording")
    type_line(page, "echo after''wards; exit")
    expect(page.get_by_text("Ended: exit 0")).to_be_visible()
    lines = agent.get(f"{path}/recording").text.splitlines()
    assert json.loads(lines[0])["version"] == 2
    text = "".join(json.loads(line)[2] for line in lines[1:])
    assert "recorded-42" in text and "afterwards" not in text

    menu(page, "Play the recording")
    dialog = page.get_by_role("dialog")
    screen = dialog.locator(".xterm-rows")
    expect(screen).to_contain_text("recorded-42")
    expect(dialog.get_by_role("button", name="Play")).to_be_visible()  # it came to its end
    dialog.get_by_label("Position in seconds").fill("0")
    expect(screen).not_to_contain_text("recorded-42")
    dialog.get_by_label("Speed").select_option("8")
    dialog.get_by_role("button", name="Play").click()
    expect(screen).to_contain_text("recorded-42")
    no_barriers(page)
    with page.expect_download() as download:
        dialog.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename.endswith(".cast")
    dialog.get_by_role("button", name="Close").click()

    page.get_by_role("button", name="Close terminal 1").click()
    page.get_by_role("button", name="Other terminals").click()
    page.get_by_role("button", name=re.compile("^Replay ")).click()
    expect(screen).to_contain_text("recorded-42")


def test_a_paste_of_several_lines_asks_where_nobody_brackets_it_and_large_ones_arrive_whole(
        page: Page, workspace: dict[str, Any], agent: httpx.Client) -> None:  # 142
    open_workspace(page, workspace)
    rows = new_terminal(page)
    type_line(page, "cat > /tmp/pasted; wc -lc < /tmp/pasted; sha256sum < /tmp/pasted")
    expect(rows).to_contain_text("sha256sum")
    text = "".join(f"{number:06d} \u00e9\u65e5\u672c\U0001f600 {'x' * 60}\n" for number in range(3000))
    page.evaluate("text => navigator.clipboard.writeText(text)", text)
    page.keyboard.press("Control+Shift+v")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Paste 3000 lines?")
    no_barriers(page)
    dialog.get_by_role("button", name="Paste", exact=True).click()
    expect(page.locator(".xterm-helper-textarea")).to_be_focused()
    page.keyboard.press("Control+d")
    expect(rows).to_contain_text(f"3000 {len(text.encode())}", timeout=60_000)

    # a shell that knows pastes is told where one begins and ends, and the paste cannot end it by itself
    hidden = "echo one-$((1+1))\x1b[201~\necho two-$((1+1))\n"
    page.evaluate("text => navigator.clipboard.writeText(text)", hidden)
    type_line(page, "clear")
    page.keyboard.press("Control+v")
    expect(rows).to_contain_text("echo two-$((1+1))")
    expect(dialog).to_have_count(0)
    assert "one-2" not in rows.inner_text()
    page.keyboard.press("Control+c")


def test_a_broken_profile_locks_nobody_out(page: Page, workspace: dict[str, Any], agent: httpx.Client) -> None:  # 133
    base = f"/workspaces/{workspace['id']}"
    home = agent.post(f"{base}/execs", json={"command": "echo $HOME"}).json()["stdout"].strip()
    for name in (".bash_profile", ".bashrc"):
        put = agent.put(f"{base}/files/content", params={"path": f"{home}/{name}"}, content=b"exit 9\n")
        assert put.status_code in (200, 201), put.text
    open_workspace(page, workspace)
    page.get_by_role("button", name="New terminal").last.click()
    expect(page.get_by_text("Ended: exit 9")).to_be_visible()
    page.get_by_role("button", name="Other terminals").click()
    page.get_by_role("button", name="New terminal, no profile").click()
    expect(page.locator(".terminal-area .tab")).to_have_count(2)
    rows = prompted(page)
    type_line(page, "rm ~/.bash_profile ~/.bashrc; echo re''paired")
    expect(rows).to_contain_text("repaired")


def test_what_has_scrolled_away_is_found_and_keys_lead_in_and_out(page: Page, workspace: dict[str, Any]) -> None:  # 150
    open_workspace(page, workspace)
    rows = new_terminal(page)
    type_line(page, "clear; echo nee''dle-one; seq 1 200; echo nee''dle-two '\u65e5\u672c\u8a9e\U0001f600|'")
    expect(rows).to_contain_text("needle-two")
    page.keyboard.press("Control+Shift+f")
    find = page.get_by_role("search", name="Search in the terminal")
    find.get_by_label("Search for").fill("needle-")
    expect(find.locator("output")).to_have_text("2 of 2")
    find.get_by_role("button", name="Earlier").click()
    expect(find.locator("output")).to_have_text("1 of 2")
    expect(rows).to_contain_text("needle-one")
    find.get_by_label("Regular expression").check()
    find.get_by_label("Search for").fill("needle-(one")
    expect(find.locator("output")).to_have_text("Nothing found")
    no_barriers(page)
    page.keyboard.press("Escape")
    expect(find).to_have_count(0)
    ask = "IFS=';' read -rsdR -p $'\\e[6n' r c; echo \" column=$c\""
    type_line(page, "clear; printf '\u65e5\u672c\u8a9e\u2705\u23f3'; " + ask)
    expect(rows).to_contain_text("column=11")  # five characters of two cells each
    type_line(page, "clear; echo http://localhost:5173/'app'")
    expect(rows).to_contain_text("http://localhost:5173/app")
    page.keyboard.press("Control+`")
    expect(page.locator(".terminal-area .tab.current .tab-name")).to_be_focused()
    page.keyboard.press("Control+`")
    expect(page.locator(".xterm-helper-textarea")).to_be_focused()
