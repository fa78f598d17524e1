"""Terminals: many clients over one exec, replay from any offset, bounded for the slow, one keyboard."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from sandboxes.host.keyboard import ANSWER_S, Keyboard, Seat
from tests.host.client import Hostd, eventually, new_id

INPUT, OUTPUT, RESIZE, OUTCOME, FLOW, LEASE = range(6)
MIB = 1024 * 1024


class Client:
    """One connection: reads frames when asked to, and keeps what it saw."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.output = b""
        self.frames: list[tuple[int, Any]] = []
        self.closed = False

    async def step(self, timeout_s: float = 60) -> tuple[int, Any] | None:
        """The next frame; None at the end."""
        message = await self.socket.receive(timeout=timeout_s)
        if message.type is not aiohttp.WSMsgType.BINARY:
            self.closed = True
            return None
        kind, payload = message.data[0], message.data[1:]
        value = payload if kind == OUTPUT else json.loads(payload)
        if kind == OUTPUT:
            self.output += payload
        else:
            self.frames.append((kind, value))
        return kind, value

    async def until(self, wanted: bytes) -> None:
        while wanted not in self.output:
            assert await self.step(), (wanted, self.output[-300:], self.frames)

    async def until_frame(self, kind: int, **fields: Any) -> Any:
        while True:
            for number, (seen, value) in enumerate(self.frames):
                if seen == kind and all(value.get(name) == said for name, said in fields.items()):
                    del self.frames[: number + 1]
                    return value
            assert await self.step(), (kind, fields, self.frames)

    async def type(self, text: str | bytes) -> None:
        await self.socket.send_bytes(bytes((INPUT,)) + (text.encode() if isinstance(text, str) else text))

    async def say(self, kind: int, value: Any) -> None:
        await self.socket.send_bytes(bytes((kind,)) + json.dumps(value).encode())


@asynccontextmanager
async def joined(
    hostd: Hostd, machine: str, exec_id: str, name: str = "ann", role: str = "operator", offset: int = 0
) -> AsyncIterator[Client]:
    headers = {"Berth-Actor": json.dumps({"type": "user", "name": name}), "Berth-Role": role}
    path = f"/v1/machines/{machine}/execs/{exec_id}/terminal?offset={offset}"
    async with hostd.session.ws_connect(path, headers=headers, max_msg_size=0) as socket:
        yield Client(socket)


async def shell(hostd: Hostd, machine: str, command: Any = ("/bin/sh", "-i"), cols: int = 100) -> str:
    tty = {"cols": cols, "rows": 30}
    record = await hostd.exec(machine, list(command), tty=tty, env={"PS1": "$ "})
    assert record["state"] == "running" and record["tty"] == tty
    return str(record["id"])


async def test_what_is_typed_reaches_the_shell_and_its_size_is_the_one_asked_for(steady: tuple[Hostd, str]):
    hostd, machine = steady
    exec_id = await shell(hostd, machine, cols=123)
    async with joined(hostd, machine, exec_id) as client:
        assert await client.step() == (FLOW, {"offset": 0})
        first = await client.until_frame(LEASE)
        assert (first["holder"], first["you"], first["may_take"]) == (None, False, True)
        await client.type("stty size; echo $((40+2))\n")
        await client.until(b"42\r\n")
        assert b"30 123\r\n" in client.output
        await client.type("exit 6\n")
        assert await client.until_frame(OUTCOME) == {"kind": "exited", "code": 6}
        assert await client.step() is None and client.socket.close_code == 1000


