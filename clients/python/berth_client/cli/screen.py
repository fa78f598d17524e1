"""`shell` and `exec --tty`: this terminal as the screen and keyboard of one in the workspace. Called by `main`, `runs`.

The local terminal is raw while it lasts, so Ctrl-C and the like reach the guest; Ctrl-] leaves and kills nothing. A
connection that breaks is opened again and goes on from its place.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from berth_client import AsyncOneWorkspace, Terminal
from berth_client.acts.execs import PENDING
from berth_client.cli import say
from berth_client.cli.asked import async_server, id_of, pairs, server
from berth_client.cli.endings import command_of, exit_status, sentence, waits_for_a_member
from berth_client.problems import BadConfig, StreamBroken
from berth_client.retry import Retry

LOGIN_SHELL = ["/bin/bash", "-l"]
DETACH = b"\x1d"
#: A laptop that slept finds its shell again.
PATIENCE = Retry(total_s=3600)


def shell(asked: argparse.Namespace) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadConfig("This is no terminal; `berth-cli exec` runs commands without one.")
    with server(asked) as berth:
        workspace_id = id_of(berth, asked.workspace)
    return asyncio.run(attended(asked, workspace_id))


async def attended(asked: argparse.Namespace, workspace_id: str) -> int:
    async with async_server(asked, PATIENCE) as berth:
        one = berth.workspace(workspace_id)
        exec_id = asked.attach or await begun(asked, one)
        async with one.terminal(exec_id) as terminal:
            terminal.on_note = lambda said: say.note(f"\r\n[{say.shown(said)}]\r")
            with raw(sys.stdin.fileno()):
                detached = await session(terminal, force=asked.take)
    if detached:
        say.note(f"\nDetached; it goes on. Back to it: berth-cli shell {asked.workspace} --attach {exec_id}")
        return 0
    code = exit_status(terminal.outcome)
    if code >= 124:
        say.note(f"berth-cli: {sentence(terminal.outcome)}")
    return code


async def begun(asked: argparse.Namespace, one: AsyncOneWorkspace) -> str:
    env = {"TERM": os.environ.get("TERM", "xterm-256color"), **(pairs(asked.env) or {})}
    command = command_of(asked) if asked.command else LOGIN_SHELL
    made = await one.execs.start(command, tty=screen_size(), env=env, user=asked.user, cwd=asked.cwd,
                                 timeout_s=asked.timeout_s)
    if made.state == PENDING:
        say.note(waits_for_a_member(asked.workspace))
        await one.execs.past_approval(made.id)
    return made.id


async def session(terminal: Terminal, *, force: bool) -> bool:
    """True when it was left; False when it ended."""
    loop = asyncio.get_running_loop()
    changing: set[asyncio.Task[None]] = set()  # a task nobody refers to may be collected in the middle

    def resized() -> None:
        task = loop.create_task(terminal.resize(*screen_size()))
        changing.add(task)
        task.add_done_callback(changing.discard)

    if force:
        await terminal.take_keyboard()
    await terminal.resize(*screen_size())
    loop.add_signal_handler(signal.SIGWINCH, resized)
    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(show(terminal)), asyncio.create_task(typed(terminal))]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        return tasks[0] not in done
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def show(terminal: Terminal) -> None:
    async for data in terminal.output():
        await asyncio.to_thread(write_all, sys.stdout.fileno(), data)


async def typed(terminal: Terminal) -> None:
    """Returns when it is to be left: Ctrl-], or nothing more can be typed."""
    while data := await read_when_ready(sys.stdin.fileno()):
        before, leave, _ = data.partition(DETACH)
        with suppress(StreamBroken):  # the reader of the output says that it broke, and opens it again
            await terminal.write(before)
        if leave:
            return


async def read_when_ready(descriptor: int) -> bytes:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def is_ready() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(descriptor, is_ready)
    try:
        await ready
        return os.read(descriptor, 4096)
    finally:
        loop.remove_reader(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data):]


def screen_size() -> tuple[int, int]:
    """(cols, rows); a terminal that does not know its own has 80 by 24."""
    try:
        size = os.get_terminal_size(sys.stdin.fileno())
    except OSError:
        return 80, 24
    return (min(size.columns, 1000) or 80, min(size.lines, 1000) or 24)


@contextmanager
def raw(descriptor: int) -> Iterator[None]:
    before = termios.tcgetattr(descriptor)
    tty.setraw(descriptor, termios.TCSADRAIN)  # what was typed ahead is kept
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)

