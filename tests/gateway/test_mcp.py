"""The door /mcp: whom it lets in, from which page, to which workspace; and that its answers stay small and honest."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.conftest import ANNA, AUTH, OTHERS, TOKEN, WID, Rig, scoped
from tests.mcp_client import call, connected, refused
from workspaces.gateway.mcp import cut, files, inside
from workspaces.gateway.mcp.catalog import TOOLS

JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-11-25"}
LIST = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}})


async def post(rig: Rig, query: str = "", body: str = LIST, method: str = "POST", **headers: str) -> tuple[int, Any]:
    said = {**JSON, **{name.replace("_", "-"): value for name, value in headers.items()}}
    async with aiohttp.ClientSession(rig.url) as client, client.request(
            method, f"/mcp{query}", data=body if method == "POST" else None, headers=said) as reply:
        raw = await reply.text()
        is_problem = reply.headers.get("Content-Type", "").startswith("application/problem+json")
        return reply.status, json.loads(raw) if is_problem else raw


async def test_without_a_token_nobody_learns_what_is_here(rig: Rig) -> None:
    status, said = await post(rig)
    assert (status, said["code"]) == (401, "unauthenticated")
    assert (await post(rig, Authorization="Bearer berth_wrong"))[0] == 401
    rig.books.sessions["s"] = replace(ANNA, type="user", token_id=None)
    assert (await post(rig, Cookie="sessionid=s; berth_session=s"))[0] == 401, "a browser's cookie is no way in"


@pytest.mark.parametrize("headers", [
    {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"},
    {"Host": "evil.example:8000", "Origin": "http://evil.example:8000"},
])
async def test_another_sites_page_is_refused_even_with_a_token_and_a_name_that_points_here(rig: Rig, headers) -> None:
    status, said = await post(rig, **AUTH, **headers)
    assert (status, said["code"]) == (403, "origin_refused")


async def test_our_own_origin_and_programs_without_one_are_let_in(rig: Rig) -> None:
    assert (await post(rig, **AUTH))[0] == 200
    assert (await post(rig, **AUTH, Origin=rig.url))[0] == 200


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_nothing_is_kept_between_requests_so_there_is_only_post(rig: Rig, method) -> None:
    status, said = await post(rig, method=method, **AUTH)
    assert (status, said["code"]) == (405, "method_not_allowed")


async def test_a_body_beyond_the_bound_and_junk_are_refused_as_what_they_are(with_limits) -> None:
    async with with_limits(json_body_bytes=2000) as rig:
        assert (await post(rig, body="x" * 3000, **AUTH))[0] == 413
        for junk in ("", "{", "[]", "null", '{"jsonrpc":"2.0"}', "\x00", '{"jsonrpc":"2.0","id":1,"method":"x"}'):
            status, _said = await post(rig, body=junk, **AUTH)
            assert status < 500, junk


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_tools_have_words_schemas_and_hints_for_clients_of_both_ages(rig: Rig, mode) -> None:
    async with connected(rig.url, TOKEN, mode=mode) as client:
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == [tool.name for tool in TOOLS]
    for tool in tools:
        assert len(tool.description) > 60 and tool.annotations is not None
        assert tool.input_schema["type"] == "object" and tool.input_schema["additionalProperties"] is False
    by_name = {tool.name: tool for tool in tools}
    assert by_name["read_file"].annotations.read_only_hint
    assert by_name["restore"].annotations.destructive_hint and not by_name["checkpoint"].annotations.destructive_hint
    assert by_name["exec"].input_schema["required"] == ["workspace", "command"]


@pytest.mark.parametrize("how", [{"query": f"?workspace={WID}"}, {"Berth_Workspace": WID}, "token"])
async def test_a_pinned_session_has_no_argument_for_the_workspace_and_reaches_no_other(rig: Rig, how) -> None:
    if how == "token":
        rig.books.tokens[TOKEN], how = replace(ANNA, workspace_ids=frozenset({WID})), {}
    async with connected(rig.url, TOKEN, **how) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert not {"create_workspace", "list_workspaces"} & set(tools)
        assert all("workspace" not in tool.input_schema["properties"] for tool in tools.values())
        assert (await refused(client, "read_file", workspace=OTHERS, path="/x"))["code"] == "invalid"
    assert not rig.hostd.seen


async def test_a_pin_to_what_is_not_ones_own_is_not_found_and_two_pins_are_refused(rig: Rig) -> None:
    assert (await post(rig, f"?workspace={OTHERS}", **AUTH))[1]["code"] == "not_found"
    assert (await post(rig, "?workspace=../x", **AUTH))[1]["code"] == "not_found"
    status, said = await post(rig, f"?workspace={WID}", Berth_Workspace=OTHERS, **AUTH)
    assert (status, said["code"]) == (400, "invalid")


async def test_a_token_sees_only_tools_that_its_scopes_allow_and_the_others_are_refused_all_the_same(rig: Rig) -> None:
    rig.books.tokens[TOKEN] = scoped("files:read")
    async with connected(rig.url, TOKEN) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {"read_file", "list_files", "search_files"}
        assert (await refused(client, "exec", workspace=WID, command="id"))["code"] == "scope_missing"
        assert (await refused(client, "write_file", workspace=WID, path="/x", content=""))["code"] == "scope_missing"
    assert not rig.hostd.seen


async def test_wrong_arguments_are_named_by_field_and_reach_nobody(rig: Rig) -> None:
    async with connected(rig.url, TOKEN) as client:
        said = await refused(client, "exec", workspace="x", command=3, colour="red")
        assert said["code"] == "invalid" and {"workspace", "colour"} <= set(said["errors"])
        assert (await refused(client, "exec", command="id"))["errors"] == {"workspace": ["This field is required."]}
        for path in ({}, {"path": "/a", "path_encoded": "/a"}, {"path_encoded": "/a&user=root"}, {"path_encoded": "é"}):
            assert (await refused(client, "read_file", workspace=WID, **path))["code"] == "invalid"
        assert (await refused(client, "write_file", workspace=WID, path="/a", content_base64="%"))["code"] == "invalid"
    assert not rig.hostd.seen


async def test_what_the_host_refuses_has_the_same_code_here(rig: Rig) -> None:
    async def away(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"code": "agent_lost", "detail": "gone", "retry_after_s": 3}, status=502)
    rig.hostd.handler = away
    async with connected(rig.url, TOKEN, f"?workspace={WID}") as client:
        said = await refused(client, "read_file", path="/x")
    assert (said["code"], said["status"], said["retry_after_s"]) == ("agent_lost", 502, 3)


async def test_an_answer_that_breaks_off_is_never_a_whole_file(rig: Rig) -> None:
    async def half(request: web.Request) -> web.StreamResponse:
        reply = web.StreamResponse(headers={"Content-Length": "1000", "ETag": '"e"'})
        await reply.prepare(request)
        await reply.write(b"half")
        request.transport.close()
        return reply
    rig.hostd.handler = half
    async with connected(rig.url, TOKEN, f"?workspace={WID}") as client:
        assert (await refused(client, "read_file", path="/x"))["code"] == "host_unreachable"
        said = await refused(client, "edit_file", path="/x", old_text="half", new_text="whole")
        assert said["code"] == "host_unreachable"
    assert {request.method for request in rig.hostd.seen} == {"GET"}


async def test_an_endless_file_is_read_no_further_than_was_asked(rig: Rig) -> None:
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        reply = web.StreamResponse(headers={"ETag": '"e"'})
        await reply.prepare(request)
        while True:
            await reply.write(b"x" * 65536)
            sent += 65536
    rig.hostd.handler = endless
    async with connected(rig.url, TOKEN, f"?workspace={WID}") as client:
        seen = await call(client, "read_file", path="/dev/zero", limit_bytes=1000)
    assert (len(seen["content"]), seen["next_offset"]) == (1000, 1000)
    assert sent < 64 * 1024 * 1024


@given(data=st.text().map(str.encode) | st.binary(), most=st.integers(4, 60))
def test_what_is_shown_and_what_is_said_to_be_left_out_make_the_whole(data: bytes, most: int) -> None:
    piece = cut.middle_out(data, most)
    assert piece.head + data[piece.first: piece.last] + piece.tail == data
    assert len(piece.head) + len(piece.tail) <= max(most, len(piece.head))
    if cut.shown(data).is_utf8:
        assert cut.shown(piece.head).is_utf8 and cut.shown(piece.tail).is_utf8


@given(text=st.text(min_size=1), at=st.integers(0, 200))
def test_a_piece_ends_between_characters_and_nothing_of_it_is_lost(text: str, at: int) -> None:
    data = text.encode()[:at]
    kept = cut.whole_characters(data)
    assert data.startswith(kept) and len(data) - len(kept) < cut.LONGEST_CHARACTER
    kept.decode("utf-8")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_clients_that_leave_in_the_middle_of_a_call_leave_nothing_behind(rig: Rig, mode: str) -> None:
    """Field case 085 at this door: of forty sessions broken off no task, no slot and no inner call is left."""
    hanging = asyncio.Event()

    async def hangs(request: web.Request) -> web.StreamResponse:
        await hanging.wait()
        return web.json_response({"id": "e" * 20, "state": "running", "command": "x", "user": "user", "outcome": None})
    rig.hostd.handler = hangs

    async def leave(n: int) -> None:
        async with connected(rig.url, TOKEN, f"?workspace={WID}", mode=mode) as client:
            await client.call_tool("exec", {"command": "sleep 100"})
    before = len(asyncio.all_tasks())
    for _ in range(4):
        asked = len(rig.hostd.seen)
        leaving = [asyncio.create_task(leave(n)) for n in range(10)]
        await eventually(lambda asked=asked: len(rig.hostd.seen) >= asked + 10)
        for task in leaving:
            task.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)
    await eventually(lambda: not inside._running and rig.app.gate.requests.held_by("1") == 0)
    await eventually(lambda: len(asyncio.all_tasks()) <= before + 8)  # of the servers: their idle connections
    assert not hanging.is_set()


async def eventually(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.02)


async def test_a_silent_call_is_kept_alive_by_comments(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Field case 035 at this door: a proxy that ends silent connections sees a comment every few seconds."""
    from mcp.server import _streamable_http_modern as transport
    monkeypatch.setattr(transport, "_SSE_PING_INTERVAL", 0.2)
    go = asyncio.Event()

    async def slow(_request: web.Request) -> web.StreamResponse:
        await go.wait()
        return web.json_response({"results": [], "next": None})
    rig.daphne.handler = slow
    said = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "list_workspaces", "arguments": {}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}}}})
    headers = {**JSON, **AUTH, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call",
               "Mcp-Name": "list_workspaces"}
    async with aiohttp.ClientSession(rig.url) as client, client.post("/mcp", data=said, headers=headers) as reply:
        assert (reply.status, reply.content_type) == (200, "text/event-stream")
        assert (await reply.content.readline()).startswith(b": ping")
        go.set()
        assert b'"isError":false' in await reply.content.read()


def test_what_a_search_finds_is_shown_line_by_line_and_bounded() -> None:
    lines = [{"line": n, "column": 1, "text": "x" * 1000} for n in range(1, 40)]
    one = {"path": "/home/user/a", "path_encoded": "/home/user/a", "type": "file", "size": 9}
    shown = files.found({**one, "matches": lines, "cut": False})
    assert len(shown["matches"]) == files.SHOWN_MATCHES and shown["cut"] and len(json.dumps(shown)) < 4000
    few = files.found({**one, "matches": lines[:2], "cut": False})
    assert "cut" not in few and [match["line"] for match in few["matches"]] == [1, 2]
    assert files.found(one) == {"path": "/home/user/a", "type": "file", "size": 9}
