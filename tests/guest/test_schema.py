"""What generation 1 promised stays true for as long as it is spoken: machines keep the agent they were born with."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from sandboxes.guest import protocol as wire
from sandboxes.guest.agent import devices
from sandboxes.guest.agent.agent import Agent
from sandboxes.guest.agent.machine import Machine
from sandboxes.guest.image import shape
from tests.guest.guest import Guest, b64

FROZEN = json.loads((Path(wire.__file__).parent / "schema" / "gen1.json").read_text())
METHODS: dict[str, Any] = FROZEN["methods"]


def test_constants_are_as_frozen():
    assert FROZEN["generation"] <= wire.GENERATION
    assert wire.HEADER.format == FROZEN["header"]["format"] and wire.CRC.format == FROZEN["header"]["header_crc"]
    assert wire.MAGIC.hex() == FROZEN["header"]["magic_hex"]
    for group in ("kinds", "message_tags", "limits"):
        assert {name: getattr(wire, name) for name in FROZEN[group]} == FROZEN[group]


def test_bytes_on_the_wire_are_as_frozen():
    for frame in FROZEN["frames"]:
        data = wire.encode(frame["kind"], frame["stream"], frame["session"], frame["payload"].encode(), frame["tag"])
        assert data.hex() == frame["hex"]
    for session in FROZEN["sessions"]:
        assert wire.session_number(session["nonce"], session["epoch"]) == session["number"]


def test_an_agent_knows_every_method_that_was_promised_and_the_schema_every_method_there_is():
    assert set(Agent(Machine(), None, real=False)._methods(real=False)) == set(METHODS)


def test_the_agents_names_of_devices_are_the_images():
    assert devices.PORT_NAME == shape.AGENT_PORT and shape.ROOT_SERIAL in devices.ROOT_SERIALS


async def test_answers_have_every_field_that_was_promised(guest: Guest):
    assert set(FROZEN["info"]) <= set(guest.link.info)
    ran = await guest.run("echo x", stdin=True)
    started = await guest.link.request("exec.start", {"exec_id": ran.exec_id})
    written = await guest.write("/home/user/promised", b"x")
    answers = {
        "exec.start": started, "exec.output": ran.result, "file.write": written,
        "exec.list": await guest.link.request("exec.list"), "metrics": await guest.link.request("metrics"),
        "file.stat": await guest.file("stat", "/home/user/promised"),
        "file.list": await guest.file("list", "/home/user"),
    }
    for method, answer in answers.items():
        assert set(METHODS[method]["result"]) <= set(answer), method
    assert set(METHODS["exec.list"]["entry"]) <= set(answers["exec.list"]["execs"][0])
    assert set(METHODS["file.list"]["entry"]) <= set(answers["file.list"]["entries"][0])
    assert set(METHODS["exec.output"]["head"]) <= set(await (await guest.output(ran.exec_id)).head())


@pytest.mark.parametrize("method", ["ping", "resume", "exec.list", "metrics", "thaw", "quiesce"])
async def test_a_newer_hosts_unknown_fields_are_ignored(guest: Guest, method: str):
    await guest.link.request(method, {"of_a_later_generation": {"any": ["thing"]}})
    await guest.link.request("thaw")


async def test_a_newer_hosts_unknown_frames_are_ignored(guest: Guest):
    await guest.link.send([wire.encode(200, 1, guest.link._session, b"?")])
    assert await guest.link.request("ping") == {}


async def test_what_is_asked_of_a_quiesced_guest_waits_for_its_thaw_and_loses_no_byte(guest: Guest):
    await guest.link.request("quiesce")
    data = os.urandom(100_000)
    begun = await guest.link.stream("exec.start", {"exec_id": "held", "shell": "echo on", "env": {}})
    output = await guest.output("held")  # in the same breath, as hostd does
    calls = [asyncio.create_task(call) for call in (
        output.result(), guest.write("/home/user/held", data), guest.file("stat", "/"))]
    cancelled = await guest.link.stream("file.read", {"path_b64": b64("/etc/passwd"), "user": "user", "offset": 0})
    await cancelled.cancel()
    await guest.link.drain()
    assert not any(call.done() for call in calls)
    assert not (guest.root / "home/user/held").exists()
    await guest.link.request("thaw")
    async with asyncio.timeout(30):
        ended, written, _ = await asyncio.gather(*calls)
    assert (await begun.result())["pid"] and ended["outcome"] == {"kind": "exited", "code": 0}
    assert (await guest.finish("held")).stdout == b"on\n" and written["size"] == len(data)
    assert await guest.read("/home/user/held") == data
