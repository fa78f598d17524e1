"""Checkpoints, going back and Undo, forks, holds and standby, as a person meets them on the pages.

The stack's driver keeps no memory images. So what is told of a memory is tested by what the server would say, put into
its answers on their way to the page.
"""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Watch
from tests.browser.hands import new_terminal, open_workspace, state_of, type_line
from tests.browser.test_looks import PHONE, dressed, no_barriers, no_sideways_scrolling, scheme
from tests.stack import Stack

__all__ = ["dressed", "scheme"]


def files_url(workspace: dict[str, Any], path: str) -> str:
    return f"/workspaces/{workspace['id']}/files/content?path=/home/user/{path}"


def checkpointed(agent: httpx.Client, workspace: dict[str, Any], **fields: Any) -> dict[str, Any]:
    made = agent.post(f"/workspaces/{workspace['id']}/checkpoints?wait=true", json=fields)
    assert made.status_code == 201, made.text
    body: dict[str, Any] = made.json()
    assert body["state"] == "ready", body
    return body


def show_time(page: Page) -> Locator:
    page.get_by_role("tab", name="Time").click()
    return page.locator(".point")


def opened(page: Page, name: str) -> Locator:
    """The point of this name, with its details and what can be done with it."""
    point = page.locator(".point", has=page.get_by_text(name, exact=True))
    line = point.locator("button.point-line")
    if line.get_attribute("aria-expanded") != "true":
        line.click()
    return point


def test_a_checkpoint_is_taken_and_stands_in_time_and_in_activity(page: Page, workspace: dict[str, Any]) -> None:
    open_workspace(page, workspace)
    points = show_time(page)
    expect(page.get_by_text("No checkpoints yet")).to_be_visible()
    page.get_by_role("button", name="Checkpoint", exact=True).click()
    page.get_by_label("Name", exact=True).fill("green <b>")
    page.get_by_label("Comment").fill("all tests pass")
    page.get_by_role("button", name="Take it").click()
    expect(points).to_have_count(1)
    expect(points.locator(".point-title")).to_have_text("green <b>")
    opened(page, "green <b>")
    expect(points.locator(".point-comment")).to_have_text("all tests pass")
    expect(points.get_by_role("button", name=re.compile("^Restore"))).to_be_enabled()
    expect(points.locator(".point-facts")).to_contain_text("you")
    expect(points.get_by_text("files only")).to_have_count(1)
    page.get_by_role("tab", name="Activity").click()
    expect(page.locator(".step", has_text="Checkpoint “green <b>”")).to_contain_text("ready")


def test_a_name_that_is_taken_is_said_in_the_dialog_and_what_was_typed_stays(
        page: Page, workspace: dict[str, Any], agent: httpx.Client, watch: Watch) -> None:
    watch.provoked.append("/checkpoints")
    checkpointed(agent, workspace, name="green")
    open_workspace(page, workspace)
    show_time(page)
    page.get_by_role("button", name="Checkpoint", exact=True).click()
    page.get_by_label("Name", exact=True).fill("green")
    page.get_by_role("button", name="Take it").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("green")
    expect(page.get_by_label("Name", exact=True)).to_have_value("green")


