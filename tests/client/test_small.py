"""The client's pure parts, and its patience against answers made by hand: what is asked again, and what is not."""

from __future__ import annotations

import base64
import io
import itertools
import json
import os
import signal
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from berth_client import (
    AsyncBerth,
    BadAnswer,
    BadConfig,
    Berth,
    BerthError,
    Chunk,
    Ended,
    Exited,
    FileChanged,
    Killed,
    Lost,
    NoCapacity,
    Problem,
    Refused,
    Retry,
    Signaled,
    StreamBroken,
    TimedOut,
    Unavailable,
    Unreachable,
    config,
    problems,
)
from berth_client.cli import endings, networks, say, tars
from berth_client.cli.completion import candidates
from berth_client.cli.copies import There, side
from berth_client.cli.grammar import parsed, parser
from berth_client.follow import Following
from berth_client.wire import encoded, path_fields
from workspaces.api.errors import STATUS
from workspaces.api.errors import body as problem_body

WORKSPACE = {"id": "a" * 20, "name": "w", "state": "running"}
EXEC = {"id": "e" * 20, "command": "true", "state": "ended", "outcome": {"kind": "exited", "code": 0}}
PATIENT = Retry(total_s=5, first_s=0.001, longest_s=0.002)


def refused(code: str, **extra: object) -> httpx.Response:
    said = problem_body(code, "in words", **extra)
    return httpx.Response(said["status"], json=said, headers={"content-type": "application/problem+json"})


class Server:
    """Answers one after the other (the last for ever); remembers what it was asked."""

    def __init__(self, *answers: httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]) -> None:
        self.answers, self.asked = list(answers), list[httpx.Request]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer(request) if callable(answer) else answer

    def client(self, retry: Retry = PATIENT) -> Berth:
        return Berth("http://berth.test", "berth_secret", retry=retry, transport=httpx.MockTransport(self))


# -- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", sorted(STATUS))
def test_every_code_of_the_server_has_its_exception_and_says_why(code: str) -> None:
    server = Server(refused(code, reason="because", retry_after_s=3, errors={"field": ["wrong."]}))
    with pytest.raises(Problem) as caught:
        server.client(Retry(total_s=0)).me()
    error = caught.value
    assert code in problems.BY_CODE and type(error) is problems.BY_CODE[code]
    assert (error.code, error.status, error.detail, error.reason, error.retry_after_s) == (
        code, STATUS[code][0], "in words", "because", 3)
    assert "in words" in str(error) and "because" in str(error) and "field: wrong." in str(error)


def test_no_code_has_two_exceptions_and_a_newer_one_falls_back_on_its_status() -> None:
    codes = [code for family in problems.FAMILIES.values() for code in family]
    assert len(codes) == len(set(codes))
    assert isinstance(problems.problem(503, {"code": "from_the_future"}), Unavailable)


def test_what_is_not_berth_is_not_taken_for_it() -> None:
    for answer in (httpx.Response(200, text="<html>"), httpx.Response(200, json=[1]), httpx.Response(404, text="no"),
                   httpx.Response(302, headers={"location": "http://elsewhere.test/"}), httpx.Response(200, json={})):
        with pytest.raises(BadAnswer):
            Server(answer).client().workspaces.get("a" * 20)


# -- what is asked again ---------------------------------------------------------------------------------------------


def test_what_passes_by_itself_is_asked_again_under_the_same_key() -> None:
    server = Server(refused("unavailable"), refused("host_unreachable"), httpx.ReadError("cut"),
                    httpx.Response(502, text="<html>bad gateway"), refused("rate_limited"),
                    httpx.Response(201, json=WORKSPACE))
    assert server.client().workspaces.create("w").id == WORKSPACE["id"]
    assert len({request.headers["idempotency-key"] for request in server.asked}) == 1 and len(server.asked) == 6
    assert len({request.content for request in server.asked}) == 1


def test_two_acts_never_share_a_key_and_the_callers_own_is_kept() -> None:
    server = Server(httpx.Response(201, json=WORKSPACE))
    client = server.client()
    client.workspaces.create("w")
    client.workspaces.create("w")
    client.workspaces.create("w", idempotency_key="mine")
    keys = [request.headers["idempotency-key"] for request in server.asked]
    assert len(set(keys)) == 3 and keys[2] == "mine"


