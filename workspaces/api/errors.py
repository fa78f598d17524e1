"""The one map from a code to a status and a title. Every door (DRF, gateway, consumers) answers through it.

`Problem` is raised upstairs; errors of downstairs (`sandboxes.errors`) carry a code that is looked up here
too. Pure: knows no request and no framework. Source: RFC 9457.
"""

from __future__ import annotations

from typing import Any

#: code -> (status, title)
STATUS: dict[str, tuple[int, str]] = {
    "invalid": (400, "The request is not valid"),
    "malformed": (400, "The body cannot be read"),
    "unauthenticated": (401, "Sign in or send a token"),
    "token_expired": (401, "This token has expired"),
    "scope_missing": (403, "The token lacks a scope"),
    "forbidden": (403, "Not allowed"),
    "csrf_failed": (403, "The CSRF token is missing or wrong"),
    "origin_refused": (403, "This origin may not connect"),
    "approval_denied": (403, "A member said no"),
    "approval_timeout": (403, "Nobody approved it in time"),
    "quota_exceeded": (403, "Quota exceeded"),
    "preview_forbidden": (403, "This preview is not open to you"),
    "permission_denied": (403, "The guest refused: permission denied"),
    "not_found": (404, "Not found"),
    "file_not_found": (404, "No such file"),
    "method_not_allowed": (405, "Method not allowed"),
    "not_acceptable": (406, "Not acceptable"),
    "state_conflict": (409, "The workspace's state does not allow this"),
    "not_running": (409, "The workspace is not running"),
    "workspace_running": (409, "The workspace is running"),
    "workspace_stopped": (409, "The workspace does not run"),
    "disk_unreadable": (409, "The disk cannot be read"),
    "stale_generation": (409, "Another change came first"),
    "busy": (409, "Another operation is under way"),
    "conflict": (409, "Conflict"),
    "name_taken": (409, "The name is taken"),
    "idempotency_conflict": (409, "The key was used with another body"),
    "not_a_directory": (409, "Not a directory"),
    "is_a_directory": (409, "Is a directory"),
    "file_exists": (409, "The file exists"),
    "directory_not_empty": (409, "The directory is not empty"),
    "read_only": (409, "Read-only file system"),
    "too_many_links": (409, "Too many symbolic links"),
    "cross_device": (409, "Across file systems"),
    "file_busy": (409, "The file is busy"),
    "not_a_regular_file": (409, "Not a regular file"),
    "file_error": (409, "The guest could not do this with the file"),
    "not_supported": (409, "The file system cannot do this"),
    "name_too_long": (400, "Name too long"),
    "exec_ended": (409, "The exec has ended"),
    "exec_not_tty": (409, "The exec has no terminal"),
    "stdin_closed": (409, "Standard input is closed"),
    "request_timeout": (408, "The request came too slowly"),
    "precondition_failed": (412, "The file is not the one you named"),
    "too_large": (413, "Too large"),
    "unsupported_media_type": (415, "Unsupported media type"),
    "range_not_satisfiable": (416, "Range not satisfiable"),
    "rate_limited": (429, "Too many requests"),
    "internal": (500, "Internal error"),
    "step_failed": (500, "A step on the host failed"),
    "not_implemented": (501, "Not implemented"),
    "agent_lost": (502, "The guest's agent does not answer"),
    "preview_not_listening": (502, "Nothing listens on that port"),
    "guest_reset": (502, "The program in the guest broke off"),
    "no_capacity": (503, "No capacity"),
    "gpu_unavailable": (503, "No GPU is free"),
    "host_unreachable": (503, "The host does not answer"),
    "unavailable": (503, "Starting or restarting"),
    "workspace_waking": (503, "The workspace is waking"),
    "wake_timeout": (503, "The workspace did not wake in time"),
    "preview_timeout": (504, "The program in the guest does not answer"),
    "guest_disk_full": (507, "The guest's disk is full"),
    "disk_full": (507, "The host's disk is full"),
}


class Problem(Exception):
    """A refusal with a name. `extra` lands in the body (`errors`, `reason`, `retry_after_s`, …)."""

    def __init__(self, code: str, detail: str = "", **extra: Any) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.extra = extra

    @property
    def status(self) -> int:
        return STATUS.get(self.code, STATUS["internal"])[0]


def body(code: str, detail: str = "", **extra: Any) -> dict[str, Any]:
    """The `application/problem+json` object. An unknown code reads as `internal` in status and title."""
    status, title = STATUS.get(code, STATUS["internal"])
    said = {k: v for k, v in extra.items() if v is not None}
    return {"type": f"urn:berth:problem:{code}", "title": title, "status": status, "code": code,
            "detail": detail, **said}
