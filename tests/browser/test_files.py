"""Files in a real browser: the tree, the editor, saving, and what happens when somebody else writes the same file.

Numbers in comments are field cases.
"""

from __future__ import annotations

import base64
import hashlib
import re
import tarfile
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.browser.conftest import Watch
from tests.browser.hands import banner, entry, more, open_file, open_workspace, state_of, tab, tree_menu, type_at_end
from tests.browser.test_finding import both_looks

Put = Callable[[str, bytes], None]
Read = Callable[[str], bytes]
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAEElEQVR4nGMQ"
                       "SFgAQQxwFgA8dAZhe7ZzGAAAAABJRU5ErkJggg==")
SVG = (b'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30" onload="alert(1)">'
       b'<script>alert(2)</script></svg>')
HOSTILE = ['"><svg onload=alert(1)>', "<img src=x onerror=alert(2)>.txt", "{{7*7}}${7*7}.md", "javascript:alert(3)"]


@pytest.fixture
def put(agent: httpx.Client, workspace: dict[str, Any]) -> Put:
    def write(path: str, body: bytes) -> None:
        answer = agent.put(f"/workspaces/{workspace['id']}/files/content?path={quote(path)}&parents=true", content=body)
        assert answer.status_code in (200, 201), answer.text
    return write


@pytest.fixture
def read(agent: httpx.Client, workspace: dict[str, Any]) -> Read:
    def content(path: str) -> bytes:
        answer = agent.get(f"/workspaces/{workspace['id']}/files/content?path={quote(path)}")
        assert answer.status_code == 200, answer.text
        return answer.content
    return content


def saved(page: Page, name: str) -> None:
    expect(tab(page, name).get_by_text("not saved")).to_have_count(0)


def test_a_file_is_listed_opened_edited_and_saved(
        page: Page, workspace: dict[str, Any], put: Put, read: Read) -> None:
    put("/home/user/src/main.py", b"print('one')\n")
    open_workspace(page, workspace)
    entry(page, "src").click()
    expect(open_file(page, "main.py")).to_contain_text("print('one')")
    type_at_end(page, "print('two')")
    expect(tab(page, "main.py").get_by_text("not saved")).to_be_attached()
    page.keyboard.press("Control+s")
    saved(page, "main.py")
    assert read("/home/user/src/main.py") == b"print('one')\nprint('two')"


def test_a_save_over_somebody_elses_version_is_refused_and_each_way_out_works(
        page: Page, workspace: dict[str, Any], put: Put, read: Read, watch: Watch) -> None:
    watch.provoked.append("/files/content")
    put("/home/user/plan.md", b"first\n")
    open_workspace(page, workspace)
    content = open_file(page, "plan.md")
    type_at_end(page, "mine\n")
    put("/home/user/plan.md", b"theirs\n")
    expect(banner(page)).to_contain_text("plan.md changed underneath")  # said before the save would fail
    page.get_by_role("button", name="Compare and merge").click()
    dialog = page.get_by_role("dialog")
    left, right = dialog.get_by_label("Theirs", exact=True), dialog.get_by_label("What will be saved")
    expect(left).to_have_text("theirs")
    expect(right).to_have_text("firstmine")
    both_looks(page)
    dialog.get_by_role("button", name="Take theirs", exact=True).click()
    expect(right).to_have_text("theirs")
    dialog.get_by_role("button", name="Take mine", exact=True).click()
    expect(right).to_have_text("firstmine")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Keep editing").click()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(banner(page)).to_be_visible()
    assert read("/home/user/plan.md") == b"theirs\n", "nothing was written over"
    page.get_by_role("button", name="Overwrite").click()
    expect(banner(page)).to_have_count(0)
    saved(page, "plan.md")
    assert read("/home/user/plan.md") == b"first\nmine\n"
    type_at_end(page, "more\n")
    put("/home/user/plan.md", b"theirs again\n")
    page.get_by_role("button", name="Load theirs").click()
    expect(content).to_have_text("theirs again")
    saved(page, "plan.md")
    put("/home/user/plan.md", b"".join(b"line %d\n" % number for number in range(30)))
    expect(content).to_contain_text("line 29")
    content.click()
    page.keyboard.press("Control+Home")
    page.keyboard.insert_text("my ")
    put("/home/user/plan.md", b"".join(b"their line %d\n" % n if n in (0, 20) else b"line %d\n" % n for n in range(30)))
    page.get_by_role("button", name="Compare and merge").click()
    expect(dialog.get_by_role("button", name="Take theirs here")).to_have_count(2)
    fold = right.get_by_role("button", name="Show 13 unchanged lines")
    fold.focus()
    both_looks(page)
    page.keyboard.press("Enter")
    expect(fold).to_have_count(0)
    expect(right).to_contain_text("line 9")  # the lines are there, and nothing was typed into them
    expect(left).to_contain_text("line 9")
    expect(right).to_be_focused()
    dialog.get_by_role("button", name="Take theirs here").last.click()  # the first stays one's own
    dialog.get_by_role("button", name="Save what is on the right").click()
    expect(banner(page)).to_have_count(0)
    saved(page, "plan.md")
    assert read("/home/user/plan.md").split(b"\n")[:21:20] == [b"my line 0", b"their line 20"]


