"""Contents of a past through the gateway: nothing wakes, nothing is a page, ids are judged before hostd is asked."""

from __future__ import annotations

import aiohttp
import pytest
from aiohttp import web

from tests.gateway.conftest import AUTH, OTHERS, WID, Rig, scoped

CID = "c" * 20
BASE = f"/api/v1/workspaces/{WID}/checkpoints"


def json_of(value: object, **headers: str):
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.json_response(value, headers=headers)
    return answer


@pytest.mark.parametrize("state", ["standby", "stopped", "running"])
async def test_looking_wakes_nothing_and_holds_nothing_awake(rig: Rig, state: str) -> None:
    rig.books.states[WID] = state
    rig.hostd.handler = json_of({"path": "/", "entries": [], "next_cursor": None}, **{"Berth-Disk": "clean"})
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        async with client.get(f"{BASE}/{CID}/files?path=/") as reply:
            assert (reply.status, reply.headers["Berth-Disk"]) == (200, "clean")
            assert (await reply.json())["next"] is None
        async with client.get(f"{BASE}/head/diff?against={CID}") as reply:
            assert reply.status == 200
    assert [request.raw_path for request in rig.hostd.seen] == [
        f"/v1/machines/{WID}/checkpoints/{CID}/files?path=/", f"/v1/machines/{WID}/checkpoints/head/diff?against={CID}"]
    assert rig.books.wakes == [] and rig.books.touches == []


async def test_a_cursor_becomes_the_next_address_with_its_bytes_as_they_are(rig: Rig) -> None:
    rig.hostd.handler = json_of({"results": [], "next_cursor": "/a%FFb"})
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client, \
            client.get(f"{BASE}/{CID}/diff?against=head&limit=5&cursor=/a") as reply:
        assert (await reply.json())["next"] == f"{rig.url}{BASE}/{CID}/diff?against=head&limit=5&cursor=/a%FFb"


async def test_contents_pass_with_their_range_and_never_as_a_page(rig: Rig) -> None:
    async def part(request: web.Request) -> web.StreamResponse:
        assert request.headers["Range"] == "bytes=0-3" and "Authorization" not in request.headers
        return web.Response(status=206, body=b"<htm", headers={"Content-Range": "bytes 0-3/9", "ETag": '"e"',
                                                               "Content-Type": "text/html"})
    rig.hostd.handler = part
    async with aiohttp.ClientSession(rig.url, headers={**AUTH, "Range": "bytes=0-3"}) as client, \
            client.get(f"{BASE}/{CID}/files/content?path=/%FF") as reply:
        assert (reply.status, await reply.read()) == (206, b"<htm")
        assert reply.headers["Content-Disposition"] == "attachment"
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in reply.headers["Content-Security-Policy"]
    assert rig.hostd.seen[-1].raw_path.endswith("?path=/%FF")


async def test_what_hostd_refuses_keeps_its_code(rig: Rig) -> None:
    async def refuse(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"code": "workspace_running", "detail": "it runs"}, status=409)
    rig.hostd.handler = refuse
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client, \
            client.get(f"{BASE}/head/files?path=/") as reply:
        assert (reply.status, (await reply.json())["code"]) == (409, "workspace_running")


async def test_other_peoples_workspaces_missing_scopes_and_strange_ids_never_reach_hostd(rig: Rig) -> None:
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        for path, status in ((f"/api/v1/workspaces/{OTHERS}/checkpoints/{CID}/files?path=/", 404),
                             (f"{BASE}/look-1234/files?path=/", 404), (f"{BASE}/../files?path=/", 404),
                             (f"{BASE}/{CID}/files/other", 404), (f"{BASE}/{CID}/diff/x", 404)):
            async with client.get(aiohttp.client.URL(f"{rig.url}{path}", encoded=True)) as reply:
                assert reply.status == status, path
        async with client.delete(f"{BASE}/{CID}/files?path=/") as reply:
            assert (reply.status, reply.headers["Allow"]) == (405, "GET")
    rig.books.tokens["berth_narrow"] = scoped("workspaces:read")
    async with aiohttp.ClientSession(rig.url, headers={"Authorization": "Bearer berth_narrow"}) as client, \
            client.get(f"{BASE}/{CID}/files?path=/") as reply:
        assert (reply.status, (await reply.json())["code"]) == (403, "scope_missing")
    assert rig.hostd.seen == []


async def test_the_rows_of_checkpoints_are_still_daphnes(rig: Rig) -> None:
    async with aiohttp.ClientSession(rig.url, headers=AUTH) as client:
        for path in (BASE, f"{BASE}/{CID}"):
            async with client.get(path) as reply:
                assert reply.status == 200
    assert [request.raw_path for request in rig.daphne.seen] == [BASE, f"{BASE}/{CID}"]
    assert rig.hostd.seen == []