async def test_two_clients_see_the_same_and_a_later_one_replays_from_any_offset(steady: tuple[Hostd, str]):
    hostd, machine = steady
    exec_id = await shell(hostd, machine)
    async with joined(hostd, machine, exec_id) as first, joined(hostd, machine, exec_id, "bob") as second:
        await first.type("echo $((1000+234))\n")
        await asyncio.gather(first.until(b"1234\r\n$ "), second.until(b"1234\r\n$ "))
        assert first.output == second.output
        async with joined(hostd, machine, exec_id, "cyd", offset=5) as third:
            await third.until(b"1234\r\n$ ")
            assert third.frames[0] == (FLOW, {"offset": 5}) and third.output == first.output[5:]
        async with joined(hostd, machine, exec_id, "dan", offset=10**9) as ahead:
            assert (await ahead.step()) == (FLOW, {"offset": len(first.output)})
            await first.type("echo more$((1+1))\n")
            await ahead.until(b"more2")
        await first.type("exit\n")
        await first.until_frame(OUTCOME)
    async with joined(hostd, machine, exec_id) as late:
        assert await late.until_frame(OUTCOME) == {"kind": "exited", "code": 0}
        assert late.output == first.output


async def test_characters_cut_anywhere_and_bytes_that_are_no_text_pass_unchanged(steady: tuple[Hostd, str]):
    """Field cases 025 and 037."""
    hostd, machine = steady
    exec_id = await shell(
        hostd, machine, ["/bin/sh", "-c", "printf 'A\\342'; sleep 0.3; printf '\\224\\200B\\326\\320\\377'"]
    )
    async with joined(hostd, machine, exec_id) as client:
        await client.until_frame(OUTCOME)
        assert client.output == b"A\xe2\x94\x80B\xd6\xd0\xff"
    exec_id = await shell(hostd, machine, ["/bin/cat"])
    async with joined(hostd, machine, exec_id) as client:
        for byte in "\U0001f600\n".encode():
            await client.type(bytes((byte,)))
        await client.until("\U0001f600\r\n\U0001f600\r\n".encode())


async def test_bad_frames_and_bad_sizes_end_nothing(steady: tuple[Hostd, str]):
    """Field case 141."""
    hostd, machine = steady
    exec_id = await shell(hostd, machine)
    async with joined(hostd, machine, exec_id) as client:
        for size in (
            {"cols": 0, "rows": 0},
            {"cols": -1, "rows": 5},
            {"cols": 65536, "rows": 5},
            {"cols": "80", "rows": 24},
            {"cols": None, "rows": None},
            {},
            [],
            7,
            {"cols": True, "rows": 1},
            {"cols": 80.5, "rows": 24},
        ):
            await client.say(RESIZE, size)
        for raw in (
            b"",
            bytes((RESIZE,)) + b"\xff{",
            bytes((FLOW,)) + b"[" * 5000,
            bytes((99,)) + b"x",
            bytes((OUTPUT,)) + b"x",
            bytes((FLOW,)) + b'{"ack":-5}',
            bytes((FLOW,)) + b'{"ack":true}',
            bytes((LEASE,)) + b'"take"',
        ):
            await client.socket.send_bytes(raw)
        await client.socket.send_str("text frames mean nothing here")
        await client.type("stty size\n")
        await client.until(b"30 100\r\n")
        for cols in range(60, 110):
            await client.say(RESIZE, {"cols": cols, "rows": 40})
        await client.type("stty size\n")
        await client.until(b"40 109\r\n")
    resized = await hostd.call("POST", f"/v1/machines/{machine}/execs/{exec_id}/resize", json={"cols": 77, "rows": 11})
    assert resized.status == 200
    refused = await hostd.call("POST", f"/v1/machines/{machine}/execs/{exec_id}/resize", json={"cols": 0, "rows": 11})
    assert (refused.status, list(refused.json["errors"])) == (400, ["cols"])
    async with joined(hostd, machine, exec_id) as client:
        await client.type("stty size\n")
        await client.until(b"11 77\r\n")


async def held(client: Client, holder: str | None, **fields: Any) -> Any:
    return await client.until_frame(LEASE, holder=holder, **fields)


