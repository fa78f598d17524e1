"""The file tree in a real browser: by keyboard, by menu, by drag; uploads; and what others do, as they do it.

The tests of this file share one workspace; each has a folder of its own in it.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import Watch
from tests.browser.hands import banner, entry, open_workspace, tab, tree_menu, type_at_end
from tests.browser.test_finding import both_looks
from tests.browser.test_looks import no_barriers, no_sideways_scrolling

HOME = "/home/user"


class Files:
    """The same files, as a program sees them."""

    def __init__(self, agent: httpx.Client, workspace: dict[str, Any]) -> None:
        self.agent, self.workspace = agent, workspace
        self.base = f"/workspaces/{workspace['id']}"

    def put(self, path: str, body: bytes = b"") -> None:
        where = f"{self.base}/files/content?path={quote(f'{HOME}/{path}')}&parents=true"
        self.agent.put(where, content=body).raise_for_status()

    def read(self, path: str) -> bytes:
        answer = self.agent.get(f"{self.base}/files/content?path={quote(f'{HOME}/{path}')}")
        answer.raise_for_status()
        return answer.content

    def run(self, command: str) -> None:
        done = self.agent.post(f"{self.base}/execs", json={"command": command}).json()
        assert done["outcome"] == {"kind": "exited", "code": 0}, done


@pytest.fixture(scope="module")
def files(agent: httpx.Client) -> Iterator[Files]:
    body = agent.post("/workspaces?wait=true", json={"name": "tree"}).raise_for_status().json()
    yield Files(agent, body)
    agent.delete(f"/workspaces/{body['id']}?purge=true")


def focused(page: Page) -> Locator:
    return page.locator(".tree :focus .entry-text")


def test_the_tree_is_walked_and_changed_by_keyboard(page: Page, files: Files) -> None:
    for name in ("keys/alpha/one.txt", "keys/alpha/two.txt", "keys/beta.txt", "keys/bravo.txt"):
        files.put(name)
    open_workspace(page, files.workspace)
    expect(entry(page, "keys")).to_be_visible()
    page.keyboard.press("Control+Shift+e")
    page.keyboard.type("ke")
    expect(focused(page)).to_have_text("keys")
    row = page.get_by_role("treeitem", name="keys, folder")
    expect(row).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("ArrowRight")
    expect(entry(page, "bravo.txt")).to_be_visible()
    expect(row).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowRight")
    expect(focused(page)).to_have_text("alpha")
    expect(page.get_by_role("treeitem", name="alpha, folder")).to_have_attribute("aria-level", "2")
    page.keyboard.type("b")
    expect(focused(page)).to_have_text("beta.txt")
    page.keyboard.press("b")
    expect(focused(page)).to_have_text("bravo.txt")
    page.keyboard.press("Home")
    page.keyboard.press("End")
    both_looks(page)
    entry(page, "beta.txt").focus()
    page.keyboard.type("br")
    expect(focused(page)).to_have_text("bravo.txt")
    page.keyboard.press("Control+x")
    page.keyboard.type("al")
    page.keyboard.press("Control+v")
    expect(entry(page, "bravo.txt")).to_have_count(0)
    expect(focused(page)).to_have_text("alpha")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("treeitem", name="bravo.txt")).to_have_attribute("aria-level", "3")
    page.keyboard.type("keys")
    page.keyboard.press("Shift+F10")
    menu = page.get_by_role("menu")
    expect(menu.get_by_role("menuitem", name="New file")).to_be_focused()
    both_looks(page)
    page.keyboard.press("Escape")
    expect(menu).to_have_count(0)
    expect(focused(page)).to_have_text("keys")
    page.keyboard.press("Delete")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("everything in it, 4 files and 1 folder, are removed")
    no_barriers(page)
    page.keyboard.press("Escape")
    expect(focused(page)).to_have_text("keys")
    page.keyboard.press("ArrowLeft")
    expect(entry(page, "alpha")).to_have_count(0)
    page.keyboard.press("Enter")
    page.keyboard.type("bet")
    page.keyboard.press("Enter")
    expect(page.locator(".cm-content")).to_be_focused()


def test_a_name_is_written_in_its_row(page: Page, files: Files, watch: Watch) -> None:
    watch.provoked.append("/files")
    for name in ("rename/beta.txt", "rename/bravo.txt"):
        files.put(name)
    open_workspace(page, files.workspace)
    entry(page, "rename").click()
    entry(page, "beta.txt").focus()
    page.keyboard.press("F2")
    name = page.get_by_label("New name of beta.txt")
    expect(name).to_be_focused()
    page.keyboard.type("bravo")  # what stands before the kind is selected
    page.keyboard.press("Enter")
    refusal = page.get_by_role("treeitem", name="beta.txt").get_by_role("alert")
    expect(refusal).to_have_text("“bravo.txt” is already there.")
    expect(name).to_be_focused()
    both_looks(page)
    name.fill("a/b")
    page.keyboard.press("Enter")
    expect(refusal).to_have_text("“a/b” cannot be a name.")
    page.keyboard.press("Escape")
    expect(focused(page)).to_have_text("beta.txt")
    page.keyboard.press("F2")
    expect(name).to_be_focused()
    page.keyboard.type("gamma")
    page.keyboard.press("Enter")
    expect(focused(page)).to_have_text("gamma.txt")
    tree_menu(page, "gamma.txt").get_by_role("menuitem", name="Rename").click()
    page.get_by_label("New name of gamma.txt").fill("delta.txt")
    entry(page, "bravo.txt").click()  # who goes on elsewhere has finished
    expect(entry(page, "delta.txt")).to_be_visible()
    assert files.read("rename/delta.txt") == b""


def test_an_entry_is_moved_by_drag_and_by_dialog_and_a_taken_name_is_asked_about(
        page: Page, files: Files, watch: Watch) -> None:
    watch.provoked.append("/files")
    files.put("moves/a.txt", b"mine")
    files.put("moves/into/a.txt", b"theirs")
    files.put("moves/b.txt", b"b")
    open_workspace(page, files.workspace)
    entry(page, "moves").click()
    entry(page, "a.txt").click()
    expect(tab(page, "a.txt")).to_be_visible()
    entry(page, "b.txt").drag_to(entry(page, "into"))
    expect(entry(page, "b.txt")).to_have_count(0)
    assert files.read("moves/into/b.txt") == b"b"
    tree_menu(page, "a.txt").get_by_role("menuitem", name="Move").click()
    page.get_by_label("To this folder, or to this path").fill(f"{HOME}/moves/into/")
    page.get_by_role("button", name="Move", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading")).to_have_text("a.txt is already there")
    no_barriers(page)
    dialog.get_by_role("button", name="Keep both").click()
    expect(entry(page, "a.txt")).to_have_count(0)
    assert files.read("moves/into/a (2).txt") == b"mine"
    assert files.read("moves/into/a.txt") == b"theirs"
    expect(tab(page, "a (2).txt")).to_be_visible()  # the open text went with its file
    tree_menu(page, "moves").get_by_role("menuitem", name="Move").click()
    page.get_by_label("To this folder, or to this path").fill(f"{HOME}/moves/into")
    page.get_by_role("button", name="Move", exact=True).click()
    expect(dialog.get_by_role("alert")).to_have_text("A folder cannot be moved into itself.")
    page.keyboard.press("Escape")
    with page.expect_download() as download:
        tree_menu(page, "moves").get_by_role("menuitem", name="Download as an archive").click()
    with tarfile.open(download.value.path()) as archive:
        names = {name.removeprefix("./") for name in archive.getnames()}
    assert names == {"into", "into/a.txt", "into/a (2).txt", "into/b.txt"}


def test_files_and_whole_folders_are_uploaded_and_taken_names_are_asked_about(
        page: Page, files: Files, tmp_path: Path, watch: Watch) -> None:
    watch.provoked.append("/files")
    files.put("up/old.txt", b"old")
    files.put("up/kept.txt", b"kept")
    files.put("up/box/deep.txt", b"old")
    for name, body in (("old.txt", b"new"), ("kept.txt", b"new"), ("big.bin", bytes(3_000_000))):
        (tmp_path / name).write_bytes(body)
    folder = tmp_path / "box"
    (folder / "in" / "it").mkdir(parents=True)
    (folder / "deep.txt").write_bytes(b"new")
    (folder / "in" / "it" / "low.txt").write_bytes(b"low")
    open_workspace(page, files.workspace)
    with page.expect_file_chooser() as chooser:
        tree_menu(page, "up").get_by_role("menuitem", name="Upload files").click()
    held: list[Route] = []
    page.route("**/content?*big.bin*",
               lambda route: held.append(route) if route.request.method == "PUT" else route.continue_())
    chooser.value.set_files([tmp_path / name for name in ("old.txt", "kept.txt", "big.bin")])
    bar, dialog = page.get_by_role("group", name="Upload"), page.get_by_role("dialog")
    for _ in range(2):  # they go side by side: either may be asked about first
        expect(dialog.get_by_role("heading")).to_have_text(re.compile("(old|kept).txt is already there"))
        asked = dialog.get_by_role("heading").inner_text()
        dialog.get_by_role("button", name="Replace" if asked.startswith("old") else "Keep both").click()
        expect(dialog.get_by_text(asked)).to_have_count(0)
    expect(bar.get_by_role("status")).to_contain_text("2 of 3 files")
    no_barriers(page)
    held[0].continue_()
    expect(bar).to_have_count(0)
    assert [files.read(f"up/{name}") for name in ("old.txt", "kept.txt", "kept (2).txt")] == [b"new", b"kept", b"new"]
    assert len(files.read("up/big.bin")) == 3_000_000
    with page.expect_file_chooser() as chooser:
        tree_menu(page, "up").get_by_role("menuitem", name="Upload a folder").click()
    chooser.value.set_files(folder)
    dialog.get_by_label("The same for all others").check()
    dialog.get_by_role("button", name="Skip").click()
    expect(bar).to_have_count(0)
    assert [files.read("up/box/deep.txt"), files.read("up/box/in/it/low.txt")] == [b"old", b"low"]
    entry(page, "up").click()
    expect(entry(page, "big.bin")).to_be_visible()
    drop_a_file(page, entry(page, "up"), "dropped.txt", "by hand")
    expect(entry(page, "dropped.txt")).to_be_visible()
    assert files.read("up/dropped.txt") == b"by hand"
    problem = {"status": 507, "code": "guest_disk_full", "detail": "No space is left."}
    page.route("**/content?*full.txt*", lambda route: route.fulfill(status=507, json=problem))
    drop_a_file(page, entry(page, "up"), "full.txt", "x")
    expect(bar.get_by_role("alert")).to_contain_text("full.txt: No space is left.")
    both_looks(page)
    page.set_viewport_size({"width": 400, "height": 800})
    page.get_by_role("navigation").get_by_role("button", name="Files").click()
    no_sideways_scrolling(page)
    entry(page, "up").get_by_role("button", name="More about up").click()
    expect(page.get_by_role("menu")).to_be_in_viewport(ratio=1)
    page.keyboard.press("Escape")
    bar.get_by_role("button", name="Put away").click()
    expect(bar).to_have_count(0)


def drop_a_file(page: Page, onto: Locator, name: str, text: str) -> None:
    data = page.evaluate_handle("""([name, text]) => {
        const data = new DataTransfer(); data.items.add(new File([text], name)); return data; }""", [name, text])
    for kind in ("dragenter", "dragover", "drop"):
        onto.dispatch_event(kind, {"dataTransfer": data})


def test_what_others_do_appears_by_itself_and_nothing_jumps(page: Page, files: Files, watch: Watch) -> None:
    watch.provoked.append("/files")
    for number in range(60):
        files.put(f"live/a/{number:02}.txt", b"")
    files.put("live/b/mine.txt", b"one\n")
    files.put("live/b/other.txt", b"one\n")
    open_workspace(page, files.workspace)
    for folder in ("live", "a", "b"):
        entry(page, folder).click()
    entry(page, "mine.txt").click()
    type_at_end(page, "two\n")
    entry(page, "other.txt").click()
    content = page.locator(".cm-content")
    content.click()
    page.keyboard.press("Control+Home")
    page.keyboard.press("ArrowRight")
    entry(page, "mine.txt").scroll_into_view_if_needed()
    before = page.evaluate("document.querySelector('.tree').scrollTop")
    assert before > 0
    # By a program that no part of the page knows of, not through the API.
    files.run("cd live/b && printf 'zero\\none\\n' > other.txt && mv mine.txt away.txt && mkdir fresh && >fresh/in.txt")
    expect(entry(page, "fresh")).to_be_visible()
    expect(entry(page, "away.txt")).to_be_visible()
    expect(content).to_have_text("zeroone")
    page.keyboard.insert_text("X")
    expect(content).to_have_text("zerooXne")  # the cursor stayed where it was in the text
    assert page.evaluate("document.querySelector('.tree').scrollTop") == before
    tab(page, "mine.txt").locator(".tab-name").click()
    expect(banner(page)).to_contain_text("mine.txt was deleted or moved")
    both_looks(page)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(banner(page)).to_have_count(0)
    assert files.read("live/b/mine.txt") == b"one\ntwo\n"
    entry(page, "fresh").click()
    expect(entry(page, "in.txt")).to_be_visible()
    entry(page, "in.txt").focus()
    page.keyboard.type("in")
    files.run("rm -r live/b/fresh")
    expect(entry(page, "fresh")).to_have_count(0)
    expect(page.locator(".tree :focus")).to_have_count(1)  # the keyboard still stands in the tree