def test_what_could_happen_twice_is_sent_once_unless_it_never_arrived() -> None:
    for gone in (httpx.ReadError("cut"), refused("host_unreachable")):
        server = Server(gone)
        with pytest.raises(BerthError):
            server.client().workspace("a" * 20).execs.write_stdin("e" * 20, b"x")
        assert len(server.asked) == 1
    server = Server(httpx.ConnectError("refused"), refused("rate_limited"), httpx.Response(200, json={
        "accepted_bytes": 1}))
    assert server.client().workspace("a" * 20).execs.write_stdin("e" * 20, b"x") == 1
    assert len(server.asked) == 3


def test_a_write_under_a_precondition_is_sent_once_because_the_second_would_meet_the_first() -> None:
    files = Server(httpx.ReadError("cut")).client().workspace("a" * 20).files
    with pytest.raises(Unreachable):
        files.write("/f", b"x", only_new=True)
    with pytest.raises(Unreachable):
        files.upload(b"x", "/f", if_match='"1"')
    server = Server(httpx.ReadError("cut"), httpx.Response(201, json={"path": "/f", "size": 1, "etag": '"1"'}))
    assert server.client().workspace("a" * 20).files.upload(b"x", "/f").size == 1
    assert [request.content for request in server.asked] == [b"x", b"x"]


def test_a_stream_that_cannot_be_read_again_is_not_sent_again() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"once")
    os.close(writing)
    server = Server(httpx.ReadError("cut"))
    with os.fdopen(reading, "rb") as pipe, pytest.raises(Unreachable):
        server.client().workspace("a" * 20).files.upload(pipe, "/f")
    assert [request.content for request in server.asked] == [b"once"]


def test_facts_are_told_at_once() -> None:
    for code in ("no_capacity", "gpu_unavailable", "state_conflict", "disk_full", "not_found"):
        server = Server(refused(code))
        with pytest.raises(Problem):
            server.client().workspaces.create("w")
        assert len(server.asked) == 1
    assert problems.BY_CODE["no_capacity"] is NoCapacity


def test_delays_grow_are_jittered_bounded_and_never_shorter_than_asked_for() -> None:
    now, chances = [0.0], itertools.cycle([0.0, 0.999])
    again = Retry(total_s=100, first_s=1, longest_s=8, clock=lambda: now[0], chance=lambda: next(chances)).again()
    away = Unreachable("away")
    delays = [again.delay_s(away) for _ in range(6)]
    assert delays == pytest.approx([0.5, 1.999, 2.0, 7.996, 4.0, 7.996])
    assert again.delay_s(problems.problem(503, {"code": "unavailable", "retry_after_s": 30})) == 30
    now[0] = 90.0
    with pytest.raises(Unavailable):
        again.delay_s(problems.problem(503, {"code": "unavailable", "retry_after_s": 30}))
    again.went_well()
    assert again.delay_s(away) == pytest.approx(0.5)


def test_the_header_retry_after_counts_where_the_body_is_silent() -> None:
    answer = httpx.Response(429, json=problem_body("rate_limited"), headers={
        "content-type": "application/problem+json", "retry-after": "7"})
    with pytest.raises(Problem) as caught:
        Server(answer).client(Retry(total_s=1)).me()
    assert caught.value.retry_after_s == 7


def test_a_token_never_goes_where_a_list_points() -> None:
    server = Server(httpx.Response(200, json={"results": [WORKSPACE], "next": "http://evil.test/x?cursor=abc&path=%ff"}),
                    httpx.Response(200, json={"results": [WORKSPACE], "next": None}))
    assert len(list(server.client().workspaces.list())) == 2
    assert str(server.asked[1].url) == "http://berth.test/api/v1/workspaces?cursor=abc&path=%FF"


def test_a_command_that_waits_for_a_member_is_followed_once_it_may_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("berth_client.acts.execs.LOOK_S", 0.001)
    pending = httpx.Response(200, json={**EXEC, "state": "pending_approval", "outcome": None})
    server = Server(pending, pending, httpx.Response(200, json={**EXEC, "state": "running", "outcome": None}),
                    ending(STREAM), httpx.Response(200, json=EXEC))
    heard: list[bytes] = []
    assert server.client().workspace("a" * 20).execs.live("e" * 20, heard.append, heard.append).ok
    assert heard == [b"ab", b"\xff"]


def test_an_open_file_is_unpacked_in_pieces_and_not_by_its_lines(tmp_path: Path) -> None:
    (tmp_path / "tar").write_bytes(b"no line ends here " * 50_000)
    server = Server(httpx.Response(200, json={"path": "/d", "entries": 1, "bytes": 2}))
    with (tmp_path / "tar").open("rb") as file:
        done = server.client().workspace("a" * 20).files.unpack(file, "/d", parents=True)
    assert (done.entries, done.bytes, len(server.asked[0].content)) == (1, 2, 900_000)
    assert server.asked[0].headers["content-length"] == "900000"