def test_a_restore_says_what_goes_and_undo_brings_it_back(
        page: Page, workspace: dict[str, Any], agent: httpx.Client) -> None:
    agent.put(files_url(workspace, "story.txt"), content=b"first\n").raise_for_status()
    checkpointed(agent, workspace, name="before")
    agent.put(files_url(workspace, "story.txt"), content=b"second\n").raise_for_status()
    agent.post(f"/workspaces/{workspace['id']}/execs", json={"command": "sleep 987", "background": True})
    open_workspace(page, workspace)
    show_time(page)
    opened(page, "before").get_by_role("button", name=re.compile("^Restore before")).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Files since then: 1 changed. They become what they were.")
    expect(dialog.get_by_role("list", name="Files that differ")).to_contain_text("story.txt 6 B → 7 B")
    expect(dialog).to_contain_text("One program ends: sleep 987")
    expect(dialog).to_contain_text("2 steps since, the last: sleep 987")
    expect(dialog).to_contain_text("Undo brings it back")
    dialog.get_by_role("button", name="Restore").click()
    undo = page.locator(".undo-bar")
    expect(undo).to_contain_text("You went back to “before”", timeout=60_000)
    expect(state_of(page)).to_have_text("Running", timeout=60_000)
    assert agent.get(files_url(workspace, "story.txt")).content == b"first\n"
    undo.get_by_role("button", name="Undo").click()
    expect(undo).to_contain_text("to how it was before a restore", timeout=60_000)
    expect(state_of(page)).to_have_text("Running", timeout=60_000)
    assert agent.get(files_url(workspace, "story.txt")).content == b"second\n"
    page.get_by_role("button", name="Put this away").click()
    expect(undo).to_have_count(0)


def test_time_follows_what_an_agent_does_elsewhere(page: Page, workspace: dict[str, Any], agent: httpx.Client) -> None:
    open_workspace(page, workspace)
    points = show_time(page)
    expect(page.get_by_text("No checkpoints yet")).to_be_visible()
    made = checkpointed(agent, workspace, name="theirs")
    expect(points.locator(".point-title")).to_have_text("theirs")
    agent.patch(f"/workspaces/{workspace['id']}/checkpoints/{made['id']}", json={"name": "renamed"}).raise_for_status()
    expect(points.locator(".point-title")).to_have_text("renamed")
    agent.delete(f"/workspaces/{workspace['id']}/checkpoints/{made['id']}").raise_for_status()
    expect(points).to_have_count(0)


def test_a_checkpoint_is_renamed_forked_and_deleted(
        page: Page, workspace: dict[str, Any], agent: httpx.Client) -> None:
    made = checkpointed(agent, workspace, name="one")
    address = f"/workspaces/{workspace['id']}/checkpoints/{made['id']}"
    agent.patch(address, json={"expires_at": "2199-01-01T00:00:00Z"}).raise_for_status()
    open_workspace(page, workspace)
    points = show_time(page)
    opened(page, "one").get_by_role("button", name=re.compile("^Keep one")).click()
    expect(points.get_by_role("button", name=re.compile("^Keep one"))).to_have_count(0)
    assert agent.get(address).json()["expires_at"] is None
    opened(page, "one").get_by_role("button", name=re.compile("^Rename one")).click()
    page.get_by_label("Name", exact=True).fill("another")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(points.locator(".point-title")).to_have_text("another")
    points.get_by_role("button", name=re.compile("^Fork another")).click()
    page.get_by_label("Name", exact=True).fill("twin-of-one")
    page.get_by_label("How many").fill("2")
    page.get_by_role("dialog").get_by_role("button", name="Fork").click()
    expect(page.locator(".notice")).to_contain_text("twin-of-one")
    twins = [one for one in agent.get("/workspaces?limit=200").json()["results"] if "twin-of-one" in one["name"]]
    assert len(twins) == 2
    for twin in twins:
        expect(points.get_by_role("link", name=twin["name"])).to_have_attribute("href", f"/workspaces/{twin['id']}")
    points.get_by_role("button", name=re.compile("^Delete another")).click()
    expect(page.get_by_role("dialog")).to_contain_text("are kept as long as something stands on them")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(points).to_have_count(0)
    for twin in twins:
        agent.delete(f"/workspaces/{twin['id']}?purge=true")


