"""The terminal as a person meets it. Numbers in comments are field cases."""

from __future__ import annotations

import re
from typing import Any

import httpx
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import Watch
from tests.browser.hands import new_terminal, open_workspace, place_of, prompted, type_line
from tests.stack import Stack, until

SPLIT = ("python3 -c 'import sys,time; w=sys.stdout.buffer; "
         r'w.write(b"LINE2 \xe2"); w.flush(); time.sleep(0.5); w.write(b"\x94\x80 LINE3\n"); w.flush()'
         "'")


def ready(page: Page, workspace: dict[str, Any]) -> Any:
    open_workspace(page, workspace)
    return new_terminal(page)


def lines(page: Page) -> list[str]:
    return [text.rstrip() for text in page.locator(".xterm-rows > div").all_inner_texts()]


def test_what_is_typed_runs_and_its_output_is_seen(page: Page, workspace: dict[str, Any]) -> None:
    rows = ready(page, workspace)
    type_line(page, "echo $((6*7))-is-the-answer")
    expect(rows).to_contain_text("42-is-the-answer")


def test_the_shell_knows_the_size_of_its_window_from_its_first_prompt_and_after_a_resize(
        page: Page, workspace: dict[str, Any]) -> None:  # 141
    rows = ready(page, workspace)
    type_line(page, "echo first=$(stty size)=")
    expect(rows).to_contain_text(re.compile(r"first=\d+ \d+="))
    first = said_size(page, "first")
    assert first == drawn_size(page, first)
    page.set_viewport_size({"width": 1000, "height": 420})
    until(lambda: drawn_size(page, first)[0] < first[0], "the terminal takes its new size")
    type_line(page, "clear; echo second=$(stty size)=")
    expect(rows).to_contain_text(re.compile(r"second=\d+ \d+="))
    second = said_size(page, "second")
    assert second[1] < first[1]
    assert second == drawn_size(page, second)


def said_size(page: Page, word: str) -> tuple[int, int]:
    found = re.search(rf"{word}=(\d+) (\d+)=", "\n".join(lines(page)))
    assert found
    return int(found.group(1)), int(found.group(2))


def drawn_size(page: Page, expected: tuple[int, int]) -> tuple[int, int]:
    """Rows are counted; the columns are right when a line of that many characters fills exactly one row."""
    wide = expected[1]
    # The prompt stands on a line of its own: a shell that hears of a resize draws the line of its prompt anew.
    type_line(page, f"clear; printf '%0{wide}d<\\n' 7")
    filled = "0" * (wide - 1) + "7"
    until(lambda: any("7<" in line or line == "<" or line.startswith("<") for line in lines(page)), "the line is drawn")
    return page.locator(".xterm-rows > div").count(), wide if filled in lines(page) else -1


def test_a_reload_brings_back_the_same_shell_with_its_scrollback(page: Page, workspace: dict[str, Any]) -> None:  # 071
    rows = ready(page, workspace)
    type_line(page, "export KEPT=41; sleep 600 & clear; echo top-$((KEPT+1)); seq 1 300")
    expect(rows).to_contain_text("300")
    page.reload()
    prompted(page)
    type_line(page, "echo kept=$((KEPT+1)) jobs=$(jobs | grep -c sleep)")
    expect(rows).to_contain_text("kept=42 jobs=1")
    page.locator(".xterm-screen").hover()
    until(lambda: page.mouse.wheel(0, -3000) or "top-42" in lines(page), "the beginning is in the scrollback")
    assert {"1", "2", "3"} <= set(lines(page))


def test_a_second_page_sees_the_same_terminal_and_typing_there_takes_the_keyboard(
        page: Page, context: BrowserContext, workspace: dict[str, Any], watch: Watch) -> None:
    rows = ready(page, workspace)
    type_line(page, "echo from-the-$((0+1))st")
    expect(rows).to_contain_text("from-the-1st")
    second = watch.on(context.new_page())
    open_workspace(second, workspace)
    expect(prompted(second)).to_contain_text("from-the-1st")
    type_line(second, "echo from-the-$((1+1))nd")
    expect(second.locator(".xterm-rows")).to_contain_text("from-the-2nd")
    expect(rows).to_contain_text("from-the-2nd")


def test_a_gateway_that_restarts_costs_the_terminal_nothing(
        page: Page, workspace: dict[str, Any], stack: Stack, watch: Watch) -> None:  # 071
    watch.provoked.extend(["/ws/v1/", "/api/v1/"])
    rows = ready(page, workspace)
    type_line(page, "export KEPT=yes; echo before")
    expect(rows).to_contain_text("before")
    stack.kill("gateway")
    expect(page.get_by_text("Connection lost; reconnecting")).to_be_visible()
    stack.start("gateway")
    expect(page.get_by_text("Connection lost; reconnecting")).to_have_count(0, timeout=60_000)
    type_line(page, "echo after=$KEPT")
    expect(rows).to_contain_text("after=yes")
    assert lines(page).count("before") == 1, "output that had come is not drawn again"


