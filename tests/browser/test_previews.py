"""Previews as a person meets them: led to sign in and back, a stock Vite project that reloads hot, pages apart."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Watch
from tests.browser.hands import sign_in
from tests.stack import ROOT, Stack, free_port, until

HTML = '<!doctype html><title>stock</title><h1></h1><script type="module" src="/main.js"></script>'
MAIN = """
import { word } from './word.js'
document.querySelector('h1').textContent = word
import.meta.hot.accept('./word.js', (m) => { document.querySelector('h1').textContent = m.word })
"""


@pytest.fixture
def vite(agent: httpx.Client, workspace: dict[str, Any]) -> Iterator[int]:
    """A project as `npm create vite` leaves it, begun with the default command; only its port is chosen."""
    base, port = f"/workspaces/{workspace['id']}", free_port()
    for name, text in (("index.html", HTML), ("main.js", MAIN), ("word.js", "export const word = 'before'")):
        put(agent, base, name, text)
    # The fake driver's machines see the host's node and modules; a guest of QEMU's would have installed its own.
    assert not ROOT.is_relative_to("/tmp"), "a fake machine has a /tmp of its own and would not see this checkout"
    modules = (ROOT / "frontend" / "node_modules").resolve()
    put(agent, base, "package.json", json.dumps({"name": "stock", "type": "module"}))
    command = f"ln -s {modules} node_modules && exec node_modules/.bin/vite --port {port} --strictPort"
    agent.post(f"{base}/execs", json={"command": command, "cwd": "/home/user/app", "background": True,
                                      "env": {"PATH": os.environ["PATH"]}})
    until(lambda: any(one["port"] == port for one in agent.get(f"{base}/ports").json()["results"]), "Vite listens", 180)
    yield port


def put(agent: httpx.Client, base: str, name: str, text: str) -> None:
    path = {"path": f"/home/user/app/{name}", "parents": "true"}
    assert agent.put(f"{base}/files/content", params=path, content=text.encode()).is_success


def test_a_stock_vite_project_is_shown_after_signing_in_and_reloads_hot(
        stack: Stack, browser: Browser, session_state: Any, agent: httpx.Client, workspace: dict[str, Any], vite: int,
        watch: Watch) -> None:
    context = browser.new_context(base_url=stack.base_url)
    context.set_default_timeout(30_000)
    page = watch.on(context.new_page())
    watch.provoked.append("favicon.ico")  # the project has none
    url = workspace["preview_url_template"].replace("{port}", str(vite))
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(f"{url}index.html?a=%2F")
    expect(page.get_by_label("User name")).to_be_visible()
    sign_in(page)
    expect(page.get_by_role("heading", name="before")).to_be_visible()
    assert page.url == f"{url}index.html?a=%2F", "back where they wanted, with nothing of the hop in the address"
    page.evaluate("window.marked = true")
    put(agent, f"/workspaces/{workspace['id']}", "word.js", "export const word = 'after'")
    expect(page.get_by_role("heading", name="after")).to_be_visible()
    assert page.evaluate("window.marked") is True, "replaced in place, not reloaded"

    # Nothing of ours is there to be read, and the app is out of reach from here.
    assert "berth" not in page.evaluate("document.cookie")
    app = f"http://localhost:{stack.port}"
    watch.provoked += [app, "Failed to load resource", "CORS", "Framing", "frame"]
    assert page.evaluate(f"fetch('{app}/api/v1/me', {{credentials: 'include'}}).then(r => r.status, () => 'refused')"
                         ) == "refused"
    with page.expect_event("framenavigated", lambda frame: frame.url.startswith("chrome-error:")):
        page.evaluate(f"document.body.append(Object.assign(document.createElement('iframe'), {{src: '{app}/'}}))")
    with context.expect_page() as opened:
        page.evaluate(f"window.opened = window.open('{app}/')")
    expect(opened.value.get_by_role("button", name="Sign out")).to_be_visible()
    assert opened.value.evaluate("window.opener") is None and page.evaluate("window.opened.closed") is True
    opened.value.close()

    def hops() -> int:
        return sum("/.berth/enter" in one for one in requests)
    before = hops()
    assert before == 1
    page.evaluate("document.cookie = 'berth_preview=planted; path=/index.html'")
    page.reload()
    expect(page.get_by_role("heading", name="after")).to_be_visible()
    assert hops() == before, "a planted cookie leads nobody through the hop again"
    context.close()


def test_a_page_that_waits_shows_the_program_when_it_comes(
        stack: Stack, context: Any, agent: httpx.Client, workspace: dict[str, Any], watch: Watch) -> None:
    port, base = free_port(), f"/workspaces/{workspace['id']}"
    page: Page = watch.on(context.new_page())
    watch.provoked.append("Failed to load resource")
    page.goto(f"{stack.base_url}/previews/sign-in?to={port}--{workspace['id']}&path=/")
    expect(page.get_by_role("heading", name="Nothing listens on this port yet")).to_be_visible()
    agent.post(f"{base}/execs", json={"command": f"mkdir -p www; echo '<h1>it came</h1>' > www/index.html; "
                                                 f"exec python3 -m http.server -d www {port}", "background": True})
    expect(page.get_by_role("heading", name="it came")).to_be_visible(timeout=30_000)
    assert page.url.endswith(f":{stack.port}/")
