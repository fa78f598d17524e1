"""Ports, as a person meets them: what listens appears by itself, with its program, and goes with it."""

from __future__ import annotations

import re
from typing import Any

import httpx
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Watch
from tests.browser.hands import open_workspace
from tests.browser.test_looks import no_barriers, no_sideways_scrolling
from tests.stack import free_port


def served(agent: httpx.Client, workspace: dict[str, Any]) -> int:
    port = free_port()
    agent.put(f"/workspaces/{workspace['id']}/files/content?path=/home/user/www/index.html&parents=true",
              content=b"<title>hello</title><h1>It works</h1>").raise_for_status()
    agent.post(f"/workspaces/{workspace['id']}/execs", json={
        "command": f"cd www && exec python3 -m http.server --bind 127.0.0.1 {port}", "background": True})
    return port


def row_of(page: Page, port: int) -> Locator:
    return page.locator(f'[data-port="{port}"]')


def test_a_port_appears_by_itself_with_its_program_and_goes_with_it(
        page: Page, workspace: dict[str, Any], agent: httpx.Client, watch: Watch) -> None:
    watch.provoked.append("/shares")  # where ports cannot be shared yet, the list stands without shares
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
    expect(row).to_have_count(0)
    stamp = agent.get(f"/workspaces/{workspace['id']}").json()["last_activity_kind"]
    assert stamp == "exec", "looking at the ports is no use of a workspace"
