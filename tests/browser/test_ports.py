"""Ports, as a person meets them: what listens appears by itself, is seen in a pane, shared with others and revoked."""

from __future__ import annotations

import re
from typing import Any

import httpx
from playwright.sync_api import Browser, Page, expect

from tests.browser.hands import state_of
from tests.browser.test_looks import no_barriers, no_sideways_scrolling
from tests.stack import Stack, free_port


def test_a_port_appears_is_seen_in_a_pane_shared_by_link_and_revoked(
        page: Page, workspace: dict[str, Any], agent: httpx.Client, browser: Browser, stack: Stack) -> None:
    # Previews are names below the app's own, so the app is come to by its name.
    page.context.add_cookies([{**one, "domain": "localhost"} for one in page.context.cookies()])  # type: ignore[list-item]
    page.goto(f"http://localhost:{stack.port}/workspaces/{workspace['id']}")
    expect(state_of(page)).to_have_text("Running")
    page.get_by_role("tab", name="Ports").click()
    port = free_port()
    row = page.locator(f'[data-port="{port}"]')
    expect(row).to_have_count(0)
    agent.put(f"/workspaces/{workspace['id']}/files/content?path=/home/user/www/index.html&parents=true",
              content=b"<title>hello</title><h1>It works</h1>").raise_for_status()
    agent.post(f"/workspaces/{workspace['id']}/execs", json={
        "command": f"cd www && exec python3 -m http.server --bind 127.0.0.1 {port}", "background": True})
    expect(row).to_contain_text("on 127.0.0.1")
    expect(row).to_contain_text("python3")

    row.get_by_role("button", name=f"Preview of port {port}").click()
    frame = page.frame_locator(f'iframe[title="Preview of port {port}"]')
    expect(frame.get_by_role("heading", name="It works")).to_be_visible()
    row.get_by_role("button", name=f"Share of port {port}").click()
    dialog = page.get_by_role("dialog")
    no_barriers(page)
    dialog.get_by_label("1 hour").check()
    dialog.get_by_role("button", name="Share", exact=True).click()
    expect(row).to_contain_text("Shared with whoever has the link")
    expect(row).to_contain_text("ends in 1 hr.")
    row.get_by_role("button", name="Copy the link").click()
    link = page.evaluate("navigator.clipboard.readText()")

    stranger = browser.new_context()
    visitor = stranger.new_page()
    visitor.goto(link)
    expect(visitor.get_by_role("heading", name="It works")).to_be_visible()
    assert "berth_share" not in visitor.url
    row.get_by_role("button", name="Revoke").click()
    expect(row).not_to_contain_text("Shared with")
    refused = visitor.reload()
    assert refused is not None and refused.status in (401, 403)
    stranger.close()

    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        no_barriers(page)
    page.get_by_role("button", name="Close the preview", exact=True).click()
    expect(page.locator("iframe")).to_have_count(0)
    no_sideways_scrolling(page)
    page.get_by_role("navigation").get_by_role("button", name="Ports").click()
    no_barriers(page)
    expect(row.get_by_role("link", name=re.compile("in a tab"))).to_have_attribute("rel", "noopener noreferrer")
