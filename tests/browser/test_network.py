"""Network, as a person meets it: what a host cannot is said; rules are a draft until they are applied; what was tried
is read, searched, and allowed from its row. The stack's host lets nobody out: what one that does would say is mocked.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import WIDE, Watch
from tests.browser.hands import open_workspace
from tests.browser.test_looks import no_barriers, no_sideways_scrolling

LIMITS = {"connections": 256, "bytes_per_s": None, "dns_per_s": 50}


def attempt(seq: int, name: str, verdict: str, **more: Any) -> dict[str, Any]:
    return {"seq": seq, "at": "2026-01-02T03:04:05Z", "name": name, "address": "203.0.113.9", "port": 443,
            "protocol": "tcp", "verdict": verdict, "rule": "rules[0]" if verdict == "allowed" else "rules",
            "reason": "" if verdict == "allowed" else "no_rule", "bytes_in": 0, "bytes_out": 0, "ms": 3, "count": 1,
            **more}


class Door:
    """A host that lets out: it keeps the policy, refuses what the test says, and has a log."""

    def __init__(self, page: Page) -> None:
        self.network: dict[str, Any] = {"mode": "deny-all"}
        self.revision = 0
        self.puts: list[dict[str, Any]] = []
        self.refusal: dict[str, Any] | None = None
        self.rows = [attempt(1, "files.example.org", "allowed", bytes_in=4096, bytes_out=512),
                     attempt(2, "crates.io", "refused", count=4),
                     attempt(3, "", "refused", address="169.254.169.254", port=80, reason="private")]
        page.route(re.compile(r"/network$"), self._policy)
        page.route(re.compile(r"/network/log\?"), self._log)

    def _policy(self, route: Route) -> None:
        if route.request.method == "PUT":
            if self.refusal is not None:
                refusal, self.refusal = self.refusal, None
                route.fulfill(status=refusal["status"], json=refusal)
                return
            assert route.request.headers["if-match"] == f'"{self.revision}"'
            self.network, self.revision = route.request.post_data_json, self.revision + 1
            self.puts.append(self.network)
        route.fulfill(json={"network": self.network, "revision": self.revision, "in_force": True, "supported": True,
                            "bound": {"mode": "rules", "rules": [{"domain": "*.org", "ports": [80, 443]}]},
                            "private_allowed": ["10.1.2.0/24"], "limits": LIMITS})

    def _log(self, route: Route) -> None:
        after = re.search(r"after=(\d+)", route.request.url)
        wanted = [row for row in self.rows if row["seq"] > int(after[1] if after else 0)
                  and ("verdict=refused" not in route.request.url or row["verdict"] == "refused")]
        route.fulfill(json={"results": wanted, "next": None, "dropped": 0})


def picture(page: Page, name: str) -> None:
    """Where somebody wants to look at it."""
    folder = os.environ.get("BERTH_PICTURES")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png")


def looked_at(page: Page, name: str) -> None:
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        no_barriers(page)
        picture(page, f"{name}-{scheme}")
    no_sideways_scrolling(page)
    page.get_by_role("navigation").get_by_role("button", name="Network").click()
    no_barriers(page)
    picture(page, f"{name}-narrow")
    page.set_viewport_size(WIDE)


def test_what_it_may_reach_is_edited_applied_and_allowed_from_what_it_tried(
        page: Page, workspace: dict[str, Any], watch: Watch) -> None:
    open_workspace(page, workspace)
    page.get_by_role("tab", name="Network").click()
    pane = page.locator(".network")
    expect(pane.get_by_text("This host lets no machine out")).to_be_visible()
    expect(pane.get_by_label("Nothing")).to_be_checked()
    expect(pane.get_by_label("Anything public")).to_be_disabled()
    expect(pane.get_by_text("It has tried nothing.")).to_be_visible()
    looked_at(page, "network-closed")

    door = Door(page)
    page.reload()
    page.get_by_role("tab", name="Network").click()
    pane.get_by_label("Only what rules name").check()
    field = pane.get_by_label("A destination to allow")
    field.fill("https://example.org")
    field.press("Enter")
    expect(pane.get_by_text("Write it like example.org")).to_be_visible()
    for rule in ("*.example.org", "a_b.test:443"):
        field.fill(rule)
        field.press("Enter")
    pane.get_by_label("Ask a member about everything else").check()
    assert door.puts == [], "a draft, until it is applied"
    watch.provoked.append("status of 4")
    door.refusal = {"status": 400, "code": "invalid", "title": "x", "errors": {"rules[1].domain": ["A name, please."]}}
    pane.get_by_role("button", name="Apply").click()
    rules = pane.get_by_role("list", name="Rules").get_by_role("listitem")
    expect(rules.nth(1)).to_contain_text("A name, please.")
    pane.get_by_role("button", name="Remove a_b.test:443").click()
    pane.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("It holds from now on.")).to_be_visible()
    expect(pane.get_by_role("button", name="Apply")).to_have_count(0)
    assert door.puts == [{"mode": "rules", "rules": [{"domain": "*.example.org"}], "ask": True}]
    expect(pane.get_by_text("Admins allow at most: *.org.")).to_be_visible()

    rows = pane.get_by_role("list", name="Attempts, newest first").get_by_role("listitem")
    expect(rows).to_have_count(3)
    expect(rows.nth(0)).to_contain_text("a private address")
    expect(rows.nth(0).get_by_role("button")).to_have_count(0)
    expect(rows.nth(2)).to_contain_text("Allowed")
    looked_at(page, "network-open")
    door.rows.append(attempt(4, "pypi.org", "refused"))
    expect(rows).to_have_count(4)  # by itself
    pane.get_by_label("Refused only").check()
    expect(rows).to_have_count(3)
    pane.get_by_label("Search what it tried").fill("crates")
    expect(rows).to_have_count(1)
    rows.get_by_role("button", name="Allow crates.io:443").click()
    expect(rules).to_have_text(["*.example.org", "crates.io:443"])
    assert door.puts[-1]["rules"] == [{"domain": "*.example.org"}, {"domain": "crates.io", "ports": [443]}]

    page.route(re.compile(r"/approvals\?state=pending"), lambda route: route.fulfill(json={"next": None, "results": [{
        "id": "a" * 20, "kind": "network", "actor": {"type": "system", "name": "the guest"}, "state": "pending",
        "request": {"name": "rubygems.org", "address": "", "port": 443}, "created_at": "2026-01-02T03:04:05Z",
        "expires_at": "2099-01-02T03:04:05Z"}]}))
    page.reload()
    asked = page.get_by_role("group", name="the guest wants to reach")
    expect(asked).to_contain_text("rubygems.org:443")
    no_barriers(page)