async def test_one_holds_the_keyboard_others_watch_take_and_release(steady: tuple[Hostd, str]):
    hostd, machine = steady
    exec_id = await shell(hostd, machine)
    async with (
        joined(hostd, machine, exec_id, "ann") as ann,
        joined(hostd, machine, exec_id, "bob", role="owner") as bob,
        joined(hostd, machine, exec_id, "vic", role="viewer") as vic,
    ):
        await vic.type("echo viewer-typed\n")
        await vic.say(LEASE, {"take": True})
        await vic.say(LEASE, {"ask": True})
        seen = await held(vic, None, present=["ann", "bob", "vic"])
        assert (seen["you"], seen["may_take"], seen["asks"]) == (False, False, [])
        assert seen["size"] == {"cols": 100, "rows": 30}
        await ann.type("echo by-$((1)) \n")
        await held(ann, "ann", you=True, holder_type="user")
        await held(bob, "ann", you=False, may_take=True)
        await bob.type("echo bob-typed-too-early\n")
        await held(bob, "ann", you=False)
        await bob.say(LEASE, {"take": True, "force": False})
        await held(bob, "ann", you=False)
        await bob.say(LEASE, {"take": True})
        await held(bob, "bob", you=True)
        await held(ann, "bob", you=False, may_take=False)
        await ann.say(RESIZE, {"cols": 50, "rows": 5})
        await bob.type("stty size; echo bob-$((2))\n")
        await asyncio.gather(*(one.until(b"bob-2\r\n") for one in (ann, bob, vic)))
        assert b"30 100\r\n" in ann.output and b"too-early" not in ann.output and b"viewer-typed" not in ann.output
        await bob.say(RESIZE, {"cols": 90, "rows": 20})
        await held(vic, "bob", size={"cols": 90, "rows": 20})  # who watches draws it as large as it is
        await bob.say(LEASE, {"release": True})
        await held(vic, None)
        await ann.say(LEASE, {"take": True, "force": False})
        await held(bob, "ann")
        await ann.socket.close()
        await held(bob, None, present=["bob", "vic"])


async def test_who_watches_asks_and_the_holder_gives_or_declines(steady: tuple[Hostd, str]):
    hostd, machine = steady
    exec_id = await shell(hostd, machine)
    async with joined(hostd, machine, exec_id, "ann") as ann, joined(hostd, machine, exec_id, "bob") as bob:
        await ann.type("echo mine-$((1))\n")
        await held(bob, "ann", you=False, may_take=False)
        await bob.say(LEASE, {"take": True})  # an operator takes from no person
        await held(bob, "ann", you=False)
        await bob.say(LEASE, {"ask": True})
        await held(ann, "ann", asks=["bob"], you=True)
        await held(bob, "ann", asked=True)
        for nonsense in ({"give": "nobody"}, {"give": ["bob"]}, {"decline": 7}, {"ask": "yes"}, {"give": "ann"}):
            await ann.say(LEASE, nonsense)
        await bob.say(LEASE, {"give": "bob"})  # nobody gives what somebody else holds
        await ann.say(LEASE, {"decline": "bob"})
        await held(bob, "ann", asked=False, declined_by="ann", you=False)
        await bob.say(LEASE, {"ask": True})
        await held(ann, "ann", asks=["bob"])
        await ann.say(LEASE, {"give": "bob"})
        await held(bob, "bob", you=True, asks=[], declined_by=None)
        await held(ann, "bob", you=False)
        await bob.type("echo by-bob-$((2))\n")
        await ann.until(b"by-bob-2\r\n")


