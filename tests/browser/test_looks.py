"""What every page owes everybody: no barrier, no sideways scrolling, no inline code, a small first load.

axe-core comes with the front end's development packages and is put into the page from outside.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import WIDE, Watch
from tests.browser.hands import new_terminal, open_file, open_workspace, state_of
from tests.stack import ROOT, Stack

AXE = ROOT / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
DIST = ROOT / "frontend" / "dist"
PHONE = {"width": 400, "height": 800}
FIRST_LOAD_LIMIT_BYTES = 500_000
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def dressed(stack: Stack, browser: Browser, session_state: Any, scheme: str, watch: Watch) -> Iterator[Page]:
    context = browser.new_context(base_url=stack.base_url, viewport=WIDE, storage_state=session_state,
                                  color_scheme=scheme, reduced_motion="reduce")
    context.set_default_timeout(60_000)
    yield watch.on(context.new_page())
    context.close()


#: A colour on its way to another is no colour of the page.
SETTLED = """() => Promise.all(document.getAnimations().filter(one => one instanceof CSSTransition)
    .map(one => one.finished.catch(() => null)))"""


def no_barriers(page: Page) -> None:
    page.evaluate(SETTLED)
    page.evaluate(AXE.read_text())
    found = page.evaluate("tags => axe.run(document, {runOnly: tags})", TAGS)["violations"]
    said = [f"{one['id']}: {node['target']} {node.get('failureSummary', '')}" for one in found for node in one["nodes"]]
    assert not said, "\n".join(said)


def no_sideways_scrolling(page: Page) -> None:
    page.set_viewport_size(PHONE)
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= PHONE["width"]


def test_signing_in_has_no_barriers(
        stack: Stack, browser: Browser, scheme: str, watch: Watch) -> None:
    page = watch.on(browser.new_context(base_url=stack.base_url, color_scheme=scheme).new_page())
    for address in ("/sign-in", "/sign-in?setup"):
        page.goto(address)
        expect(page.get_by_label("password")).to_be_visible()
        no_barriers(page)
        no_sideways_scrolling(page)


def test_home_has_no_barriers(dressed: Page, workspace: dict[str, Any]) -> None:
    dressed.goto("/")
    expect(dressed.get_by_role("link", name=workspace["name"])).to_be_visible()
    no_barriers(dressed)
    no_sideways_scrolling(dressed)
    outside = dressed.evaluate("""() => [...document.querySelectorAll(".workspaces tbody tr *")]
        .filter(one => one.getBoundingClientRect().right > one.closest("tr").getBoundingClientRect().right)
        .map(one => one.textContent)""")
    assert outside == [], "a row's words and buttons stay within its card"
    dressed.get_by_role("button", name="New workspace").click()
    no_barriers(dressed)


def test_an_empty_home_says_what_this_is_and_how_an_agent_begins(
        stack: Stack, browser: Browser, session_state: Any, scheme: str, watch: Watch) -> None:
    context = browser.new_context(base_url=stack.base_url, storage_state=session_state, color_scheme=scheme,
                                  permissions=["clipboard-read", "clipboard-write"])
    page = watch.on(context.new_page())
    page.route("**/api/v1/workspaces?*", lambda route: route.fulfill(json={"results": [], "next": None}))
    page.route_web_socket("**/ws/v1/events", lambda socket: None)
    page.goto("/")
    for n, said in enumerate(("/api/v1", "/mcp")):
        page.get_by_role("button", name="Copy").first.click()
        expect(page.get_by_role("button", name="Copied")).to_have_count(n + 1)
        assert said in page.evaluate("navigator.clipboard.readText()")
    no_barriers(page)
    no_sideways_scrolling(page)
    context.close()


def test_a_workspace_at_work_has_no_barriers(dressed: Page, workspace: dict[str, Any], agent: httpx.Client) -> None:
    agent.put(f"/workspaces/{workspace['id']}/files/content?path=/home/user/main.py", content=b'"""Doc."""\nx = 1\n')
    agent.post(f"/workspaces/{workspace['id']}/execs", json={"command": "echo out; exit 3"})
    open_workspace(dressed, workspace)
    new_terminal(dressed)
    open_file(dressed, "main.py")
    dressed.locator(".step", has_text="exit 3").get_by_role("button").click()
    expect(dressed.locator(".step pre")).to_be_visible()
    no_barriers(dressed)
    for part in ("Activity", "Terminal", "Files", "Editor"):
        dressed.set_viewport_size(PHONE)
        dressed.get_by_role("navigation").get_by_role("button", name=part).click()
        no_barriers(dressed)
        no_sideways_scrolling(dressed)


def test_a_workspace_at_rest_has_no_barriers(dressed: Page, workspace: dict[str, Any], agent: httpx.Client) -> None:
    agent.post(f"/workspaces/{workspace['id']}/stop?wait=true")
    dressed.goto(f"/workspaces/{workspace['id']}")
    expect(state_of(dressed)).to_have_text("Stopped")
    no_barriers(dressed)
    no_sideways_scrolling(dressed)


def test_the_switch_of_colours_is_kept_and_nothing_flashes(page: Page) -> None:
    page.goto("/")
    page.get_by_role("button", name=re.compile("Colours: as the system")).click()
    page.get_by_role("button", name=re.compile("Colours: light")).click()
    served = page.reload()
    assert served is not None
    assert '<html lang="en" data-theme="dark">' in served.text(), "the server writes the choice into the page"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(16, 19, 22)"


def test_every_action_of_the_list_is_reached_by_keyboard(page: Page, workspace: dict[str, Any]) -> None:
    page.goto("/")
    wanted = {f"Stop {workspace['name']}", f"Delete {workspace['name']}"}
    expect(page.get_by_role("button", name=f"Stop {workspace['name']}")).to_be_visible()
    seen: set[str] = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.getAttribute('aria-label') || ''"))
    assert wanted <= seen


def test_pages_carry_no_inline_code_and_a_policy_that_would_stop_it(page: Page, workspace: dict[str, Any]) -> None:
    for address in ("/", f"/workspaces/{workspace['id']}"):
        answer = page.goto(address)
        assert answer is not None
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self';" in policy
        assert "unsafe-eval" not in policy
        scripts = re.findall(r"<script([^>]*)>", answer.text())
        assert scripts, "the page has its script"
        assert all("src=" in one or 'type="application/json"' in one for one in scripts)
        assert not re.search(r"\son\w+=|\sstyle=|<style", answer.text())


def test_the_first_load_is_small() -> None:
    manifest = json.loads((DIST / "manifest.json").read_text())
    needed = ["src/main.ts"]
    for name in needed:
        needed.extend(one for one in manifest[name].get("imports", []) if one not in needed)
    size = sum(len(gzip.compress((DIST / manifest[name]["file"]).read_bytes())) for name in needed)
    assert size < FIRST_LOAD_LIMIT_BYTES


def test_the_lock_file_names_no_registry() -> None:
    packages = json.loads((ROOT / "frontend" / "package-lock.json").read_text())["packages"]
    assert not [name for name, about in packages.items() if "resolved" in about]
    assert all("integrity" in about for name, about in packages.items() if name)
