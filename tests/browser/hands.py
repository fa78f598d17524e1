"""What a person does with hands and eyes, so that tests read as sentences. Called by tests; knows only what is seen."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Locator, Page, expect

PASSWORD = "a long enough passphrase"


def set_password(page: Page, code: str) -> None:
    page.goto("/sign-in?setup")
    page.get_by_label("One-time code").fill(code)
    page.get_by_label("New password").fill(PASSWORD)
    page.get_by_role("button", name="Set password").click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()


def sign_in(page: Page, user: str = "admin", password: str = PASSWORD) -> None:
    page.get_by_label("User name").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def open_workspace(page: Page, workspace: dict[str, Any]) -> None:
    page.goto(f"/workspaces/{workspace['id']}")
    expect(state_of(page)).to_have_text("Running")


def state_of(page: Page) -> Locator:
    return page.locator(".statusbar .state-word")


def more(page: Page, what: str) -> None:
    """Chooses from the header's list of what is wanted less often."""
    page.get_by_role("button", name="More about this workspace").click()
    page.get_by_role("group", name="More about this workspace").get_by_role("button", name=what, exact=True).click()


def new_terminal(page: Page) -> Locator:
    """Opens a shell and waits until it has asked for a command."""
    page.get_by_role("button", name="New terminal").last.click()
    return prompted(page)


def prompted(page: Page) -> Locator:
    rows = page.locator(".xterm-rows")
    expect(rows).to_contain_text("$")
    return rows


def type_line(page: Page, text: str) -> None:
    page.locator(".xterm-helper-textarea").focus()
    page.keyboard.insert_text(text)
    page.keyboard.press("Enter")


def place_of(page: Page, text: str) -> tuple[float, float]:
    """Where a terminal's line that begins with `text` begins: its screen takes the mouse, not its rows."""
    row = page.locator(".xterm-rows > div", has_text=re.compile(f"^{re.escape(text)}"))
    expect(row).to_be_visible()
    box = row.bounding_box()
    assert box is not None
    return box["x"] + 16, box["y"] + box["height"] / 2


def entry(page: Page, name: str) -> Locator:
    return page.locator(".entry", has=page.get_by_text(name, exact=True))


def tree_menu(page: Page, name: str) -> Locator:
    """What may be done with an entry, opened as a mouse opens it."""
    entry(page, name).click(button="right")
    return page.get_by_role("menu")


def open_file(page: Page, name: str) -> Locator:
    entry(page, name).click()
    content = page.locator(".cm-content")
    expect(content).to_be_visible()
    return content


def type_at_end(page: Page, text: str) -> None:
    page.locator(".cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text(text)


def banner(page: Page) -> Locator:
    return page.locator(".banner.conflict")


def tab(page: Page, name: str) -> Locator:
    return page.locator(".editor-pane .tab", has_text=name)