def grown(agent: httpx.Client, workspace: dict[str, Any]) -> None:
    """root ◀ left, its safety; then back to root, and right: now stands on right."""
    def wrote(path: str, text: bytes) -> None:
        agent.put(files_url(workspace, path), content=text).raise_for_status()

    wrote("story.txt", b"one\ntwo\n")
    root = checkpointed(agent, workspace, name="root")
    wrote("story.txt", b"one\n<b>2</b>\nthree\n")
    wrote("extra.txt", b"only left\n")
    checkpointed(agent, workspace, name="left")
    back = agent.post(f"/workspaces/{workspace['id']}/checkpoints/{root['id']}/restore?wait=true&timeout_s=60", json={})
    assert back.json()["state"] == "running", back.text
    checkpointed(agent, workspace, name="right")


def test_time_is_a_picture_in_which_one_looks_compares_and_takes_a_file_back(
        page: Page, workspace: dict[str, Any], agent: httpx.Client, watch: Watch) -> None:
    watch.provoked.append("/files/content")  # what is to be brought back is asked for, and is not there
    grown(agent, workspace)
    open_workspace(page, workspace)
    points = show_time(page)
    expect(points.locator(".point-title")).to_have_text(["right", "Safety", "left", "root"])
    expect(points.locator(".graph-mark.trunk")).to_have_count(2)
    expect(points.nth(3).locator("path.graph-line")).to_have_count(1)
    expect(points.nth(0).locator(".chip.here")).to_be_visible()
    page.get_by_role("list", name="Checkpoints, newest first").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
    expect(points.nth(3).locator("button.point-line")).to_be_focused()
    page.keyboard.press("Home")
    expect(points.nth(0).locator("button.point-line")).to_be_focused()

    opened(page, "left").get_by_role("button", name=re.compile("^Compare left")).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("status")).to_have_text("1 changed, 1 deleted")
    dialog.get_by_role("button", name=re.compile("story.txt")).click()
    expect(dialog.locator(".diff-line.removed").first).to_contain_text("<b>2</b>")
    choose(dialog, "From", "root")
    expect(dialog.get_by_role("status")).to_have_text("Nothing differs.")
    choose(dialog, "To", "left")
    expect(dialog.get_by_role("status")).to_have_text("1 new, 1 changed")
    dialog.get_by_role("button", name=re.compile("new: .*extra.txt")).click()
    expect(dialog.locator(".diff-line.added")).to_contain_text("only left")
    both_schemes_without_barriers(page)
    dialog.get_by_role("button", name="Close").click()

    points.get_by_role("button", name=re.compile("^Files of left")).click()
    dialog.get_by_role("button", name=re.compile("^extra.txt")).click()
    expect(dialog.get_by_label("Content of extra.txt")).to_have_text("only left\n")
    with page.expect_download() as saved:
        dialog.get_by_role("link", name="Download").click()
    assert saved.value.path().read_bytes() == b"only left\n"
    dialog.get_by_role("button", name="Bring this file back").click()
    expect(page.locator(".notice", has_text="extra.txt is as it was then")).to_be_visible()
    assert agent.get(files_url(workspace, "extra.txt")).content == b"only left\n"
    dialog.get_by_role("button", name=re.compile("^story.txt")).click()
    dialog.get_by_role("button", name="Bring this file back").click()
    expect(dialog.get_by_role("alert")).to_contain_text("It is replaced")
    assert agent.get(files_url(workspace, "story.txt")).content == b"one\ntwo\n"
    both_schemes_without_barriers(page)
    dialog.get_by_role("button", name="Replace it").click()
    expect(page.locator(".notice", has_text="story.txt is as it was then")).to_be_visible()
    assert agent.get(files_url(workspace, "story.txt")).content == b"one\n<b>2</b>\nthree\n"
    no_sideways_scrolling(page)


def choose(dialog: Locator, label: str, name: str) -> None:
    options = dialog.get_by_label(label).locator("option", has_text=re.compile(f"^{name} "))
    dialog.get_by_label(label).select_option(value=options.get_attribute("value"))


def both_schemes_without_barriers(page: Page) -> None:
    for name in ("light", "dark"):
        page.emulate_media(color_scheme=name, reduced_motion="reduce")  # type: ignore[arg-type]
        no_barriers(page)


