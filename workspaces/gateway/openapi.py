"""What the gateway answers, as OpenAPI 3 fragments. Merged into the schema by `workspaces.api.schema`.

Pure data; kept beside the routes because a route and its description change together (a test compares them).
Every status a route can answer is listed, problems included.
"""

from __future__ import annotations

from typing import Any

from workspaces.api.openapi_words import refusal
from workspaces.gateway.openapi_schemas import SCHEMAS

Json = dict[str, Any]

ID_SCHEMA: Json = {"type": "string", "pattern": "^[a-z2-7]{20}$"}
READING = (400, 401, 403, 404, 409, 429, 500, 502, 503)
WRITING = (*READING, 408, 413, 507)


def parameter(name: str, schema: Json, description: str, where: str = "query", required: bool = False) -> Json:
    return {"name": name, "in": where, "required": required, "schema": schema, "description": description}


WORKSPACE = parameter("id", ID_SCHEMA, "The workspace", "path", True)
EXEC = parameter("eid", ID_SCHEMA, "The exec", "path", True)
WAIT = parameter("wait_s", {"type": "number", "minimum": 0, "maximum": 300}, "Wait so long for the end")
ENCODING = parameter("encoding", {"type": "string", "enum": ["text", "base64"]},
                     "`base64`: output as `stdout_b64` and `stderr_b64`, byte for byte")
LIMIT = parameter("limit", {"type": "integer", "minimum": 1, "maximum": 200}, "At most so many (50)")
LOOK_LIMIT = parameter("limit", {"type": "integer", "minimum": 1, "maximum": 10000}, "At most so many (1000)")
SEARCH_LIMIT = parameter("limit", {"type": "integer", "minimum": 1, "maximum": 1000}, "At most so many (100)")
CURSOR = parameter("cursor", {"type": "string"}, "Where the last answer's `next` goes on")
OFFSET = parameter("offset", {"type": "integer", "minimum": 0}, "From this byte on")
USER = parameter("user", {"type": "string", "maxLength": 64, "default": "user"}, "With this guest user's permissions")
PATH = parameter("path", {"type": "string", "minLength": 1}, "Absolute; bytes that are not UTF-8 percent-encoded",
                 required=True)
