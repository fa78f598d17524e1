"""Searching a guest's files and watching them change: bounded in every direction (field case 114)."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sandboxes.errors import FileError, Invalid, SandboxError
from sandboxes.guest.agent import filewalk
from tests.guest.guest import DEADLINE_S, Guest, b64, unb64

HOME = "/home/user"


async def search(guest: Guest, path: str, **params) -> dict:
    for name in ("pattern", "content", "exclude", "after"):
        if name in params:
            params[f"{name}_b64"] = b64(params.pop(name))
    return await guest.file("search", path, **params)


def names(found: dict, base: str) -> list[str]:
    return [unb64(entry["path_b64"]).decode().removeprefix(base + "/") for entry in found["results"]]


# -- search ------------------------------------------------------------------------------------------------------------

@pytest.fixture
async def project(guest: Guest) -> str:
    await guest.run(r"""rm -rf project; mkdir -p project/src/deep project/.git project/node_modules/left; cd project
printf 'def main():\n    return needle\n' > src/main.py
printf 'Needle\r\nneedle again needle\n\nlast needle' > src/deep/other.txt
printf 'needle' > .git/packed; printf 'needle\n' > node_modules/left/index.js; printf 'a\0needle\n' > binary.bin
ln -s /etc/passwd outside; ln -s .. loop; mkfifo pipe; printf 'needle\n' > secret; chmod 0 secret
head -c 700000 /dev/zero | tr '\0' x > longline; printf 'needle' >> longline""")
    return f"{HOME}/project"


async def test_names_are_found_by_a_pattern_of_the_name_or_of_the_path(guest: Guest, project: str):
    assert names(await search(guest, project, pattern="*.py"), project) == ["src/main.py"]
    assert names(await search(guest, project, pattern="src/*.txt"), project) == ["src/deep/other.txt"]
    assert names(await search(guest, project, pattern="[lo]o*"), project) == ["longline", "loop"]
    assert names(await search(guest, project, pattern="o*", exclude="src\0.git"), project) == ["outside"]
    assert names(await search(guest, project, pattern="DEEP"), project) == []


async def test_contents_are_found_line_by_line_in_files_that_can_be_read(guest: Guest, project: str):
    found = await search(guest, project, content="needle", exclude="node_modules\0.git")
    assert names(found, project) == ["longline", "src/deep/other.txt", "src/main.py"] and not found["more"]
    told = {unb64(entry["path_b64"]).rpartition(b"/")[2]: entry for entry in found["results"]}
    assert [(match["line"], match["column"], unb64(match["text_b64"])) for match in told[b"other.txt"]["matches"]] == [
        (2, 1, b"needle again needle"), (4, 6, b"last needle")]
    assert [(match["line"], match["column"]) for match in told[b"main.py"]["matches"]] == [(2, 12)]
    long = told[b"longline"]["matches"][0]
    assert long["line"] == 1 and unb64(long["text_b64"]).endswith(b"xneedle") and len(unb64(long["text_b64"])) <= 512
    any_case = await search(guest, project, content="nEEdle", any_case=True, pattern="*.txt")
    assert [match["line"] for match in any_case["results"][0]["matches"]] == [1, 2, 4]
    inside = await search(guest, project, content="needle", pattern="*.js")
    assert names(inside, project) == ["node_modules/left/index.js"]


async def test_a_search_goes_on_where_a_page_ended(guest: Guest, project: str):
    whole = names(await search(guest, project, pattern="*"), project)
    pages, after = [], None
    while True:
        page = await search(guest, project, pattern="*", limit=2, **({"after": after} if after else {}))
        pages += names(page, project)
        after = unb64(page["after_b64"])
        if not page["more"]:
            break
    assert pages == whole and len(whole) > 10


async def test_a_file_full_of_matches_and_a_wrong_question_are_bounded(guest: Guest):
    await guest.run("rm -rf many; mkdir many; yes hit | head -n 100000 > many/f")
    found = await search(guest, f"{HOME}/many", content="hit")
    assert len(found["results"][0]["matches"]) == 100 and found["results"][0]["cut"] is True
    for params in ({"content": ""}, {"content": "two\nlines"}, {"pattern": "x" * 2000}, {"limit": 0}, {"limit": 5000}):
        with pytest.raises(Invalid):
            await search(guest, f"{HOME}/many", **params)
    with pytest.raises(FileError):
        await search(guest, "/root", pattern="*")
    hostile = "*a" * 400
    began = time.process_time()
    assert names(await search(guest, f"{HOME}/many", pattern=hostile), f"{HOME}/many") == []
    assert time.process_time() - began < DEADLINE_S


# -- very large folders ------------------------------------------------------------------------------------------------

async def test_a_folder_of_seventy_thousand_files_is_paged_and_held_by_nobody(guest: Guest):
    """Field case 114: pages of any folder, a stable cursor while names come and go. More than a walk holds at once."""
    folder = guest.root / "home/user/vast"
    await guest.run("mkdir vast")
    for number in range(70_000):
        os.close(os.open(folder / f"f{number:06d}", os.O_CREAT | os.O_WRONLY))
    agent = await _agent(guest)
    before = _peak_kib(agent)
    first = await guest.file("list", f"{HOME}/vast", limit=1000)
    assert [unb64(each["path_b64"])[-7:] for each in first["entries"][:2]] == [b"f000000", b"f000001"] and first["more"]
    (folder / "f000999").unlink()
    (folder / "f001000a").touch()
    second = await guest.file("list", f"{HOME}/vast", limit=1000, after_b64=first["entries"][-1]["path_b64"])
    assert [unb64(each["path_b64"])[-8:] for each in second["entries"][:2]] == [b"/f001000", b"f001000a"]
    late = await guest.file("list", f"{HOME}/vast", limit=10_000, after_b64=b64(f"{HOME}/vast/f059998"), recursive=True)
    assert len(late["entries"]) == 10_000 and late["more"]
    last = await guest.file("list", f"{HOME}/vast", limit=9, after_b64=late["entries"][-1]["path_b64"], recursive=True)
    assert [unb64(each["path_b64"])[-7:] for each in last["entries"]] == [b"f069999"] and not last["more"]
    hits, after = [], {}
    while True:  # a page ends by the clock, too
        found = await search(guest, f"{HOME}/vast", pattern="*9999", **after)
        hits += [unb64(each["path_b64"])[-7:] for each in found["results"]]
        after = {"after": unb64(found["after_b64"])}
        if not found["more"]:
            break
    assert hits == [b"f0%d9999" % number for number in range(7)]
    assert _peak_kib(agent) - before < 64 * 1024
    await guest.file("remove", f"{HOME}/vast", recursive=True)


async def _agent(guest: Guest) -> int:
    """The agent's process as the host numbers it: it holds the listening socket's folder as its /mnt."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
                ours = str(guest.socket.parent) in (entry / "mountinfo").read_text()
                if ours and b"sandboxes.guest.agent" in command and b"--fake" in command:
                    return int(entry.name)
            except OSError:
                continue
    raise AssertionError("no agent")


