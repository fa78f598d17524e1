"""The admins' pages as an admin walks them: hosts, people and their quotas, policies with their dry run, the audit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import WIDE, Watch, agent_of
from tests.browser.hands import set_password
from tests.browser.test_looks import no_barriers, no_sideways_scrolling
from tests.stack import Stack


@pytest.fixture
def admin(stack: Stack) -> Any:
    """The same admin's program, which may administer."""
    with httpx.Client(base_url=f"{stack.base_url}/api/v1", timeout=60,
                      headers={"Authorization": f"Bearer {stack.token('admin', '--admin')}"}) as client:
        yield client


def looked_over(page: Page) -> None:
    """Light and dark, wide and on a phone."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        no_barriers(page)
    no_sideways_scrolling(page)
    no_barriers(page)
    page.set_viewport_size(WIDE)


def test_a_host_shows_what_it_has_and_is_closed_drained_and_opened_again(
        page: Page, workspace: dict[str, Any], admin: httpx.Client) -> None:
    (host,) = admin.get("/hosts").json()["results"]
    page.goto("/")
    page.get_by_role("link", name="Admin", exact=True).click()
    card = page.locator(".host")
    expect(card.get_by_role("heading")).to_contain_text(host["name"])
    expect(card.locator(".state-word")).to_have_text("Open")
    expect(card.get_by_label(re.compile("^Capacity"))).to_contain_text("spoken for of")
    expect(card).to_contain_text(host["version"])
    looked_over(page)
    card.get_by_role("button", name=re.compile("^Close")).click()
    expect(card.locator(".state-word")).to_have_text("Closed")
    assert admin.get("/hosts").json()["results"][0]["schedulable"] is False
    card.get_by_role("button", name=re.compile("^Open")).click()
    expect(card.locator(".state-word")).to_have_text("Open")
    try:
        card.get_by_role("button", name=re.compile("^Drain")).click()
        no_barriers(page)
        page.get_by_role("dialog").get_by_role("button", name="Drain").click()
        expect(card.locator(".state-word")).to_have_text("Draining")
        page.goto("/")
        row = page.locator("tr", has_text=workspace["name"])
        expect(row.locator(".state")).to_contain_text(re.compile("Stopped.*host draining"))
        page.goto("/manage/hosts")
        card.get_by_role("button", name=re.compile("^End draining")).click()
        expect(card.locator(".state-word")).to_have_text("Open")
    finally:
        admin.patch(f"/hosts/{host['id']}", json={"draining": False, "schedulable": True})
    page.goto("/")
    expect(row.locator(".state-word")).to_have_text("Running")


def signs_in_and_is_no_admin(page: Page, code: str) -> None:
    set_password(page, code)
    expect(page.get_by_role("heading", name="Workspaces")).to_be_visible()
    expect(page.get_by_role("link", name="Admin", exact=True)).to_have_count(0)
    for section, status, words in (("hosts", 403, "This page is for admins"), ("x", 404, "There is no such page")):
        answer = page.goto(f"/manage/{section}")
        assert answer is not None and answer.status == status
        expect(page.get_by_role("heading", name=words)).to_be_visible()
    no_barriers(page)
    page.close()


def has_limits_set(page: Page, row: Locator, admin: httpx.Client) -> None:
    """And taken away again."""
    dialog = page.get_by_role("dialog")
    row.get_by_role("button", name="Quota of newcomer").click()
    expect(dialog).to_contain_text("0 used; now 32 (built in)")
    dialog.get_by_label("Workspaces").fill("many")
    dialog.get_by_role("button", name="Set").click()
    expect(dialog.get_by_role("alert")).to_have_text("A whole number, or no limit.")
    dialog.get_by_label("Workspaces").fill("1")
    dialog.get_by_label("CPUs").fill("no limit")
    no_barriers(page)
    dialog.get_by_role("button", name="Set").click()
    expect(row).to_contain_text("0 of 1 workspaces")
    assert admin.get("/policies/user:newcomer").json()["terms"] == {"workspaces": {"value": 1}, "cpus": {"value": None}}
    row.get_by_role("button", name="Quota of newcomer").click()
    expect(dialog.get_by_label("Workspaces")).to_have_value("1")
    expect(dialog.get_by_label("CPUs")).to_have_value("no limit")
    dialog.get_by_label("Workspaces").fill("")
    dialog.get_by_role("button", name="Set").click()
    expect(row).to_contain_text("0 of 32 workspaces")


def test_somebody_new_gets_a_code_a_quota_and_is_switched_off_and_let_in_again(
        page: Page, stack: Stack, browser: Browser, admin: httpx.Client, watch: Watch) -> None:
    watch.provoked += ["/api/v1/users", "/manage/", "/api/v1/me", "401"]
    dialog = page.get_by_role("dialog")
    page.goto("/manage/people")
    page.get_by_role("button", name="New person").click()
    dialog.get_by_label("Name").fill("new comer")
    dialog.get_by_role("button", name="Make it").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Letters, digits")
    expect(dialog.get_by_label("Name")).to_be_focused()
    no_barriers(page)
    dialog.get_by_label("Name").fill("newcomer")
    dialog.get_by_role("button", name="Make it").click()
    code = page.get_by_label("Code", exact=True).inner_text()
    page.get_by_role("button", name="Copy both").click()
    assert page.evaluate("navigator.clipboard.readText()") == f"{stack.base_url}/sign-in?setup\n{code}"
    looked_over(page)

    signs_in_and_is_no_admin(watch.on(browser.new_context(base_url=stack.base_url, viewport=WIDE).new_page()), code)
    page.get_by_label("Search people").fill("newcom")
    row = page.locator("tr[data-person=newcomer]")
    expect(page.locator("tr[data-person]")).to_have_count(1)
    has_limits_set(page, row, admin)

    def more(what: str) -> None:
        row.get_by_role("button", name="More about newcomer").click()
        page.get_by_role("button", name=what).click()

    more("Make an admin")
    dialog.get_by_role("button", name="Make an admin").click()
    expect(row.get_by_text("admin", exact=True)).to_be_visible()
    more("No longer an admin")
    dialog.get_by_role("button", name="Take it away").click()
    expect(row.get_by_text("admin", exact=True)).to_have_count(0)
    with agent_of(stack, "newcomer") as program:
        assert program.get("/me").status_code == 200
        more("Switch off")
        dialog.get_by_role("button", name="Switch off").click()
        expect(row).to_contain_text("switched off")
        assert program.get("/me").status_code == 401
        page.get_by_label("Which people").select_option("Switched off")
        expect(row).to_be_visible()
        more("Let in again")
        expect(row).to_have_count(0)
        assert program.get("/me").status_code == 200


def test_a_policy_is_tried_before_it_holds(
        page: Page, workspace: dict[str, Any], agent: httpx.Client, admin: httpx.Client, watch: Watch) -> None:
    watch.provoked.append("/policies/dry-run")
    agent.post(f"/workspaces/{workspace['id']}/stop?wait=true")
    page.goto("/manage/policies")
    expect(page.get_by_role("button", name="Everybody")).to_have_attribute("aria-current", "true")
    page.get_by_label("Somebody else’s policy").fill("admin")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="admin")).to_be_visible()
    trash = page.get_by_label("Stopped to trash", exact=True)
    expect(trash).to_have_attribute("placeholder", "never")
    expect(page.get_by_role("button", name="Apply")).to_be_disabled()
    trash.fill("soon")
    trash.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Write it like 15 min")
    trash.fill("1 min")
    page.get_by_role("button", name="See what it would do").click()
    expect(page.get_by_role("alert")).to_contain_text("At least 3600")
    trash.fill("2 days")
    page.get_by_label("CPUs", exact=True).fill("8")
    page.get_by_role("button", name="See what it would do").click()
    run = page.get_by_label("What it would do")
    mine = run.locator("tr[data-change=new]", has_text=workspace["name"]).first
    expect(mine).to_contain_text(re.compile("new.*admin.*goes to the trash.*in .*trash after"))
    assert admin.get("/policies/effective").json()["terms"]["trash_after_s"]["value"] is None, "only tried"
    looked_over(page)
    page.get_by_label("Memory, MiB", exact=True).fill("4096")
    bound = page.get_by_label("Any may reach at most")
    expect(bound).to_have_attribute("placeholder", "anything")
    bound.fill("*.org, 203.0.113.0/24:22,443")
    page.get_by_label("Private ranges open to rules").fill("10.1.2.0/24")
    expect(page.get_by_role("button", name="Apply")).to_be_disabled()  # what was tried was another
    page.get_by_role("button", name="See what it would do").click()
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("set just now by admin")).to_be_visible()
    terms = admin.get("/policies/effective").json()["terms"]
    assert [terms[name]["value"] for name in ("trash_after_s", "cpus", "memory_mib")] == [172800, 8, 4096]
    assert terms["network_bound"]["value"] == {"mode": "rules", "ask": False, "rules": [
        {"domain": "*.org"}, {"cidr": "203.0.113.0/24", "ports": [22, 443]}]}
    assert terms["network_private"]["value"] == ["10.1.2.0/24"]
    page.reload()
    expect(trash).to_have_value("2 days")
    expect(bound).to_have_value("*.org, 203.0.113.0/24:22,443")
    page.get_by_role("button", name="Inherit all again").click()
    no_barriers(page)
    page.get_by_role("dialog").get_by_role("button", name="Take it away").click()
    expect(trash).to_have_value("")
    assert admin.get("/policies/user:admin").status_code == 404


def shown_acts(page: Page) -> Locator:
    return page.locator(".audit-table tbody tr")


def test_the_audit_is_filtered_paged_and_taken_away_as_a_file(
        page: Page, stack: Stack, admin: httpx.Client, tmp_path: Path) -> None:
    theirs = stack.workspace("bob", name="watched")["id"]
    glass = admin.post(f"/workspaces/{theirs}/break-glass", json={"reason": "=its agent, “runs” wild"})
    assert glass.status_code == 201
    with agent_of(stack, "bob") as bob:
        for n in range(55):
            bob.patch(f"/workspaces/{theirs}", json={"labels": {"n": str(n)}})
        bob.delete(f"/workspaces/{'a' * 20}")
    page.goto("/manage/audit")
    expect(shown_acts(page)).to_have_count(50)
    page.get_by_role("button", name="Broken glass").click()
    mine = shown_acts(page).and_(page.locator("[data-kind='member.break_glass']")).filter(has_text=theirs)
    expect(mine).to_have_class("marked")
    expect(mine).to_contain_text("broke the glass")
    expect(mine).to_contain_text("reason: =its agent, “runs” wild")
    looked_over(page)

    page.get_by_role("button", name="Clear").click()
    page.get_by_label("On what").fill(theirs)
    page.get_by_label("Who").fill("bob")
    page.get_by_label("Who").press("Enter")
    expect(page.get_by_text("1–50")).to_be_visible()
    page.get_by_role("button", name="Next").click()
    expect(shown_acts(page)).to_have_count(6)  # 55 changes, and that it was made
    expect(shown_acts(page).last).to_contain_text("workspace.create")
    page.reload()
    expect(page.get_by_label("Who")).to_have_value("bob")
    expect(shown_acts(page)).to_have_count(50)
    with page.expect_download() as taken:
        page.get_by_role("button", name="Export JSON lines").click()
    taken.value.save_as(tmp_path / "audit.jsonl")
    acts = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert len(acts) == 56 and {act["target"] for act in acts} == {f"workspace:{theirs}"}
    page.get_by_label("Who").fill("")
    page.get_by_label("Act", exact=True).fill("member.break_glass")
    page.get_by_role("button", name="Look", exact=True).click()
    expect(shown_acts(page)).to_have_count(1)
    with page.expect_download() as taken:
        page.get_by_role("button", name="Export CSV").click()
    taken.value.save_as(tmp_path / "audit.csv")
    assert "member.break_glass,workspace:" in (tmp_path / "audit.csv").read_text()

    page.get_by_role("button", name="Clear").click()
    page.get_by_label("Outcome").fill("not_found")
    page.get_by_label("From", exact=True).fill("2020-01-01T00:00")
    page.get_by_role("button", name="Look", exact=True).click()
    expect(shown_acts(page).first).to_contain_text("not found 404")
    page.get_by_label("Before").fill("2020-01-02T00:00")
    page.get_by_role("button", name="Look", exact=True).click()
    expect(page.get_by_text("No act is like this.")).to_be_visible()
    admin.delete(f"/workspaces/{theirs}?purge=true")
