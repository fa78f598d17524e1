"""Commands in a workspace: exec, and logs of what ran and what happened. Called by `main`; `screen` has the terminals.

Interrupts of `exec`, decided: the first Ctrl-C is the command's (SIGINT to it, its end is followed), the second kills
its whole tree, the third leaves it and goes. A reader of our output that goes away ends the command, as in a pipe.
"""

from __future__ import annotations

import argparse
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from berth_client import Chunk, Exec, OneWorkspace
from berth_client.acts.execs import PENDING
from berth_client.cli import say, screen
from berth_client.cli.asked import pairs, server, workspace
from berth_client.cli.endings import command_of, exit_status, sentence, waits_for_a_member
from berth_client.outcome import Exited
from berth_client.problems import BerthError

INPUT_BYTES = 64 * 1024


def run(asked: argparse.Namespace) -> int:
    if asked.tty:
        return screen.shell(asked)
    with server(asked) as berth:
        one = workspace(berth, asked.workspace)
        return whole(asked, one) if asked.json else live(asked, one)


def whole(asked: argparse.Namespace, one: OneWorkspace) -> int:
    """For programs: nothing until the end, then the exec."""
    said = None if asked.no_stdin or sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read()
    ended = one.run(command_of(asked), stdin=said, **how(asked))
    say.document({**ended.raw, "stdout": ended.stdout, "stderr": ended.stderr})
    return exit_status(ended.outcome)


def live(asked: argparse.Namespace, one: OneWorkspace) -> int:
    piped = not (asked.no_stdin or sys.stdin is None or sys.stdin.isatty())
    began = one.execs.start(command_of(asked), stdin_open=piped, **how(asked))
    if began.state == PENDING:
        say.note(waits_for_a_member(asked.workspace))
    with interrupts_passed(one, began.id):
        if piped:
            threading.Thread(target=pump, args=(one, began.id), daemon=True).start()
        try:
            ended = one.execs.live(began.id, writer(sys.stdout.buffer), writer(sys.stderr.buffer))
        except BrokenPipeError:
            one.execs.kill(began.id)
            raise
    return told(ended)


def told(ended: Exec) -> int:
    for name, cut in (("output", ended.stdout_truncated), ("error output", ended.stderr_truncated)):
        if cut:
            say.note(f"berth-cli: the {name} was cut; --max-output-mib allows more")
    if not isinstance(ended.outcome, Exited):
        say.note(f"berth-cli: {sentence(ended.outcome)}")
    return exit_status(ended.outcome)


def how(asked: argparse.Namespace) -> dict[str, Any]:
    return {"cwd": asked.cwd, "env": pairs(asked.env), "user": asked.user, "timeout_s": asked.timeout_s,
            "max_output_bytes": asked.max_output_mib * 1024 * 1024}


def writer(stream: Any) -> Any:
    def write(data: bytes) -> None:
        stream.write(data)
        stream.flush()
    return write


def pump(one: OneWorkspace, exec_id: str) -> None:
    """Our standard input into the command's, as it comes, until its end. A command that ended reads nothing more."""
    with suppress(BerthError, OSError):
        while data := os.read(sys.stdin.fileno(), INPUT_BYTES):
            one.execs.write_stdin(exec_id, data)
        one.execs.write_stdin(exec_id, eof=True)


@contextmanager
def interrupts_passed(one: OneWorkspace, exec_id: str) -> Iterator[None]:
    """A handler may not ask the server itself (it may stand in the middle of another request): a thread does."""
    pressed: queue.SimpleQueue[int] = queue.SimpleQueue()
    count = 0

    def deliver() -> None:
        while True:
            with suppress(BerthError):
                if pressed.get() == 1:
                    one.execs.signal(exec_id, "SIGINT")
                else:
                    one.execs.kill(exec_id)

    def on_interrupt(_number: int, _frame: Any) -> None:
        nonlocal count
        count += 1
        if count > 2:
            raise KeyboardInterrupt
        pressed.put(count)

    threading.Thread(target=deliver, daemon=True).start()
    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def logs(asked: argparse.Namespace) -> int:
    """Of an exec its output; without one the workspace's events."""
    with server(asked) as berth:
        one = workspace(berth, asked.workspace)
        return output(asked, one) if asked.exec else events(asked, one)


def output(asked: argparse.Namespace, one: OneWorkspace) -> int:
    if not asked.follow:
        seen = one.execs.get(asked.exec)
        if asked.json:
            say.document({**seen.raw, "stdout": seen.stdout, "stderr": seen.stderr})
            return 0
        writer(sys.stdout.buffer)(seen.stdout_bytes)
        writer(sys.stderr.buffer)(seen.stderr_bytes)
        return 0
    for piece in one.execs.follow(asked.exec):
        if not isinstance(piece, Chunk):
            if asked.json:
                say.document({"outcome": repr(piece.outcome)})
        elif asked.json:
            say.document({"stream": piece.stream, "offset": piece.offset, "text": piece.data.decode(errors="replace")})
        else:
            writer(sys.stdout.buffer if piece.stream == "stdout" else sys.stderr.buffer)(piece.data)
    return 0


def events(asked: argparse.Namespace, one: OneWorkspace) -> int:
    for event in one.events(after=asked.after) if asked.follow else one.past_events(after=asked.after, limit=200):
        if asked.json:
            say.document(event.raw)
        else:
            who = f"{event.actor.name} ({event.actor.type})"
            print(f"{event.seq:>5}  {say.shown(event.at)}  {say.shown(event.kind):<24} {say.shown(who)}  "
                  f"{say.shown(event.data or None)}", flush=True)
    return 0
