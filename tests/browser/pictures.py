"""Makes the pictures of the README from a running instance, so that they show the product and nothing else.

    BERTH_URL=http://localhost:8000 BERTH_TOKEN=berth_… BERTH_USER=ada BERTH_PASSWORD=… python -m tests.browser.pictures

The token and the user are the same person's. An agent's morning is played over REST, a person looks at it in the
browser; the workspaces made for it are purged at the end. Writes docs/pictures/workspace.png and home.png.
"""

from __future__ import annotations

import os
from typing import Any

import httpx
from playwright.sync_api import Page, expect, sync_playwright

from tests.browser.conftest import ARGUMENTS, CHROMIUM
from tests.browser.hands import entry, new_terminal, open_file, open_workspace, sign_in, type_line
from tests.stack import ROOT

PICTURES = ROOT / "docs" / "pictures"
LIMIT_BYTES = 200_000
SIZE = {"width": 1360, "height": 820}
PROGRAM = b'''"""Pages of results, with a cursor that survives inserts."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Page:
    results: list[dict]
    next: str | None = None


def paginate(rows: list[dict], limit: int = 50, after: str | None = None) -> Page:
    """Newest first. `limit` is clamped to 1..200."""
    limit = max(1, min(limit, 200))
    start = 0 if after is None else json.loads(base64.urlsafe_b64decode(after))["at"]
    window = rows[start:start + limit]
    if len(rows) <= start + limit:
        return Page(window)
    return Page(window, base64.urlsafe_b64encode(json.dumps({"at": start + limit}).encode()).decode())
'''
CHECKS = b'''import unittest

from pages import paginate


class Pages(unittest.TestCase):
    def test_the_last_page_names_no_next(self):
        self.assertIsNone(paginate([{"n": 1}]).next)

    def test_a_cursor_goes_on_where_the_page_ended(self):
        rows = [{"n": n} for n in range(5)]
        first = paginate(rows, limit=2)
        self.assertEqual(paginate(rows, limit=2, after=first.next).results, rows[2:4])


if __name__ == "__main__":
    unittest.main()
'''


def main() -> None:
    url = os.environ["BERTH_URL"].rstrip("/")
    api = httpx.Client(base_url=f"{url}/api/v1", timeout=300,
                       headers={"Authorization": f"Bearer {os.environ['BERTH_TOKEN']}"})
    token = api.post("/tokens", json={"name": "ci-bot"}).raise_for_status().json()
    agent = httpx.Client(base_url=f"{url}/api/v1", timeout=300, headers={"Authorization": f"Bearer {token['secret']}"})
    made = [create(agent, "nightly-report"), create(agent, "docs-site"),
            create(agent, "api-refactor", cpus=2, memory_mib=1024)]
    try:
        play(agent, made[2]["id"])
        api.post(f"/workspaces/{made[1]['id']}/stop?wait=true&timeout_s=120").raise_for_status()
        photograph(url, made[2])
    finally:
        for workspace in made:
            api.delete(f"/workspaces/{workspace['id']}?purge=true")
        api.delete(f"/tokens/{token['id']}")


def create(api: httpx.Client, name: str, **fields: Any) -> dict[str, Any]:
    answer = api.post("/workspaces?wait=true&timeout_s=300", json={"name": name, **fields})
    answer.raise_for_status()
    made: dict[str, Any] = answer.json()
    return made


def play(api: httpx.Client, workspace_id: str) -> None:
    """What an agent does before somebody looks."""
    files, execs = f"/workspaces/{workspace_id}/files/content", f"/workspaces/{workspace_id}/execs"

    def write(path: str, body: bytes) -> None:
        api.put(files, params={"path": path, "parents": "true"}, content=body).raise_for_status()

    def run(command: str | list[str], **fields: Any) -> None:
        api.post(execs, json={"command": command, "cwd": "/home/user/api", **fields}).raise_for_status()

    write("/home/user/api/pages.py", PROGRAM.replace(b"limit = max(1, min(limit, 200))", b"limit = min(limit, 200)"))
    write("/home/user/api/README.md", b"# Pages\n\nA cursor that survives inserts.\n")
    run("git init -q && git add -A")
    run(["python3", "-m", "unittest", "-q"])
    write("/home/user/api/tests.py", CHECKS.replace(b"rows[2:4]", b"rows[2:5]"))
    run(["python3", "tests.py"])
    write("/home/user/api/tests.py", CHECKS)
    write("/home/user/api/pages.py", PROGRAM)
    run(["python3", "tests.py"])
    run("sleep 30", timeout_s=1)


def photograph(url: str, workspace: dict[str, Any]) -> None:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = chromium.new_context(base_url=url, viewport=SIZE, color_scheme="light").new_page()
        page.set_default_timeout(60_000)
        page.goto("/")
        sign_in(page, os.environ["BERTH_USER"], os.environ["BERTH_PASSWORD"])
        expect(page.get_by_role("link", name=workspace["name"])).to_be_visible()
        keep(page, "home.png", clip={"x": 0, "y": 0, "width": SIZE["width"], "height": 420})
        open_workspace(page, workspace)
        entry(page, "api").click()
        open_file(page, "pages.py")
        rows = new_terminal(page)
        type_line(page, "cd api; clear; python3 tests.py")
        expect(rows).to_contain_text("OK", timeout=60_000)
        page.locator(".cm-line", has_text="def paginate").click()
        page.locator(".cm-scroller").evaluate("scroller => { scroller.scrollLeft = 0; }")
        keep(page, "workspace.png")
        chromium.close()


def keep(page: Page, name: str, **how: Any) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    picture = page.screenshot(path=PICTURES / name, animations="disabled", caret="hide", **how)
    assert len(picture) < LIMIT_BYTES, f"{name} has {len(picture)} bytes, the limit is {LIMIT_BYTES}"
    print(f"{name}: {len(picture) // 1000} kB")


if __name__ == "__main__":
    main()
