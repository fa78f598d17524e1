"""The words of the OpenAPI document that belong to no view: refusals, sockets, examples. Pure.

Read by `api.schema` and by the gateway's fragments. What is said of codes is made from `api.errors`, so it cannot be
about others.
"""

from __future__ import annotations

from typing import Any

from workspaces.api.errors import STATUS

Json = dict[str, Any]

ID = "k3q7x2m5n4p6r2s7t3u5"
CHECKPOINT_ID = "c4h7e2c5k6p2o3i7n4t5"
EXEC_ID = "e5x2e3c7a4b6d2f5g3h7"


def codes_of(status: int) -> dict[str, str]:
    """code -> title, of one status."""
    return {code: title for code, (number, title) in STATUS.items() if number == status}


def refusal(status: int) -> str:
    """All that an answer with this status may be called."""
    return "; ".join(f"`{code}`: {title}" for code, title in codes_of(status).items())


PROBLEM: Json = {
    "type": "object",
    "description": "RFC 9457. `code` is the word to decide by; `detail` is for people and may change.",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string"}, "title": {"type": "string"},
        "status": {"type": "integer", "enum": sorted({number for number, _title in STATUS.values()})},
        "code": {"type": "string", "enum": sorted(STATUS), "description": "A stable word"},
        "detail": {"type": "string"},
        "reason": {"type": "string", "description": "Why a state refused"},
        "retry_after_s": {"type": "number", "description": "The same request may succeed after so long"},
        "errors": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}},
                   "description": "With `invalid`: what is wrong, by field"},
    },
    "example": {"type": "urn:berth:problem:state_conflict", "title": STATUS["state_conflict"][1], "status": 409,
                "code": "state_conflict", "detail": "The workspace is in the trash.", "reason": "deleted"},
}

DESCRIPTION = """\
Persistent Linux microVM workspaces for people and their agents.

**Credentials**: `Authorization: Bearer berth_…` for programs; a browser's session cookie, and then a change also needs
`X-CSRFToken`. **Errors** are `application/problem+json`; decide by `code`. **Lists** are `{"results", "next"}` with
`?limit=` and `?cursor=`. **Repeats**: a POST that makes or changes something takes `Idempotency-Key`. **Waiting**:
`?wait=true&timeout_s=`; what is not reached in time is 202 (201 for what was made) with the object as it is, no error.

## WebSockets

The same credentials as elsewhere; with a cookie only our own origin may open one. A refused socket is answered with a
problem before it opens. Close codes: 4401 credentials ended, 4403 not allowed any more, 4404 gone for you, 4409 the
workspace cannot run, 4429 too many sockets, 4503 come again later, 1009 a frame too large, 1012 a restart: come again.

- `/ws/v1/events`: JSON texts, one for each change of any workspace one may see; all of them as they are now come first,
  except with `?snapshot=false`.
- `/ws/v1/workspaces/{id}/events?after=N`: JSON events in order and gap-free, replayed from N; the same rows as
  `GET /api/v1/workspaces/{id}/events`.
- `/ws/v1/workspaces/{id}/terminals/{eid}?offset=N`: a terminal, that is an exec begun with `tty`. Binary frames whose
  first byte is the type: 0 input, 1 output, 2 resize (JSON `{"cols","rows"}`), 3 outcome (JSON), 4 flow (JSON: from the
  server `{"offset"}`; from the client `{"ack"}`, `{"pause"}`, `{"resume"}`), 5 the keyboard (JSON: from the client
  `{"take"}`, `{"release"}`, `{"ask"}`, `{"give": name}` or `{"decline": name}`; from the server `{"holder",
  "holder_type","you","may_take","asks","asked","declined_by","present","size","recording"}`).
  Closed with 1000 after the outcome; after 1012
  connect again with the last offset.

`POST /mcp` speaks the Model Context Protocol (streamable HTTP) with the same tokens.
"""

WORKSPACE_IN: Json = {"name": "first", "cpus": 1, "memory_mib": 512, "labels": {"project": "demo"}}
EXAMPLES: dict[str, Json] = {
    "workspaces_create": WORKSPACE_IN,
    "workspaces_change": {"labels": {"project": "demo"}},
    "workspaces_fork": {"name": "try", "count": 2},
    "checkpoints_create": {"name": "before the upgrade"},
    "checkpoints_change": {"comment": "works"},
    "checkpoints_restore": {"safety": True},
    "holds_create": {"reason": "training", "ttl_s": 3600},
    "shares_create": {"visibility": "public", "expires_in_s": 3600},
    "tokens_create": {"name": "agent", "scopes": ["exec", "files:read", "files:write"], "workspace_ids": [ID],
                      "expires_in_s": 86400},
    "approvals_decide": {"decision": "approve"},
    "members_add": {"user": "ben", "role": "operator"},
    "members_change": {"role": "viewer"},
    "members_break_glass": {"reason": "the owner is away and the disk fills", "role": "viewer", "expires_in_s": 3600},
    "network_set": {"mode": "rules", "rules": [{"domain": "pypi.org"},
                                               {"domain": "*.pythonhosted.org", "ports": [443]}]},
    "policies_set": {"terms": {"workspaces": 10}},
    "policies_change": {"terms": {"workspaces": 10}},
    "policies_dry_run_proposed": {"scope": "default", "terms": {"workspaces": 10}},
    "users_create": {"name": "ben", "is_admin": False},
    "users_change": {"active": False},
    "hosts_change": {"schedulable": False},
    "session_create": {"username": "ada", "password": "…"},
    "session_setup": {"code": "what ./berth up printed", "password": "…"},
    "execs_create": {"command": "python3 -c 'print(6*7)'", "timeout_s": 60},
    "execs_signal": {"signal": "SIGINT"},
    "execs_resize": {"cols": 120, "rows": 40},
    "execs_record": {"on": True},
    "files_mkdir": {"path": "/home/user/src/app", "parents": True},
    "files_move": {"path": "/home/user/a.txt", "to": "/home/user/b.txt"},
    "files_copy": {"path": "/home/user/a.txt", "to": "/home/user/b.txt"},
    "files_chmod": {"path": "/home/user/run.sh", "mode": "0755"},
}
ANSWERS: dict[str, Json] = {
    "execs_create": {"id": EXEC_ID, "command": "python3 -c 'print(6*7)'", "user": "user", "cwd": "/home/user",
                     "state": "ended", "outcome": {"kind": "exited", "code": 0}, "continued_from": None,
                     "started_at": "2026-01-02T03:04:05.600Z", "ended_at": "2026-01-02T03:04:05.650Z",
                     "duration_ms": 50, "stdout": "42\n", "stderr": "", "stdout_truncated": False,
                     "stderr_truncated": False, "actor": {"type": "token", "name": "agent"}},
}