def test_a_diff_is_read_over_its_pages() -> None:
    def change(path: str) -> dict[str, object]:
        return {"path": path, "path_encoded": path, "change": "added", "size_before": None, "size_after": 1}

    server = Server(httpx.Response(200, json={"results": [change("/a")], "next": "http://x/?cursor=2"}),
                    httpx.Response(200, json={"results": [change("/b")], "next": None}))
    changes = server.client().workspace("a" * 20).checkpoints.diff("c" * 20, against="d" * 20)
    assert [(one.path, one.change, one.size_before, one.size_after) for one in changes] == [
        ("/a", "added", None, 1), ("/b", "added", None, 1)]
    assert str(server.asked[0].url).endswith(f"/checkpoints/{'c' * 20}/diff?against={'d' * 20}")


def test_a_secret_is_in_no_repr_and_its_making_is_never_repeated() -> None:
    client = Server(httpx.ReadError("cut")).client()
    assert "berth_secret" not in f"{client!r} {client._hand.link!r} {AsyncBerth('http://x', 'berth_secret')!r}"
    server = Server(httpx.ReadError("cut"))
    with pytest.raises(Unreachable):
        server.client().tokens.create("t")
    assert len(server.asked) == 1 and "idempotency-key" not in server.asked[0].headers


# -- streams ---------------------------------------------------------------------------------------------------------


def said(event: str, value: object) -> bytes:
    return f"id: 1\nevent: {event}\ndata: {json.dumps(value)}\n\n".encode()


def output(data: bytes, at: int, event: str = "stdout") -> bytes:
    return said(event, {"data": base64.b64encode(data).decode(), "offset": at, "next_offset": at + len(data)})


STREAM = b": still here\n\n" + output(b"ab", 0) + output(b"\xff", 2, "stderr") + said("outcome", EXEC["outcome"])
WHOLE = [Chunk("stdout", b"ab", 0, 2), Chunk("stderr", b"\xff", 2, 3), Ended(Exited(0))]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_events_are_read_however_their_bytes_are_cut(size: int) -> None:
    place = Following("/execs", "e")
    pieces = [STREAM[at:at + size] for at in range(0, len(STREAM), size)]
    assert [item for piece in pieces for item in place.take(piece)] == WHOLE and place.over


class Broken(httpx.SyncByteStream):
    """A body that breaks off, or ends as it should."""

    def __init__(self, *pieces: bytes, ends: bool = False) -> None:
        self._pieces, self._ends = pieces, ends

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces
        if not self._ends:
            raise httpx.ReadError("cut")


def ending(data: bytes, status: int = 200, **headers: str) -> httpx.Response:
    return httpx.Response(status, stream=Broken(data, ends=True), headers=headers)


def test_a_stream_is_taken_up_from_its_place_however_it_broke() -> None:
    """Cut in the middle of an event, told so by the server, ended as if it were whole, not reachable at all."""
    first = STREAM[:STREAM.index(b"event: stderr") + 20]
    gone = said("error", problem_body("host_unreachable", "The stream broke", retry_after_s=0))
    server = Server(httpx.Response(200, stream=Broken(first)), httpx.ConnectError("refused"),
                    ending(gone), ending(b""), refused("unavailable"),
                    ending(output(b"\xff", 2, "stderr")),
                    ending(said("outcome", EXEC["outcome"])))
    assert list(server.client().workspace("a" * 20).execs.follow("e" * 20)) == WHOLE
    assert [request.url.params["offset"] for request in server.asked] == ["0", "2", "2", "2", "2", "2", "3"]


def test_a_stream_that_stays_away_ends_as_what_it_is() -> None:
    server = Server(ending(output(b"ab", 0)), lambda request: ending(b""))
    got = []
    with pytest.raises(StreamBroken):
        for piece in server.client(Retry(total_s=0.02, first_s=0.001)).workspace("a" * 20).execs.follow("e" * 20):
            got.append(piece)
    assert got == WHOLE[:1]