def test_a_flood_can_be_interrupted_and_the_tab_stays_small(page: Page, workspace: dict[str, Any]) -> None:  # 026
    rows = ready(page, workspace)
    type_line(page, "yes berth-flood")
    expect(rows).to_contain_text("berth-flood")
    page.wait_for_function("() => performance.now() > 0")
    page.keyboard.press("Control+c")
    expect(rows).to_contain_text("^C")
    type_line(page, "clear; echo alive-$((40+2))")
    expect(rows).to_contain_text("alive-42")
    heap = page.context.new_cdp_session(page).send("Runtime.getHeapUsage")["usedSize"]
    assert heap < 200 * 1024 * 1024


def test_a_character_cut_between_two_writes_arrives_whole(page: Page, workspace: dict[str, Any]) -> None:  # 025
    rows = ready(page, workspace)
    type_line(page, SPLIT)
    expect(rows).to_contain_text("LINE2 \u2500 LINE3")
    assert "\ufffd" not in "\n".join(lines(page))


def test_bytes_that_are_no_text_do_not_end_the_session(page: Page, workspace: dict[str, Any]) -> None:  # 037
    rows = ready(page, workspace)
    type_line(page, r"printf '\xd6\xd0\xff\xfe\n'; cat /bin/ls; head -c 200000 /dev/urandom; echo; echo en''ded")
    expect(rows).to_contain_text("ended")
    page.keyboard.press("Control+c")  # what the noise made the terminal answer is not the next command
    type_line(page, "reset; echo al''ive")
    expect(rows).to_contain_text("alive")


def test_copy_and_paste_leave_no_control_characters(page: Page, workspace: dict[str, Any]) -> None:  # 142
    rows = ready(page, workspace)
    page.evaluate("navigator.clipboard.writeText('echo pasted-$((1+1))')")
    page.locator(".xterm-helper-textarea").focus()
    page.keyboard.press("Control+v")
    page.keyboard.press("Enter")
    expect(rows).to_contain_text("pasted-2")
    assert "^V" not in "\n".join(lines(page))
    type_line(page, "clear; echo copy''-me")
    page.mouse.dblclick(*place_of(page, "copy-me"))
    page.keyboard.press("Control+c")
    assert page.evaluate("navigator.clipboard.readText()") in ("copy-me", "copy", "me")


def test_a_program_cannot_reach_the_clipboard_or_draw_a_false_link(
        page: Page, workspace: dict[str, Any]) -> None:  # 019
    rows = ready(page, workspace)
    page.evaluate("navigator.clipboard.writeText('mine')")
    type_line(page, r"clear; printf '\e]52;c;aGFja2Vk\a\e]8;;https://elsewhere.example/trap\e\\harmless-words\e]8;;\e\\\n'")
    place = place_of(page, "harmless-words")
    assert page.evaluate("navigator.clipboard.readText()") == "mine"
    page.mouse.move(*place)
    page.mouse.click(*place)
    expect(page.get_by_role("dialog")).to_contain_text("https://elsewhere.example/trap")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(rows).to_be_visible()


def test_a_title_is_text(page: Page, workspace: dict[str, Any]) -> None:  # 019
    ready(page, workspace)
    type_line(page, r"PS1='$ '; PROMPT_COMMAND=; printf '\e]0;<img src=x onerror=alert(1)>\a'")
    expect(page.locator(".terminal-area .tab-title")).to_have_text("<img src=x onerror=alert(1)>")
    assert page.locator(".terminal-area img").count() == 0


def test_a_shell_that_ends_says_how(page: Page, workspace: dict[str, Any]) -> None:
    ready(page, workspace)
    type_line(page, "exit 3")
    expect(page.get_by_text("Ended: exit 3")).to_be_visible()
    page.get_by_role("button", name="Close terminal 1").click()
    expect(page.locator(".terminal-area .tab")).to_have_count(0)


def test_closing_a_living_terminal_asks_and_then_ends_its_processes(
        page: Page, workspace: dict[str, Any], agent: httpx.Client) -> None:
    ready(page, workspace)
    page.get_by_role("button", name="Close terminal 1").click()
    page.get_by_role("dialog").get_by_role("button", name="End it").click()
    expect(page.locator(".terminal-area .tab")).to_have_count(0)
    newest = agent.get(f"/workspaces/{workspace['id']}/execs").json()["results"][0]
    ended = agent.get(f"/workspaces/{workspace['id']}/execs/{newest['id']}?wait_s=20").json()
    assert ended["outcome"]["kind"] == "killed"


def test_what_an_agent_runs_stands_in_activity_with_its_outcome_and_output(
        page: Page, workspace: dict[str, Any], agent: httpx.Client) -> None:
    open_workspace(page, workspace)
    agent.post(f"/workspaces/{workspace['id']}/execs", json={"command": "echo '<b>tests</b> failed' >&2; exit 4"})
    step = page.locator(".step", has_text="exit 4")
    expect(step).to_have_count(1)
    expect(step.locator("code")).to_contain_text("<b>tests</b>")
    step.get_by_role("button").click()
    expect(step.locator("pre")).to_have_text("<b>tests</b> failed\n")