KEY = parameter("Idempotency-Key", {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
                "The same key and body within 24 h is the same exec or change", "header")


def problem(status: int) -> Json:
    return {"description": refusal(status),
            "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}}


def answers(problems: tuple[int, ...], **good: Json) -> Json:
    return {**{name.lstrip("s"): said for name, said in good.items()},
            **{str(status): problem(status) for status in sorted(set(problems))}}


def of(schema: str, description: str) -> Json:
    return {"description": description,
            "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}}


def raw(description: str, headers: Json | None = None, media: str = "application/octet-stream") -> Json:
    said: Json = {"description": description, "content": {media: {"schema": {"type": "string", "format": "binary"}}}}
    return {**said, "headers": headers} if headers else said


def events(description: str) -> Json:
    """Server-sent events; the schema is of one of them."""
    event: Json = {"type": "object", "required": ["event", "data"], "properties": {
        "event": {"type": "string", "enum": ["stdout", "stderr", "outcome", "error"]},
        "data": {"type": "string", "description": "JSON: of output `data` (base64), `offset` and `next_offset`; of "
                                                  "`outcome` the outcome; of `error` a problem"},
        "id": {"type": "string", "description": "The next offset, for `Last-Event-ID`"}}}
    return {"description": description, "content": {"text/event-stream": {"schema": event}}}


def header(description: str, kind: str = "string") -> Json:
    return {"description": description, "schema": {"type": kind}}


def operation(name: str, tag: str, scope: str, summary: str, parameters: list[Json], responses: Json,
              body: Json | None = None) -> Json:
    said: Json = {"operationId": name, "tags": [tag], "summary": summary,
                  "description": f"Needs the scope `{scope}`.", "parameters": parameters, "responses": responses,
                  "security": [{"token": []}, {"session": []}]}
    if body is not None:
        said["requestBody"] = body
    return said


def json_of(schema: str) -> Json:
    return {"required": True, "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}}


RAW_BODY: Json = {"required": False, "content": {"application/octet-stream": {
    "schema": {"type": "string", "format": "binary"}}}}
NOTHING: Json = {"description": "Done"}

EXECS: Json = {
    "/api/v1/workspaces/{id}/execs": {
        "get": operation("execs_list", "execs", "exec", "Execs of a workspace, newest first",
                         [WORKSPACE, LIMIT, CURSOR,
                          parameter("state", {"type": "string", "enum": ["starting", "running", "ended"]}, "Only so")],
                         answers(READING, s200=of("ExecList", "Execs; their output is not inlined in lists"))),
        "post": operation("execs_create", "execs", "exec", "Run a command; wakes the workspace",
                          [WORKSPACE, WAIT, ENCODING, KEY],
                          answers(WRITING, s200=of("Exec", "It ended within `wait_s`"),
                                  s202=of("Exec", "It runs; read it by its id")), json_of("ExecRequest")),
    },
    "/api/v1/workspaces/{id}/execs/{eid}": {
        "get": operation("execs_get", "execs", "exec", "One exec, also when the workspace sleeps",
                         [WORKSPACE, EXEC, WAIT, ENCODING],
                         answers(READING, s200=of("Exec", "As it is"), s202=of("Exec", "Still running"))),
        "delete": operation("execs_kill", "execs", "exec", "Kill its whole process tree", [WORKSPACE, EXEC],
                            answers(READING, s200=of("Exec", "As it is now"), s202=of("Exec", "Being killed"),
                                    s204=NOTHING)),
    },
    "/api/v1/workspaces/{id}/execs/{eid}/output": {
        "get": operation("execs_output", "execs", "exec", "Raw bytes of one stream",
                         [WORKSPACE, EXEC, OFFSET,
                          parameter("stream", {"type": "string", "enum": ["stdout", "stderr"]}, "Which (stdout)")],
                         answers(READING, s200=raw("What is kept from the offset on", {
                             "Berth-Next-Offset": header("Where the next read goes on", "integer"),
                             "Berth-Offset": header("Where this answer begins", "integer")}))),
    },
    "/api/v1/workspaces/{id}/execs/{eid}/stream": {
        "get": operation("execs_stream", "execs", "exec", "Server-sent events: stdout, stderr, outcome",
                         [WORKSPACE, EXEC, OFFSET],
                         answers(READING, s200=events("Ends with `outcome`, or with `error` when it broke"))),
    },
    "/api/v1/workspaces/{id}/execs/{eid}/stdin": {
        "post": operation("execs_stdin", "execs", "exec", "Bytes for its standard input",
                          [WORKSPACE, EXEC, parameter("eof", {"type": "boolean"}, "Close it afterwards")],
                          answers(WRITING, s200=of("Accepted", "Taken"), s204=NOTHING), RAW_BODY),
    },
    "/api/v1/workspaces/{id}/execs/{eid}/signal": {
        "post": operation("execs_signal", "execs", "exec", "Send a signal by name", [WORKSPACE, EXEC, KEY],
                          answers(WRITING, s200=of("Accepted", "Sent"), s204=NOTHING), json_of("SignalRequest")),
    },
    "/api/v1/workspaces/{id}/execs/{eid}/resize": {
        "post": operation("execs_resize", "execs", "exec", "Resize its terminal", [WORKSPACE, EXEC, KEY],
                          answers(WRITING, s200=of("Accepted", "Resized"), s204=NOTHING), json_of("TerminalSize")),
    },
    "/api/v1/workspaces/{id}/execs/{eid}/recording": {
        "get": operation("execs_recording", "execs", "exec", "The recording of a terminal, also while it goes on",
                         [WORKSPACE, EXEC,
                          parameter("kept", {"type": "boolean"}, "All output that is kept, recorded or not")],
                         answers(READING, s200=raw("An asciicast v2 file", media="application/x-asciicast"))),
        "put": operation("execs_record", "execs", "exec",
                         "Begin or end a recording of a terminal, whether or not somebody watches; a new one takes the "
                         "former's place", [WORKSPACE, EXEC],
                         answers(WRITING, s200=of("Exec", "With its `recording`")), json_of("RecordRequest")),
    },
}

NO_WAKE = parameter("Berth-Wake", {"type": "string", "enum": ["never"]},
                    "`never`: this is no use of it; what does not run is 409 `not_running`", "header")
FILE_HEADERS: Json = {"ETag": header("Names this content"), "Accept-Ranges": header("`bytes`"),
                      "Content-Disposition": header("Always `attachment`")}
FILES: Json = {
    "/api/v1/workspaces/{id}/files": {
        "get": operation("files_list", "files", "files:read", "Stat a path; list a folder; wakes the workspace",
                         [WORKSPACE, PATH, USER, LOOK_LIMIT, CURSOR,
                          parameter("recursive", {"type": "boolean"}, "With everything below"), NO_WAKE],
                         answers((*READING, 507), s200=of("File", "The path, with `entries` when it is a folder"))),
        "delete": operation("files_remove", "files", "files:write", "Remove a path",
                            [WORKSPACE, PATH, USER, parameter("recursive", {"type": "boolean"}, "A folder, too")],
                            answers((*READING, 507), s204=NOTHING)),
    },
    "/api/v1/workspaces/{id}/files/content": {
        "get": operation("files_read", "files", "files:read", "A file's bytes",
                         [WORKSPACE, PATH, USER, parameter("Range", {"type": "string"}, "RFC 9110", "header"),
                          NO_WAKE],
                         answers((*READING, 412, 416), s200=raw("The file", FILE_HEADERS),
                                 s206=raw("A part of it", {**FILE_HEADERS, "Content-Range": header("RFC 9110")}),
                                 s304={"description": "Not modified"})),
        "head": operation("files_head", "files", "files:read", "A file's size and ETag",
                          [WORKSPACE, PATH, USER, NO_WAKE],
                          answers((*READING, 412, 416), s200={"description": "It is there", "headers": FILE_HEADERS},
                                  s304={"description": "Not modified"})),
        "put": operation("files_write", "files", "files:write", "Write a file of any size, whole or not at all",
                         [WORKSPACE, PATH, USER,
                          parameter("mode", {"type": "string", "pattern": "^[0-7]{3,4}$"}, "Octal, of a new file"),
                          parameter("parents", {"type": "boolean"}, "Make missing folders"),
                          parameter("If-Match", {"type": "string"}, "Only over this content", "header"),
                          parameter("If-None-Match", {"type": "string", "enum": ["*"]}, "Only if new", "header")],
                         answers((*WRITING, 412), s200=of("Written", "Replaced"), s201=of("Written", "Created")),
                         RAW_BODY),
    },
    "/api/v1/workspaces/{id}/files/archive": {
        "get": operation("files_archive", "files", "files:read", "A folder as a tar stream; names are those below it",
                         [WORKSPACE, PATH, USER],
                         answers(READING, s200=raw("GNU tar; holes and hard links stay", media="application/x-tar"))),
        "put": operation("files_extract", "files", "files:write", "Unpack a tar stream into a folder",
                         [WORKSPACE, PATH, USER, parameter("parents", {"type": "boolean"}, "Make the folder, too")],
                         answers(WRITING, s200=of("Extracted", "All of it is there")),
                         {"required": True, "content": {"application/x-tar": {
                             "schema": {"type": "string", "format": "binary"}}}}),
    },
    "/api/v1/workspaces/{id}/files/search": {
        "get": operation("files_search", "files", "files:read", "Find files by name, by content, or by both",
                         [WORKSPACE, PATH, USER, SEARCH_LIMIT, CURSOR,
                          parameter("pattern", {"type": "string"}, "A shell pattern of the name; with a `/` in it, of "
                                                                   "the path below `path`"),
                          parameter("content", {"type": "string"}, "A text within one line, byte for byte"),
                          parameter("any_case", {"type": "boolean"}, "ASCII letters of `content` in either case"),
                          parameter("exclude", {"type": "string"}, "Names to pass over with all in them, by commas")],
                         answers((*READING, 507), s200=of("Search", "A page; `next` when there is more to look at"))),
    },
    **{f"/api/v1/workspaces/{{id}}/files/{verb}": {
        "post": operation(f"files_{verb}", "files", "files:write", summary, [WORKSPACE, USER, KEY],
                          answers(WRITING, s200=of("File", "The result"), s201=of("File", "The result")),
                          json_of(schema))}
       for verb, summary, schema in (("mkdir", "Make a folder", "MkdirRequest"), ("move", "Rename", "MoveRequest"),
                                     ("copy", "Copy", "MoveRequest"), ("chmod", "Change a mode", "ChmodRequest"))},
}
CHECKPOINT = parameter("cid", {"type": "string", "pattern": "^([a-z2-7]{20}|head)$"},
                       "The checkpoint, or `head`: the disk of a workspace that sleeps", "path", True)
DISK_HEADER: Json = {"Berth-Disk": header("How the disk was found: `clean`; `replayed`: a journal, in memory; `as_is`: "
                                          "a journal that could not be")}
LOOKED: Json = {**FILE_HEADERS, **DISK_HEADER}
LOOKS: Json = {
    "/api/v1/workspaces/{id}/checkpoints/{cid}/files": {
        "get": operation("checkpoints_files_list", "checkpoints", "files:read",
                         "Stat a path or list a folder of a checkpoint; wakes and restores nothing",
                         [WORKSPACE, CHECKPOINT, PATH, LOOK_LIMIT, CURSOR,
                          parameter("recursive", {"type": "boolean"}, "With everything below")],
                         answers(READING, s200={**of("File", "The path, with `entries` when it is a folder"),
                                                "headers": DISK_HEADER})),
    },
    "/api/v1/workspaces/{id}/checkpoints/{cid}/files/content": {
        "get": operation("checkpoints_files_read", "checkpoints", "files:read", "A file's bytes as they were then",
                         [WORKSPACE, CHECKPOINT, PATH, parameter("Range", {"type": "string"}, "RFC 9110", "header")],
                         answers((*READING, 412, 416), s200=raw("The file", LOOKED),
                                 s206=raw("A part of it", {**LOOKED, "Content-Range": header("RFC 9110")}),
                                 s304={"description": "Not modified"})),
        "head": operation("checkpoints_files_head", "checkpoints", "files:read", "A file's size and ETag then",
                          [WORKSPACE, CHECKPOINT, PATH],
                          answers((*READING, 412, 416), s200={"description": "It is there", "headers": LOOKED},
                                  s304={"description": "Not modified"})),
    },
    "/api/v1/workspaces/{id}/checkpoints/{cid}/diff": {
        "get": operation("checkpoints_diff", "checkpoints", "checkpoints",
                         "What changed from this checkpoint to `against`, in the order of the paths' bytes",
                         [WORKSPACE, CHECKPOINT, LOOK_LIMIT, CURSOR,
                          parameter("against", {"type": "string", "default": "head"},
                                    "A checkpoint, or `head`: the disk as it is at this moment")],
                         answers((*READING, 507), s200={**of("Diff", "Changes of content, mode, owner or attributes"),
                                                        "headers": DISK_HEADER})),
    },
}
REST: Json = {
    "/api/v1/workspaces/{id}/ports": {
        "get": operation("ports_list", "ports", "previews", "TCP ports listened on; never wakes it",
                         [WORKSPACE], answers(READING, s200=of("PortList", "By port and address"))),
    },
    "/api/v1/workspaces/{id}/metrics": {
        "get": operation("metrics_get", "workspaces", "workspaces:read", "What it uses, and used; never wakes it",
                         [WORKSPACE], answers(READING, s200=of(
                             "Metrics", "The guest's own figures; `now` is null where it does not run"))),
    },
    "/api/v1/metrics": {
        "get": operation("metrics_list", "workspaces", "workspaces:read", "The last hour of several; never wakes any",
                         [parameter("ids", {"type": "string"}, "Up to 100 ids, with commas", required=True)],
                         answers((400, 401, 403, 429, 503), s200=of(
                             "MetricsList", "Of those that are yours, about a minute and a half apart"))),
    },
}
NETWORK: Json = {
    "/api/v1/workspaces/{id}/network/log": {
        "get": operation("network_log", "network", "network",
                         "What it reached and what it was kept from, oldest first; never wakes it",
                         [WORKSPACE, LIMIT,
                          parameter("after", {"type": "integer", "minimum": 0},
                                    "Rows with a higher number only; left out: the newest"),
                          parameter("verdict", {"type": "string", "enum": ["allowed", "refused", "asked"]}, "Only so")],
                         answers(READING, s200=of("NetworkLog", "One row when a connection has ended or was refused"))),
    },
}
HEALTH: Json = {"/healthz": {"get": {
    "operationId": "healthz", "tags": ["service"], "summary": "Alive", "security": [],
    "responses": {"200": {"description": "Alive", "content": {"application/json": {"schema": {
        "type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]}}}}}}}}


#: `{"paths": …, "components": {"schemas": …}}`, ready to be merged. `Problem` is the API's own.
FRAGMENT: Json = {"paths": {**EXECS, **FILES, **LOOKS, **REST, **NETWORK, **HEALTH}, "components": {"schemas": SCHEMAS}}
