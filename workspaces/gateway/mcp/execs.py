"""Tools that run commands: exec, exec_output, exec_input, exec_signal. Listed by `catalog`; each is REST's own calls.

A call never has to last as long as its command: it answers after `wait_s` with what there is, and says how to go on.
"""

from __future__ import annotations

import base64
from typing import Annotated, Any, Literal

from pydantic import Field

from workspaces.gateway.mcp import cut
from workspaces.gateway.mcp.tool import (
    ADDS,
    ANYTHING,
    READS,
    Data,
    IdempotencyKey,
    InWorkspace,
    ObjectId,
    Said,
    Session,
    Tool,
)

SHOWN_BYTES = 24 * 1024
MOST_SHOWN_BYTES = 256 * 1024
WAIT_S = 45.0
PENDING = "pending_approval"

WaitS = Annotated[float, Field(
    ge=0, le=300, description="Answer after so many seconds at the latest; the command goes on. Many hosts of MCP give "
                              "a call up after 60 s")]
Stream = Literal["stdout", "stderr"]
ShownBytes = Annotated[int, Field(ge=256, le=MOST_SHOWN_BYTES)]


class Exec(InWorkspace):
    command: Annotated[str | list[str], Field(
        description="Shell text (run by bash -lc), or a list: a program and its arguments, run without a shell")]
    cwd: Annotated[str | None, Field(description="Absolute path; default: the user's home")] = None
    env: Annotated[dict[str, str] | None, Field(description="Further environment variables")] = None
    user: Annotated[str | None, Field(description="Guest user, e.g. root; default: user, who has sudo")] = None
    stdin: Annotated[str | None, Field(description="Text for standard input, which is closed after it")] = None
    stdin_open: Annotated[bool, Field(description="Leave standard input open for exec_input")] = False
    timeout_s: Annotated[float | None, Field(
        gt=0, description="End the whole process tree after so many seconds; default: never")] = None
    wait_s: WaitS = WAIT_S
    background: Annotated[bool, Field(description="Answer at once; follow it with exec_output")] = False
    shown_bytes: Annotated[ShownBytes, Field(
        description="Of each stream at most so much is shown: its beginning and its end")] = SHOWN_BYTES
    idempotency_key: IdempotencyKey = None


class ExecOutput(InWorkspace):
    exec_id: ObjectId
    stream: Stream = "stdout"
    offset: Annotated[int, Field(ge=0, description="From this byte on; the answer says the next one")] = 0
    limit_bytes: ShownBytes = SHOWN_BYTES
    wait_s: Annotated[float, Field(ge=0, le=300, description="Wait so long for the command's end first")] = 0
    encoding: Annotated[Literal["text", "base64"], Field(description="base64: byte for byte")] = "text"


class ExecInput(InWorkspace):
    exec_id: ObjectId
    text: str = ""
    eof: Annotated[bool, Field(description="Close standard input afterwards")] = False


class ExecSignal(InWorkspace):
    exec_id: ObjectId
    signal: Annotated[str, Field(pattern="^(SIG[A-Z0-9+-]{1,12}|KILL-TREE)$", description=(
        "SIGINT, SIGTERM, …: to its process group; KILL-TREE: end it and everything it started"))] = "SIGINT"


async def run(session: Session, given: Exec) -> Said:
    body: Data = {"command": given.command, "background": given.background}
    for name in ("cwd", "env", "user", "stdin", "timeout_s"):
        if getattr(given, name) is not None:
            body[name] = getattr(given, name)
    if given.stdin_open:
        body["stdin_open"] = True
    if not given.background:
        body["wait_s"] = given.wait_s
    keyed = {"idempotency-key": given.idempotency_key} if given.idempotency_key else {}
    record = await session.api.post(f"{session.base(given)}/execs", body, "encoding=base64", keyed)
    return _told(record, given.shown_bytes)


async def output(session: Session, given: ExecOutput) -> Said:
    path = f"{session.base(given)}/execs/{given.exec_id}"
    record = await session.api.get(path, f"wait_s={given.wait_s:g}")
    if record["state"] == PENDING or (record.get("outcome") or {}).get("kind") == "refused":
        return _never_begun(record, given)
    reply = await session.api.ask("GET", f"{path}/output", f"stream={given.stream}&offset={given.offset}",
                                  most_bytes=given.limit_bytes)
    begins = int(reply.header("berth-offset") or given.offset)
    data = cut.whole_characters(reply.body) if reply.cut and given.encoding == "text" else reply.body
    following, ended = begins + len(data), record["state"] == "ended"
    at_end = ended and not reply.cut
    text, marks = _as_text(data, given.encoding)
    told: Data = {**_state_of(record), "stream": given.stream, "offset": begins, "next_offset": following,
                  "at_end": at_end, "content": text, **marks}
    if at_end:
        end = "this is its end"
    elif reply.cut:
        end = f"there is more: ask again with offset={following}"
    else:
        end = f"that is all so far: ask again with offset={following} and wait_s"
    head = f"{_how(record)}\n{given.stream} from byte {begins} to {following}; {end}"
    return Said(f"{head}\n{text}", told)


def _never_begun(record: Data, given: ExecOutput) -> Said:
    """One that waits for a member, or was refused: there is no output, which is no error of who asks for it."""
    told: Data = {**_state_of(record), "stream": given.stream, "offset": 0, "next_offset": 0,
                  "at_end": record["state"] == "ended", "content": ""}
    return Said(_how(record), told)


