"""Signing in, the list, creating and deleting: the way into a workspace and out of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.browser.conftest import WIDE, Watch, agent_of
from tests.browser.hands import PASSWORD, more, set_password, sign_in, state_of
from tests.browser.test_looks import no_barriers, no_sideways_scrolling
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
    more(page, "Delete")
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


@pytest.fixture
def crowd(stack: Stack, browser: Browser, session_state: object, watch: Watch) -> Iterator[Page]:
    """The page of an admin who owns 130 workspaces, with room for one more that is small."""
    with httpx.Client(base_url=f"{stack.base_url}/api/v1", timeout=60,
                      headers={"Authorization": f"Bearer {stack.token('crowd', '--admin')}"}) as api:
        terms = {"workspaces": {"value": 200}, "disk_gib": {"value": 5000}, "memory_mib": {"value": 1024},
                 "standby_after_s": {"upper_bound": 3600, "value": 900}}
        assert api.put("/policies/user:crowd", json={"terms": terms}).status_code == 200
    stack.manage("berth_rows", "crowd", "130")
    found = re.search(r"^\s+([A-Z2-9]{4}(?:-[A-Z2-9]{4})+)$", stack.manage("berth_admin", "crowd"), re.MULTILINE)
    assert found
    context = browser.new_context(base_url=stack.base_url, viewport=WIDE)
    context.set_default_timeout(60_000)
    page = watch.on(context.new_page())
    set_password(page, found.group(1))
    yield page
    context.close()


def rows_of(page: Page) -> Locator:
    return page.locator(".workspaces tbody tr")


def test_a_long_list_is_paged_searched_filtered_and_sorted_by_the_server(crowd: Page, stack: Stack) -> None:
    expect(rows_of(crowd)).to_have_count(50)
    expect(crowd.get_by_label("What you use of your quota")).to_contain_text("130 of 200 workspaces")
    crowd.get_by_role("button", name="Next").click()
    expect(crowd.get_by_text("51–100")).to_be_visible()
    crowd.get_by_role("button", name="Next").click()
    expect(rows_of(crowd)).to_have_count(30)
    expect(crowd.get_by_role("button", name="Next")).to_be_disabled()
    crowd.get_by_role("button", name="Back").click()
    expect(crowd.get_by_text("51–100")).to_be_visible()

    search = crowd.get_by_role("searchbox", name="Search")
    search.fill("ROW-7")
    expect(rows_of(crowd)).to_have_count(11)
    expect(crowd).to_have_url(f"{stack.base_url}/?search=ROW-7")
    search.press("End")
    search.press_sequentially(" n=7")
    search.press("Enter")
    expect(rows_of(crowd)).to_have_count(1)
    crowd.reload()
    expect(rows_of(crowd).get_by_role("link")).to_have_text(["row-7"])
    rows_of(crowd).get_by_role("button", name="n=7").click()  # what it has is what one looks for already
    search.fill("")
    expect(rows_of(crowd)).to_have_count(2)
    crowd.get_by_role("button", name="No longer only n=7").click()
    expect(rows_of(crowd)).to_have_count(50)

    crowd.get_by_role("button", name="Name").click()
    expect(crowd.get_by_role("columnheader", name="Name")).to_have_attribute("aria-sort", "ascending")
    expect(rows_of(crowd).first.get_by_role("link")).to_have_text("row-0")
    crowd.get_by_role("button", name="Name").click()
    expect(rows_of(crowd).first.get_by_role("link")).to_have_text("row-99")
    rows_of(crowd).first.get_by_role("link").focus()
    crowd.keyboard.press("ArrowDown")
    expect(rows_of(crowd).nth(1).get_by_role("link")).to_be_focused()
    for scheme in ("light", "dark"):
        crowd.emulate_media(color_scheme=scheme)
        no_barriers(crowd)
    crowd.get_by_label("State", exact=True).select_option("Failed")
    crowd.get_by_role("button", name="Show all").click()
    expect(rows_of(crowd)).to_have_count(50)

    theirs = stack.workspace("bob", name="of-another")
    crowd.get_by_role("button", name="Everybody’s").click()
    search.fill("of-another")
    expect(rows_of(crowd)).to_contain_text(["bob"])
    with agent_of(stack, "bob") as bob:
        bob.post(f"/workspaces/{theirs['id']}/stop")
        expect(rows_of(crowd).locator(".state-word")).to_have_text("Stopped")
        no_sideways_scrolling(crowd)
        no_barriers(crowd)
        bob.delete(f"/workspaces/{theirs['id']}?purge=true")


def test_the_dialog_says_what_quota_leaves_and_what_is_wrong_beside_its_field(crowd: Page, watch: Watch) -> None:
    watch.provoked.append("/api/v1/workspaces")
    crowd.get_by_role("button", name="New workspace").click()
    dialog = crowd.get_by_role("dialog")
    expect(dialog).to_contain_text("1 GiB left")
    dialog.get_by_label("Memory, MiB").fill("2048")
    expect(dialog.get_by_role("alert")).to_have_text("More than is left of your quota: 1 GiB of 1 GiB.")
    no_barriers(crowd)
    dialog.get_by_label("Memory, MiB").fill("512")
    expect(dialog.get_by_role("alert")).to_have_count(0)
    expect(dialog.get_by_label("Standby when idle").locator("option")).to_have_text(
        ["after 15 min, by policy", "after 5 min", "after 15 min", "after 1 h"])  # no more than policy lets one
    dialog.get_by_label("Standby when idle").select_option("after 5 min")
    dialog.get_by_label("Name").fill("row-1")
    dialog.get_by_label("Labels").fill("team=a oops")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_contain_text("“oops” is no label")
    expect(dialog.get_by_label("Labels")).to_be_focused()
    dialog.get_by_label("Labels").fill("team=a, env=test")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_contain_text("another workspace named")
    expect(dialog.get_by_label("Name")).to_be_focused()
    dialog.get_by_label("Name").fill("small one")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog).to_have_count(0)
    row = rows_of(crowd).filter(has_text="small one")
    expect(row.locator(".state-word")).to_have_text("Running")
    expect(row.locator(".label")).to_have_text(["env=test", "team=a"])
    address = f"/api/v1/workspaces/{row.get_attribute('data-workspace')}"
    made = crowd.request.get(address).json()
    assert made["idle"] == {"standby_after_s": 300} and made["image"] == "default"

    row.get_by_role("button", name="Delete small one").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)
    crowd.get_by_label("State", exact=True).select_option("In the trash")
    row.get_by_role("button", name="Bring small one back").click()
    expect(row).to_have_count(0)
    crowd.get_by_label("State", exact=True).select_option("Any state")
    expect(row.locator(".state-word")).to_have_text("Stopped")
    token = crowd.evaluate("JSON.parse(document.getElementById('page-data').textContent).csrf")
    assert crowd.request.delete(f"{address}?purge=true", headers={"X-CSRFToken": token}).status == 202
    expect(row).to_have_count(0)
