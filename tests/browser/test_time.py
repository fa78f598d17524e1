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
    open_workspace(page, workspace)
    show_time(page).get_by_role("button", name=re.compile("^Restore before")).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(re.compile("Everything that was done after that moment|Files since then"))
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
    checkpointed(agent, workspace, name="one")
    open_workspace(page, workspace)
    points = show_time(page)
    points.get_by_role("button", name=re.compile("^Rename one")).click()
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
    points.get_by_role("button", name=re.compile("^Delete another")).click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(points).to_have_count(0)
    for twin in twins:
        agent.delete(f"/workspaces/{twin['id']}?purge=true")


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
    dressed.get_by_role("button", name=re.compile("^Restore green")).click()
    expect(dressed.get_by_role("dialog")).to_contain_text(re.compile("Files since then|No file differs|Everything"))
    no_barriers(dressed)
    dressed.keyboard.press("Escape")
    no_sideways_scrolling(dressed)
