"""What browser tests stand on: one instance, one browser, and a page that forgives no error on its console.

Every page of every test is watched: a script error, a console error or a violation of the Content-Security-Policy
fails the test, unless the test said before that it provokes exactly this answer.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.browser.hands import set_password
from tests.browser.stand import Stand, bring_up

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync"]
WIDE = {"width": 1440, "height": 900}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/browser/" in item.nodeid:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def stand() -> Iterator[Stand]:
    with tempfile.TemporaryDirectory(prefix="berth-web-", ignore_cleanup_errors=True) as name:
        up = bring_up(Path(name))
        try:
            yield up
        finally:
            up.down()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def agent(stand: Stand) -> Iterator[httpx.Client]:
    with stand.agent() as client:
        yield client


@pytest.fixture(scope="session")
def session_state(stand: Stand, browser: Browser) -> Any:
    """The first admin's session, made the way a person makes it: the one-time code, then a password."""
    context = browser.new_context(base_url=stand.url)
    page = context.new_page()
    set_password(page, stand.code)
    state = context.storage_state()
    context.close()
    return state


class Watch:
    """Collects what a page complains about."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self.provoked: list[str] = []

    def on(self, page: Page) -> Page:
        page.on("console", lambda message: self._note(message.type, f"{message.text} {message.location.get('url', '')}"))
        page.on("pageerror", lambda error: self._note("error", str(error)))
        return page

    def _note(self, kind: str, text: str) -> None:
        if kind == "error" and not any(word in text for word in self.provoked):
            self.complaints.append(text)


@pytest.fixture
def watch() -> Iterator[Watch]:
    eyes = Watch()
    yield eyes
    assert eyes.complaints == []


@pytest.fixture
def context(stand: Stand, browser: Browser, session_state: Any) -> Iterator[BrowserContext]:
    made = browser.new_context(base_url=stand.url, viewport=WIDE, storage_state=session_state,
                               permissions=["clipboard-read", "clipboard-write"])
    made.set_default_timeout(20_000)
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext, watch: Watch) -> Page:
    return watch.on(context.new_page())


@pytest.fixture
def workspace(agent: httpx.Client, request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """A running workspace of the test's own, made over REST."""
    made = agent.post("/workspaces?wait=true", json={"name": request.node.name[:60]})
    assert made.status_code == 201, made.text
    body = made.json()
    assert body["state"] == "running", body
    yield body
    agent.delete(f"/workspaces/{body['id']}?purge=true")
