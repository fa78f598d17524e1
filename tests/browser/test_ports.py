"""Ports, as a person meets them: what listens appears by itself, is seen in a pane, shared with others and revoked."""

from __future__ import annotations

import re
from typing import Any

import httpx
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.hands import open_workspace, state_of
from tests.browser.test_looks import no_barriers, no_sideways_scrolling
from tests.stack import Stack, until

#: Takes a free port itself, and says which.
SERVER = ("import http.server as h; s = h.ThreadingHTTPServer(('127.0.0.1', 0), "
          "h.SimpleHTTPRequestHandler); print(s.server_port, flush=True); s.serve_forever()")


def served(agent: httpx.Client, workspace: dict[str, Any]) -> int:
    agent.put(f"/workspaces/{workspace['id']}/files/content?path=/home/user/www/index.html&parents=true",
              content=b"<title>hello</title><h1>It works</h1>").raise_for_status()
    begun = agent.post(f"/workspaces/{workspace['id']}/execs", json={
        "command": f'cd www && exec python3 -c "{SERVER}"', "background": True}).raise_for_status().json()
    said = f"/workspaces/{workspace['id']}/execs/{begun['id']}/output"
    return int(until(lambda: agent.get(said).raise_for_status().text, "the server says its port"))


def row_of(page: Page, port: int) -> Locator:
    return page.locator(f'[data-port="{port}"]')


def test_a_port_appears_by_itself_with_its_program_and_goes_with_it(
        page: Page, workspace: dict[str, Any], agent: httpx.Client) -> None:
    open_workspace(page, workspace)
    page.get_by_role("tab", name="Ports").click()
    expect(page.locator(".ports > *").first).to_be_visible()
    row = row_of(page, served(agent, workspace))
    expect(row).to_contain_text("on 127.0.0.1")
    expect(row).to_contain_text("python3")
    expect(row.get_by_role("link", name=re.compile("in a tab"))).to_have_attribute("rel", "noopener noreferrer")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        no_barriers(page)
    no_sideways_scrolling(page)
    page.get_by_role("navigation").get_by_role("button", name="Ports").click()
    no_barriers(page)
    running = agent.get(f"/workspaces/{workspace['id']}/execs?state=running").json()["results"]
    agent.delete(f"/workspaces/{workspace['id']}/execs/{running[0]['id']}")
    expect(row).to_have_count(0, timeout=60_000)


def test_a_preview_stands_in_a_pane_is_shared_by_a_link_and_revoked(
        page: Page, workspace: dict[str, Any], agent: httpx.Client, browser: Browser, stack: Stack) -> None:
    # Previews are names below the app's own, so the app is come to by its name.
    page.context.add_cookies([{**one, "domain": "localhost"} for one in page.context.cookies()])  # type: ignore[list-item]
    page.goto(f"http://localhost:{stack.port}/workspaces/{workspace['id']}")
    expect(state_of(page)).to_have_text("Running")
    page.get_by_role("tab", name="Ports").click()
    port = served(agent, workspace)
    row = row_of(page, port)
    row.get_by_role("button", name=f"Preview of port {port}").click()
    frame = page.frame_locator(f'iframe[title="Preview of port {port}"]')
    expect(frame.get_by_role("heading", name="It works")).to_be_visible()
    row.get_by_role("button", name=f"Share of port {port}").click()
    dialog = page.get_by_role("dialog")
    no_barriers(page)
    dialog.get_by_label("1 hour").check()
    dialog.get_by_role("button", name="Share", exact=True).click()
    expect(row).to_contain_text("Shared with whoever has the link")
    expect(row).to_contain_text(re.compile("ends (tomorrow|in)"))
    row.get_by_role("button", name="Copy the link").click()
    expect(page.get_by_text("The link is copied")).to_be_visible()
    link = page.evaluate("navigator.clipboard.readText()")

    stranger = browser.new_context()
    visitor = stranger.new_page()
    visitor.goto(link)
    expect(visitor.get_by_role("heading", name="It works")).to_be_visible()
    assert "berth_share" not in visitor.url
    row.get_by_role("button", name="Revoke").click()
    expect(row).not_to_contain_text("Shared with")
    visitor.reload()
    expect(visitor.get_by_role("heading", name="It works")).to_have_count(0)
    stranger.close()
    page.get_by_role("button", name="Close the preview", exact=True).click()
    expect(page.locator("iframe")).to_have_count(0)
