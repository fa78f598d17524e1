"""Files over the real socket: exact names and bytes, conditions, ranges, flat memory, and the user's own rights."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from yarl import URL

from sandboxes.host.ranges import NotSatisfiable, requested, tag_matches
from tests.host.client import Answer, Hostd, eventually, new_id

MIB = 1024 * 1024


class Files:
    def __init__(self, hostd: Hostd, machine: str) -> None:
        self.hostd, self.machine, self.home = hostd, machine, f"/home/user/{new_id()}"

    async def call(self, method: str, path: str, **kwargs: Any) -> Answer:
        return await self.hostd.call(method, f"/v1/machines/{self.machine}/files{path}", **kwargs)

    async def put(self, name: str, data: Any, query: str = "", **headers: str) -> Answer:
        return await self.call(
            "PUT",
            f"/content?path={self.home}/{name}&parents=true{query}",
            data=data,
            headers={key.replace("_", "-"): value for key, value in headers.items()},
        )

    async def get(self, name: str, method: str = "GET", **headers: str) -> Answer:
        return await self.call(
            method,
            f"/content?path={self.home}/{name}",
            headers={key.replace("_", "-"): value for key, value in headers.items()},
        )

    async def sh(self, command: str) -> str:
        record = await self.hostd.exec(self.machine, command, cwd=self.home)
        assert record["outcome"] == {"kind": "exited", "code": 0}, record
        return str(record["stdout"])


@pytest.fixture
async def files(steady: tuple[Hostd, str]) -> Files:
    own = Files(*steady)
    assert (await own.call("POST", "/mkdir", json={"path": own.home})).status == 201
    return own


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(range(256)) * 5,
        b"\xef\xbb\xbfbom",
        "utf16".encode("utf-16"),
        b"a\r\nb",
        b"no newline",
        b"\x89PNG\r\n\x1a\n" + bytes(1_000_000),
    ],
)
async def test_any_bytes_come_back_as_they_went(files: Files, data: bytes):
    """Field case 033."""
    put = await files.put("f", data)
    assert (put.status, put.json["size"]) == (201, len(data))
    assert (await files.sh("sha256sum < f")).split()[0] == hashlib.sha256(data).hexdigest()
    got = await files.get("f")
    assert (got.status, got.body, got.headers["ETag"]) == (200, data, put.headers["ETag"])
    assert got.headers["Content-Length"] == str(len(data)) and got.headers["Content-Type"] == "application/octet-stream"
    assert got.headers["X-Content-Type-Options"] == "nosniff" and got.headers["Content-Disposition"] == "attachment"
    assert (await files.put("f", data + b"2")).status == 200


@pytest.mark.parametrize(
    "name",
    [
        b"a%ffb",
        b"%e4%f6",
        b"quo%22te",
        b"semi;colon",
        b"plus%2Bplus",
        b"two+words",
        b"new%0Aline",
        b"per%25cent",
        "\u00fcml\u00e4ut-\u4e2d\u6587".encode(),
        b"%3Csvg%20onload%3Dalert(1)%3E",
        b"back%5Cslash",
    ],
)
async def test_any_name_travels_as_exact_bytes(files: Files, name: bytes):
    text = name.decode("utf-8")
    encoded = (
        str(URL.build(path="/" + text, encoded=True).raw_path)[1:]
        if text.isascii()
        else "%C3%BCml%C3%A4ut-%E4%B8%AD%E6%96%87"
    )
    assert (await files.put(encoded, b"x")).status == 201
    entries = (await files.call("GET", f"?path={files.home}")).json["entries"]
    assert len(entries) == 1
    exact = entries[0]["path_encoded"]
    assert (await files.call("GET", f"/content?path={exact}")).body == b"x"
    assert (await files.call("GET", f"?path={exact}")).json["path_encoded"] == exact
    moved = await files.call("POST", "/move", json={"path_encoded": exact, "to": f"{files.home}/plain"})
    assert (moved.status, moved.json["path"]) == (200, f"{files.home}/plain")
    back = await files.call("POST", "/copy", json={"path": f"{files.home}/plain", "to_encoded": exact})
    assert (back.status, back.json["path_encoded"]) == (201, exact)
    assert (await files.call("DELETE", f"?path={exact}")).status == 204
    assert (await files.call("GET", f"?path={exact}")).json["code"] == "file_not_found"


async def test_a_stat_says_what_is_there_and_a_folder_lists_its_entries_in_pages(files: Files):
    await files.sh(
        "mkdir d; ln -s d/x link; mkfifo pipe; echo hello > f; chmod 640 f; "
        "for i in $(seq 25); do : > d/$(printf %02d $i); done"
    )
    entry = (await files.call("GET", f"?path={files.home}/f")).json
    assert (entry["type"], entry["size"], entry["mode"], entry["owner"], entry["path"]) == (
        "file",
        6,
        "0640",
        "user",
        f"{files.home}/f",
    )
    assert entry["mtime"].endswith("Z") and entry["etag"] and "entries" not in entry
    link = (await files.call("GET", f"?path={files.home}/link")).json
    assert (link["type"], link["target"], link["target_encoded"]) == ("symlink", "d/x", "d/x")
    seen, cursor = [], ""
    while True:
        page = (await files.call("GET", f"?path={files.home}/d&limit=10{cursor}")).json
        seen += [entry["path"].rsplit("/", 1)[1] for entry in page["entries"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == [f"{number:02d}" for number in range(1, 26)]
    whole = (await files.call("GET", f"?path={files.home}&recursive=true")).json
    assert len(whole["entries"]) == 4 + 25 and whole["next_cursor"] is None


async def test_the_second_writer_with_the_same_etag_gets_412(files: Files):
    """Field case 032."""
    etag = (await files.put("f", b"base")).headers["ETag"]
    first, second = await asyncio.gather(files.put("f", b"one", If_Match=etag), files.put("f", b"two", If_Match=etag))
    assert sorted([first.status, second.status]) == [200, 412]
    winner = b"one" if first.status == 200 else b"two"
    assert (await files.get("f")).body == winner
    loser = second if first.status == 200 else first
    assert loser.json["code"] == "precondition_failed"
    assert (await files.put("f", b"new", If_None_Match="*")).status == 412
    assert (await files.put("g", b"new", If_None_Match="*")).status == 201
    assert (await files.put("g", b"new", If_None_Match='"x"')).json["code"] == "invalid"
    assert (await files.put("nothing", b"new", If_Match=etag)).status == 412


async def test_reads_answer_conditions_and_ranges(files: Files):
    """Field case 131."""
    data = bytes(range(256)) * 10
    etag = (await files.put("f", data)).headers["ETag"]
    head = await files.get("f", "HEAD")
    assert (head.status, head.headers["Content-Length"], head.headers["ETag"], head.body) == (200, "2560", etag, b"")
    assert head.headers["Accept-Ranges"] == "bytes"
    for method in ("GET", "HEAD"):
        assert (await files.get("f", method, If_None_Match=etag)).status == 304
        assert (await files.get("f", method, If_Match='"other"')).status == 412
    for header, expected in (
        ("bytes=0-9", data[:10]),
        ("bytes=2550-", data[2550:]),
        ("bytes=-7", data[-7:]),
        ("bytes=100-99999", data[100:]),
    ):
        part = await files.get("f", Range=header)
        assert (part.status, part.body) == (206, expected), header
        start = data.index(expected) if len(expected) > 300 else 2560 - len(expected) if header != "bytes=0-9" else 0
        assert part.headers["Content-Range"] == f"bytes {start}-{start + len(expected) - 1}/2560"
    assert (await files.get("f", Range="bytes=0-9", If_Range='"other"')).status == 200
    assert (await files.get("f", Range="bytes=0-9", If_Range=etag)).status == 206
    beyond = await files.get("f", Range="bytes=2560-")
    assert (beyond.status, beyond.json["code"], beyond.headers["Content-Range"]) == (
        416,
        "range_not_satisfiable",
        "bytes */2560",
    )
    assert (await files.get("f", Range="lines=1-2")).status == 200


def test_ranges_are_read_as_the_standard_reads_them():
    assert requested(None, 10) is None
    assert requested("bytes=0-0", 10) == (0, 1)
    assert requested("bytes=-3", 10) == (7, 3)
    assert requested("bytes=-30", 10) == (0, 10)
    assert requested("bytes=5-", 10) == (5, 5)
    assert requested("bytes=5-2", 10) is None
    assert requested("bytes=0-1,3-4", 10) is None
    assert requested("bytes=-", 10) is None
    for header, size in (("bytes=10-", 10), ("bytes=-0", 10), ("bytes=0-", 0)):
        with pytest.raises(NotSatisfiable):
            requested(header, size)
    assert tag_matches('W/"a", "b"', "a") and tag_matches("*", "x") and not tag_matches('"b"', "a")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("", "path"),
        ("path=", "path"),
        ("path=relative/name", "path"),
        ("path=/a%00b", "path"),
        ("path=/" + "x" * 5000, "path"),
        ("path=/a&user=", "user"),
        ("path=/a&user=%ff", "user"),
        ("path=/a&colour=red", "colour"),
    ],
)
@pytest.mark.parametrize("call", ["GET ", "GET /content", "HEAD /content", "PUT /content", "DELETE "])
async def test_bad_paths_are_refused_by_name_everywhere(steady: tuple[Hostd, str], call: str, query: str, field: str):
    method, place = call.split(" ")
    answer = await Files(*steady).call(method, f"{place}?{query}")
    assert answer.status == 400
    if method != "HEAD":
        assert answer.json["code"] == "invalid" and field in answer.json["errors"]


@pytest.mark.parametrize(
    ("kind", "body", "field"),
    [
        ("mkdir", {}, "path"),
        ("mkdir", {"path": "/a", "path_encoded": "/a"}, "path"),
        ("mkdir", {"path": "a"}, "path"),
        ("mkdir", {"path": "/a\0"}, "path"),
        ("mkdir", {"path_encoded": "/a%00"}, "path_encoded"),
        ("mkdir", {"path": 5}, "path"),
        ("mkdir", {"path": "/a", "mode": 493}, "mode"),
        ("mkdir", {"path": "/a", "mode": "0999"}, "mode"),
        ("chmod", {"path": "/a"}, "mode"),
        ("move", {"path": "/a"}, "to"),
        ("copy", {"path": "/a", "to": "b"}, "to"),
        ("move", {"path": "/a", "to": "/b", "x": 1}, "x"),
    ],
)
async def test_bad_changes_are_refused_by_field(steady: tuple[Hostd, str], kind: str, body: dict[str, Any], field: str):
    answer = await Files(*steady).call("POST", f"/{kind}", json=body)
    assert (answer.status, answer.json["code"]) == (400, "invalid") and field in answer.json["errors"]


async def test_small_changes_answer_what_is_there_afterwards_and_errors_have_names(files: Files):
    made = await files.call("POST", "/mkdir", json={"path": f"{files.home}/a/b", "parents": True, "mode": "0700"})
    assert (made.status, made.json["type"], made.json["mode"]) == (201, "directory", "0700")
    await files.put("f", b"1", "&mode=0600")
    assert (await files.call("GET", f"?path={files.home}/f")).json["mode"] == "0600"
    changed = await files.call("POST", "/chmod", json={"path": f"{files.home}/f", "mode": "755"})
    assert changed.json["mode"] == "0755"
    for method, path, body, status, code in (
        ("POST", "/mkdir", {"path": f"{files.home}/a"}, 409, "file_exists"),
        ("POST", "/copy", {"path": f"{files.home}/no", "to": f"{files.home}/x"}, 404, "file_not_found"),
        ("POST", "/copy", {"path": f"{files.home}/f", "to": f"{files.home}/a"}, 409, "file_exists"),
        ("POST", "/mkdir", {"path": "/etc/owned-by-root"}, 403, "permission_denied"),
        ("DELETE", f"?path={files.home}/a", None, 409, "directory_not_empty"),
        ("DELETE", f"?path={files.home}/no", None, 404, "file_not_found"),
        ("GET", f"/content?path={files.home}/a", None, 409, "is_a_directory"),
        ("GET", f"/content?path={files.home}/f/x", None, 409, "not_a_directory"),
        ("GET", "/content?path=/dev/zero", None, 409, "not_a_regular_file"),
        ("PUT", f"/content?path={files.home}/a", None, 409, "is_a_directory"),
        ("PUT", "/content?path=/etc/hosts", None, 403, "permission_denied"),
        ("GET", f"?path={files.home}&user=nobody-here", None, 400, "invalid"),
    ):
        answer = await files.call(method, path, **({"json": body} if body else {}))
        assert (answer.status, answer.json["code"]) == (status, code), (method, path, answer.body)
    assert (await files.call("DELETE", f"?path={files.home}/a&recursive=true")).status == 204
    kinds = [
        (fact["kind"], fact["data"]["path"])
        for fact in await files.hostd.facts(files.machine)
        if files.home in str(fact["data"])
    ]
    assert kinds == [("file.folder_made", files.home), ("file.folder_made", f"{files.home}/a/b"),
                     ("file.written", f"{files.home}/f"), ("file.mode_changed", f"{files.home}/f"),
                     ("file.removed", f"{files.home}/a")]


async def test_a_link_opens_nothing_that_the_user_could_not(files: Files):
    """Field case 012."""
    await files.sh("ln -s /etc/shadow shadow; ln -s /proc/1/environ environ; ln -s /root root")
    for name in ("shadow", "environ", "root/.bashrc"):
        answer = await files.get(name)
        assert (answer.status, answer.json["code"]) == (403, "permission_denied"), name
        assert (await files.put(name, b"owned")).status in (403, 409)
    assert (await files.call("DELETE", f"?path={files.home}/shadow")).status == 204


async def test_two_hundred_megabytes_go_up_and_down_with_flat_memory(hostd: Hostd, machine: str):
    files = Files(hostd, machine)
    block = hashlib.sha256(b"seed").digest() * 2048
    count = 200 * MIB // len(block)
    digest = hashlib.sha256()

    async def body() -> AsyncIterator[bytes]:
        for _ in range(count):
            digest.update(block)
            yield block

    await files.put("warm", block * 32)
    before = hostd.rss_bytes()
    async with watched(hostd) as peak:
        put = await files.put("big", body())
        assert (put.status, put.json["size"]) == (201, 200 * MIB)
        got = hashlib.sha256()
        url = URL(f"http://hostd/v1/machines/{machine}/files/content?path={files.home}/big", encoded=True)
        async with hostd.session.get(url) as response:
            async for data in response.content.iter_chunked(MIB):
                got.update(data)
    assert got.hexdigest() == digest.hexdigest()
    assert len(peak) > 5 and max(peak) - before < 24 * MIB


@asynccontextmanager
async def watched(hostd: Hostd) -> AsyncIterator[list[int]]:
    """What hostd held in memory, seen again and again meanwhile."""
    seen: list[int] = []

    async def look() -> None:
        while True:
            seen.append(hostd.rss_bytes())
            await asyncio.sleep(0.02)

    looking = asyncio.create_task(look())
    try:
        yield seen
    finally:
        looking.cancel()


async def test_an_upload_that_breaks_off_leaves_the_old_file_and_nothing_beside(files: Files):
    await files.put("f", b"old")

    async def broken() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield bytes(100_000)
        raise RuntimeError("the client dies")

    with pytest.raises((RuntimeError, aiohttp.ClientError)):
        await files.put("f", broken())

    async def only_the_old() -> bool:
        return await files.sh("ls -A; cat f") == "f\nold"

    await eventually(only_the_old, "the half is gone")


async def test_a_sparse_giant_is_read_in_ranges_and_given_up_without_harm(files: Files):
    """Field case 015."""
    await files.sh("truncate -s 500G big")
    assert (await files.get("big", "HEAD")).headers["Content-Length"] == str(500 * 1024**3)
    assert (await files.get("big", Range="bytes=499999999990-499999999999")).body == bytes(10)
    url = URL(f"http://hostd/v1/machines/{files.machine}/files/content?path={files.home}/big", encoded=True)
    async with files.hostd.session.get(url) as response:
        await response.content.readexactly(3 * MIB)
    await files.sh("rm big")
    assert (await files.put("f", b"x")).status == 201


async def test_files_of_a_machine_that_is_off_are_not_running(hostd: Hostd):
    for machine, reason in ((new_id(), "absent"),):
        answer = await Files(hostd, machine).call("GET", "?path=/")
        assert (answer.status, answer.json["code"], answer.json["reason"]) == (409, "not_running", reason)
