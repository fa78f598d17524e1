"""What browser tests stand on: the stack, one browser, and a page that forgives no error on its console.

Every page of every test is watched: a script error, a console error or a violation of the Content-Security-Policy
fails the test, unless the test said before that it provokes exactly this answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.hands import set_password
from tests.stack import ROOT, Stack, running_stack

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync"]
WIDE = {"width": 1440, "height": 900}
#: What a page shows is waited for as long as a busy machine may need; nothing here judges how fast it was.
expect.set_options(timeout=30_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/browser/" in item.nodeid:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    built = ROOT / "frontend" / "dist" / "manifest.json"
    assert built.exists(), "the front end is not built: npm ci && npm run build in frontend, or ./berth test"
    with running_stack() as made:
        yield made


@pytest.fixture(scope="session")
def code(stack: Stack) -> str:
    """The one-time code of the first admin, as `./berth up` prints it."""
    said = stack.manage("berth_admin")
    found = re.search(r"^\s+([A-Z2-9]{4}(?:-[A-Z2-9]{4})+)$", said, re.MULTILINE)
    assert found, f"no one-time code in:\n{said}"
    return found.group(1)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def agent(stack: Stack) -> Iterator[httpx.Client]:
    """The REST API as a program of the same person uses it, beside the browser."""
    with agent_of(stack, "admin") as client:
        yield client


def agent_of(stack: Stack, user: str) -> httpx.Client:
    return httpx.Client(base_url=f"{stack.base_url}/api/v1", timeout=60,
                        headers={"Authorization": f"Bearer {stack.token(user)}"})


@pytest.fixture(scope="session")
def session_state(stack: Stack, code: str, browser: Browser) -> Any:
    """The first admin's session, made the way a person makes it: the one-time code, then a password."""
    context = browser.new_context(base_url=stack.base_url)
    page = context.new_page()
    set_password(page, code)
    state = context.storage_state()
    context.close()
    return state


class Watch:
    """Collects what a page complains about."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self.provoked: list[str] = []

    def on(self, page: Page) -> Page:
        page.on("console", lambda message: self._note(message.type, f"{message.text} {message.location.get('url')}"))
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
def context(stack: Stack, browser: Browser, session_state: Any) -> Iterator[BrowserContext]:
    made = browser.new_context(base_url=stack.base_url, viewport=WIDE, storage_state=session_state,
                               permissions=["clipboard-read", "clipboard-write"])
    made.set_default_timeout(60_000)
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext, watch: Watch) -> Page:
    return watch.on(context.new_page())


@pytest.fixture
def workspace(agent: httpx.Client, request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """A running workspace of the test's own, made over REST."""
    made = agent.post("/workspaces?wait=true", json={"name": request.node.name.removeprefix("test_")[:16]})
    assert made.status_code == 201, made.text
    body = made.json()
    assert body["state"] == "running", body
    yield body
    agent.delete(f"/workspaces/{body['id']}?purge=true")