def test_what_does_not_run_is_looked_into_compared_and_forked_without_waking(
        page: Page, workspace: dict[str, Any], agent: httpx.Client) -> None:
    agent.put(files_url(workspace, "story.txt"), content=b"first\n").raise_for_status()
    checkpointed(agent, workspace, name="before")
    agent.put(files_url(workspace, "story.txt"), content=b"second\n").raise_for_status()
    agent.post(f"/workspaces/{workspace['id']}/stop?wait=true").raise_for_status()
    page.goto(f"/workspaces/{workspace['id']}")
    show_time(page)
    opened(page, "before").get_by_role("button", name=re.compile("^Compare before")).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name=re.compile("story.txt")).click()
    expect(dialog.locator(".diff-line.added")).to_contain_text("second")
    dialog.get_by_role("button", name="Close").click()
    page.get_by_role("button", name=re.compile("^Files of before")).click()
    dialog.get_by_role("button", name=re.compile("^story.txt")).click()
    expect(dialog.get_by_label("Content of story.txt")).to_have_text("first\n")
    expect(dialog).to_contain_text("It can be brought back when the workspace runs")
    dialog.get_by_role("button", name="Close").click()
    page.get_by_role("button", name=re.compile("^Restore before")).click()
    expect(dialog).to_contain_text("Files since then: 1 changed")
    dialog.get_by_role("button", name="Cancel").click()
    assert agent.get(f"/workspaces/{workspace['id']}").json()["state"] == "stopped"
    page.get_by_role("button", name=re.compile("^Fork before")).click()
    page.get_by_label("Name", exact=True).fill("fork-of-one")
    dialog.get_by_role("button", name="Fork").click()
    expect(page.get_by_role("heading", name="fork-of-one")).to_be_visible()
    expect(state_of(page)).to_have_text("Running")
    fork = next(one for one in agent.get("/workspaces?limit=200").json()["results"] if one["name"] == "fork-of-one")
    assert fork["forked_from"]["workspace"] == workspace["id"]
    assert agent.get(files_url(fork, "story.txt")).content == b"first\n"
    assert agent.get(f"/workspaces/{workspace['id']}").json()["state"] == "stopped"
    agent.delete(f"/workspaces/{fork['id']}?purge=true")


