"""Terminals from a program: what is typed and shown, the keyboard, a connection that breaks; and a token no log has."""

from __future__ import annotations

import asyncio
import logging

import pytest

from berth_client import AsyncBerth, Exited, NoSuchFile, NotFound, Terminal
from tests.client.conftest import USER
from tests.stack import Stack

pytestmark = pytest.mark.stack


async def shown(terminal: Terminal, text: bytes) -> bytes:
    seen = b""
    async with asyncio.timeout(60):
        async for data in terminal.output():
            seen += data
            if text in seen:
                return seen
    raise AssertionError(f"{text!r} was not shown before the end: {seen[-300:]!r}")


async def test_a_terminal_goes_on_over_a_broken_connection_and_ends_with_its_outcome(
        stack: Stack, async_berth: AsyncBerth, one) -> None:
    here = async_berth.workspace(one.id)
    began = await here.execs.start(["/bin/sh"], tty=(80, 24))
    notes: list[str] = []
    async with here.terminal(began.id) as terminal:
        terminal.on_note = notes.append
        await terminal.write(b"echo sum $((6*7))\n")
        await shown(terminal, b"sum 42")
        await terminal.resize(100, 30)
        await terminal.write(b"(sleep 2; echo while $((40+4)) away) & sleep 0.2; echo armed $((1+1))\n")
        await shown(terminal, b"armed 2")
        await asyncio.to_thread(stack.restart, "gateway")
        await shown(terminal, b"while 44 away")
        assert notes and "reconnecting" in notes[0]
        await terminal.write(b"stty size; exit 3\n")
        assert b"30 100" in await shown(terminal, b"30 100")
        async for _ in terminal.output():
            pass
        assert terminal.outcome == Exited(3)


async def test_one_types_and_another_watches_until_the_keyboard_is_taken(async_berth: AsyncBerth, one) -> None:
    here = async_berth.workspace(one.id)
    began = await here.execs.start(["cat"], tty=(80, 24))
    async with here.terminal(began.id) as first, here.terminal(began.id) as second:
        await first.write(b"from the first\n")
        await shown(first, b"from the first\r\nfrom the first")
        await shown(second, b"from the first\r\nfrom the first")
        assert first.holds_keyboard and not second.holds_keyboard
        await second.take_keyboard()
        await second.write(b"from the second\n")
        await shown(second, b"from the second\r\nfrom the second")
        await shown(first, b"from the second")
        assert second.holds_keyboard and not first.holds_keyboard
    await here.execs.kill(began.id)


async def test_a_terminal_that_is_not_there_is_refused_by_name(async_berth: AsyncBerth, one) -> None:
    with pytest.raises(NotFound) as refused:
        async with async_berth.workspace(one.id).terminal("a" * 20):
            pass
    assert refused.value.code == "not_found"


async def test_no_log_at_any_level_holds_the_token(stack: Stack, async_berth: AsyncBerth, one,
                                                   caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("websockets").setLevel(logging.DEBUG)
    here = async_berth.workspace(one.id)
    began = await here.execs.start(["true"], tty=(80, 24))
    async with here.terminal(began.id) as terminal:
        async for _ in terminal.output():
            pass
    async for _ in here.events():
        break
    with pytest.raises(NoSuchFile):
        await here.files.read("/none")
    for _ in one.events():
        break
    assert "send_request_headers" in caplog.text, "something was logged"
    assert stack.token(USER) not in caplog.text
