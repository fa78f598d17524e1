"""An agent's act that waits for a member, as the person beside it sees it: asked for live, allowed, refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.hands import more, open_workspace
from tests.browser.test_looks import PHONE, no_barriers, no_sideways_scrolling
from tests.stack import until


@pytest.fixture
def guarded(agent: httpx.Client) -> Iterator[dict[str, Any]]:
    made = agent.post("/workspaces?wait=true", json={"name": "guarded", "approvals": {"exec": ["rm *"]}})
    assert made.json()["state"] == "running", made.text
    yield made.json()
    agent.delete(f"/workspaces/{made.json()['id']}?purge=true")


def asks(agent: httpx.Client, workspace: dict[str, Any], command: str) -> str:
    held = agent.post(f"/workspaces/{workspace['id']}/execs", json={"command": command, "background": True})
    assert held.json()["state"] == "pending_approval", held.text
    return f"/workspaces/{workspace['id']}/execs/{held.json()['id']}"


def ended(agent: httpx.Client, path: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        said: dict[str, Any] = agent.get(f"{path}?wait_s=2").json()
        return said if said["state"] == "ended" else None
    return dict(until(look, "its end"))


def test_a_request_appears_by_itself_and_is_decided_on_the_page(
        page: Page, guarded: dict[str, Any], agent: httpx.Client) -> None:
    open_workspace(page, guarded)
    bar = page.get_by_role("region", name="Waiting for approval")
    expect(bar).to_have_count(0)
    first = asks(agent, guarded, "rm -f a; echo '<b>done</b>'")
    expect(bar.locator(".approval-command")).to_have_text("rm -f a; echo '<b>done</b>'")
    bar.get_by_role("button", name="Approve").click()
    expect(bar).to_have_count(0)
    assert ended(agent, first)["stdout"] == "<b>done</b>\n"
    expect(page.locator(".step", has_text="Wants to run").first).to_contain_text("approved by admin")

    second = asks(agent, guarded, "rm -f b")
    bar.get_by_role("group", name="wants to run").focus()
    page.keyboard.press("d")
    expect(bar).to_have_count(0)
    assert ended(agent, second)["outcome"] == {"kind": "refused", "code": "approval_denied"}
    expect(page.locator(".step", has_text="rm -f b").first).to_contain_text("denied by admin")


def test_what_waits_is_chosen_on_the_page_and_holds_at_once(
        page: Page, workspace: dict[str, Any], agent: httpx.Client) -> None:
    open_workspace(page, workspace)
    more(page, "Approvals")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Commands").fill("rm *\n\n git push *")
    dialog.get_by_label("Deleting the workspace").check()
    dialog.get_by_label("Minutes").fill("2")
    no_barriers(page)
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    assert agent.get(f"/workspaces/{workspace['id']}").json()["approvals"] == {
        "exec": ["rm *", "git push *"], "restore": False, "delete": True, "timeout_s": 120}
    asks(agent, workspace, "rm -f a")
    expect(page.get_by_role("region", name="Waiting for approval")).to_be_visible()
    more(page, "Approvals")
    expect(dialog.get_by_label("Commands")).to_have_value("rm *\ngit push *")


def test_a_request_fits_a_phone_and_keeps_nobody_out(
        page: Page, guarded: dict[str, Any], agent: httpx.Client) -> None:
    page.set_viewport_size(PHONE)
    asks(agent, guarded, "rm -rf " + "a-very-long-name/" * 40)
    open_workspace(page, guarded)
    bar = page.get_by_role("region", name="Waiting for approval")
    expect(bar.get_by_role("button", name="Deny")).to_be_visible()
    no_sideways_scrolling(page)
    no_barriers(page)
    bar.get_by_role("button", name="Deny").click()
    expect(bar).to_have_count(0)
