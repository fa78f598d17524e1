"""Commands in a workspace. Base of `Execs` and `AsyncExecs`; pure. `_at` is …/workspaces/{id}/execs.

Every start carries a key of its own: a connection that drops while a command is begun, or while its end is waited
for, begins nothing twice and loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from berth_client import wire
from berth_client.act import Pages, Place, act, pages
from berth_client.model import Exec
from berth_client.problems import ExecFailed, WaitTimeout
from berth_client.shape import of, read
from berth_client.wire import SLACK_S, Json, Request, Steps, given, sleep

Command = str | Sequence[str]
#: One long poll; shorter than what proxies usually cut.
POLL_S = 45.0
PENDING, LOOK_S = "pending_approval", 1.0
#: A wake has its own bound at the server; the answer to a start may take as long on top.
WAKE_S = 300.0
INLINE_STDIN_BYTES = 512 * 1024


class ExecsActs(Place):
    @act
    def run(self, command: Command, *, cwd: str | None = None, env: Mapping[str, str] | None = None,
            user: str | None = None, stdin: str | bytes | None = None, timeout_s: float | None = None,
            max_output_bytes: int | None = None, wake_timeout_s: float | None = None,
            give_up_after_s: float | None = None, check: bool = False,
            idempotency_key: str | None = None) -> Steps[Exec]:
        """Runs a command to its end, however long; text goes to a shell, a list is executed as it is.

        `timeout_s` ends the command; `give_up_after_s` ends only the waiting (WaitTimeout: its `last` is the exec,
        which goes on). `check` raises ExecFailed unless it exits with 0.
        """
        said = body_of(command, cwd=cwd, env=env, user=user, timeout_s=timeout_s, max_output_bytes=max_output_bytes,
                       wake_timeout_s=wake_timeout_s)
        text = inline(stdin)
        if stdin is not None and text is None:
            said |= {"stdin_open": True}
        hold_s = POLL_S if give_up_after_s is None else min(POLL_S, give_up_after_s)
        seen = yield from begin(self._at, {**said, **given(stdin=text)}, hold_s if text is not None or stdin is None
                                else 0, idempotency_key)
        if stdin is not None and text is None:
            yield stdin_request(self._at, seen.id, stdin if isinstance(stdin, bytes) else stdin.encode(), eof=True)
        ended = yield from until_ended(self._at, seen, give_up_after_s)
        if check and not ended.ok:
            raise ExecFailed(ended)
        return ended

    @act
    def start(self, command: Command, *, cwd: str | None = None, env: Mapping[str, str] | None = None,
              user: str | None = None, stdin: str | None = None, stdin_open: bool = False,
              tty: tuple[int, int] | None = None, timeout_s: float | None = None, max_output_bytes: int | None = None,
              wake_timeout_s: float | None = None, idempotency_key: str | None = None) -> Steps[Exec]:
        """Begins a command and returns at once. `tty` is (cols, rows): a terminal, for `terminal()`."""
        size = None if tty is None else {"cols": tty[0], "rows": tty[1]}
        said = body_of(command, cwd=cwd, env=env, user=user, stdin=stdin, stdin_open=stdin_open or None, tty=size,
                       timeout_s=timeout_s, max_output_bytes=max_output_bytes, wake_timeout_s=wake_timeout_s)
        return (yield from begin(self._at, said, 0, idempotency_key))

    @act
    def get(self, exec_id: str, *, wait_s: float = 0) -> Steps[Exec]:
        """As it is, after at most `wait_s`, with its output so far. Never wakes the workspace."""
        return (yield from look(self._at, exec_id, wait_s))

    @act
    def wait(self, exec_id: str, *, give_up_after_s: float | None = None) -> Steps[Exec]:
        """Until it has ended; raises WaitTimeout when the time is over."""
        seen = yield from look(self._at, exec_id, 0)
        return (yield from until_ended(self._at, seen, give_up_after_s))

    @act
    def past_approval(self, exec_id: str) -> Steps[Exec]:
        """Once a member has said yes or no, where one is asked first; else at once."""
        while (seen := (yield from look(self._at, exec_id, 0))).state == PENDING:
            yield from sleep(LOOK_S)
        return seen

    @pages
    def list(self, *, state: str | None = None, limit: int | None = None) -> Pages[Exec]:
        """Newest first, without their output."""
        return Pages(wire.get(self._at, state=state, limit=limit), of(Exec))

    @act
    def output(self, exec_id: str, *, stream: str = "stdout", offset: int = 0) -> Steps[tuple[bytes, int]]:
        """What is kept of one stream from `offset` on, and the offset to go on from."""
        answer = yield wire.get(f"{self._at}/{exec_id}/output", stream=stream, offset=offset)
        return answer.body, int(answer.headers["berth-next-offset"])

    @act
    def write_stdin(self, exec_id: str, data: bytes = b"", *, eof: bool = False) -> Steps[int]:
        """Bytes for its standard input; how many were taken. Never sent twice: Unreachable leaves it open whether
        they arrived."""
        return int((yield stdin_request(self._at, exec_id, data, eof)).json()["accepted_bytes"])

    @act
    def signal(self, exec_id: str, signal: str) -> Steps[Exec]:
        """`signal` is a name: SIGINT."""
        return read(Exec, (yield wire.post(f"{self._at}/{exec_id}/signal", {"signal": signal})).json())

    @act
    def resize(self, exec_id: str, cols: int, rows: int) -> Steps[Exec]:
        return read(Exec, (yield wire.post(f"{self._at}/{exec_id}/resize", {"cols": cols, "rows": rows})).json())

    @act
    def kill(self, exec_id: str) -> Steps[Exec]:
        """Ends its whole process tree. One that has ended stays as it is."""
        return read(Exec, (yield wire.delete(f"{self._at}/{exec_id}", encoding="base64")).json())


def body_of(command: Command, **fields: Any) -> Json:
    return {"command": command if isinstance(command, str) else list(command), **given(**fields)}


def inline(stdin: str | bytes | None) -> str | None:
    """Standard input as the text of a request's field; None where it must be streamed (or there is none)."""
    if stdin is None or len(stdin) > INLINE_STDIN_BYTES:
        return None
    if isinstance(stdin, str):
        return stdin
    try:
        return stdin.decode()
    except UnicodeDecodeError:
        return None