def test_a_download_goes_on_in_the_same_file_or_says_that_it_is_another(tmp_path: Path) -> None:
    def part(etag: str) -> Callable[[httpx.Request], httpx.Response]:
        return lambda request: ending(b"cd", 206, etag=etag)

    begun = httpx.Response(200, stream=Broken(b"ab"), headers={"etag": '"1"'})
    server = Server(begun, part('"1"'))
    assert b"".join(server.client().workspace("a" * 20).files.stream("/f")) == b"abcd"
    assert (server.asked[1].headers["range"], server.asked[1].headers["if-match"]) == ("bytes=2-", '"1"')
    for after in (part('"2"'), refused("precondition_failed")):
        again = httpx.Response(200, stream=Broken(b"ab"), headers={"etag": '"1"'})
        with pytest.raises(FileChanged):
            Server(again, after).client().workspace("a" * 20).files.download("/f", tmp_path / "f")
    assert list(tmp_path.iterdir()) == []


# -- paths, configuration --------------------------------------------------------------------------------------------


def test_a_guests_path_is_bytes() -> None:
    assert encoded("/ü &?#%") == "/%C3%BC%20%26%3F%23%25" and encoded(b"/\xff") == encoded("/\udcff") == "/%FF"
    assert path_fields("/a") == {"path": "/a"} and path_fields(b"/\xff", "to") == {"to_encoded": "/%FF"}


