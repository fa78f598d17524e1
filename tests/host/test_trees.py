"""Whole trees over hostd: archives both ways, search, and watches; and what each process holds while much passes."""

from __future__ import annotations

import asyncio
import io
import tarfile
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from yarl import URL

from sandboxes.errors import AgentLost
from sandboxes.host.filewatch import told
from sandboxes.host.ports import _port
from tests.host.client import Hostd, eventually
from tests.host.test_files import Files


@pytest.fixture
async def files(steady: tuple[Hostd, str]) -> Files:
    own = Files(*steady)
    assert (await own.call("POST", "/mkdir", json={"path": own.home})).status == 201
    return own


async def test_a_tree_goes_out_and_in_and_is_told_with_its_actor(files: Files):
    await files.sh("mkdir -p t/a; echo hello > t/a/f; ln -s f t/a/l; printf x > 't/odd%name'")
    out = await files.call("GET", f"/archive?path={files.home}/t")
    assert (out.status, out.headers["Content-Type"], out.headers["Content-Disposition"]) == (
        200, "application/x-tar", "attachment")
    with tarfile.open(fileobj=io.BytesIO(out.body)) as archive:
        assert archive.getnames() == ["a", "a/f", "a/l", "odd%name"]
    into = await files.call("PUT", f"/archive?path={files.home}/back&parents=true", data=out.body,
                            headers={"Berth-Actor": '{"type":"token","name":"robot"}'})
    assert (into.status, into.json["entries"], into.json["bytes"]) == (200, 4, 7), into.body
    assert await files.sh("diff -r t back && cat back/a/l") == "hello\n"
    fact = next(each for each in await files.hostd.facts(files.machine, "file.extracted")
                if each["data"]["path"] == f"{files.home}/back")
    assert fact["actor"] == {"type": "token", "name": "robot"} and fact["data"]["entries"] == 4
    for method, query, data, status, code in (
            ("GET", f"path={files.home}/none", None, 404, "file_not_found"),
            ("GET", "path=/root", None, 403, "permission_denied"),
            ("GET", "path=/dev/zero", None, 409, "not_a_regular_file"), ("GET", "", None, 400, "invalid"),
            ("PUT", f"path={files.home}/t", b"no tar at all" * 100, 400, "invalid"),
            ("PUT", f"path={files.home}/t", b"", 400, "invalid"),
            ("PUT", f"path={files.home}/t/a/f", out.body, 409, "not_a_directory"),
            ("PUT", "path=/etc", out.body, 403, "permission_denied")):
        answer = await files.call(method, f"/archive?{query}", data=data)
        assert (answer.status, answer.json["code"]) == (status, code), (method, query, answer.body)


async def test_an_archive_that_breaks_off_has_no_end(files: Files):
    """Its client never takes half for the whole."""
    await files.sh("mkdir big; head -c 8000000 /dev/urandom > big/a; head -c 100000 /dev/zero > big/b")
    hostd = Files(files.hostd, files.machine).hostd
    url = URL(f"http://hostd/v1/machines/{files.machine}/files/archive?path={files.home}/big", encoded=True)
    async with hostd.session.get(url) as response:
        await response.content.readexactly(100_000)
    assert (await files.call("GET", f"?path={files.home}")).status == 200

    async def half() -> AsyncIterator[bytes]:
        info = tarfile.TarInfo("wanted")
        info.size = 5_000_000
        yield info.tobuf() + bytes(1_000_000)
        raise RuntimeError("the client dies")
    await files.sh("echo old > big/wanted")
    with pytest.raises((RuntimeError, aiohttp.ClientError)):
        await files.call("PUT", f"/archive?path={files.home}/big", data=half())

    async def only_the_old() -> bool:
        return await files.sh("ls -A big; cat big/wanted") == "a\nb\nwanted\nold\n"
    await eventually(only_the_old, "the half is gone")


async def test_search_answers_names_lines_and_pages(files: Files):
    await files.sh("mkdir s; echo 'one two' > s/a.txt; printf 'x\\ntwo three\\n' > s/b.txt; echo no > s/c.py")
    found = (await files.call("GET", f"/search?path={files.home}/s&content=two&pattern=*.txt")).json
    assert [(entry["path"].rpartition("/")[2], entry["matches"], entry["cut"]) for entry in found["results"]] == [
        ("a.txt", [{"line": 1, "column": 5, "text": "one two"}], False),
        ("b.txt", [{"line": 2, "column": 1, "text": "two three"}], False)]
    assert found["searched"] == 2 and found["next_cursor"] is None
    first = (await files.call("GET", f"/search?path={files.home}/s&pattern=*&limit=2")).json
    rest = (await files.call("GET", f"/search?path={files.home}/s&pattern=*&cursor={first['next_cursor']}")).json
    assert [len(first["results"]), len(rest["results"]), rest["next_cursor"]] == [2, 1, None]
    for query, field in (("", "pattern"), ("&limit=0&pattern=x", "limit"), ("&content=a%0Ab", "content"),
                         ("&x=1", "x")):
        answer = await files.call("GET", f"/search?path={files.home}/s{query}")
        assert (answer.status, answer.json["code"]) == (400, "invalid") and field in answer.json["errors"], answer.body