def test_an_unchanged_tab_follows_what_an_agent_writes(page: Page, workspace: dict[str, Any], put: Put) -> None:
    put("/home/user/log.txt", b"one\n")
    open_workspace(page, workspace)
    content = open_file(page, "log.txt")
    put("/home/user/log.txt", b"one\ntwo\n")
    expect(content).to_contain_text("two")
    expect(banner(page)).to_have_count(0)
    put("/home/user/new-from-agent.txt", b"")
    expect(entry(page, "new-from-agent.txt")).to_be_visible()  # the tree follows, too


def test_text_typed_during_a_slow_save_stays_unsaved(
        page: Page, workspace: dict[str, Any], put: Put, read: Read) -> None:  # 124
    put("/home/user/slow.txt", b"a\n")
    open_workspace(page, workspace)
    open_file(page, "slow.txt")
    held: list[Route] = []
    page.route("**/files/content*",
               lambda route: held.append(route) if route.request.method == "PUT" else route.continue_())
    type_at_end(page, "b\n")
    page.keyboard.press("Control+s")
    expect(page.get_by_role("button", name="Saving")).to_be_visible()
    page.keyboard.insert_text("c\n")
    held[0].continue_()
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_enabled()
    expect(tab(page, "slow.txt").get_by_text("not saved")).to_be_attached()
    assert read("/home/user/slow.txt") == b"a\nb\n"
    page.unroute("**/files/content*")
    page.keyboard.press("Control+s")
    saved(page, "slow.txt")
    assert read("/home/user/slow.txt") == b"a\nb\nc\n"


def test_a_failed_save_is_loud_and_keeps_the_text(
        page: Page, workspace: dict[str, Any], put: Put, watch: Watch) -> None:  # 124
    watch.provoked.append("/files/content")
    put("/home/user/full.txt", b"a\n")
    open_workspace(page, workspace)
    content = open_file(page, "full.txt")
    problem = '{"status":507,"code":"guest_disk_full","title":"The guest\'s disk is full","detail":"No space is left."}'
    page.route("**/files/content*", lambda route: route.fulfill(
        status=507, content_type="application/problem+json", body=problem)
        if route.request.method == "PUT" else route.continue_())
    type_at_end(page, "precious\n")
    page.keyboard.press("Control+s")
    expect(page.locator(".banner.bad")).to_contain_text("Not saved: No space is left.")
    expect(content).to_contain_text("precious")
    page.unroute("**/files/content*")
    page.get_by_role("button", name="Try again").click()
    saved(page, "full.txt")