def _as_text(data: bytes, encoding: str) -> tuple[str, Data]:
    if encoding == "base64":
        return base64.b64encode(data).decode(), {"encoding": "base64"}
    seen = cut.shown(data)
    return seen.text, {} if seen.is_utf8 else {"not_utf8": True, "hint": 'encoding="base64" gives the exact bytes'}


async def typed(session: Session, given: ExecInput) -> Said:
    path = f"{session.base(given)}/execs/{given.exec_id}/stdin"
    reply = await session.api.ask("POST", path, "eof=true" if given.eof else "", given.text.encode())
    taken = reply.json() if reply.status != 204 else {}
    return Said(f"Sent{' and closed' if given.eof else ''}.", {"exec_id": given.exec_id, **taken})


async def signalled(session: Session, given: ExecSignal) -> Said:
    path = f"{session.base(given)}/execs/{given.exec_id}"
    if given.signal == "KILL-TREE":
        reply = await session.api.ask("DELETE", path)
    else:
        await session.api.post(f"{path}/signal", {"signal": given.signal})
        reply = await session.api.ask("GET", path, "wait_s=1")
    record = reply.json() if reply.body else {"id": given.exec_id, "state": "ended"}
    return Said(_how(record), _state_of(record))


def _told(record: Data, shown_bytes: int) -> Said:
    told, lines = _state_of(record), [_how(record)]
    for stream in ("stdout", "stderr"):
        whole = base64.b64decode(record.get(f"{stream}_b64") or "")
        told[stream], told[f"{stream}_bytes"] = "", len(whole)
        if whole:
            part, marks = _part(whole, shown_bytes, stream, record)
            told.update({stream: part, **marks})
            lines += [f"--- {stream}", part]
    return Said("\n".join(lines), told)


def _part(whole: bytes, shown_bytes: int, stream: str, record: Data) -> tuple[str, Data]:
    """What is shown of one stream, and the marks that say what is not."""
    piece = cut.middle_out(whole, shown_bytes)
    head, tail = cut.shown(piece.head), cut.shown(piece.tail)
    text = head.text
    marks: Data = {}
    if piece.left_out:
        how = f'exec_output(exec_id="{record["id"]}", stream="{stream}", offset={piece.first})'
        text += f"\n[… {piece.left_out} bytes left out, {piece.first} to {piece.last}; {how} shows them …]\n{tail.text}"
        marks[f"{stream}_left_out"] = {"from": piece.first, "to": piece.last, "bytes": piece.left_out}
    if not (head.is_utf8 and tail.is_utf8):
        marks[f"{stream}_not_utf8"] = True
        text += '\n[it is not all UTF-8; exec_output with encoding="base64" gives the exact bytes]'
    if record.get(f"{stream}_truncated"):
        marks[f"{stream}_truncated"] = True
        text += "\n[it wrote more than is kept of a command; send what is long to a file]"
    return text, marks


def _state_of(record: Data) -> Data:
    kept = ("state", "outcome", "user", "cwd", "started_at", "ended_at", "duration_ms", "continued_from")
    return {"exec_id": record.get("id"), **{name: record[name] for name in kept if record.get(name) is not None}}


def _how(record: Data) -> str:
    """How it stands with an exec, in one line. Only what was seen is said."""
    outcome: Any = record.get("outcome") or {}
    kind = outcome.get("kind")
    if record["state"] == PENDING:
        return (f"exec {record['id']} has not begun: a member of the workspace has to approve it first; "
                f'exec_output(exec_id="{record["id"]}", wait_s=45) waits for that, do not ask for it anew')
    if kind is None:
        return (f"exec {record['id']} is {record['state']}; it goes on by itself, "
                f'exec_output(exec_id="{record["id"]}", wait_s=45) follows it')
    detail = next((outcome[name] for name in ("code", "signal", "by", "reason") if outcome.get(name) is not None), "")
    took = record.get("duration_ms")
    after = f" after {took / 1000:.2f} s" if isinstance(took, int | float) else ""
    return f"exec {record['id']} {kind.replace('_', ' ')} {detail}".rstrip() + after


TOOLS = (
    Tool("exec", "Run a command", (
        "Run a command in the workspace, which wakes for it. Answers when the command has ended or after wait_s, "
        "whichever is first; a command that still runs then goes on, and exec_output follows it. The answer has the "
        "outcome (exited with a code, signaled, timed_out, killed, lost) and both streams, cut in the middle when they "
        "are long. Standard input is empty unless given. Each call is a new shell: cd and variables do not carry over."
    ), "exec", Exec, run, ANYTHING),
    Tool("exec_output", "Read a command's output", (
        "State, outcome and output of a command from a byte offset on; also after it has ended, and without waking a "
        "sleeping workspace. With wait_s it waits for the end. next_offset is where the next call goes on."
    ), "exec", ExecOutput, output, READS),
    Tool("exec_input", "Write to a command's standard input", (
        "Text for the standard input of a running command that was begun with stdin_open=true."
    ), "exec", ExecInput, typed, ADDS),
    Tool("exec_signal", "Signal or end a command", (
        "Send a signal to a running command, or end its whole process tree with KILL-TREE."
    ), "exec", ExecSignal, signalled, ANYTHING),
)
