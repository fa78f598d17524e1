"""Activity, as who watches an agent meets it: runs, output, differences, the way back, filters, older steps."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.hands import open_workspace
from tests.browser.test_finding import both_looks
from tests.browser.test_looks import PHONE, WIDE, no_barriers, no_sideways_scrolling
from tests.browser.test_time import checkpointed, files_url


def runs(agent: httpx.Client, workspace: dict[str, Any], command: str) -> None:
    ended = agent.post(f"/workspaces/{workspace['id']}/execs", json={"command": command})
    assert ended.json()["state"] == "ended", ended.text


def test_what_an_agent_did_is_folded_opened_compared_and_can_be_taken_back(
        page: Page, workspace: dict[str, Any], agent: httpx.Client) -> None:
    agent.put(files_url(workspace, "story.txt"), content=b"one\ntwo\nthree\n").raise_for_status()
    checkpointed(agent, workspace, name="green")
    agent.put(files_url(workspace, "story.txt"), content=b"one\n<b>2</b>\nthree\nfour\n").raise_for_status()
    runs(agent, workspace, "seq 1 20000")
    runs(agent, workspace, "echo '<i>no</i>' >&2; exit 3")
    open_workspace(page, workspace)

    run = page.locator(".run").first
    head = run.locator(".run-line")
    expect(head).to_have_attribute("aria-expanded", "true")
    expect(head.locator(".run-counts")).to_have_text(re.compile("^[4-7] steps1 failed$"))
    for size in (WIDE, PHONE):
        page.set_viewport_size(size)
        lines = head.evaluate("one => one.getBoundingClientRect().height")
        assert lines < 60, "name and time on one line, counts on the next"
    page.set_viewport_size(WIDE)

    wrote = run.locator(".step", has_text="~/story.txt").first
    wrote.locator("button.step-line").click()
    expect(wrote.get_by_role("group", name="2 lines added, 1 removed")).to_be_visible()
    expect(wrote.locator(".diff-line.added").first).to_contain_text("<b>2</b>")
    expect(wrote).to_contain_text("From “green”")

    failed = run.locator(".step", has_text="exit 3")
    failed.locator("button.step-line").click()
    expect(failed.locator("pre")).to_have_text("<i>no</i>\n")
    long = run.locator(".step", has_text="seq 1 20000")
    long.locator("button.step-line").click()
    expect(long.locator("pre")).to_contain_text("19999\n20000")
    expect(long.locator("pre")).not_to_contain_text(re.compile("^1\n2\n"))
    for _ in range(2):
        long.get_by_role("button", name="Load more of output").click()
    expect(long.locator("pre")).to_contain_text(re.compile("^1\n2\n3\n"))
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        no_barriers(page)
    no_sideways_scrolling(page)
    no_barriers(page)
    page.set_viewport_size(WIDE)

    expect(failed.get_by_role("button", name="Restore to before this and 2 steps ahead of it")).to_be_visible()
    wrote.get_by_role("button", name="Restore to just before this").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Go back to “green”?")
    expect(dialog).to_contain_text("story.txt")
    dialog.get_by_role("button", name="Restore").click()
    expect(page.locator(".undo-bar")).to_contain_text("You went back to “green”", timeout=60_000)
    assert agent.get(files_url(workspace, "story.txt")).content == b"one\ntwo\nthree\n"

    head.click()
    expect(run.locator(".step")).to_have_count(0)
    page.get_by_role("combobox", name="What").select_option(label="Checkpoints")
    expect(page.locator(".step", has_text="Restored")).to_be_visible()
    expect(page.locator(".step", has_text="seq")).to_have_count(0)


def test_a_long_life_is_shown_from_its_end_and_read_back_on_demand(
        page: Page, workspace: dict[str, Any]) -> None:
    """The newest come first and at once; what came before is asked for, and steps are walked by keyboard."""
    past = [{"seq": seq, "at": "2026-01-01T12:00:00Z", "kind": "exec.started", "actor": {"type": "user", "name": "bob"},
             "data": {"exec_id": f"e{seq}", "command": f"step {seq}"}} for seq in range(1, 251)]

    def answer(route: Any) -> None:
        before = int(re.search(r"before=(\d+)", route.request.url)[1])  # type: ignore[index]
        found = [one for one in past if one["seq"] < before]
        route.fulfill(json={"results": found[-200:], "next": "/more" if len(found) > 200 else None})

    page.route("**/api/v1/workspaces/*/events?*", answer)
    page.route_web_socket(re.compile(r"/events\?after=250"), lambda socket: None)
    page.set_viewport_size(PHONE)
    open_workspace(page, workspace)
    steps = page.locator(".step")
    expect(steps.first).to_contain_text("step 250")
    expect(steps).to_have_count(100)
    for count in (200, 250):
        page.get_by_role("button", name="Show older steps").click()
        expect(steps).to_have_count(count)
    expect(page.get_by_role("button", name="Show older steps")).to_have_count(0)
    steps.first.locator("button").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(steps.nth(2).locator("button")).to_be_focused()


def cut_short(page: Page) -> list[str]:
    """What of the header does not have the room for its words, or stands over something else."""
    found: list[str] = page.evaluate("""() => [...document.querySelectorAll(".statusbar *")]
        .filter(one => one.checkVisibility() && !one.closest("svg, [popover]") && !one.classList.contains("unseen")
                && (one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== "inline"
                    || one.getBoundingClientRect().right > innerWidth))
        .map(one => one.className + ": " + one.textContent)""")
    return found


def height_of_header(page: Page) -> float:
    box = page.locator(".statusbar").bounding_box()
    assert box is not None
    return box["height"]


def test_the_header_says_what_it_uses_in_words_and_why_an_emulated_one_is_slower(
        page: Page, workspace: dict[str, Any]) -> None:
    """The stack's machines are not emulated: what the server says of one that is is put into its answer."""
    def emulated(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={
            **answer.json(), "accelerator": "tcg", "next_transition": None,
            "awake_because": [{"kind": "exec", "detail": "2 running", "until": None}]})

    page.route(re.compile(f"/api/v1/workspaces/{workspace['id']}$"), emulated)
    figures = {"at": "2026-01-01T12:00:00Z", "cpu_percent": None,
               "memory_used_bytes": 256 << 20, "memory_total_bytes": 512 << 20}
    page.route(re.compile("/metrics$"), lambda route: route.fulfill(
        json={"now": figures, "reason": None, "interval_s": 30, "history": []}))
    open_workspace(page, workspace)
    expect(page.get_by_role("img", name=re.compile("^Memory .* of .*last hour"))).to_be_visible()
    processor = page.get_by_role("img", name="Processor not known yet, no figures of the last hour")
    expect(processor.locator(".spark-now")).to_have_text("–")
    expect(page.locator(".coming")).to_have_text("stays awake: 2 running")
    for width in (1440, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        assert height_of_header(page) < 50 and cut_short(page) == []
    page.set_viewport_size(WIDE)
    page.get_by_role("button", name="emulated (no KVM), slower").click()
    expect(page.get_by_role("dialog")).to_contain_text("doctor")
    no_barriers(page)
    page.get_by_role("button", name="Understood").click()
    no_sideways_scrolling(page)
    assert height_of_header(page) < 90
    expect(page.get_by_role("button", name="Standby", exact=True)).to_be_visible()
    page.get_by_role("button", name="More about this workspace").focus()
    page.keyboard.press("Enter")
    rest = page.get_by_role("group", name="More about this workspace")
    for name in ("Keep awake", "Checkpoint", "Restart", "Members", "Approvals", "Delete"):
        expect(rest.get_by_role("button", name=name, exact=True)).to_be_visible()
    no_barriers(page)
    page.keyboard.press("Escape")
    expect(rest).to_be_hidden()


def test_the_list_draws_the_last_hour_of_those_that_run_with_one_question(
        page: Page, workspace: dict[str, Any], agent: httpx.Client) -> None:
    asked: list[list[str]] = []

    def hours(route: Route) -> None:
        asked.append(parse_qs(urlsplit(route.request.url).query)["ids"][0].split(","))
        sample = {"memory_used_bytes": 2**30, "memory_total_bytes": 2**31}
        history = [{"at": f"2026-01-01T00:{minute:02}:00Z", "cpu_percent": minute, **sample} for minute in range(31)]
        route.fulfill(json={"results": [{"workspace": one, "interval_s": 60, "history": history} for one in asked[-1]]})

    page.route(re.compile("/api/v1/metrics"), hours)
    rests = agent.post("/workspaces?wait=true", json={"name": "rests"}).json()["id"]
    agent.post(f"/workspaces/{rests}/stop?wait=true")
    page.goto("/")
    def drawn(one: str) -> Locator:
        row = page.locator(f"[data-workspace='{one}']")
        return row.get_by_role("img", name="Processor 30 %, last hour 0 % to 30 %")
    expect(drawn(workspace["id"])).to_be_visible()
    expect(drawn(rests)).to_have_count(0)
    assert len(asked) == 1 and workspace["id"] in asked[0] and rests not in asked[0]
    both_looks(page)
    agent.post(f"/workspaces/{rests}/start?wait=true")
    expect(drawn(rests)).to_be_visible()
    assert {workspace["id"], rests} <= set(asked[-1]), "all of them in one question"
    no_sideways_scrolling(page)
    expect(drawn(rests)).to_be_hidden()
    agent.delete(f"/workspaces/{rests}?purge=true")
