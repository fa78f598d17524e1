"""Finding one's way by keyboard: quick open, search in files, the palette of commands and the list of its keys.

The tests of this file share one workspace and put nothing into it that another would trip over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.hands import new_terminal, open_workspace, tab, type_line
from tests.browser.test_looks import no_barriers, no_sideways_scrolling

FILES = {
    "src/api/pages.py": "def first():\n    return 1\n\n\ndef needle(Haystack):\n    return Haystack\n",
    "src/pages/api.py": "import pages\n\nHAYSTACK = 'needle'\n",
    "docs/pages.md": "# Pages\n\nNo needle, two needles: needle.\n",
    "node_modules/pages/index.js": "needle\n",
    "many.txt": "common\n" * 50,
}


@pytest.fixture(scope="module")
def desk(agent: httpx.Client) -> Iterator[dict[str, Any]]:
    body = agent.post("/workspaces?wait=true", json={"name": "finding"}).raise_for_status().json()
    for path, text in FILES.items():
        where = f"/workspaces/{body['id']}/files/content?path=/home/user/{quote(path)}&parents=true"
        agent.put(where, content=text.encode()).raise_for_status()
    yield body
    agent.delete(f"/workspaces/{body['id']}?purge=true")


def both_looks(page: Page) -> None:
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        no_barriers(page)
    page.emulate_media(color_scheme="light")


def picker(page: Page) -> Locator:
    return page.locator("dialog.picker")


def choose(page: Page, words: str, offered: str | re.Pattern[str]) -> None:
    """Enter takes what is offered first, so that is looked at before."""
    page.get_by_role("combobox", name="Commands").fill(words)
    expect(picker(page).get_by_role("option").first).to_have_text(offered)
    page.keyboard.press("Enter")


def cursor_line(page: Page) -> Locator:
    return page.locator(".editor-pane .cm-activeLine")


def test_a_file_is_opened_by_a_part_of_its_path(page: Page, desk: dict[str, Any]) -> None:
    open_workspace(page, desk)
    page.keyboard.press("Control+p")
    options = picker(page).get_by_role("option")
    expect(picker(page).get_by_role("status")).to_contain_text("4 files. Not in .git, node_modules")
    page.keyboard.type("papi")
    expect(options.first).to_have_text("api.pysrc/pages")
    page.get_by_role("combobox", name="Go to file").fill("pages")
    expect(options).to_have_text(["pages.mddocs", "pages.pysrc/api", "api.pysrc/pages"])
    expect(options.first).to_have_attribute("aria-selected", "true")
    both_looks(page)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(picker(page)).to_have_count(0)
    expect(tab(page, "pages.py")).to_be_visible()
    expect(page.locator(".cm-content")).to_be_focused()
    page.keyboard.press("Control+p")
    page.get_by_role("combobox", name="Go to file").fill("zebra")
    expect(picker(page).get_by_role("status")).to_contain_text("No path fits.")
    no_sideways_scrolling(page)
    page.keyboard.press("Escape")
    expect(picker(page)).to_have_count(0)


def test_a_listing_that_reaches_its_bound_says_so(page: Page, desk: dict[str, Any]) -> None:
    entries = [{"path": f"/home/user/f{n}", "type": "file", "size": 0} for n in range(1000)]
    page.route("**/files/search?*", lambda route: route.fulfill(
        json={"results": entries, "next": route.request.url.split("&cursor=")[0] + "&cursor=on"}))
    open_workspace(page, desk)
    page.keyboard.press("Control+p")
    expect(picker(page).get_by_role("status")).to_contain_text("The first 20,000 entries were listed, there are more.")
    page.keyboard.type("f999")
    expect(picker(page).get_by_role("option").first).to_have_text("f999")


def test_contents_are_searched_by_file_and_open_at_their_line(page: Page, desk: dict[str, Any]) -> None:
    open_workspace(page, desk)
    page.keyboard.press("Control+Shift+f")
    pane = page.get_by_role("region", name="Files")
    note, found = pane.locator(".search-note"), pane.locator(".found-line")
    expect(pane.get_by_label("Search for")).to_be_focused()
    page.keyboard.type("haystack")
    expect(note).to_have_text("3 lines in 2 files.")
    expect(pane.locator(".found-file")).to_have_text(["pages.pysrc/api2", "api.pysrc/pages1"])
    pane.get_by_label("Match case").check()
    page.get_by_label("Search for").fill("Haystack")
    expect(note).to_have_text("2 lines in 1 file.")
    both_looks(page)
    found.nth(1).click()
    expect(cursor_line(page)).to_have_text("    return Haystack")
    assert page.evaluate("getSelection().toString()") == "Haystack"
    pane.get_by_label("Only in names like").fill("*.md")
    pane.get_by_label("Search for").fill("needle")
    expect(note).to_have_text("1 line in 1 file.")
    expect(found.locator("mark")).to_have_text(["needle", "needle", "needle"])
    pane.get_by_label("Only in names like").fill("")
    pane.get_by_label("Regular expression").check()
    pane.get_by_label("Search for").fill("^def (first|needle)")
    expect(note).to_have_text("2 lines in 1 file.")
    found.nth(1).click()
    expect(cursor_line(page)).to_have_text("def needle(Haystack):")
    pane.get_by_label("Search for").fill("(unclosed")
    expect(pane.get_by_role("alert")).to_contain_text("grep says")
    pane.get_by_label("Regular expression").uncheck()
    pane.get_by_label("Search for").fill("no such text")
    expect(note).to_have_text("Nothing found.")
    no_sideways_scrolling(page)
    page.get_by_role("navigation").get_by_role("button", name="Files").click()
    no_barriers(page)
    pane.get_by_label("Search for").press("Escape")
    expect(pane.get_by_role("heading")).to_have_text("Files")


def test_a_search_that_another_replaces_is_ended_and_a_bound_is_said(page: Page, desk: dict[str, Any]) -> None:
    held: list[Route] = []
    page.route(re.compile("/files/search.*content=slow"), lambda route: held.append(route))
    lines = [{"line": n, "column": 1, "text": "common"} for n in range(1, 101)]

    def bounded(route: Route) -> None:
        last = "cursor" in route.request.url
        following = None if last else f"{route.request.url}&cursor=on"
        file = {"type": "file", "size": 1, "matches": lines, "cut": True}
        results = [{"path": f"/home/user/{last}{n}", **file} for n in range(10)]
        route.fulfill(json={"results": results, "searched": 10, "next": following})

    page.route(re.compile("/files/search.*content=common"), bounded)
    open_workspace(page, desk)
    page.keyboard.press("Control+Shift+f")
    pane = page.get_by_role("region", name="Files")
    with page.expect_request(re.compile("/files/search.*content=slow")):  # not before typing came to rest
        pane.get_by_label("Search for").fill("slow")
    expect(pane.locator(".search-note")).to_have_text("Searching…")
    with page.expect_event("requestfailed", lambda request: "content=slow" in request.url):  # taken back
        pane.get_by_label("Search for").fill("common")
    expect(pane.locator(".search-note")).to_have_text("1,000 lines in 10 files, and there may be more.")
    pane.get_by_role("button", name="Search on").click()
    expect(pane.locator(".search-note")).to_have_text("2,000 lines in 20 files.")
    pane.locator(".found-file").first.click()
    expect(pane.locator(".found-file").first).to_have_attribute("aria-expanded", "false")
    for route in held:
        route.abort()


def test_every_command_is_in_the_palette_and_its_keys_are_listed(page: Page, desk: dict[str, Any]) -> None:
    open_workspace(page, desk)
    page.keyboard.press("Control+k")
    both_looks(page)
    choose(page, "show time", "Show Time")
    expect(page.get_by_role("tab", name="Time")).to_be_focused()
    page.keyboard.press("Control+Shift+p")
    choose(page, "checkpoint", re.compile("heckpoint"))
    expect(page.get_by_role("dialog").get_by_role("heading")).to_contain_text("heckpoint")
    page.keyboard.press("Control+k")  # a dialog keeps its keys
    expect(picker(page)).to_have_count(0)
    page.keyboard.press("Escape")
    page.keyboard.press("F1")
    listed = page.get_by_role("dialog", name="Keyboard shortcuts")
    for words in ("Go to file", "Ctrl+P", "Search in files", "Ctrl+Shift+F", "Into the terminal, and out of it"):
        expect(listed).to_contain_text(words)
    both_looks(page)
    no_sideways_scrolling(page)
    page.keyboard.press("Escape")
    expect(listed).to_have_count(0)
    page.keyboard.press("?")
    expect(listed).to_be_visible()
    page.goto("/")
    page.get_by_role("button", name=re.compile("All commands")).click()
    choose(page, "open finding", re.compile("finding"))  # once the list of workspaces has come
    expect(page).to_have_url(re.compile(desk["id"]))


def test_a_terminal_keeps_the_keys_that_a_shell_needs(page: Page, desk: dict[str, Any]) -> None:
    open_workspace(page, desk)
    rows = new_terminal(page)
    type_line(page, "echo on''ce")
    expect(rows).to_contain_text("once")
    page.keyboard.insert_text("cut away")
    page.keyboard.press("Control+a")
    page.keyboard.press("Control+k")
    page.keyboard.press("Control+p")
    expect(picker(page)).to_have_count(0)
    page.keyboard.press("Enter")
    expect(rows).to_have_text(re.compile("once.*once", re.DOTALL))  # the shell's own history, by Ctrl-P
    page.keyboard.press("F1")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("Control+Shift+p")
    expect(picker(page)).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".xterm-helper-textarea")).to_be_focused()
