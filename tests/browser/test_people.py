"""One's own tokens, the members of a workspace, and an admin's way in, as people meet them."""

from __future__ import annotations

import re
from typing import Any

import httpx
from playwright.sync_api import Page, expect

from tests.browser.conftest import Watch, agent_of
from tests.browser.hands import more, open_workspace, state_of
from tests.browser.test_looks import no_barriers, no_sideways_scrolling
from tests.stack import Stack


def test_a_token_is_made_shown_once_used_and_revoked(
        page: Page, workspace: dict[str, Any], agent: httpx.Client, stack: Stack) -> None:
    page.goto("/")
    page.get_by_role("link", name="admin", exact=True).click()
    page.get_by_role("button", name="New token").click()
    dialog = page.get_by_role("dialog")
    no_barriers(page)
    dialog.get_by_label("Name").fill("reader <b>")
    for words in ("Make, start, stop", "Run commands", "Write files", "Take checkpoints", "Change what", "Make secrets",
                  "Reach ports"):
        dialog.get_by_label(words).uncheck()
    dialog.get_by_label(workspace["name"], exact=True).check()
    dialog.get_by_label("1 day").check()
    dialog.get_by_role("button", name="Make it").click()
    page.get_by_role("button", name="Copy").click()
    secret = page.evaluate("navigator.clipboard.readText()")
    assert secret.startswith("berth_") and secret == page.get_by_label("Secret", exact=True).inner_text()

    row = page.locator(".token", has_text="reader <b>")
    expect(row).to_contain_text("files:read, workspaces:read")
    expect(row).to_contain_text(workspace["name"])
    expect(row).to_contain_text("never used")
    expect(row).to_contain_text(re.compile("ends (tomorrow|in)"))
    program = httpx.Client(base_url=f"{stack.base_url}/api/v1", headers={"Authorization": f"Bearer {secret}"},
                           timeout=60)
    assert program.get(f"/workspaces/{workspace['id']}").status_code == 200
    assert program.post(f"/workspaces/{workspace['id']}/stop").json()["code"] == "scope_missing"
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        no_barriers(page)
    no_sideways_scrolling(page)
    no_barriers(page)
    page.reload()
    expect(page.get_by_label("Secret", exact=True)).to_have_count(0)
    expect(row).to_contain_text("used just now")
    row.get_by_role("button", name="Revoke").click()
    dialog.get_by_role("button", name="Revoke").click()
    expect(row).to_have_count(0)
    assert program.get(f"/workspaces/{workspace['id']}").status_code == 401


def test_people_are_let_in_given_a_role_and_taken_out(
        page: Page, workspace: dict[str, Any], stack: Stack, watch: Watch) -> None:
    watch.provoked.append("/members")
    with agent_of(stack, "bob") as bob:
        open_workspace(page, workspace)
        more(page, "Members")
        dialog = page.get_by_role("dialog")
        expect(dialog.locator(".member")).to_contain_text("admin (you)")
        dialog.get_by_label("Name").fill("nobody-here")
        dialog.get_by_role("button", name="Let in").click()
        expect(dialog.get_by_role("alert")).to_be_visible()
        dialog.get_by_label("Name").fill("bob")
        dialog.get_by_role("button", name="Let in").click()
        row = dialog.locator(".member", has_text="bob")
        expect(row).to_be_visible()
        expect(dialog.get_by_label("Name")).to_have_value("")
        assert bob.get(f"/workspaces/{workspace['id']}").json()["role"] == "viewer"
        no_barriers(page)
        row.get_by_label("Role of bob").select_option("operator")
        expect(row.get_by_label("Role of bob")).to_have_value("operator")
        expect(page.locator(".step", has_text="Member changed")).to_have_count(1)
        assert bob.get(f"/workspaces/{workspace['id']}").json()["role"] == "operator"
        dialog.get_by_role("button", name="Take bob out").click()
        expect(row).to_have_count(0)
        assert bob.get(f"/workspaces/{workspace['id']}").status_code == 404


def test_an_admin_breaks_the_glass_with_a_reason_that_the_owner_sees(page: Page, stack: Stack, watch: Watch) -> None:
    watch.provoked.append("/workspaces/")
    with agent_of(stack, "bob") as bob:
        theirs = bob.post("/workspaces?wait=true", json={"name": "theirs"}).json()
        page.goto(f"/workspaces/{theirs['id']}")
        page.get_by_role("button", name="Break the glass").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Why").fill("its agent runs wild")
        no_barriers(page)
        dialog.get_by_role("button", name="Break the glass").click()
        expect(state_of(page)).to_have_text("Running")
        more(page, "Members")
        expect(dialog.locator(".member", has_text="admin")).to_contain_text(
            re.compile("Broke the glass: “its agent runs wild”.*ends in"))
        kinds = [one["kind"] for one in bob.get(f"/workspaces/{theirs['id']}/events").json()["results"]]
        assert "member.break_glass" in kinds
        bob.delete(f"/workspaces/{theirs['id']}?purge=true")