def test_who_may_take_the_keyboard_from_whom():
    """A program gives way to whoever may write; a person to itself, to an owner, and after a question it left open."""
    at = [100.0]
    keyboard = Keyboard(now=lambda: at[0])
    seats = {
        word: Seat(word.partition(" ")[0], kind, role, lambda: None)
        for word, kind, role in (
            ("ann", "user", "operator"), ("ann again", "user", "operator"), ("bob", "user", "operator"),
            ("own", "user", "owner"), ("vic", "user", "viewer"), ("bot", "token", "owner"),
            ("bot2", "token", "operator"),
        )
    }
    for seat in seats.values():
        keyboard.join(seat)

    def takers(holder: str) -> set[str]:
        keyboard.take(seats["own"], force=True)
        keyboard.release(seats["own"])
        assert keyboard.take(seats[holder], force=False)
        return {word for word, seat in seats.items() if word != holder and keyboard.may_take(seat)}

    everybody = set(seats) - {"vic"}
    assert takers("bot") == everybody - {"bot"}
    assert takers("own") == set()
    assert takers("ann") == {"ann again", "own"}
    keyboard.ask(seats["bob"])
    keyboard.ask(seats["bot"])
    at[0] += ANSWER_S - 1
    keyboard.ask(seats["bob"])  # asking twice makes nobody wait twice
    assert not keyboard.may_take(seats["bob"])
    at[0] += 1
    assert {word for word in seats if keyboard.may_take(seats[word])} >= {"bob", "bot"}
    keyboard.decline(seats["ann"], "bob")
    assert not keyboard.take(seats["bob"], force=True) and keyboard.take(seats["bot"], force=True)
    assert keyboard.asks == {} and keyboard.holder is seats["bot"]


async def recorded(hostd: Hostd, machine: str, exec_id: str, query: str = "") -> tuple[dict[str, Any], list[Any]]:
    answer = await hostd.call("GET", f"/v1/machines/{machine}/execs/{exec_id}/recording{query}")
    assert answer.status == 200, answer.body
    head, *events = [json.loads(line) for line in answer.body.decode().splitlines()]
    assert all(at >= before for (before, *_), (at, *_) in itertools.pairwise(events))
    return head, events


def text_of(events: list[Any]) -> str:
    return "".join(text for _, kind, text in events if kind == "o")


async def test_a_recording_holds_what_came_meanwhile_and_survives_hostd_and_the_end(hostd: Hostd, machine: str):
    exec_id = await shell(hostd, machine)
    path = f"/v1/machines/{machine}/execs/{exec_id}/recording"
    ann = {"Berth-Actor": json.dumps({"type": "user", "name": "ann"})}
    async with joined(hostd, machine, exec_id) as client:
        await client.type("echo be''fore\n")
        await client.until(b"before\r\n$ ")
        assert (await hostd.call("GET", path)).status == 404
        begun = await hostd.call("PUT", path, json={"on": True}, headers=ann)
        assert begun.status == 200 and begun.json["recording"]["by"] == "ann"
        assert begun.json["recording"]["until"] is None
        again = await hostd.call("PUT", path, json={"on": True})
        assert again.json["recording"] == begun.json["recording"]
        await client.until_frame(LEASE, recording=begun.json["recording"])
        await client.type("printf 'cut \\342'; sleep 0.2; printf '\\224\\200 \\377\\n'\n")
        await client.until(b"cut \xe2")
        await client.say(RESIZE, {"cols": 70, "rows": 21})
        await client.until(b"\x94\x80 \xff\r\n$ ")
    hostd.kill9()
    await hostd.start()
    # nobody watches: what a program writes is recorded all the same
    robot = {"Berth-Actor": json.dumps({"type": "token", "name": "robot"})}
    typed = await hostd.call("POST", path.replace("recording", "stdin"), data=b"echo un''seen\n", headers=robot)
    assert typed.status == 200

    async def seen() -> bool:
        return "unseen" in text_of((await recorded(hostd, machine, exec_id))[1])

    await eventually(seen, "what nobody saw is recorded")
    ended = await hostd.call("PUT", path, json={"on": False})
    assert ended.json["recording"]["until"] is not None
    await hostd.call("POST", path.replace("recording", "stdin"), data=b"echo af''ter; exit\n", headers=robot)
    await hostd.end_of(machine, exec_id)
    head, events = await recorded(hostd, machine, exec_id)
    assert (head["version"], head["width"], head["height"]) == (2, 100, 30) and head["timestamp"] > 1_700_000_000
    text = text_of(events)
    assert "cut \u2500 \ufffd" in text and "before" not in text and "after" not in text
    assert [size for _, kind, size in events if kind == "r"] == ["70x21"]
    split = next(at for at, kind, text in events if kind == "o" and "\u2500" in text)
    assert split - next(at for at, kind, text in events if kind == "o" and "cut " in text[-5:]) > 0.1
    everything = text_of((await recorded(hostd, machine, exec_id, "?kept=true"))[1])
    assert everything.index("before") < everything.index("unseen") < everything.index("after")
    assert (await hostd.call("PUT", path, json={"on": True})).json["code"] == "exec_ended"


