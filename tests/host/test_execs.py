"""Execs over the real socket: real outcomes, exact bytes, bounded output, clear refusals."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.host.client import Hostd, body_pids, eventually, new_id


async def test_a_foreground_exec_answers_with_code_output_and_the_public_fields(steady: tuple[Hostd, str]):
    hostd, machine = steady
    record = await hostd.exec(
        machine, "echo out; echo err >&2; exit 3", headers={"Berth-Actor": json.dumps({"type": "token", "name": "ci"})}
    )
    assert record.pop("id") and record.pop("duration_ms") >= 0
    assert record.pop("started_at") <= record.pop("ended_at")
    assert record == {
        "command": "echo out; echo err >&2; exit 3",
        "user": "user",
        "cwd": "/home/user",
        "tty": None,
        "state": "ended",
        "outcome": {"kind": "exited", "code": 3},
        "continued_from": None,
        "stdout": "out\n",
        "stderr": "err\n",
        "stdout_truncated": False,
        "stderr_truncated": False,
        "actor": {"type": "token", "name": "ci"},
        "recording": None,
    }
    ended = (await hostd.facts(machine, "exec.ended"))[-1]
    assert ended["data"]["outcome"] == {"kind": "exited", "code": 3} and ended["actor"]["name"] == "ci"


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        ("exit 255", {"kind": "exited", "code": 255}),
        ("kill -SEGV $$", {"kind": "signaled", "signal": "SIGSEGV"}),
        ("kill -9 $$", {"kind": "signaled", "signal": "SIGKILL"}),
        (["/no/such/program"], {"kind": "exited", "code": 127}),
        (["/etc/passwd"], {"kind": "exited", "code": 126}),
        (["true"], {"kind": "exited", "code": 0}),
    ],
)
async def test_outcomes_are_the_kernels_own(steady: tuple[Hostd, str], command: Any, outcome: dict[str, Any]):
    hostd, machine = steady
    assert (await hostd.exec(machine, command))["outcome"] == outcome


async def test_without_stdin_a_read_sees_the_end_and_with_it_the_exact_bytes(steady: tuple[Hostd, str]):
    hostd, machine = steady
    assert (await hostd.exec(machine, "cat; echo rc=$?"))["stdout"] == "rc=0\n"
    text = "abc\u00e9" * 50_000
    record = await hostd.exec(machine, "sha256sum", stdin=text)
    assert record["stdout"].split()[0] == hashlib.sha256(text.encode()).hexdigest()
    assert (await hostd.exec(machine, "true", stdin=text))["outcome"] == {"kind": "exited", "code": 0}


async def test_open_stdin_takes_raw_bytes_until_eof(steady: tuple[Hostd, str]):
    hostd, machine = steady
    record = await hostd.exec(machine, "sha256sum", stdin_open=True, background=True)
    path = f"/v1/machines/{machine}/execs/{record['id']}/stdin"
    data = bytes(range(256)) * 1000
    assert (await hostd.call("POST", path, data=data)).json == {"accepted_bytes": len(data)}
    assert (await hostd.call("POST", f"{path}?eof=true", data=b"end")).status == 200
    ended = await hostd.end_of(machine, record["id"])
    assert ended["stdout"].split()[0] == hashlib.sha256(data + b"end").hexdigest()
    late = await hostd.call("POST", path, data=b"late")
    assert (late.status, late.json["code"]) == (409, "exec_ended")


async def test_output_that_is_not_utf8_is_replaced_in_text_and_exact_in_base64_and_raw(steady: tuple[Hostd, str]):
    hostd, machine = steady
    record = await hostd.exec(machine, r"printf '\xd6\xd0ok\xff'")
    assert record["stdout"] == "\ufffd\ufffdok\ufffd"
    path = f"/v1/machines/{machine}/execs/{record['id']}"
    exact = (await hostd.call("GET", f"{path}?encoding=base64")).json
    assert base64.b64decode(exact["stdout_b64"]) == b"\xd6\xd0ok\xff" and "stdout" not in exact
    raw = await hostd.call("GET", f"{path}/output?stream=stdout&offset=2")
    assert raw.body == b"ok\xff" and raw.headers["Berth-Next-Offset"] == "5"


async def test_output_over_the_limit_is_cut_and_flagged(hostd: Hostd, machine: str):
    record = await hostd.exec(machine, "head -c 3000000 /dev/zero | tr '\\0' x; echo e >&2")
    assert len(record["stdout"]) == 1_048_576 and record["stdout_truncated"] is True
    assert (record["stderr"], record["stderr_truncated"]) == ("e\n", False)
    small = await hostd.exec(machine, "echo 12345678", max_output_bytes=4)
    assert (small["stdout"], small["stdout_truncated"]) == ("1234", True)
    none = await hostd.exec(machine, "echo x", max_output_bytes=0)
    assert (none["stdout"], none["stdout_truncated"]) == ("", True)
    kept = sum(path.stat().st_size for path in (hostd.state / "records" / machine / "execs").iterdir())
    assert kept < 1_100_000


async def test_a_timeout_ends_the_whole_tree_and_keeps_what_was_said(steady: tuple[Hostd, str]):
    """Field case 001: grandchildren, setsid and ignored TERM."""
    hostd, machine = steady
    for command in (
        "echo early; sleep 300; echo late",
        "(sleep 300) & echo early; wait",
        "setsid sh -c 'sleep 300' & echo early; wait",
        "trap '' TERM; echo early; sleep 300",
    ):
        record = await hostd.exec(machine, command, timeout_s=2.0)
        assert record["outcome"] == {"kind": "timed_out"}, command
        assert record["stdout"] == "early\n"

    async def nobody_sleeps() -> bool:
        commands = [Path(f"/proc/{pid}/cmdline") for pid in body_pids(hostd, machine)]
        return not any(b"sleep" in path.read_bytes() for path in commands if path.exists())

    await eventually(nobody_sleeps, "every descendant is gone")


async def test_a_delete_kills_the_tree_and_says_by_whom(steady: tuple[Hostd, str]):
    hostd, machine = steady
    record = await hostd.exec(machine, "sh -c 'trap \"\" TERM; sleep 300' & wait", background=True)
    path = f"/v1/machines/{machine}/execs/{record['id']}"
    headers = {"Berth-Actor": json.dumps({"type": "user", "name": "ann"})}
    ended = await hostd.call("DELETE", path, headers=headers)
    assert (ended.status, ended.json["outcome"]) == (200, {"kind": "killed", "by": "ann"})
    again = await hostd.call("DELETE", path)
    assert (again.status, again.json) == (200, ended.json)


@pytest.mark.parametrize("said", ["SIGINT", "INT", 2, "2"])
async def test_a_signal_goes_by_name_or_number(steady: tuple[Hostd, str], said: str | int):
    hostd, machine = steady
    record = await hostd.exec(
        machine, "trap 'echo got; exit 7' INT; echo ready; while :; do sleep 0.05; done", background=True
    )
    path = f"/v1/machines/{machine}/execs/{record['id']}"

    async def ready() -> bool:
        return b"ready" in (await hostd.call("GET", f"{path}/output")).body

    await eventually(ready, "the trap is set")
    for bad in ({"signal": "INT; rm"}, {"signal": 0}, {"signal": 65}, {"signal": "65"}, {"signal": True}, {},
                {"signal": 2.5}, {"signal": "sigint"}, {"signal": None}, {"signal": "SIGNOPE"}, {"signal": "NOPE"}):
        refused = await hostd.call("POST", f"{path}/signal", json=bad)
        assert (refused.status, refused.json["code"]) == (400, "invalid"), bad
    assert (await hostd.call("POST", f"{path}/signal", json={"signal": said})).status == 202
    ended = await hostd.end_of(machine, record["id"])
    assert (ended["stdout"], ended["outcome"]) == ("ready\ngot\n", {"kind": "exited", "code": 7})
    late = await hostd.call("POST", f"{path}/signal", json={"signal": "SIGINT"})
    assert late.json["code"] == "exec_ended"


async def test_the_same_id_joins_the_exec_and_runs_nothing_twice(steady: tuple[Hostd, str]):
    hostd, machine = steady
    body = {"exec_id": new_id(), "command": "echo once >> /home/user/count; sleep 0.3; cat /home/user/count"}
    path = f"/v1/machines/{machine}/execs"
    answers = await asyncio.gather(*(hostd.call("POST", path, json=body) for _ in range(5)))
    assert {answer.json["stdout"] for answer in answers} == {"once\n"}
    assert (await hostd.call("POST", path, json=body)).json["stdout"] == "once\n"


async def test_a_wait_that_ends_first_answers_202_and_the_exec_goes_on(steady: tuple[Hostd, str]):
    hostd, machine = steady
    record = await hostd.exec(machine, "echo a; sleep 2; echo b", "?wait_s=0.1")
    assert record["state"] == "running" and record["outcome"] is None
    assert (await hostd.end_of(machine, record["id"]))["stdout"] == "a\nb\n"
    body_says = await hostd.exec(machine, "sleep 4", wait_s=0)
    assert body_says["state"] == "running"
    assert (await hostd.exec(machine, "sleep 0.2", "?wait_s=20", background=True))["state"] == "ended"


async def test_a_client_that_goes_away_kills_nothing(steady: tuple[Hostd, str]):
    hostd, machine = steady
    body = {"exec_id": new_id(), "command": "sleep 3; echo done"}
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await hostd.call("POST", f"/v1/machines/{machine}/execs", json=body)
    ended = await hostd.end_of(machine, body["exec_id"])
    assert (ended["stdout"], ended["outcome"]) == ("done\n", {"kind": "exited", "code": 0})


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"command": None}, "command"),
        ({"command": ""}, "command"),
        ({"command": []}, "command"),
        ({"command": [""]}, "command"),
        ({"command": ["a", 1]}, "command"),
        ({"command": "a\0b"}, "command"),
        ({"command": {"a": 1}}, "command"),
        ({"command": "x" * 200_000}, "command"),
        ({"command": ["a"] * 200_000}, "command"),
        ({"exec_id": "short"}, "exec_id"),
        ({"env": {"A": 1}}, "env"),
        ({"env": {"A\0": ""}}, "env"),
        ({"env": {f"V{n}": "x" * 10_000 for n in range(180)}}, "command"),
        ({"cwd": "a\0b"}, "cwd"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": "1"}, "timeout_s"),
        ({"wait_s": 301}, "wait_s"),
        ({"background": "yes"}, "background"),
        ({"tty": {"cols": 0, "rows": 1}}, "tty"),
        ({"tty": True}, "tty"),
        ({"max_output_bytes": -1}, "max_output_bytes"),
        ({"stdin": 5}, "stdin"),
        ({"user": ""}, "user"),
        ({"colour": "red"}, "colour"),
        ({"tty": {"cols": 9, "rows": 9}, "stdin": "x"}, "stdin"),
        ({"command": "\ud800"}, "command"),
    ],
)
async def test_bad_input_is_refused_by_field_and_starts_nothing(
    steady: tuple[Hostd, str], more: dict[str, Any], field: str
):
    hostd, machine = steady
    body = {"exec_id": new_id(), "command": "true", **more}
    before = (await hostd.call("GET", f"/v1/machines/{machine}/execs?limit=1")).json
    answer = await hostd.call("POST", f"/v1/machines/{machine}/execs", json=body)
    assert (answer.status, answer.json["code"]) == (400, "invalid")
    assert list(answer.json["errors"]) == [field]
    assert (await hostd.call("GET", f"/v1/machines/{machine}/execs?limit=1")).json == before


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (b"{", 400, "malformed"),
        (b"[]", 400, "invalid"),
        (b"", 400, "malformed"),
        (b'{"timeout_s":NaN}', 400, "malformed"),
        (b"[" * 100_000, 400, "malformed"),
        (b" " * 3_000_000, 413, "too_large"),
        (b'{"command":' + b"9" * 5000 + b"}", 400, "malformed"),
    ],
)
async def test_a_body_that_is_not_what_it_should_be_is_refused(
    steady: tuple[Hostd, str], data: bytes, status: int, code: str
):
    hostd = steady[0]
    answer = await hostd.call("POST", "/v1/machines/m/execs", data=data)
    assert (answer.status, answer.json["code"]) == (status, code)


@pytest.mark.parametrize(
    "query", ["?wait_s=-1", "?wait_s=nan", "?wait_s=999", "?encoding=hex", "?what=1", "?wait_s=%ff"]
)
async def test_bad_parameters_are_refused_by_name(steady: tuple[Hostd, str], query: str):
    hostd, machine = steady
    answer = await hostd.call(
        "POST", f"/v1/machines/{machine}/execs{query}", json={"exec_id": new_id(), "command": "true"}
    )
    assert (answer.status, answer.json["code"]) == (400, "invalid") and answer.json["errors"]


async def test_a_missing_folder_or_user_is_named_and_leaves_no_record(hostd: Hostd, machine: str):
    """Field case 120."""
    for more, word in (({"cwd": "/does/not/exist"}, "/does/not/exist"), ({"user": "nobody-here"}, "nobody-here")):
        body = {"exec_id": new_id(), "command": "pwd", **more}
        answer = await hostd.call("POST", f"/v1/machines/{machine}/execs", json=body)
        assert (answer.status, answer.json["code"]) == (400, "invalid") and word in answer.json["detail"]
        assert (await hostd.call("GET", f"/v1/machines/{machine}/execs/{body['exec_id']}")).json["code"] == "not_found"
    assert (await hostd.exec(machine, "echo ok"))["stdout"] == "ok\n"
    assert await hostd.facts(machine, "exec.ended") != []


async def test_one_bad_command_does_not_poison_the_next(steady: tuple[Hostd, str]):
    """Field case 077."""
    hostd, machine = steady
    assert (await hostd.exec(machine, "echo 'unterminated"))["outcome"]["code"] != 0
    assert (await hostd.exec(machine, "cat <<EOF\nheredoc\nEOF"))["stdout"] == "heredoc\n"
    assert (await hostd.exec(machine, "echo ok"))["stdout"] == "ok\n"


async def test_fifty_at_once_and_a_thousand_in_a_row_lose_no_byte(steady: tuple[Hostd, str]):
    hostd, machine = steady

    async def one(number: int, bytes_each: int) -> None:
        record = await hostd.exec(
            machine,
            f"head -c {bytes_each} /dev/urandom | tee /home/user/f{number} | base64 -w0; "
            f"sha256sum < /home/user/f{number} >&2",
        )
        assert record["outcome"] == {"kind": "exited", "code": 0}
        assert hashlib.sha256(base64.b64decode(record["stdout"])).hexdigest() == record["stderr"].split()[0]

    await asyncio.gather(*(one(number, 300_000) for number in range(50)))
    for number in range(1000):
        record = await hostd.exec(machine, ["echo", str(number)])
        assert record["stdout"] == f"{number}\n"


async def test_lists_are_newest_first_and_page_to_the_end(hostd: Hostd, machine: str):
    ids = [(await hostd.exec(machine, "true"))["id"] for _ in range(7)]
    running = (await hostd.exec(machine, "sleep 60", background=True))["id"]
    seen, query = [], ""
    while True:
        page = (await hostd.call("GET", f"/v1/machines/{machine}/execs?limit=3{query}")).json
        seen += [record["id"] for record in page["results"]]
        if page["next"] is None:
            break
        query = f"&cursor={page['next']}"
    assert seen == [running, *reversed(ids)]
    page = (await hostd.call("GET", f"/v1/machines/{machine}/execs?state=running")).json
    assert [record["id"] for record in page["results"]] == [running] and page["results"][0]["stdout"] is None


async def test_an_ended_exec_is_read_with_the_machine_off_and_is_gone_after_destroy(hostd: Hostd, machine: str):
    """Field case 132."""
    record = await hostd.exec(machine, "echo kept; exit 4")
    running = await hostd.exec(machine, "sleep 600", background=True)
    await hostd.operate(machine, "shutdown", grace_s=5)
    path = f"/v1/machines/{machine}/execs"
    for _ in range(2):
        assert (await hostd.call("GET", f"{path}/{record['id']}")).json == record
        stopped = (await hostd.call("GET", f"{path}/{running['id']}")).json
        assert stopped["state"] == "ended"
        assert stopped["outcome"]["kind"] in ("signaled", "lost")
        hostd.kill9()
        await hostd.start()
    refused = await hostd.call("POST", path, json={"exec_id": new_id(), "command": "true"})
    assert (refused.status, refused.json["code"]) == (409, "not_running")
    await hostd.operate(machine, "destroy")
    assert (await hostd.call("GET", f"{path}/{record['id']}")).json["code"] == "not_found"
    assert not (hostd.state / "records" / machine / "execs").exists()


async def test_hostd_killed_in_a_streaming_exec_loses_no_byte_and_no_outcome(hostd: Hostd, machine: str):
    """Field cases 052 and 054."""
    script = (
        "i=0; while [ $i -lt 3000 ]; do echo line-$i-0123456789012345678901234567890123456789; "
        "[ $((i % 7)) = 0 ] && echo e$i >&2; i=$((i+1)); [ $((i % 100)) = 0 ] && sleep 0.02; done; exit 9"
    )
    record = await hostd.exec(machine, script, background=True)
    path = f"/v1/machines/{machine}/execs/{record['id']}"
    for round_ in range(4):

        async def grew(least: int = round_ * 20_000) -> bool:
            return int((await hostd.call("GET", f"{path}/output")).headers["Berth-Next-Offset"]) > least

        await eventually(grew, "output flows")
        hostd.kill9()
        await hostd.start()
    ended = await hostd.end_of(machine, record["id"])
    assert ended["outcome"] == {"kind": "exited", "code": 9}
    assert ended["stdout"] == "".join(f"line-{i}-0123456789012345678901234567890123456789\n" for i in range(3000))
    assert ended["stderr"] == "".join(f"e{i}\n" for i in range(0, 3000, 7))
    assert not ended["stdout_truncated"]


async def test_events_come_in_order_with_offsets_that_a_broken_reader_can_use(steady: tuple[Hostd, str]):
    hostd, machine = steady
    record = await hostd.exec(
        machine, "for i in 1 2 3; do echo o$i; sleep 0.05; echo e$i >&2; sleep 0.05; done", background=True
    )
    path = f"/v1/machines/{machine}/execs/{record['id']}/stream"
    events = parsed((await hostd.call("GET", path)).body)
    assert events[-1] == ("outcome", {"kind": "exited", "code": 0})
    assert [name for name, _ in events[:-1]] == ["stdout", "stderr"] * 3
    whole = b"".join(base64.b64decode(value["data"]) for _, value in events[:-1])
    assert whole == b"o1\ne1\no2\ne2\no3\ne3\n"
    for cut in (0, 4, 9, len(whole)):
        rest = parsed((await hostd.call("GET", f"{path}?offset={cut}")).body)
        assert b"".join(base64.b64decode(value["data"]) for _, value in rest[:-1]) == whole[cut:]
        assert all(
            value["next_offset"] - value["offset"] == len(base64.b64decode(value["data"])) for _, value in rest[:-1]
        )
    for query in ("", "?offset=4"):  # a browser that reconnects repeats the URL: what it says it has read wins
        again = parsed((await hostd.call("GET", f"{path}{query}", headers={"Last-Event-ID": "9"})).body)
        assert again[0][1]["offset"] == 9


def parsed(body: bytes) -> list[tuple[str, dict[str, Any]]]:
    events = []
    for block in body.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            events.append((lines["event"], json.loads(lines["data"])))
    return events


async def test_the_log_holds_no_environment_no_input_and_no_output(hostd: Hostd, machine: str):
    """Field case 092."""
    await hostd.exec(machine, "cat; echo $TOKEN", env={"TOKEN": "s3cr3t-env"}, stdin="s3cr3t-stdin")
    await hostd.call(
        "POST",
        f"/v1/machines/{machine}/execs",
        json={"exec_id": new_id(), "command": "x", "env": {"TOKEN": "s3cr3t-env"}, "cwd": "/nowhere"},
    )
    assert "s3cr3t" not in hostd.log


async def test_unknown_places_answer_in_our_shape(steady: tuple[Hostd, str]):
    hostd, machine = steady
    for method, path, status in (
        ("GET", "/v2", 404),
        ("PATCH", "/v1/host", 405),
        ("GET", f"/v1/machines/{machine}/execs/x", 404),
        ("GET", "/v1/machines/nobody/execs", 404),
        ("GET", "/v1/machines/a%2fb", 400),
        ("GET", "/v1/machines/a%20b", 400),
    ):
        answer = await hostd.call(method, path)
        assert answer.status == status and answer.json["code"], path
