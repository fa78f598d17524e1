"""Whatever an agent says, hostd answers every caller in its own words and its link is of use or closed (fuzzed)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sandboxes.errors import SandboxError
from sandboxes.guest import protocol as wire
from sandboxes.guest.link import GuestLink
from tests.host.hostile import Agent, House, house

DEADLINE_S = 60.0
QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])

figures = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.just(10**400), st.text(max_size=30))
anything = st.recursive(figures, lambda inner: st.one_of(
    st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=10), inner, max_size=4)), max_leaves=10)
words = st.dictionaries(st.sampled_from([
    "pid", "started_at", "cwd", "outcome", "ended_at", "offsets", "stdout_truncated", "stderr_truncated", "execs",
    "accepted_bytes", "kept_from", "code", "detail", "field", "reason", "retry_after_s", "info", "nonce"]), st.one_of(
        anything, st.fixed_dictionaries({"kind": st.sampled_from(["exited", "signaled", "killed", "timed_out", "?"])},
                                        optional={"code": anything, "signal": anything})), max_size=6)
kinds = st.one_of(st.integers(0, 15), st.sampled_from([wire.HEAD, wire.DATA, wire.RESULT, wire.ERROR, wire.CREDIT]))
payloads = st.one_of((words | anything).map(lambda body: json.dumps(body).encode()),
                     st.binary(max_size=64), st.just(b"[" * 9000), st.integers(0, 2**32 - 1).map(wire.CRC.pack),
                     st.just(bytes(wire.MAX_PAYLOAD_BYTES)))
#: (kind, whether it is for the stream that asked, payload, tag), or bytes that are no frame.
lines = st.one_of(st.tuples(kinds, st.sampled_from([True, True, True, False]), payloads,
                            st.sampled_from([0, 0, 1, 2, 9])),
                  st.binary(max_size=80), st.just(wire.MAGIC + bytes(3)))


def say(agent: Agent, stream: int, script: list[Any]) -> None:
    for line in script:
        if isinstance(line, bytes):
            agent.send(line)
        else:
            kind, own, payload, tag = line
            agent.send(agent.frame(kind, stream if own else 77, payload[:wire.MAX_PAYLOAD_BYTES], tag))


@settings(QUIET, max_examples=150)
@given(st.lists(lines, max_size=12), st.sampled_from(["request", "stream"]))
def test_a_link_ends_every_call_and_is_of_use_or_closed(script: list[Any], how: str):
    async def meet(folder: Path) -> None:
        async def lies(agent: Agent, stream: int, _params: dict[str, Any]) -> None:
            say(agent, stream, script)
            agent.send(wire.PADDING)  # what looked like a frame's head is over
            agent.say(wire.RESULT, stream, {"after": True})

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                await Agent(writer, {"lie": lies}).serve(reader)
            writer.close()
        async with await asyncio.start_unix_server(connected, folder / "a.sock"), asyncio.timeout(DEADLINE_S):
            link = await GuestLink.open(folder / "a.sock", 1, timeout_s=60)
            with contextlib.suppress(SandboxError):
                if how == "request":
                    await link.request("lie", timeout_s=5)
                else:
                    stream = await link.stream("lie")
                    taken = [data async for _tag, data in stream]
                    assert sum(map(len, taken)) <= 12 * wire.MAX_PAYLOAD_BYTES
                    await stream.result()
            if not link.closed.is_set():
                with contextlib.suppress(SandboxError):
                    assert await link.request("polite", timeout_s=60) == {}
            await link.close()
    with tempfile.TemporaryDirectory(prefix="berth-w-") as folder:
        asyncio.run(meet(Path(folder)))


METHODS = ("exec.start", "exec.output", "exec.stdin", "exec.signal", "exec.kill", "exec.resize")
scripts = st.fixed_dictionaries({}, optional={method: st.lists(lines, max_size=5) for method in METHODS})


@settings(QUIET, max_examples=2, phases=[Phase.generate])  # a machine costs too much to shrink with
@given(st.lists(scripts, min_size=20, max_size=20))
def test_hostd_answers_every_caller_whatever_its_guest_says(drawn: list[dict[str, list[Any]]]):
    """One machine for each script, all at once, and one neighbour whose execs stay right meanwhile."""
    async def all_of_them() -> None:
        with tempfile.TemporaryDirectory(prefix="berth-w-") as folder:
            async with house(Path(folder)) as made, asyncio.timeout(6 * DEADLINE_S):
                neighbour = await made.machine()
                await asyncio.gather(*(lied_to(made, script) for script in drawn))
                assert (await made.run(neighbour))[1]["stdout"] == "ok\n"
    with pytest.MonkeyPatch.context() as patched:  # how long a caller waits for an agent that is away is no matter here
        patched.setattr("sandboxes.host.body.PAUSE_S_MAX", 0.1)
        patched.setattr("sandboxes.host.execs_http.KILL_S", 1.0)
        patched.setattr("sandboxes.host.execs.BEGIN_S", 1.0)
        asyncio.run(all_of_them())


async def lied_to(made: House, script: dict[str, list[Any]]) -> None:
    def lies(said: list[Any]) -> Any:
        async def work(agent: Agent, stream: int, _params: dict[str, Any]) -> None:
            say(agent, stream, said)
            agent.send(wire.PADDING)
            agent.say(wire.RESULT, stream, {})
        return work
    machine = await made.machine({method: lies(said) for method, said in script.items()})
    status, record = await made.run(machine, background=True, stdin_open=True, wait_s=0.2)
    assert status < 600 and ("state" in record or isinstance(record["code"], str)), record
    if "id" in record:
        path = f"{machine}/execs/{record['id']}"
        for method, call, how in (("GET", path, {}), ("POST", f"{path}/stdin", {"data": b"x"}),
                                  ("POST", f"{path}/signal", {"json": {"signal": "SIGINT"}}),
                                  ("GET", f"{path}/output", {}), ("DELETE", path, {})):
            async with asyncio.timeout(DEADLINE_S):
                status, said, _ = await made.call(method, call, **how)
            assert status < 600 and (status < 400 or isinstance(said["code"], str)), (method, call, said)
        if record["outcome"] is not None:
            assert record["outcome"]["kind"] in ("exited", "signaled", "timed_out", "killed", "lost")
    assert (await made.operate(machine, "kill"))["state"] == "done"
