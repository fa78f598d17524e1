"""bench page: from a click to a workspace's page one can work in, on a running machine and on a sleeping one.

In headless Chromium, beside the same by hand over REST: the folder's listing, the terminal's first bytes, and before
them the wake. What is over it is the page itself. Needs the development environment (Playwright) and Chromium.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from websockets.sync.client import connect

from ops import programs
from ops.bench.figure import Figure
from ops.bench.stage import Stage, berth
from ops.bench.terminal import OUTPUT
from ops.say import SetupFailed

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM = "/usr/bin/chromium"
ROUNDS = 5
PASSWORD = "a passphrase of the bench"  # noqa: S105
NAME = "bench-page"


def run(stage: Stage) -> list[Figure]:
    own = Stage(stage.instance, berth(stage.instance.environment(), "token", "admin").strip())
    workspace = str(own.create(NAME)["id"])
    try:
        with browser(stage) as page:
            exec_id = shell(page, own, workspace)
            return [figure(name, partial(by_click, page, own, workspace, sleeping),
                           partial(by_hand, own, workspace, exec_id, sleeping))
                    for name, sleeping in (("page_running", False), ("page_sleeping", True))]
    finally:
        own.purge(workspace)


def figure(name: str, page_s: Callable[[], float], hand_s: Callable[[], float]) -> Figure:
    """In turns, so that whatever else the machine does falls on both."""
    rounds = [(page_s(), hand_s()) for _ in range(ROUNDS)]
    by_page, hand = (statistics.median(times) for times in zip(*rounds, strict=True))
    return Figure(name, by_page, "s", hand, "the same by hand over REST", detail={"rounds": ROUNDS})


@contextmanager
def browser(stage: Stage) -> Iterator[Page]:
    """A page of the first admin, signed in with the one-time code as a person is."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise SetupFailed("Playwright is not installed: ./berth test installs it") from None
    _, said = programs.manage_stdout(stage.instance, "berth_admin", "--at", stage.instance.url)
    code = re.search(r"^\s+([A-Z2-9]{4}(?:-[A-Z2-9]{4})+)$", said, re.MULTILINE)
    if code is None:
        raise SetupFailed("there is no one-time code of the first admin")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = chromium.new_page(base_url=stage.instance.url, viewport={"width": 1440, "height": 900})
        page.goto("/sign-in?setup")
        page.get_by_label("One-time code").fill(code.group(1))
        page.get_by_label("New password").fill(PASSWORD)
        page.get_by_role("button", name="Set password").click()
        page.get_by_role("link", name=NAME).wait_for()
        yield page
        chromium.close()


def shell(page: Page, stage: Stage, workspace: str) -> str:
    """A file to be listed, and one terminal, opened as a person does, which every later visit finds again; its id."""
    stage.rest().call("POST", f"/api/v1/workspaces/{workspace}/execs", {"command": "echo a > notes.txt"})
    page.get_by_role("link", name=NAME).click()
    page.get_by_role("button", name="New terminal").last.click()
    page.locator(".xterm-rows", has_text="$").wait_for()
    execs = stage.rest().call("GET", f"/api/v1/workspaces/{workspace}/execs")["results"]
    return str(next(one["id"] for one in execs if one["tty"]))


def by_click(page: Page, stage: Stage, workspace: str, sleeping: bool) -> float:
    """Until the files are listed, and the terminal that was left shows its prompt."""
    page.goto("/")
    page.get_by_role("link", name=NAME).wait_for()
    if sleeping:
        rest(stage, workspace)
    began = time.perf_counter()
    page.get_by_role("link", name=NAME).click()
    if sleeping:
        page.get_by_role("button", name="Wake").first.click()
    page.locator(".statusbar .state-word", has_text="Running").wait_for()
    page.locator(".entry-name").first.wait_for()
    page.locator(".xterm-rows", has_text="$").wait_for()
    return time.perf_counter() - began


def by_hand(stage: Stage, workspace: str, exec_id: str, sleeping: bool) -> float:
    if sleeping:
        rest(stage, workspace)
    client, path = stage.rest(), f"/api/v1/workspaces/{workspace}"
    began = time.perf_counter()
    if sleeping:
        client.call("POST", f"{path}/start?wait=true&timeout_s=120")
    client.call("GET", f"{path}/files?path=/home/user")
    address = f"ws://{stage.instance.connect_host}:{stage.instance.port}/ws/v1/workspaces/{workspace}/terminals/{exec_id}"
    with connect(f"{address}?offset=0", additional_headers={"Authorization": f"Bearer {stage.token}"}) as socket:
        while socket.recv(timeout=60)[:1] != bytes([OUTPUT]):
            pass
    return time.perf_counter() - began


def rest(stage: Stage, workspace: str) -> None:
    stage.rest().call("POST", f"/api/v1/workspaces/{workspace}/standby?wait=true&timeout_s=120")