def begin(path: str, said: Json, hold_s: float, key: str | None) -> Steps[Exec]:
    how: Json = {"wait_s": hold_s} if hold_s > 0 else {"background": True}
    request = wire.post(path, {**said, **how}, key=key, encoding="base64", read_timeout_s=hold_s + WAKE_S + SLACK_S)
    return read(Exec, (yield request).json())


def look(path: str, exec_id: str, wait_s: float) -> Steps[Exec]:
    request = wire.get(f"{path}/{exec_id}", encoding="base64", wait_s=wait_s, read_timeout_s=wait_s + SLACK_S)
    return read(Exec, (yield request).json())


def until_ended(path: str, seen: Exec, give_up_after_s: float | None) -> Steps[Exec]:
    waited_s = 0.0
    while not seen.ended:
        if give_up_after_s is not None and waited_s >= give_up_after_s:
            raise WaitTimeout(f"It is still {seen.state} after {give_up_after_s:g} s.", seen)
        hold_s = POLL_S if give_up_after_s is None else min(POLL_S, give_up_after_s - waited_s)
        seen = yield from look(path, seen.id, hold_s)
        waited_s += hold_s
    return seen


def stdin_request(path: str, exec_id: str, data: bytes, eof: bool) -> Request:
    return Request("POST", f"{path}/{exec_id}/stdin", wire.queried({"eof": eof or None}), data,
                   (("Content-Type", "application/octet-stream"),), repeatable=False, read_timeout_s=600)