def test_a_host_that_keeps_no_memory_refuses_standby_in_plain_words(
        page: Page, workspace: dict[str, Any], watch: Watch) -> None:
    watch.provoked.append("/standby")
    open_workspace(page, workspace)
    page.get_by_role("button", name="Standby", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Its host keeps no memory, so it cannot go to standby")
    expect(state_of(page)).to_have_text("Running")


def test_it_is_kept_awake_for_a_while_and_let_go(page: Page, workspace: dict[str, Any], agent: httpx.Client) -> None:
    open_workspace(page, workspace)
    page.get_by_role("button", name="Keep awake").click()
    page.get_by_label("4 hours").check()
    page.get_by_role("dialog").get_by_role("button", name="Keep awake").click()
    held = page.locator(".chip.hold")
    expect(held).to_contain_text(re.compile(r"Kept awake until \d\d:\d\d"))
    assert len(agent.get(f"/workspaces/{workspace['id']}/holds").json()["results"]) == 1
    page.reload()
    held.get_by_role("button", name="No longer keep it awake").click()
    expect(held).to_have_count(0)
    assert agent.get(f"/workspaces/{workspace['id']}/holds").json()["results"] == []


def asleep(page: Page, workspace: dict[str, Any]) -> None:
    """The workspace's own answer from now on says that it sleeps."""
    said = {**workspace, "state": "standby", "state_reason": "idle for 30 min", "next_transition": None}
    page.route(f"**/api/v1/workspaces/{workspace['id']}", lambda route: route.fulfill(json=said))
    disk = {"path": "/home/user", "type": "directory", "size": 0, "entries": [], "next": None}
    page.route("**/checkpoints/head/files?*", lambda route: route.fulfill(json=disk))


def test_standby_is_no_error_page_and_a_terminal_that_waits_does_not_wake_it(
        page: Page, workspace: dict[str, Any], agent: httpx.Client, stack: Stack, watch: Watch) -> None:
    watch.provoked.extend(["/ws/v1/", "/api/v1/"])
    open_workspace(page, workspace)
    new_terminal(page)
    asleep(page, workspace)
    agent.patch(f"/workspaces/{workspace['id']}", json={"labels": {"a": "b"}}).raise_for_status()
    expect(state_of(page)).to_have_text("Standby")
    sockets: list[str] = []
    page.on("websocket", lambda socket: sockets.append(socket.url))
    stack.kill("gateway")
    expect(page.get_by_text("At rest; goes on when the workspace runs")).to_be_visible()
    stack.start("gateway")
    expect(page.locator(".offline")).to_have_count(0, timeout=60_000)
    expect(page.get_by_role("button", name="Wake the workspace")).to_be_visible()
    expect(page.get_by_text("Files and memory are safe.")).to_be_visible()
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    assert any("/events" in url for url in sockets)
    assert not [url for url in sockets if "/terminals/" in url]
    page.unroute(f"**/api/v1/workspaces/{workspace['id']}")
    agent.patch(f"/workspaces/{workspace['id']}", json={"labels": {"a": "c"}}).raise_for_status()
    expect(state_of(page)).to_have_text("Running")
    expect(page.get_by_text("At rest; goes on")).to_have_count(0)
    expect(page.get_by_text("Connection lost; reconnecting")).to_have_count(0)
    type_line(page, "clear; echo still-$((40+2))")
    expect(page.locator(".xterm-rows")).to_contain_text("still-42")


def test_on_a_phone_the_way_to_wake_it_is_always_in_sight(
        page: Page, workspace: dict[str, Any]) -> None:
    asleep(page, workspace)
    page.set_viewport_size(PHONE)
    page.goto(f"/workspaces/{workspace['id']}")
    expect(page.get_by_role("button", name="Wake", exact=True)).to_be_visible()
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(page.get_by_role("button", name=re.compile("^Wake"))).to_have_text(["Wake to edit", "Wake"])


def test_home_says_use_against_quota_and_offers_standby(
        page: Page, workspace: dict[str, Any], agent: httpx.Client) -> None:
    limit = agent.get("/me").json()["quota"]["workspaces"]
    page.goto("/")
    line = page.locator(".quota")
    expect(line).to_contain_text(f" of {limit} workspaces" if limit is not None else " workspaces")
    expect(line).to_contain_text("disk")
    expect(page.get_by_role("button", name=f"Standby {workspace['name']}")).to_be_visible()


@pytest.mark.parametrize("size", [{"width": 1440, "height": 900}, PHONE], ids=["wide", "phone"])
def test_time_has_no_barriers(
        dressed: Page, workspace: dict[str, Any], agent: httpx.Client, size: Any, watch: Watch) -> None:
    checkpointed(agent, workspace, name="green", comment="all tests pass")
    checkpointed(agent, workspace)
    held = agent.post(f"/workspaces/{workspace['id']}/holds", json={"reason": "a long build", "ttl_s": 3600})
    assert held.status_code == 201, held.text
    dressed.set_viewport_size(size)
    open_workspace(dressed, workspace)
    if size is PHONE:
        dressed.get_by_role("navigation").get_by_role("button", name="Time").click()
    else:
        show_time(dressed)
    expect(dressed.locator(".point")).to_have_count(2)
    expect(dressed.locator(".chip.hold")).to_be_visible()
    no_barriers(dressed)
    opened(dressed, "green").get_by_role("button", name=re.compile("^Restore green")).click()
    expect(dressed.get_by_role("dialog")).to_contain_text("No file differs")
    no_barriers(dressed)
    dressed.keyboard.press("Escape")
    no_sideways_scrolling(dressed)