def test_what_login_kept_is_its_owners_alone_and_for_its_own_address(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "client.json"
    known = {"BERTH_CONFIG": str(place)}
    config.save(place, config.Access("https://a.test", "berth_kept"))
    assert place.stat().st_mode & 0o777 == 0o600 and list(place.parent.iterdir()) == [place]
    assert config.resolve(environment=known) == config.Access("https://a.test", "berth_kept")
    assert config.resolve("https://a.test/", environment=known).token == "berth_kept"
    with pytest.raises(BadConfig):
        config.resolve("https://b.test", environment=known)
    with pytest.raises(BadConfig):
        config.resolve(environment={**known, "BERTH_URL": "https://b.test"})
    assert config.resolve(environment={**known, "BERTH_TOKEN": "berth_env"}).token == "berth_env"
    place.chmod(0o640)
    with pytest.raises(BadConfig, match="chmod 600"):
        config.resolve(environment=known)
    with pytest.raises(BadConfig, match="berth-cli login"):
        config.resolve(environment={"BERTH_CONFIG": str(tmp_path / "none")})


@pytest.mark.parametrize("address", ["localhost:8000", "ftp://a", "http://", "http://user:pw@a", "http://a/?x=1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(BadConfig):
        config.normalized(address)


# -- the command line's pure parts -----------------------------------------------------------------------------------


def test_every_outcome_has_an_exit_code_and_a_sentence() -> None:
    codes = {Exited(3): 3, Signaled("SIGTERM"): 128 + signal.SIGTERM, TimedOut(): 124, Killed("anna"): 137,
             Refused("no_such_program"): 126, Lost("rolled_back"): 255}
    assert {outcome: endings.exit_status(outcome) for outcome in codes} == codes
    assert all(endings.sentence(outcome) for outcome in codes)


def test_hints_are_for_codes_that_there_are_and_a_strangers_words_cannot_drive_a_terminal() -> None:
    assert set(say.HINTS) <= set(problems.BY_CODE)
    assert say.shown("a\x1b]0;owned\x07\nb").replace("\N{REPLACEMENT CHARACTER}", "?") == "a?]0;owned??b"


def test_a_side_of_a_copy_is_here_or_there() -> None:
    assert side("ws:/a:b") == There("ws", "/a:b") and side("anna/ws:x") == There("anna/ws", "x")
    assert [side(one) for one in ("./a:b", "/a:b", "plain", "-")] == ["./a:b", "/a:b", "plain", "-"]
    assert There("w", "x").absolute(None) == "/home/user/x" and There("w", "").absolute("root") == "/root"


def test_a_commands_own_options_are_its_own() -> None:
    asked = parsed(["exec", "--user", "root", "ws", "ls", "--json", "-l"])
    assert (asked.user, asked.json, asked.command) == ("root", False, ["ls", "--json", "-l"])
    assert parsed(["exec", "ws", "--", "a", "--", "b"]).command in (["--", "a", "--", "b"], ["a", "--", "b"])
    asked = parsed(["shell", "ws", "--attach", "e", "--take"])
    assert (asked.workspace, asked.attach, asked.take, asked.command) == ("ws", "e", True, [])
    asked = parsed(["shell", "ws", "--user", "root", "--", "top", "-b"])
    assert (asked.user, asked.command) == ("root", ["top", "-b"])


@pytest.mark.parametrize(("words", "found"), [
    (["st"], ["standby", "start", "stop"]), (["completion", ""], ["bash", "fish", "zsh"]),
    (["tokens", "cr"], ["create"]), (["exec", "--max"], ["--max-output-mib"]),
    (["create", "n", "--network", "x", "--fr"], ["--from-checkpoint"])])
def test_words_are_completed_from_the_grammar_itself(words: list[str], found: list[str]) -> None:
    assert candidates(parser(), words) == found


@pytest.mark.parametrize(("words", "becomes"), [
    ([], {"mode": "rules", "rules": [{"domain": "a.org", "ports": [80, 443]}], "ask": False}),
    (["--mode", "deny-all"], {"mode": "deny-all"}),
    (["--allow", "A.org", "--allow", "*.b.org:443,80", "--allow", "203.0.113.9:22", "--ask"], {
        "mode": "rules", "ask": True, "rules": [{"domain": "a.org", "ports": [80, 443]},
                                                {"domain": "*.b.org", "ports": [80, 443]},
                                                {"cidr": "203.0.113.9/32", "ports": [22]}]}),
    (["--forbid", "a.org"], {"mode": "rules", "rules": [], "ask": False}),
    (["--mode", "rules", "--no-ask"], {"mode": "rules", "rules": [{"domain": "a.org", "ports": [80, 443]}],
                                       "ask": False})])
def test_what_a_workspace_may_reach_is_changed_by_words(words: list[str], becomes: dict[str, Any]) -> None:
    policy = {"mode": "rules", "rules": [{"domain": "a.org", "ports": [80, 443]}], "ask": False}
    assert networks.changed(policy, parsed(["network", "ws", *words])) == becomes


def test_a_destination_that_is_none_is_refused_and_rules_have_a_mode() -> None:
    for wrong in ("https://a.org", "a.org:x", "a b"):
        with pytest.raises(problems.BadConfig):
            networks.rule_of(wrong)
    with pytest.raises(SystemExit):
        networks.changed({}, parsed(["network", "ws", "--mode", "allow-all", "--allow", "a.org"]))


def archive(*entries: tuple[tarfile.TarInfo, bytes]) -> Iterator[bytes]:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        for info, data in entries:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    yield held.getvalue()


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", data: bytes = b"") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, 0o755
    return info, data


def test_a_hostile_archive_writes_nothing_outside_its_folder(tmp_path: Path) -> None:
    outside, into = tmp_path / "outside", tmp_path / "into"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    left = tars.unpack(archive(
        entry("../climbed", data=b"x"), entry("/absolute", data=b"x"), entry("a/../../climbed", data=b"x"),
        entry("link", tarfile.SYMTYPE, str(outside)), entry("link/through", data=b"x"),
        entry("link", tarfile.DIRTYPE), entry("file", tarfile.SYMTYPE, str(outside / "kept")),
        entry("file", data=b"replaced"), entry("hard", tarfile.LNKTYPE, "../outside/kept"),
        entry("device", tarfile.CHRTYPE), entry("fifo", tarfile.FIFOTYPE), entry("good/one", data=b"fine")), into)
    assert sorted(path.name for path in outside.iterdir()) == ["kept"] and (outside / "kept").read_text() == "kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["into", "outside"]
    assert (into / "file").read_bytes() == b"replaced" and not (into / "file").is_symlink()
    assert (into / "good/one").read_bytes() == b"fine" and (into / "good/one").stat().st_mode & 0o777 == 0o755
    assert left == ["../climbed", "/absolute", "a/../../climbed", "link/through", "link", "hard", "device", "fifo"]


def test_half_an_archive_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    (whole,) = archive(entry("one", data=b"x" * 100_000))
    with pytest.raises(StreamBroken):
        tars.unpack(iter([whole[:50_000]]), tmp_path / "half")
    assert not (tmp_path / "half" / "one").exists()


def test_a_folder_that_cannot_be_read_breaks_its_archive_off(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 3_000_000)
    (tmp_path / "b").symlink_to("nowhere")
    pieces = list(tars.packed(tmp_path))
    assert max(map(len, pieces)) <= tars.PIECE_BYTES
    tars.unpack(iter(pieces), tmp_path / "back")
    assert (tmp_path / "back" / "a").stat().st_size == 3_000_000
    assert os.readlink(tmp_path / "back" / "b") == "nowhere"
    with pytest.raises(FileNotFoundError):
        list(tars.packed(tmp_path / "missing"))