async def test_a_watch_tells_and_ends_by_name(files: Files):
    await files.sh("mkdir w")
    url = f"http://hostd/v1/machines/{files.machine}/files/watch?path={files.home}/w"
    async with files.hostd.session.ws_connect(URL(url, encoded=True)) as socket, asyncio.timeout(30):
        assert await socket.receive_json() == {"type": "ready", "folders": 1, "partial": False}
        assert (await files.put("w/f%ff", b"x")).status == 201
        seen: list[dict[str, Any]] = []
        while not seen:
            said = await socket.receive_json()
            seen = [each for each in said["changes"] if each["path_encoded"].endswith("/w/f%FF")]
        assert (seen[0]["change"], seen[0]["directory"]) == ("created", False)
        assert seen[0]["path"].endswith("/w/f\ufffd")
        await files.sh("rm -r w")
        while (await socket.receive_json())["type"] != "gone":
            pass
        await socket.receive()
        assert socket.close_code == 1000
    for path, status in ((f"{files.home}/none", 404), ("/root", 403), ("relative", 400)):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await files.hostd.session.ws_connect(URL(f"http://hostd/v1/machines/{files.machine}/files/watch?path={path}",
                                                     encoded=True))
        assert refused.value.status == status


@pytest.mark.parametrize("line", [
    b"", b"null", b"[]", b"{", b'{"changes":5}', b'{"changes":[1,null,{"change":"evil"},{"change":"created"}]}',
    b'{"ready":"x"}', b'{"overflow":1}', b"[" * 100_000])
def test_a_hostile_agents_lines_are_held_to_their_shape(line: bytes):
    for said in told(line):
        assert said["type"] in ("ready", "changes", "overflow", "gone")
        for change in said.get("changes", ()):
            assert isinstance(change["path"], str) and change["change"] == "created"


@pytest.mark.parametrize("said", [None, {}, {"port": True}, {"port": 70000}, {"port": "80"}])
def test_a_hostile_agents_ports_are_passed_over(said: Any):
    assert _port(said) is None
    odd = _port({"port": 80, "address": "x\ny", "process": 5, "pid": -1, "user": ["u"], "reachable": "yes"})
    assert odd == {"port": 80, "address": None, "protocol": "tcp", "reachable": False, "process": None, "pid": None,
                   "user": None}
    assert AgentLost.code == "agent_lost"


async def test_small_acts_are_told_with_what_they_did(files: Files):
    await files.call("POST", "/mkdir", json={"path": f"{files.home}/m"})
    await files.put("m/f", b"1")
    await files.call("POST", "/chmod", json={"path": f"{files.home}/m/f", "mode": "0600"})
    await files.call("POST", "/copy", json={"path": f"{files.home}/m/f", "to": f"{files.home}/m/g"})
    facts = [(fact["kind"], fact["data"]) for fact in await files.hostd.facts(files.machine)
             if f"{files.home}/m" in str(fact)]
    assert facts == [
        ("file.folder_made", {"path": f"{files.home}/m"}), ("file.written", {"path": f"{files.home}/m/f", "size": 1}),
        ("file.mode_changed", {"path": f"{files.home}/m/f", "mode": "0600"}),
        ("file.written", {"path": f"{files.home}/m/g", "size": 1, "from": f"{files.home}/m/f"})]


async def test_a_strong_tag_alone_continues_a_download(files: Files):
    """Field case 131: If-Range never compares weakly, and `*` is no tag."""
    etag = (await files.put("r", b"0123456789")).headers["ETag"]
    for tag, status in ((etag, 206), (f"W/{etag}", 200), ("*", 200), ('"other"', 200),
                        ("Wed, 21 Oct 2015 07:28:00 GMT", 200)):
        answer = await files.get("r", Range="bytes=2-3", If_Range=tag)
        assert (answer.status, answer.body) == (status, b"23" if status == 206 else b"0123456789"), tag
    several = await files.get("r", Range="bytes=0-1,4-5")
    assert (several.status, several.body) == (200, b"0123456789"), "several ranges are answered by the whole"