async def test_only_a_terminal_can_be_recorded_and_only_by_plain_words(steady: tuple[Hostd, str]):
    hostd, machine = steady
    plain = await hostd.exec(machine, "true")
    exec_id = await shell(hostd, machine)
    for target, body, status, code in (
        (plain["id"], {"on": True}, 409, "exec_not_tty"), (new_id(), {"on": True}, 404, "not_found"),
        (exec_id, {"on": 1}, 400, "invalid"), (exec_id, {}, 400, "invalid"),
        (exec_id, {"on": True, "x": 1}, 400, "invalid"),
    ):
        answer = await hostd.call("PUT", f"/v1/machines/{machine}/execs/{target}/recording", json=body)
        assert (answer.status, answer.json["code"]) == (status, code)
    head, events = await recorded(hostd, machine, exec_id, "?kept=true")
    assert head["width"] == 100 and isinstance(events, list)


async def test_a_client_that_acknowledges_gets_no_more_than_its_window(steady: tuple[Hostd, str]):
    hostd, machine = steady
    script = "stty -onlcr; head -c 3000000 /dev/zero | tr '\\0' x; echo END"
    exec_id = await shell(hostd, machine, ["/bin/sh", "-c", script])
    await hostd.end_of(machine, exec_id)
    async with joined(hostd, machine, exec_id) as client:
        await client.say(FLOW, {"ack": 0})
        for acked in (0, MIB // 2, MIB):
            await client.say(FLOW, {"ack": acked})
            while len(client.output) < acked + 0.9 * MIB:
                await client.step()
            await client.say(LEASE, {"take": True, "force": False})
            await client.until_frame(LEASE, you=True)  # comes behind all that was on its way
            assert acked + 0.9 * MIB < len(client.output) <= acked + MIB
            await client.say(LEASE, {"release": True})
            await client.until_frame(LEASE, you=False)
        while OUTCOME not in [kind for kind, _ in client.frames]:
            await client.say(FLOW, {"ack": len(client.output)})
            await client.step()
        assert client.output == b"x" * 3_000_000 + b"END\n"


async def test_pause_holds_and_resume_goes_on(steady: tuple[Hostd, str]):
    hostd, machine = steady
    exec_id = await shell(hostd, machine)
    async with joined(hostd, machine, exec_id) as client:
        await client.until(b"$ ")
        await client.say(FLOW, {"pause": True})
        await client.type("echo held-$((1+1))\n")

        async def on_disk() -> bool:
            answer = await hostd.call("GET", f"/v1/machines/{machine}/execs/{exec_id}/output")
            return b"held-2" in answer.body

        await eventually(on_disk, "the shell answered")
        assert b"held-2" not in client.output
        await client.say(FLOW, {"resume": True})
        await client.until(b"held-2")


async def test_a_stalled_client_costs_no_memory_blocks_nobody_and_is_moved_forward(hostd: Hostd, machine: str):
    """Field case 026: a flood, one client that does not read, one that does, and an interrupt that works."""
    exec_id = await shell(hostd, machine)
    async with joined(hostd, machine, exec_id, "stalled") as stalled, joined(hostd, machine, exec_id) as reader:
        await stalled.until(b"$ ")
        await reader.type("yes 0123456789012345678901234567890123456789012345678901234567890\n")
        await grown(reader, 4 * MIB)
        before = hostd.rss_bytes()
        await grown(reader, 24 * MIB)
        assert hostd.rss_bytes() - before < 12 * MIB
        await reader.type(b"\x03")
        await reader.type("echo alive-$((20+3))\n")
        await tail_until(reader, b"alive-23\r\n")
        await tail_until(stalled, b"alive-23\r\n")
        moved = [value["offset"] for kind, value in stalled.frames if kind == FLOW][-1]
        assert moved > MIB
    kept = sum(path.stat().st_size for path in (hostd.state / "records" / machine / "execs").glob("*.tty.*"))
    assert kept <= 5 * MIB


async def grown(client: Client, by: int) -> None:
    got = 0
    while got < by:
        frame = await client.step()
        assert frame
        if frame[0] == OUTPUT:
            got += len(frame[1])
            client.output = client.output[-200:]


async def tail_until(client: Client, wanted: bytes) -> None:
    while wanted not in client.output:
        assert await client.step()
        client.output = client.output[-100_000:]


async def test_a_terminal_survives_hostd_and_goes_on_from_its_offset(hostd: Hostd, machine: str):
    """Field case 071."""
    exec_id = await shell(hostd, machine)
    async with joined(hostd, machine, exec_id) as client:
        await client.type("X=kept; echo one-$((1))\n")
        await client.until(b"one-1\r\n$ ")
        hostd.kill9()
    await hostd.start()
    async with joined(hostd, machine, exec_id, offset=len(client.output)) as again:
        await again.type("echo $X-$((2))\n")
        await again.until(b"kept-2\r\n")
        assert again.frames[0] == (FLOW, {"offset": len(client.output)}) and b"one-1" not in again.output
        hostd.stop()
        while await again.step():
            pass
        assert again.socket.close_code == 1001
    await hostd.start()


async def test_an_exec_without_a_terminal_or_none_at_all_is_refused_before_the_upgrade(steady: tuple[Hostd, str]):
    hostd, machine = steady
    record = await hostd.exec(machine, "true")
    for exec_id, status, code in ((record["id"], 409, "exec_not_tty"), (new_id(), 404, "not_found")):
        answer = await hostd.call("GET", f"/v1/machines/{machine}/execs/{exec_id}/terminal")
        assert (answer.status, answer.json["code"]) == (status, code)


async def test_a_dying_machine_ends_its_terminals_with_lost(hostd: Hostd, machine: str):
    from tests.host.client import kill_body

    exec_id = await shell(hostd, machine)
    async with joined(hostd, machine, exec_id) as client:
        await client.until(b"$ ")
        kill_body(hostd, machine)
        assert await client.until_frame(OUTCOME) == {"kind": "lost", "reason": "machine_died"}
        assert await client.step() is None


async def test_a_program_types_over_rest_unless_somebody_else_holds_the_keyboard(steady: tuple[Hostd, str]):
    hostd, machine = steady
    exec_id = await shell(hostd, machine)
    path = f"/v1/machines/{machine}/execs/{exec_id}/stdin"
    robot = {"Berth-Actor": json.dumps({"type": "token", "name": "robot"})}
    async with joined(hostd, machine, exec_id, "ann") as ann:
        assert (await hostd.call("POST", path, data=b"echo by-robot-$((1))\n", headers=robot)).status == 200
        await ann.until(b"by-robot-1\r\n")
        await ann.say(LEASE, {"take": True})
        await ann.until_frame(LEASE, you=True)
        refused = await hostd.call("POST", path, data=b"echo no\n", headers=robot)
        assert (refused.status, refused.json["reason"], refused.json["holder"]) == (409, "keyboard_held", "ann")
    async with asyncio.timeout(60):  # who leaves lets go of the keyboard, a moment later
        while (await hostd.call("POST", path, data=b"exit 8\n", headers=robot)).status == 409:
            await asyncio.sleep(0.05)
    assert (await hostd.end_of(machine, exec_id))["outcome"] == {"kind": "exited", "code": 8}