def _peak_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


async def test_a_folder_that_is_read_in_blocks_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(filewalk, "BLOCK_NAMES", 7)
    for number in range(100):
        (tmp_path / f"{number:03d}").touch()
        (tmp_path / f"d{number % 10}").mkdir(exist_ok=True)
        (tmp_path / f"d{number % 10}" / f"{number}").touch()

    class Nobody:
        def check(self) -> None: ...
    base = str(tmp_path).encode()
    fd = filewalk.open_folder(base)
    whole = [found.path for found in filewalk.deep(Nobody(), fd, base, [])]
    assert len(whole) == 210 and whole == sorted(whole, key=lambda path: path.split(b"/"))
    for at in range(0, 210, 13):
        rest = [found.path for found in filewalk.deep(Nobody(), fd, base, filewalk.below(base, whole[at]))]
        assert rest == whole[at + 1:]


# -- watch -------------------------------------------------------------------------------------------------------------

class Watch:
    def __init__(self, stream) -> None:
        self._stream, self._held = stream, b""

    async def next(self) -> dict:
        async with asyncio.timeout(DEADLINE_S):
            while b"\n" not in self._held:
                self._held += (await anext(self._stream))[1]
        line, _, self._held = self._held.partition(b"\n")
        return json.loads(line)

    async def until(self, *wanted: tuple[str, str]) -> list[tuple[str, str]]:
        """Changes until all of the wanted have been told."""
        seen: list[tuple[str, str]] = []
        while not set(wanted) <= set(seen):
            try:
                said = await self.next()
            except TimeoutError:
                raise AssertionError(f"told were only {seen}") from None
            seen += [(unb64(each["path_b64"]).decode().removeprefix(HOME + "/"), each["change"])
                     for each in said.get("changes", ())]
        return seen