@pytest.mark.parametrize(("name", "body"), [
    ("crlf.txt", b"one\r\ntwo\r\n"), ("bom.txt", b"\xef\xbb\xbfone\n"), ("mixed.txt", b"a\r\nb\nc\rd"),
    ("no-newline.txt", b"end"), ("wide.txt", "日本語 👩‍👩‍👧 e\u0301\u2028x\n".encode()),
])
def test_what_was_not_edited_is_saved_byte_for_byte(
        page: Page, workspace: dict[str, Any], put: Put, read: Read, name: str, body: bytes) -> None:  # 033
    put(f"/home/user/{name}", body)
    open_workspace(page, workspace)
    open_file(page, name)
    type_at_end(page, "X")
    page.keyboard.press("Control+s")
    saved(page, name)
    assert read(f"/home/user/{name}") == body + b"X"
    page.keyboard.press("Backspace")
    page.keyboard.press("Control+s")
    saved(page, name)
    assert hashlib.sha256(read(f"/home/user/{name}")).digest() == hashlib.sha256(body).digest()


def test_what_cannot_be_edited_without_harm_is_shown_to_be_read(
        page: Page, workspace: dict[str, Any], put: Put) -> None:  # 033, 019
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    for name, body in (("picture.png", PNG), ("drawing.svg", SVG), ("broken.gif", b"GIF89a"),
                       ("data.bin", b"\0Berth\xff" * 3000), ("latin.txt", "café\n".encode("latin-1")),
                       ("large.txt", "línea\n".encode() * 400_000)):
        put(f"/home/user/{name}", body)
    open_workspace(page, workspace)
    entry(page, "picture.png").click()
    expect(page.locator(".media-head")).to_contain_text("3 × 2, 73 B")
    both_looks(page)
    put("/home/user/picture.png", PNG + b"more")
    expect(page.locator(".media-head")).to_contain_text("3 × 2, 77 B")  # a picture follows, too
    entry(page, "broken.gif").click()
    expect(page.locator(".media-head")).to_contain_text("The browser cannot draw this picture")
    entry(page, "drawing.svg").click()
    expect(page.locator(".media-head")).to_contain_text("40 × 30")
    expect(page.get_by_role("img", name="drawing.svg")).to_have_attribute("src", re.compile("^blob:"))
    page.get_by_role("button", name="Show the source").click()
    expect(page.locator(".cm-content")).to_contain_text("alert(1)")
    entry(page, "data.bin").click()
    expect(page.locator(".hex")).to_contain_text(
        "00000000  00 42 65 72 74 68 ff 00  42 65 72 74 68 ff 00 42   ·Berth··Berth··B")
    expect(page.locator(".media-head")).to_contain_text("Binary, 20.5 KiB: its first 16.0 KiB")
    both_looks(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download", exact=True).click()
    assert download.value.path().stat().st_size == 21_000
    entry(page, "large.txt").click()
    expect(page.locator(".banner")).to_contain_text("This file is 2.7 MiB. Its first 2.0 MiB are shown, to be read")
    expect(page.locator(".cm-content")).to_contain_text("línea")
    content = open_file(page, "latin.txt")
    expect(page.get_by_text("It is shown read-only")).to_be_visible()
    type_at_end(page, "X")
    expect(content).to_have_text("café")


def test_names_and_contents_from_strangers_stay_text(
        page: Page, workspace: dict[str, Any], put: Put, agent: httpx.Client) -> None:  # 019
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    for name in HOSTILE:
        put(f"/home/user/{name}", b"<script>alert(4)</script>\n")
    agent.patch(f"/workspaces/{workspace['id']}", json={"name": "<img src=x onerror=alert(5)>"})
    page.goto("/")
    expect(page.get_by_role("link", name="<img src=x onerror=alert(5)>")).to_be_visible()
    open_workspace(page, workspace)
    for name in HOSTILE:
        expect(open_file(page, name)).to_have_text("<script>alert(4)</script>")
    more(page, "Delete")
    expect(page.get_by_role("heading", name="Delete <img src=x onerror=alert(5)>?")).to_be_visible()
    assert page.locator("#app img, #app script, #app svg[onload]").count() == 0


def test_a_raw_file_never_runs_in_the_apps_origin(
        context: BrowserContext, workspace: dict[str, Any], put: Put) -> None:  # 019
    put("/home/user/evil.html", b"<script>document.title='ran'</script>")
    answer = context.request.get(f"/api/v1/workspaces/{workspace['id']}/files/content?path=/home/user/evil.html")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_name_that_is_no_text_is_opened_and_saved(
        page: Page, workspace: dict[str, Any], agent: httpx.Client) -> None:
    where = f"/workspaces/{workspace['id']}/files/content?path=/home/user/caf%E9%FF.txt"
    assert agent.put(where, content=b"a\n").status_code == 201
    open_workspace(page, workspace)
    open_file(page, "caf\ufffd\ufffd.txt")
    type_at_end(page, "b\n")
    page.keyboard.press("Control+s")
    saved(page, "caf")
    assert agent.get(where).content == b"a\nb\n"


def test_files_and_folders_are_made_renamed_and_deleted(
        page: Page, workspace: dict[str, Any], read: Read, watch: Watch) -> None:
    watch.provoked.append("/files")
    open_workspace(page, workspace)
    page.get_by_role("button", name="New, or upload").click()
    page.get_by_role("menuitem", name="New folder").click()
    page.get_by_role("textbox", name="Name").fill("box")
    page.get_by_role("button", name="Create").click()
    entry(page, "box").click()
    tree_menu(page, "box").get_by_role("menuitem", name="New file").click()
    page.get_by_role("textbox", name="Name").fill("a.txt")
    page.get_by_role("button", name="Create").click()
    type_at_end(page, "kept")
    entry(page, "a.txt").focus()
    page.keyboard.press("F2")
    page.get_by_label("New name of a.txt").fill("b.txt")
    page.keyboard.press("Enter")
    expect(tab(page, "b.txt").get_by_text("not saved")).to_be_attached()  # the open text moved with its file
    page.get_by_role("button", name="Save", exact=True).click()
    saved(page, "b.txt")
    assert read("/home/user/box/b.txt") == b"kept"
    entry(page, "box").focus()
    page.keyboard.press("Delete")
    expect(page.get_by_role("dialog")).to_contain_text("everything in it, 1 file, are removed")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(entry(page, "box")).to_have_count(0)


def test_hidden_files_are_shown_when_asked_for(page: Page, workspace: dict[str, Any], put: Put) -> None:
    put("/home/user/.secret", b"")
    open_workspace(page, workspace)
    put("/home/user/seen", b"")
    expect(entry(page, "seen")).to_be_visible()
    expect(entry(page, ".secret")).to_have_count(0)
    page.get_by_role("button", name="Hidden files").click()
    expect(entry(page, ".secret")).to_be_visible()


def test_unsaved_text_is_not_lost_by_closing(page: Page, workspace: dict[str, Any], put: Put) -> None:
    for name in ("draft.txt", "one.py", "two.go", "three.rs"):
        put(f"/home/user/{name}", b"")
    open_workspace(page, workspace)
    for name in ("one.py", "two.go", "three.rs"):
        open_file(page, name)
    tabs = page.locator(".editor-pane .tab")
    tab(page, "two.go").click(button="middle")
    expect(tabs).to_have_text(["one.py", "three.rs"])
    page.keyboard.press("Alt+PageDown")
    expect(tab(page, "one.py").locator("[aria-current=true]")).to_be_visible()
    page.keyboard.press("Alt+w")
    expect(tabs).to_have_text(["three.rs"])
    tab(page, "three.rs").get_by_role("button").first.focus()
    page.keyboard.press("Delete")
    expect(tabs).to_have_count(0)
    open_file(page, "draft.txt")
    type_at_end(page, "words")
    page.get_by_role("button", name="Close draft.txt").click()
    expect(page.get_by_role("heading", name="Close draft.txt without saving?")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    asked: list[str] = []
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
    page.reload()
    assert asked == ["beforeunload"]


def test_a_sleeping_workspace_shows_its_disk_to_be_read_and_becomes_editable_when_it_wakes(
        page: Page, workspace: dict[str, Any], agent: httpx.Client, put: Put, read: Read) -> None:  # 072
    put("/home/user/src/main.py", b"print('one')\n")
    put("/home/user/notes.txt", b"first\n")
    agent.post(f"/workspaces/{workspace['id']}/stop?wait=true")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"/workspaces/{workspace['id']}")
    expect(page.get_by_role("button", name="Start the workspace")).to_be_visible()
    expect(page.locator(".step").first).to_be_visible()
    bar = page.get_by_role("region", name="Files").get_by_role("status")
    expect(bar).to_contain_text("Asleep: reading the disk.")
    entry(page, "src").click()
    expect(open_file(page, "main.py")).to_contain_text("print('one')")
    said = page.locator(".editor-pane .banner")
    expect(said).to_contain_text("to be read, not changed")
    expect(page.get_by_role("button", name="Save", exact=True)).to_have_count(0)
    type_at_end(page, "typed in vain")
    expect(page.locator(".cm-content")).not_to_contain_text("in vain")
    expect(page.get_by_role("button", name="New, or upload")).to_be_disabled()
    offered = ["Open", "Download", "Copy the path", "Choose several"]
    expect(tree_menu(page, "main.py").get_by_role("menuitem")).to_have_text(offered)
    page.keyboard.press("Escape")
    expect(entry(page, "main.py")).to_be_focused()
    page.keyboard.press("F2")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert not [url for url in asked if "/execs" in url or "/files" in url.replace("/checkpoints/head/files", "")]
    assert agent.get(f"/workspaces/{workspace['id']}").json()["state"] == "stopped", "reading woke nobody"
    bar.get_by_role("button", name="Start to edit").click()
    expect(state_of(page)).to_have_text("Running")
    expect(bar).to_have_count(0)
    expect(said).to_have_count(0)
    type_at_end(page, "print('two')")
    page.keyboard.press("Control+s")
    saved(page, "main.py")
    assert read("/home/user/src/main.py") == b"print('one')\nprint('two')"


def test_what_a_disk_alone_cannot_answer_says_so_and_wakes_when_it_is_asked_for(
        page: Page, workspace: dict[str, Any], agent: httpx.Client, put: Put, watch: Watch) -> None:
    watch.provoked.append("/files")  # a disk that wakes while it is read, or sleeps, says so
    put("/home/user/src/main.py", b"print('one')\nprint('two')")
    open_workspace(page, workspace)
    expect(entry(page, "src")).to_be_visible()
    bar = page.get_by_role("region", name="Files").get_by_role("status")
    agent.post(f"/workspaces/{workspace['id']}/stop?wait=true")
    expect(bar).to_contain_text("Asleep: reading the disk.")
    page.keyboard.press("Control+Shift+f")
    pane = page.get_by_role("region", name="Files")
    pane.get_by_label("Search for").fill("print")
    note = pane.locator(".search-note")
    expect(note).to_have_text("Contents are searched in a workspace that runs: to search wakes it.")
    expect(pane.get_by_role("button", name="Start and search")).to_be_enabled()
    both_looks(page)
    assert agent.get(f"/workspaces/{workspace['id']}").json()["state"] == "stopped", "typing woke nobody"
    pane.get_by_label("Search for").press("Enter")
    expect(note).to_have_text("2 lines in 1 file.")
    expect(state_of(page)).to_have_text("Running")
    page.keyboard.press("Escape")
    agent.post(f"/workspaces/{workspace['id']}/stop?wait=true")
    expect(bar).to_contain_text("Asleep: reading the disk.")
    with page.expect_download() as download:
        tree_menu(page, "src").get_by_role("menuitem", name="Start and download as an archive").click()
    with tarfile.open(download.value.path()) as archive:
        assert "main.py" in {name.rpartition("/")[2] for name in archive.getnames()}
    expect(state_of(page)).to_have_text("Running")
