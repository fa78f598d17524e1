"""The JSON objects of the gateway's routes, as OpenAPI 3 schemas. Pure data, read by `openapi`.

Requests are closed (unknown fields are refused), answers are open (new fields may come).
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

TEXT: Json = {"type": "string"}
COUNT: Json = {"type": "integer", "minimum": 0}
MAYBE_TEXT: Json = {"type": "string", "nullable": True}
MAYBE_TIME: Json = {"type": "string", "format": "date-time", "nullable": True}
FLAG: Json = {"type": "boolean"}
FLAG_NULL: Json = {"type": "boolean", "nullable": True}
SIDE: Json = {"type": "integer", "minimum": 1, "maximum": 1000}


def closed(required: list[str], **properties: Json) -> Json:
    said: Json = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**said, "required": required} if required else said


def answer(required: list[str], **properties: Json) -> Json:
    said: Json = {"type": "object", "properties": properties}
    return {**said, "required": required} if required else said


PATH_TEXT: Json = {"type": "string", "minLength": 1, "maxLength": 4096}
OUTCOME = answer(["kind"], kind={"type": "string", "enum": ["exited", "signaled", "timed_out", "killed", "refused",
                                                            "lost"]},
                 code={"oneOf": [{"type": "integer"}, {"type": "string"}]}, signal=TEXT, by=TEXT, reason=TEXT)

SCHEMAS: dict[str, Json] = {
    "TerminalSize": closed(["cols", "rows"], cols=SIDE, rows=SIDE),
    "SignalRequest": closed(["signal"], signal={"oneOf": [{"type": "string", "pattern": "^(SIG)?[A-Z0-9+-]{1,12}$"},
                                                          {"type": "integer", "minimum": 1, "maximum": 64}]}),
    "RecordRequest": closed(["on"], on=FLAG),
    "Outcome": OUTCOME,
    "ExecRequest": closed(
        ["command"],
        command={"oneOf": [{"type": "string", "minLength": 1},
                           {"type": "array", "items": TEXT, "minItems": 1}]},
        cwd=MAYBE_TEXT, env={"type": "object", "additionalProperties": TEXT, "nullable": True}, user=MAYBE_TEXT,
        stdin=MAYBE_TEXT, stdin_open=FLAG_NULL,
        tty={"allOf": [{"$ref": "#/components/schemas/TerminalSize"}], "nullable": True},
        timeout_s={"type": "number", "minimum": 0.001, "maximum": 2592000, "nullable": True},
        wait_s={"type": "number", "minimum": 0, "maximum": 300, "nullable": True},
        wake_timeout_s={"type": "number", "minimum": 0, "maximum": 300, "nullable": True}, background=FLAG_NULL,
        max_output_bytes={"type": "integer", "minimum": 0, "maximum": 67108864, "nullable": True}),
    "Exec": answer(
        ["id", "command", "user", "state", "outcome"], id=TEXT,
        command={"oneOf": [TEXT, {"type": "array", "items": TEXT}]}, user=TEXT, cwd=MAYBE_TEXT,
        tty={"allOf": [{"$ref": "#/components/schemas/TerminalSize"}], "nullable": True},
        state={"type": "string", "enum": ["pending_approval", "starting", "running", "ended"]},
        outcome={"allOf": [{"$ref": "#/components/schemas/Outcome"}], "nullable": True}, continued_from=MAYBE_TEXT,
        started_at=MAYBE_TIME, ended_at=MAYBE_TIME, duration_ms={"type": "number", "nullable": True},
        stdout=MAYBE_TEXT, stderr=MAYBE_TEXT, stdout_b64=MAYBE_TEXT, stderr_b64=MAYBE_TEXT, stdout_truncated=FLAG,
        stderr_truncated=FLAG, actor=answer([], type=TEXT, name=TEXT),
        recording={**answer([], by=TEXT, since=TEXT, until=MAYBE_TIME), "nullable": True}),
    "ExecList": answer(["results", "next"], results={"type": "array", "items": {"$ref": "#/components/schemas/Exec"}},
                       next=MAYBE_TEXT),
    "Accepted": answer([], accepted_bytes=COUNT),
    "File": answer(
        ["path", "type"], path=TEXT, path_encoded=TEXT, type=TEXT, size={"type": "integer"}, mode=TEXT, owner=TEXT,
        group=TEXT, mtime=TEXT, etag=TEXT, target=MAYBE_TEXT, target_encoded=MAYBE_TEXT,
        entries={"type": "array", "items": {"$ref": "#/components/schemas/File"}}, next=MAYBE_TEXT),
    "Diff": answer(["results", "next"], next=MAYBE_TEXT, results={"type": "array", "items": answer(
        ["path", "path_encoded", "change", "size_before", "size_after"], path=TEXT, path_encoded=TEXT,
        change={"type": "string", "enum": ["added", "modified", "removed", "type"]},
        size_before={"type": "integer", "nullable": True}, size_after={"type": "integer", "nullable": True})}),
    "Written": answer(["path", "size", "etag"], path=TEXT, path_encoded=TEXT, size=COUNT, etag=TEXT),
    "Extracted": answer(["path", "entries", "bytes"], path=TEXT, path_encoded=TEXT, entries=COUNT, bytes=COUNT),
    "Search": answer(
        ["results", "searched", "next"], next=MAYBE_TEXT, searched=COUNT,
        results={"type": "array", "items": {"allOf": [{"$ref": "#/components/schemas/File"}, answer(
            [], cut=FLAG, matches={"type": "array", "items": answer(
                ["line", "column", "text"], line=COUNT, column=COUNT, text=TEXT)})]}}),
    "PortList": answer(["results"], results={"type": "array", "items": answer(
        ["port", "address", "protocol"], port=COUNT, address=MAYBE_TEXT, protocol={"type": "string", "enum": ["tcp"]},
        reachable=FLAG, process=MAYBE_TEXT, pid={"type": "integer", "nullable": True}, user=MAYBE_TEXT)}),
    "NetworkLog": answer(["results", "next"], next=MAYBE_TEXT, dropped={
        **COUNT, "description": "Rows that there was no room for"}, results={"type": "array", "items": answer(
            ["seq", "at", "name", "address", "port", "protocol", "verdict", "rule", "reason", "bytes_in", "bytes_out"],
            seq=COUNT, at={"type": "string", "format": "date-time"}, name=MAYBE_TEXT, address=MAYBE_TEXT, port=COUNT,
            protocol={"type": "string", "description": "tcp, udp, icmp, dns or another"},
            verdict={"type": "string", "enum": ["allowed", "refused", "asked"]},
            rule={"type": "string", "description": "What decided: rules[0], mode, bound, …"},
            reason={"type": "string", "description": "Why it was refused; empty where it was not"},
            bytes_in=COUNT, bytes_out=COUNT, ms=COUNT,
            count={**COUNT, "description": "Repeats of one refusal within ten seconds are one row"})}),
    "MkdirRequest": closed([], path=PATH_TEXT, path_encoded=PATH_TEXT, parents=FLAG, mode=TEXT),
    "MoveRequest": closed([], path=PATH_TEXT, path_encoded=PATH_TEXT, to=PATH_TEXT, to_encoded=PATH_TEXT,
                          overwrite=FLAG, parents=FLAG),
    "ChmodRequest": closed(["mode"], path=PATH_TEXT, path_encoded=PATH_TEXT, mode=TEXT),
    "Figures": answer(
        ["at", "cpu_percent"], at={"type": "string", "format": "date-time"},
        cpu_percent={"type": "number", "nullable": True, "description": "Of one processor, since an earlier look"},
        cpu_s={"type": "number"}, load1={"type": "number"}, memory_used_bytes=COUNT, memory_total_bytes=COUNT,
        disk_used_bytes=COUNT, disk_total_bytes=COUNT, network_rx_bytes=COUNT, network_tx_bytes=COUNT),
    "MetricsList": answer(["results"], results={"type": "array", "items": {"$ref": "#/components/schemas/Hour"}}),
    "Hour": answer(
        ["workspace", "interval_s", "history"], workspace={"type": "string"}, interval_s={"type": "number"},
        history={"type": "array", "items": {"$ref": "#/components/schemas/Figures"}}),
    "Metrics": answer(
        ["now", "history", "interval_s"], reason=MAYBE_TEXT, interval_s={"type": "number"},
        now={"allOf": [{"$ref": "#/components/schemas/Figures"}], "nullable": True},
        history={"type": "array", "items": {"$ref": "#/components/schemas/Figures"}}),
}