@asynccontextmanager
async def watching(guest: Guest, path: str, **params) -> AsyncIterator[Watch]:
    if "exclude" in params:
        params["exclude_b64"] = b64(params.pop("exclude"))
    stream = await guest.link.stream("file.watch", {"path_b64": b64(path), "user": "user", **params})
    await stream.head()
    try:
        yield Watch(stream)
    finally:
        await stream.cancel()


async def test_changes_are_told_as_they_happen_and_a_write_of_ours_is_one(guest: Guest):
    await guest.run("rm -rf seen; mkdir -p seen/a/b; echo 1 > seen/a/b/old")
    async with watching(guest, f"{HOME}/seen") as watch:
        assert await watch.next() == {"ready": 3, "partial": False}
        await guest.run("echo 2 >> seen/a/b/old; rm -f seen/none; echo > 'seen/n\u00ff'")
        await watch.until(("seen/a/b/old", "modified"), ("seen/n\u00ff", "created"))
        await guest.run("chmod 600 seen/a/b/old")
        await watch.until(("seen/a/b/old", "attributes"))
        await guest.run("rm seen/a/b/old; mv seen/a/b seen/c")
        await watch.until(("seen/a/b/old", "removed"), ("seen/a/b", "removed"), ("seen/c", "created"))
        await guest.run("echo > seen/c/in-moved")
        await watch.until(("seen/c/in-moved", "created"))
        await guest.write(f"{HOME}/seen/c/ours", b"x" * 300_000)
        await guest.write(f"{HOME}/seen/c/ours", b"y")
        await guest.run("touch seen/end")
        told = await watch.until(("seen/end", "created"))
        assert {path for path, _ in told} == {"seen/c/ours", "seen/end"}
        await guest.run("rm -rf seen")
        while not (said := await watch.next()).get("gone"):
            assert "changes" in said


async def test_what_is_made_in_new_folders_at_once_is_never_missed(guest: Guest):
    await guest.run("rm -rf fresh; mkdir fresh")
    async with watching(guest, f"{HOME}/fresh") as watch:
        await watch.next()
        await guest.run("cd fresh; for i in $(seq 60); do mkdir -p d$i/e/f; echo > d$i/e/f/g; done")
        await watch.until(*((f"fresh/d{number}/e/f/g", "created") for number in range(1, 61)))
        await guest.run("for i in $(seq 60); do echo more >> fresh/d$i/e/f/g; done")
        await watch.until(*((f"fresh/d{number}/e/f/g", "modified") for number in range(1, 61)))


async def test_a_storm_is_coalesced_and_what_was_missed_is_said(guest: Guest):
    await guest.run("rm -rf storm; mkdir -p storm/node_modules")
    async with watching(guest, f"{HOME}/storm", exclude="node_modules") as watch:
        await watch.next()
        await guest.run("for i in $(seq 3000); do echo $i >> storm/log; echo > storm/node_modules/x; done; "
                        "touch storm/end")
        told = await watch.until(("storm/end", "created"))
        assert len([each for each in told if each[0] == "storm/log"]) < 100
        assert {path for path, _ in told} == {"storm/log", "storm/end"}
        # Nobody reads meanwhile, so that however fast the watch is, it has to leave something out.
        ran = await guest.run(argv=["python3", "-c", "for i in range(20000): open(f'storm/f{i}', 'w').close()"])
        assert ran.outcome == {"kind": "exited", "code": 0}
        lines = 0
        while not (await watch.next()).get("overflow"):
            lines += 1
        assert lines < 15_000


async def test_watches_have_rights_and_bounds_and_cost_the_user_none(guest: Guest):
    for path, code in (("/root", "permission_denied"), (f"{HOME}/not-there", "file_not_found"),
                       ("/etc/passwd", "not_a_directory")):
        with pytest.raises(SandboxError) as caught:
            async with watching(guest, path):
                pass
        assert caught.value.code == code
    await guest.run("rm -rf few; mkdir few")
    asked = {"path_b64": b64(f"{HOME}/few"), "user": "user"}
    streams = [await guest.link.stream("file.watch", asked) for _ in range(25)]
    with pytest.raises(SandboxError) as busy:
        await streams[-1].head()
    assert busy.value.code == "busy"
    assert (await guest.file("stat", f"{HOME}/few"))["type"] == "directory"
    for stream in streams:
        await stream.cancel()
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            async with watching(guest, f"{HOME}/few") as watch:
                assert (await watch.next())["ready"] == 1
            break
        except SandboxError as error:
            assert error.code == "busy" and time.monotonic() < deadline
            await asyncio.sleep(0.05)
