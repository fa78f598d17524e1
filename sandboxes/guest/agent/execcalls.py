"""The `exec.*` calls of the guest link: parameters in, refusals out; the work is in `exectable.py` and `execs.py`."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import termios
from typing import Any

from sandboxes.guest.agent import params as p
from sandboxes.guest.agent import tty
from sandboxes.guest.agent.accounts import Account, account_of, command_shell, login_environment, shell_of
from sandboxes.guest.agent.execs import STDERR, STDOUT, Exec
from sandboxes.guest.agent.exectable import ExecTable, Request
from sandboxes.guest.agent.machine import Machine
from sandboxes.guest.agent.outcomes import signal_number
from sandboxes.guest.agent.outputreader import OutputReader
from sandboxes.guest.agent.refusal import Refusal
from sandboxes.guest.agent.streams import Stream

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ExecCalls:
    def __init__(self, machine: Machine, table: ExecTable) -> None:
        self._machine, self._table = machine, table

    def methods(self) -> dict[str, Any]:
        return {
            "exec.start": self.start, "exec.output": self.output, "exec.stdin": self.stdin,
            "exec.signal": self.signal, "exec.resize": self.resize, "exec.kill": self.kill,
            "exec.list": self.listed, "exec.forget": self.forget, "exec.rename": self.rename,
        }

    # -- start -----------------------------------------------------------------------------------------------------

    def start(self, stream: Stream, params: p.Params) -> dict[str, Any] | None:
        exec_id = p.text(params, "exec_id")
        if not _ID.fullmatch(exec_id):
            raise Refusal("invalid", "exec_id must be 1 to 64 letters, digits, - or _")
        execution = self._table.execs.get(exec_id)

        def told(begun: Exec, refusal: Refusal | None) -> None:
            if refusal is not None:
                stream.fail(refusal)
            else:
                stream.finish(_started(begun))
        if execution is None:
            self._machine.require_serving()
            tree = self._table.tree_for(exec_id)
            try:
                request = self._request(exec_id, params, tree.environment)
            except BaseException:
                tree.remove()
                raise
            self._table.start(request, tree, told)
            return None
        if exec_id in self._table.starting:
            self._table.starting[exec_id].append(told)
            return None
        return _started(execution)

    def _request(self, exec_id: str, params: p.Params, marks: dict[str, str]) -> Request:
        account = account_of(p.text(params, "user", "user"))
        size = _size(params.get("tty"))
        environment = login_environment(account, self._machine.environment, p.mapping(params, "env"),
                                        size is not None)
        program, argv = _program(params, account, size is not None)
        return Request(
            exec_id=exec_id, program=program, argv=argv, account=account, size=size,
            environment={_octets(k, "env"): _octets(v, "env") for k, v in {**environment, **marks}.items()},
            cwd=_cwd(params, account), at_home=params.get("cwd") is None,
            stdin=p.flag(params, "stdin"), timeout_s=p.seconds(params, "timeout_s"),
            max_output_bytes=p.whole(params, "max_output_bytes", None))

    # -- streams ---------------------------------------------------------------------------------------------------

    def output(self, stream: Stream, params: p.Params) -> None:
        execution = self._exec(params)
        asked = params.get("offsets") or {}
        if not isinstance(asked, dict):
            raise Refusal("invalid", "offsets must be an object")
        OutputReader(execution, stream, {1: p.whole(asked, "stdout", 0), 2: p.whole(asked, "stderr", 0)})

    def stdin(self, stream: Stream, params: p.Params) -> None:
        execution = self._begun(params)
        if execution.stdin is None:
            code = "stdin_closed" if execution.outcome is None else "exec_ended"
            raise Refusal(code, "this exec was started without standard input", accepted_bytes=0)
        execution.stdin.feed(stream, p.flag(params, "eof"))

    # -- the rest --------------------------------------------------------------------------------------------------

    def signal(self, _stream: Stream, params: p.Params) -> dict[str, Any]:
        """To the whole tree, or to the process group in front: a terminal's foreground, else the exec's own."""
        execution = self._begun(params)
        name = p.text(params, "signal")
        number = signal_number(name)
        if number is None:
            raise Refusal("invalid", f"there is no signal {name!r}")
        if execution.ended:
            raise Refusal("exec_ended", "the process has ended")
        if p.flag(params, "tree"):
            execution.tree.signal(number)
            return {}
        for group in (_front_group(execution), execution.pid):
            try:
                os.killpg(group, number)
                return {}
            except ProcessLookupError:  # a job that was in front has just ended
                continue
        raise Refusal("exec_ended", "the process has ended")

    def resize(self, _stream: Stream, params: p.Params) -> dict[str, Any]:
        execution = self._begun(params)
        cols, rows = _size({"cols": params.get("cols"), "rows": params.get("rows")}) or (0, 0)
        if execution.master < 0:
            code = "exec_ended" if execution.ended else "not_a_terminal"
            raise Refusal(code, "this exec has no terminal (any more)")
        tty.resize(execution.master, cols, rows)
        return {}

    def kill(self, _stream: Stream, params: p.Params) -> dict[str, Any]:
        self._exec(params).kill()
        return {}

    def listed(self, _stream: Stream, _params: p.Params) -> dict[str, Any]:
        return {"execs": self.listing()}

    def listing(self) -> list[dict[str, Any]]:
        return [execution.to_json() for execution in self._table.execs.values()]

    def forget(self, _stream: Stream, params: p.Params) -> dict[str, Any]:
        """Repeatable. A running exec is not forgotten."""
        execution = self._table.execs.get(p.text(params, "exec_id"))
        if execution is not None:
            if execution.outcome is None:
                raise Refusal("conflict", "the exec is running")
            self._table.forget(execution)
        return {}

    def rename(self, _stream: Stream, params: p.Params) -> dict[str, Any]:
        """In a machine that went back in time, or is a clone: what runs gets a name that nothing had before. Answers
        from where its output is still kept. Repeatable."""
        former, name, execs = p.text(params, "exec_id"), p.text(params, "to"), self._table.execs
        if not _ID.fullmatch(name):
            raise Refusal("invalid", "to must be 1 to 64 letters, digits, - or _")
        if name not in execs:
            execs[name] = self._begun(params)
            execs[name].exec_id = name
            del execs[former]
        outputs = execs[name].outputs
        return {"kept_from": {"stdout": outputs[STDOUT].base, "stderr": outputs[STDERR].base}}

    def _begun(self, params: p.Params) -> Exec:
        execution = self._exec(params)
        if execution.exec_id in self._table.starting:
            raise Refusal("busy", "the process is just beginning", retry_after_s=1)
        return execution

    def _exec(self, params: p.Params) -> Exec:
        exec_id = p.text(params, "exec_id")
        execution = self._table.execs.get(exec_id)
        if execution is None:
            raise Refusal("not_found", f"there is no exec {exec_id!r} here")
        return execution


def _started(execution: Exec) -> dict[str, Any]:
    return {"pid": execution.pid, "started_at": execution.started_at, "cwd": execution.cwd.decode("utf-8", "replace")}


def _size(asked: object) -> tuple[int, int] | None:
    if asked is None:
        return None
    if not isinstance(asked, dict):
        raise Refusal("invalid", "tty must be an object with cols and rows")
    return (p.whole(asked, "cols", 80, least=1, most=tty.MOST_CELLS),
            p.whole(asked, "rows", 24, least=1, most=tty.MOST_CELLS))


def _program(params: p.Params, account: Account, terminal: bool) -> tuple[bytes, list[bytes]]:
    """(what is executed, argv). A shell text runs in a login shell; a terminal without a command is one."""
    shell, argv = p.text(params, "shell", None), params.get("argv")
    if shell is not None:
        flags = b"-lc" if p.flag(params, "login", True) else b"-c"
        program = command_shell()
        return program, [program, flags, _octets(shell, "shell")]
    if argv:
        if not isinstance(argv, list) or not all(isinstance(word, str) and "\0" not in word for word in argv):
            raise Refusal("invalid", "argv must be a list of texts without NUL")
        words = [_octets(word, "argv") for word in argv]
        if not words[0]:
            raise Refusal("invalid", "argv must begin with a program", field="command")
        return words[0], words
    if not terminal:
        raise Refusal("invalid", "argv or shell is required")
    program = shell_of(account)
    return program, [b"-" + program.rpartition(b"/")[2]]


def _cwd(params: p.Params, account: Account) -> bytes:
    """The home, or the folder asked for: from the home, when it is no absolute path."""
    home = os.fsencode(account.home)
    asked = p.text(params, "cwd", None)
    return home if asked is None else os.path.join(home, _octets(asked, "cwd"))  # noqa: PTH118 - bytes


def _octets(text: str, name: str) -> bytes:
    try:
        return os.fsencode(text)
    except UnicodeEncodeError as error:
        raise Refusal("invalid", f"{name} has a character that no encoding has") from error


def _front_group(execution: Exec) -> int:
    if execution.master >= 0:
        return int(struct.unpack("i", fcntl.ioctl(execution.master, termios.TIOCGPGRP, bytes(4)))[0]) or execution.pid
    return execution.pid
