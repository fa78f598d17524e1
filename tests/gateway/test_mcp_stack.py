"""The official SDK's client against the whole product: what an agent does all day, and what must not go wrong then."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass
from typing import Any

import pytest
from mcp import MCPError
from mcp.types import CallToolResult

from tests.mcp_client import call, connected, refused
from tests.stack import Stack, until

pytestmark = pytest.mark.stack
HOME = "/home/user"


@pytest.fixture(scope="module")
def place(stack: Stack) -> str:
    return str(stack.workspace("anna", name="mcp")["id"])


@dataclass(frozen=True)
class Agent:
    """Anna's, pinned to one workspace; each call is a client of its own, for nothing is kept between two requests."""

    stack: Stack
    place: str

    async def call_tool(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        async with connected(self.stack.base_url, self.stack.token("anna"), f"?workspace={self.place}") as client:
            return await client.call_tool(tool, arguments)

    def sleeps(self) -> None:
        """The fake driver keeps no memory, so it is stopped instead of put to standby."""
        with self.stack.client("anna") as api:
            asked = api.post(f"/api/v1/workspaces/{self.place}/stop?wait=true&timeout_s=60")
            assert asked.json()["state"] == "stopped"


@pytest.fixture
def agent(stack: Stack, place: str) -> Agent:
    return Agent(stack, place)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_first_loop_from_nothing_to_a_restore_that_can_be_undone(stack: Stack, mode: str) -> None:
    async with connected(stack.base_url, stack.token("anna"), mode=mode) as client:
        made = await call(client, "create_workspace", name=f"loop-{mode}", idempotency_key=f"loop-{mode}")
        again = await call(client, "create_workspace", name=f"loop-{mode}", idempotency_key=f"loop-{mode}")
        assert made["id"] == again["id"] and made["state"] == "running"
        where = {"workspace": made["id"]}
        assert made["id"] in {row["id"] for row in (await call(client, "list_workspaces"))["results"]}
        await call(client, "write_file", **where, path=f"{HOME}/src/a.txt", content="one\n")
        point = await call(client, "checkpoint", **where, name="one")
        assert point["state"] == "ready"
        await call(client, "edit_file", **where, path=f"{HOME}/src/a.txt", old_text="one", new_text="two")
        ran = await call(client, "exec", **where, command=f"cat {HOME}/src/a.txt; echo oops >&2; exit 3")
        assert (ran["outcome"], ran["stdout"], ran["stderr"]) == ({"kind": "exited", "code": 3}, "two\n", "oops\n")
        back = await call(client, "restore", **where, checkpoint=point["id"])
        assert (await call(client, "read_file", **where, path=f"{HOME}/src/a.txt"))["content"] == "one\n"
        listed = {row["id"] for row in (await call(client, "list_checkpoints", **where))["results"]}
        assert {point["id"], back["safety_checkpoint"]} <= listed
        await call(client, "restore", **where, checkpoint=back["safety_checkpoint"])
        assert (await call(client, "read_file", **where, path=f"{HOME}/src/a.txt"))["content"] == "two\n"
        forked = (await call(client, "fork", **where, name=f"fork-{mode}"))["results"][0]
        there = await call(client, "read_file", workspace=forked["id"], path=f"{HOME}/src/a.txt")
        assert there["content"] == "two\n"


async def test_a_sleeping_workspace_is_woken_by_a_call_and_looking_at_it_wakes_nothing(stack: Stack, agent, place
                                                                                      ) -> None:
    ran = await call(agent, "exec", command="echo before")
    agent.sleeps()
    assert (await call(agent, "exec_output", exec_id=ran["exec_id"]))["content"] == "before\n"
    assert (await call(agent, "get_workspace"))["state"] == "stopped"
    assert (await call(agent, "exec", command="echo after"))["stdout"] == "after\n"
    agent.sleeps()
    assert (await call(agent, "start_workspace"))["state"] == "running"
    said = await refused(agent, "standby_workspace")
    assert (said["code"], said["reason"]) == ("state_conflict", "no_memory_images"), "as REST says it of this driver"


async def test_a_long_command_goes_on_between_calls_and_without_its_client(stack: Stack, agent, place) -> None:
    """The client is gone in the middle of its call; another one finds the command, and its end."""
    async def leave() -> None:
        async with connected(stack.base_url, stack.token("anna"), f"?workspace={place}") as client:
            await client.call_tool("exec", {"command": "echo begun; sleep 3; echo done; exit 5", "wait_s": 60})
    leaving = asyncio.create_task(leave())
    with stack.client("anna") as api:
        base = f"/api/v1/workspaces/{place}/execs"
        running = await asyncio.to_thread(until, lambda: [
            one for one in api.get(f"{base}?state=running").json()["results"] if "begun" in one["command"]], "it runs")
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
    told = await call(agent, "exec_output", exec_id=running[0]["id"], wait_s=60)
    assert (told["outcome"], told["content"]) == ({"kind": "exited", "code": 5}, "begun\ndone\n")
    assert told["at_end"]


async def test_standard_input_signals_and_the_whole_tree(agent: Agent) -> None:
    echo = await call(agent, "exec", command="cat", stdin_open=True, background=True)
    await call(agent, "exec_input", exec_id=echo["exec_id"], text="héllo\n")
    await call(agent, "exec_input", exec_id=echo["exec_id"], eof=True)
    assert (await call(agent, "exec_output", exec_id=echo["exec_id"], wait_s=30))["content"] == "héllo\n"
    assert (await refused(agent, "exec_input", exec_id=echo["exec_id"], text="x"))["status"] == 409
    for signal, outcome in (("SIGKILL", {"kind": "signaled", "signal": "SIGKILL"}), ("KILL-TREE", None)):
        sleeper = await call(agent, "exec", command=["sleep", "300"], background=True)
        await call(agent, "exec_signal", exec_id=sleeper["exec_id"], signal=signal)
        told = await call(agent, "exec_output", exec_id=sleeper["exec_id"], wait_s=30)
        assert told["state"] == "ended"
        assert told["outcome"] == outcome if outcome else told["outcome"]["kind"] == "killed"


async def test_huge_output_is_cut_and_every_byte_of_it_can_be_read(agent: Agent) -> None:
    ran = await call(agent, "exec", command="seq 1 100000", shown_bytes=4096)
    whole = "".join(f"{n}\n" for n in range(1, 100_001))
    left_out = ran["stdout_left_out"]
    assert len(ran["stdout"]) < 5000 and ran["stdout"].startswith("1\n2\n") and ran["stdout"].endswith("100000\n")
    assert ran["stdout_bytes"] == len(whole) and f"offset={left_out['from']}" in ran["stdout"]
    pieces, offset = [], 0
    while True:
        told = await call(agent, "exec_output", exec_id=ran["exec_id"], offset=offset, limit_bytes=200_000)
        pieces.append(told["content"])
        offset = told["next_offset"]
        if told["at_end"]:
            break
    assert "".join(pieces) == whole


async def test_what_is_kept_of_a_command_is_bounded_and_that_is_said(agent: Agent) -> None:
    ran = await call(agent, "exec", command="head -c 3000000 /dev/zero | tr '\\0' x")
    assert ran["stdout_truncated"] and len(ran["stdout"]) < 40_000


async def test_bytes_that_are_no_utf8_are_said_to_be_so_and_kept_by_an_edit(agent: Agent) -> None:
    junk = bytes(range(256)) * 4
    path = f"{HOME}/junk.bin"
    await call(agent, "write_file", path=path, content_base64=base64.b64encode(b"key=old\n" + junk).decode())
    seen = await call(agent, "read_file", path=path)
    assert seen["not_utf8"] and "\ufffd" in seen["content"]
    await call(agent, "edit_file", path=path, old_text="key=old\n", new_text="key=néw\n")
    exact = await call(agent, "read_file", path=path, encoding="base64")
    assert base64.b64decode(exact["content"]) == "key=néw\n".encode() + junk
    ran = await call(agent, "exec", command=f"tail -c 1024 {path}")
    assert ran["stdout_not_utf8"]
    told = await call(agent, "exec_output", exec_id=ran["exec_id"], encoding="base64")
    assert base64.b64decode(told["content"]) == junk


async def test_a_name_that_is_no_utf8_is_listed_read_and_written_by_its_bytes(agent: Agent) -> None:
    await call(agent, "exec", command=["/bin/sh", "-c", "mkdir -p odd; printf hello > odd/$(printf 'n\\377me')"])
    listed = await call(agent, "list_files", path=f"{HOME}/odd")
    encoded = listed["entries"][0]["path_encoded"]
    assert encoded.endswith("/odd/n%FFme")
    assert (await call(agent, "read_file", path_encoded=encoded))["content"] == "hello"
    await call(agent, "edit_file", path_encoded=encoded, old_text="hello", new_text="bye")
    assert (await call(agent, "read_file", path_encoded=encoded))["content"] == "bye"


async def test_a_long_file_is_read_in_pieces_that_make_the_whole_and_never_split_a_character(agent: Agent) -> None:
    text = "".join(f"{n}: añ€😀\n" for n in range(3000))
    path = f"{HOME}/long.txt"
    await call(agent, "write_file", path=path, content=text)
    pieces, offset = [], 0
    while offset is not None:
        told = await call(agent, "read_file", path=path, offset=offset, limit_bytes=10_001)
        assert "not_utf8" not in told
        pieces.append(told["content"])
        offset = told["next_offset"]
    assert "".join(pieces) == text and len(pieces) > 3
    empty = await call(agent, "write_file", path=f"{HOME}/empty", content="")
    told = await call(agent, "read_file", path=f"{HOME}/empty")
    assert (told["content"], told["size"], told["next_offset"], told["etag"]) == ("", 0, None, empty["etag"])
    beyond = await call(agent, "read_file", path=path, offset=10**9)
    assert (beyond["content"], beyond["size"], beyond["next_offset"]) == ("", len(text.encode()), None)


async def test_an_edit_is_exact_and_never_over_somebody_elses_change(stack: Stack, agent, place) -> None:
    """Field case 032: two writers, and neither's work is lost without a word."""
    path = f"{HOME}/edited.txt"
    first = await call(agent, "write_file", path=path, content="a b a\n")
    twice = await refused(agent, "edit_file", path=path, old_text="a", new_text="x")
    assert (twice["code"], twice["reason"], twice["lines"]) == ("conflict", "text_not_unique", [1, 1])
    none = await refused(agent, "edit_file", path=path, old_text="c", new_text="x")
    assert (none["code"], none["reason"]) == ("conflict", "text_not_found")
    assert (await call(agent, "edit_file", path=path, old_text="a", new_text="x", replace_all=True))["replaced"] == 2
    for stale in ({"tool": "edit_file", "old_text": "b", "new_text": "c"}, {"tool": "write_file", "content": "mine"}):
        said = await refused(agent, stale.pop("tool"), path=path, if_etag=first["etag"], **stale)
        assert said["code"] == "precondition_failed"
    assert (await refused(agent, "write_file", path=path, content="", only_new=True))["code"] == "precondition_failed"
    assert (await call(agent, "read_file", path=path))["content"] == "x b x\n"
    at_once = await asyncio.gather(*(agent.call_tool("edit_file", {
        "path": path, "old_text": " b ", "new_text": f" b{n} "}) for n in range(6)))
    won = [n for n, result in enumerate(at_once) if not result.is_error]
    content = (await call(agent, "read_file", path=path))["content"]
    assert len(won) == 1 and content == f"x b{won[0]} x\n"
    lost = {result.structured_content["code"] for result in at_once if result.is_error}
    assert lost <= {"precondition_failed", "conflict", "file_busy"}


async def test_folders_are_listed_in_pieces_and_what_is_not_there_has_its_code(agent: Agent) -> None:
    await call(agent, "exec", command="mkdir -p many && cd many && touch $(seq -w 1 25)")
    names, cursor = [], None
    while True:
        more = {} if cursor is None else {"cursor": cursor}
        told = await call(agent, "list_files", path=f"{HOME}/many", limit=10, **more)
        names += [entry["path"].rpartition("/")[2] for entry in told["entries"]]
        cursor = told["next_cursor"]
        if cursor is None:
            break
    assert names == [f"{n:02}" for n in range(1, 26)]
    for tool, code in (("read_file", "file_not_found"), ("list_files", "file_not_found")):
        assert (await refused(agent, tool, path=f"{HOME}/nowhere"))["code"] == code
    assert (await refused(agent, "read_file", path=f"{HOME}/many"))["code"] == "is_a_directory"
    assert (await refused(agent, "exec", command="id", cwd="/nowhere"))["code"] == "invalid"
    assert (await refused(agent, "exec_output", exec_id="a" * 20))["code"] == "not_found"
    async with connected(agent.stack.base_url, agent.stack.token("anna")) as client:
        with pytest.raises(MCPError, match="no tool 'no_such_tool'"):
            await client.call_tool("no_such_tool", {})


async def test_scopes_owners_and_revocation_hold_here_as_everywhere(stack: Stack, place: str) -> None:
    """Field case 016 at this door: bob's id is as if it were not there."""
    async with connected(stack.base_url, stack.token("bob")) as bob:
        assert (await refused(bob, "exec", workspace=place, command="id"))["code"] == "not_found"
        assert (await refused(bob, "read_file", workspace=place, path="/etc/hostname"))["code"] == "not_found"
        assert (await refused(bob, "restore", workspace=place, checkpoint="a" * 20))["code"] == "not_found"
    with stack.client("anna") as api:
        made = api.post("/api/v1/tokens", json={"name": "short", "scopes": ["files:read"], "workspace_ids": [place]})
        assert made.status_code == 201, made.text
        async with connected(stack.base_url, made.json()["secret"]) as client:
            await call(client, "list_files", path="/")
            assert (await refused(client, "exec", command="id"))["code"] == "scope_missing"
            assert (await refused(client, "write_file", path="/tmp/x", content=""))["code"] == "scope_missing"
            assert api.delete(f"/api/v1/tokens/{made.json()['id']}").status_code == 204
            with pytest.raises((MCPError, BaseExceptionGroup)):
                await client.call_tool("list_files", {"path": "/"})


async def test_who_did_it_is_the_token_by_its_name_in_the_events(stack: Stack, agent, place) -> None:
    await call(agent, "write_file", path=f"{HOME}/seen.txt", content="x")
    with stack.client("anna") as api:
        def seen() -> list[dict]:
            rows, after = [], 0
            while page := api.get(f"/api/v1/workspaces/{place}/events?limit=200&after={after}").json()["results"]:
                rows, after = rows + page, page[-1]["seq"]
            return [row for row in rows if row["kind"] == "file.written" and "seen.txt" in str(row["data"])]
        written = await asyncio.to_thread(until, seen, "the write is an event")
    assert written[0]["actor"]["type"] == "token"
