"""Signing in, the list, creating and deleting: the way into a workspace and out of it."""

from __future__ import annotations

import httpx
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import Watch, agent_of
from tests.browser.hands import PASSWORD, sign_in, state_of
from tests.stack import Stack


def stranger(browser: Browser, stack: Stack, watch: Watch) -> Page:
    return watch.on(browser.new_context(base_url=stack.base_url).new_page())


def test_a_stranger_is_led_to_sign_in_and_then_to_where_they_wanted(
        browser: Browser, stack: Stack, session_state: object, watch: Watch) -> None:
    page = stranger(browser, stack, watch)
    page.goto("/?from=a-link")
    expect(page).to_have_url(f"{stack.base_url}/sign-in?next=/%3Ffrom%3Da-link")
    sign_in(page)
    expect(page).to_have_url(f"{stack.base_url}/?from=a-link")
    expect(page.get_by_role("heading", name="Workspaces")).to_be_visible()


def test_a_wrong_password_is_said_and_what_was_typed_stays(
        browser: Browser, stack: Stack, session_state: object, watch: Watch) -> None:
    watch.provoked.append("/api/v1/session")
    page = stranger(browser, stack, watch)
    page.goto("/sign-in")
    sign_in(page, password="not this one at all")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("User name")).to_have_value("admin")


def test_a_link_cannot_lead_to_another_site_after_sign_in(
        browser: Browser, stack: Stack, session_state: object, watch: Watch) -> None:
    for evil in ("https://example.org/", "//example.org/", "/\\example.org", "javascript:alert(1)"):
        page = stranger(browser, stack, watch)
        page.goto(f"/sign-in?next={evil}")
        sign_in(page)
        expect(page).to_have_url(f"{stack.base_url}/")


def test_the_one_time_code_works_once(
        browser: Browser, stack: Stack, code: str, session_state: object, watch: Watch) -> None:
    watch.provoked.append("/api/v1/session/setup")
    page = stranger(browser, stack, watch)
    page.goto("/sign-in?setup")
    page.get_by_label("One-time code").fill(code)
    page.get_by_label("New password").fill(PASSWORD + " again")
    page.get_by_role("button", name="Set password").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_role("button", name="Sign out")).to_have_count(0)


def test_signing_out_ends_the_session_everywhere(
        browser: Browser, stack: Stack, session_state: object, watch: Watch) -> None:
    page = stranger(browser, stack, watch)
    page.goto("/sign-in")
    sign_in(page)
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(f"{stack.base_url}/sign-in")
    page.goto("/")
    expect(page.get_by_label("Password")).to_be_visible()


def test_a_workspace_is_created_watched_until_it_runs_and_deleted(page: Page) -> None:
    page.goto("/")
    page.get_by_role("button", name="New workspace").click()
    page.get_by_role("textbox", name="Name").fill("first-light")
    page.get_by_role("button", name="Create").click()
    row = page.locator("tr", has_text="first-light")
    expect(row.locator(".state-word")).to_have_text("Running")  # without a reload: the page is told
    row.get_by_role("link", name="first-light").click()
    expect(state_of(page)).to_have_text("Running")
    expect(page.locator(".xterm-rows")).to_contain_text("$")  # who has just made it wants to type
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("heading", name="Delete first-light?")).to_be_visible()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="Workspaces")).to_be_visible()
    expect(page.locator("tr", has_text="first-light")).to_have_count(0)


def test_a_name_that_is_taken_is_said_in_the_dialog(page: Page, workspace: dict[str, str], watch: Watch) -> None:
    watch.provoked.append("/api/v1/workspaces")
    page.goto("/")
    page.get_by_role("button", name="New workspace").click()
    page.get_by_role("textbox", name="Name").fill(workspace["name"])
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_be_visible()
    expect(page.get_by_role("textbox", name="Name")).to_have_value(workspace["name"])


def test_the_list_follows_what_an_agent_does_elsewhere(page: Page, agent: httpx.Client) -> None:
    page.goto("/")
    made = agent.post("/workspaces", json={"name": "made-by-an-agent"}).json()
    row = page.locator("tr", has_text="made-by-an-agent")
    expect(row.locator(".state-word")).to_have_text("Running")
    agent.post(f"/workspaces/{made['id']}/stop")
    expect(row.locator(".state-word")).to_have_text("Stopped")
    agent.delete(f"/workspaces/{made['id']}?purge=true")
    expect(row).to_have_count(0)


def test_stop_names_what_happens_and_start_brings_it_back(page: Page, workspace: dict[str, str]) -> None:
    page.goto(f"/workspaces/{workspace['id']}")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("Files are safe")
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    expect(state_of(page)).to_have_text("Stopped")
    page.get_by_role("button", name="Start the workspace").click()
    expect(state_of(page)).to_have_text("Running")
    expect(page.locator(".xterm-rows")).to_contain_text("$")


def test_somebody_elses_workspace_looks_like_none(
        context: BrowserContext, stack: Stack, watch: Watch) -> None:
    watch.provoked.append("/workspaces/")
    with agent_of(stack, "somebody") as other:
        theirs = other.post("/workspaces", json={"name": "private"}).json()
        page = watch.on(context.new_page())
        for address in (theirs["id"], "a" * 20):
            answer = page.goto(f"/workspaces/{address}")
            assert answer is not None and answer.status == 404
            expect(page.get_by_role("heading", name="There is no such workspace")).to_be_visible()
        other.delete(f"/workspaces/{theirs['id']}?purge=true")
