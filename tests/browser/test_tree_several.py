"""Several entries of the file tree at once, by mouse, keyboard, finger; folders dropped; an upload called off.

The tests of this file share one workspace; each has a folder of its own in it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import Watch
from tests.browser.hands import entry, open_workspace, tab, tree_menu
from tests.browser.test_finding import both_looks
from tests.browser.test_looks import no_sideways_scrolling
from tests.browser.test_tree import HOME, Files, files, focused
from tests.stack import Stack, until

__all__ = ["files"]


def chosen(page: Page) -> Locator:
    return page.get_by_role("tree").locator("[aria-selected=true] .entry-text")


def names(files: Files, folder: str) -> list[str]:
    """Everything there, what is hidden too."""
    answer = files.agent.get(f"{files.base}/files", params={"path": f"{HOME}/{folder}"}).raise_for_status().json()
    return [one["path"].rpartition("/")[2] for one in answer["entries"]]


def test_several_are_chosen_by_mouse_and_by_keyboard_and_downloaded_together(page: Page, files: Files) -> None:
    for name in ("a.txt", "b.txt", "c.txt", "d.txt", "in/one.txt", "in/two.txt"):
        files.put(f"many/{name}", name.encode())
    open_workspace(page, files.workspace)
    entry(page, "many").click()
    entry(page, "in").click()
    expect(entry(page, "two.txt")).to_be_visible()
    expect(page.get_by_role("tree")).to_have_attribute("aria-multiselectable", "true")
    entry(page, "a.txt").click()
    entry(page, "c.txt").click(modifiers=["Control"])
    expect(chosen(page)).to_have_text(["a.txt", "c.txt"])  # the one where one was joins the first
    entry(page, "d.txt").click(modifiers=["Control"])
    entry(page, "c.txt").click(modifiers=["Control"])
    expect(chosen(page)).to_have_text(["a.txt", "d.txt"])
    expect(page.get_by_role("group", name="Chosen entries").get_by_role("status")).to_have_text("2 chosen")
    both_looks(page)
    with page.expect_download(lambda one: one.suggested_filename == "a.txt") as first, \
            page.expect_download(lambda one: one.suggested_filename == "d.txt"):
        tree_menu(page, "d.txt").get_by_role("menuitem", name="Download 2 entries").click()
    assert Path(first.value.path()).read_bytes() == b"a.txt"

    # By keyboard, with a folder and what lies in it: that goes along and is not counted twice.
    entry(page, "in").focus()
    page.keyboard.press("Control+Space")
    page.keyboard.press("Escape")
    expect(chosen(page)).to_have_count(0)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Shift+ArrowDown")
    expect(chosen(page)).to_have_text(["in", "one.txt", "two.txt"])
    page.keyboard.press("Shift+ArrowUp")
    expect(chosen(page)).to_have_text(["in", "one.txt"])
    page.keyboard.press("Control+a")
    expect(page.get_by_role("status").get_by_text("chosen")).to_have_text("8 chosen")
    page.keyboard.press("ArrowDown")
    expect(chosen(page)).to_have_count(0)


def test_several_are_moved_and_deleted_with_one_question(page: Page, files: Files, watch: Watch) -> None:
    watch.provoked.append("/files")
    for name in ("a.txt", "b.txt", "c.txt", "in/one.txt", "in/two.txt", "to/b.txt"):
        files.put(f"go/{name}", name.encode())
    open_workspace(page, files.workspace)
    entry(page, "go").click()
    entry(page, "a.txt").click()
    entry(page, "b.txt").click(modifiers=["Shift"])
    expect(chosen(page)).to_have_text(["a.txt", "b.txt"])
    entry(page, "b.txt").drag_to(entry(page, "to"))
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading")).to_have_text("b.txt is already there")
    dialog.get_by_role("button", name="Keep both").click()
    expect(page.get_by_text("Moved 2 of 2 to /home/user/go/to.")).to_be_visible()
    assert names(files, "go/to") == ["a.txt", "b (2).txt", "b.txt"]
    expect(tab(page, "a.txt")).to_be_visible()  # an open text goes with its file
    entry(page, "c.txt").click()
    entry(page, "in").click(modifiers=["Control"])
    page.get_by_role("group", name="Chosen entries").get_by_role("button", name="Move").click()
    expect(dialog.get_by_role("heading")).to_have_text("Move 2 entries")
    page.get_by_label("To this folder").fill(f"{HOME}/go/nowhere")
    dialog.get_by_role("button", name="Move").click()
    expect(dialog.get_by_role("alert")).to_have_text("There is no such folder.")
    both_looks(page)
    page.get_by_label("To this folder").fill(f"{HOME}/go/to/")
    dialog.get_by_role("button", name="Move").click()
    expect(entry(page, "c.txt")).to_have_count(0)
    until(lambda: names(files, "go/to") == ["a.txt", "b (2).txt", "b.txt", "c.txt", "in"], "both are there")

    entry(page, "to").click()
    expect(entry(page, "b (2).txt")).to_be_visible()
    entry(page, "in").click()
    entry(page, "in").focus()
    page.keyboard.press("Control+Space")
    entry(page, "b.txt").click(modifiers=["Control"])
    page.keyboard.press("Delete")
    expect(dialog.get_by_role("heading")).to_have_text("Delete 2 entries?")
    expect(dialog.get_by_role("status")).to_contain_text("All 2 and everything in the folder, 2 files, are removed")
    both_looks(page)
    dialog.get_by_role("button", name="Delete 2 entries").click()
    expect(entry(page, "b.txt")).to_have_count(0)
    expect(focused(page)).to_have_count(1)
    assert names(files, "go/to") == ["a.txt", "b (2).txt", "c.txt"]


def test_a_finger_opens_the_menu_by_staying_and_chooses_several(
        stack: Stack, browser: Browser, session_state: object, files: Files, watch: Watch) -> None:
    for name in ("x.txt", "y.txt"):
        files.put(f"touch/{name}")
    context = browser.new_context(base_url=stack.base_url, viewport={"width": 400, "height": 800}, has_touch=True,
                                  storage_state=session_state, reduced_motion="reduce")  # type: ignore[arg-type]
    context.set_default_timeout(20_000)
    page = watch.on(context.new_page())
    open_workspace(page, files.workspace)
    page.get_by_role("navigation").get_by_role("button", name="Files").tap()
    entry(page, "touch").tap()
    box = entry(page, "x.txt").bounding_box()
    assert box is not None
    at = {"x": box["x"] + 80, "y": box["y"] + box["height"] / 2}
    hand = context.new_cdp_session(page)
    hand.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [at]})
    menu = page.get_by_role("menu", name="x.txt")
    expect(menu).to_be_in_viewport(ratio=1)
    hand.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    menu.get_by_role("menuitem", name="Choose several").tap()
    entry(page, "y.txt").locator(".entry-text").tap()
    expect(chosen(page)).to_have_text(["x.txt", "y.txt"])
    no_sideways_scrolling(page)
    both_looks(page)
    page.get_by_role("group", name="Chosen entries").get_by_role("button", name="Delete").tap()
    page.get_by_role("dialog").get_by_role("button", name="Delete 2 entries").tap()
    expect(entry(page, "x.txt")).to_have_count(0)
    assert names(files, "touch") == []
    context.close()


def test_a_dropped_folder_arrives_whole_and_an_upload_called_off_leaves_nothing(
        page: Page, files: Files, tmp_path: Path, watch: Watch) -> None:
    watch.provoked.append("/files")
    files.put("drop/kept.txt", b"kept")
    folder = tmp_path / "project"
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "empty").mkdir()
    for at in range(120):  # a browser tells of a hundred at a time
        (folder / "src" / f"{at:03}.txt").write_text(str(at))
    (folder / "src" / "deep" / "\N{LATIN SMALL LETTER U WITH DIAERESIS}.bin").write_bytes(bytes(range(256)))
    open_workspace(page, files.workspace)
    hand = page.context.new_cdp_session(page)
    drop_paths(page, hand, entry(page, "drop"), folder)
    expect(page.get_by_text("Uploaded 121 files to /home/user/drop.")).to_be_visible()
    assert names(files, "drop/project") == ["empty", "src"] and names(files, "drop/project/empty") == []
    assert len(names(files, "drop/project/src")) == 121
    assert files.read("drop/project/src/deep/ü.bin") == bytes(range(256))
    assert files.read("drop/project/src/119.txt") == b"119"

    (tmp_path / "kept.txt").write_bytes(os.urandom(40_000_000))
    bar = page.get_by_role("group", name="Upload")
    hand.send("Network.emulateNetworkConditions",
              {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 2_000_000})
    drop_paths(page, hand, entry(page, "drop"), tmp_path / "kept.txt")
    page.get_by_role("dialog").get_by_role("button", name="Replace").click()
    expect(bar.get_by_role("status")).to_have_text(re.compile("^Uploading: 0 of 1 file, [1-9].* of 38"))  # under way
    bar.get_by_role("button", name="Cancel the upload").click()
    expect(page.get_by_text("Cancelled. 0 of 1 files are there.")).to_be_visible()
    expect(bar).to_have_count(0)
    until(lambda: names(files, "drop") == ["kept.txt", "project"], "nothing of it is left")
    assert files.read("drop/kept.txt") == b"kept"


def drop_paths(page: Page, hand: object, onto: Locator, path: Path) -> None:
    """As the desktop drops them: the browser itself reads the folder."""
    onto.scroll_into_view_if_needed()
    box = onto.bounding_box()
    assert box is not None
    data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        hand.send("Input.dispatchDragEvent",  # type: ignore[attr-defined]
                  {"type": kind, "x": box["x"] + 60, "y": box["y"] + box["height"] / 2, "data": data})
