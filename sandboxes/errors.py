"""The error tree of downstairs. An error says which code, whose fault, and when to retry.

Raised by drivers, guest link, hostd and hostlink; caught at one border (hostd's HTTP layer turns it into
JSON `{"code","detail","reason"?,"retry_after_s"?,…}`; hostlink turns that JSON back into the same class).
Stdlib only, pure. Never knows HTTP status numbers of the public API: `workspaces/api/errors.py` does.
"""

from __future__ import annotations

from typing import Any


class SandboxError(Exception):
    """Base of everything that downstairs refuses or fails at. `code` is a stable word."""

    code = "internal"
    retry_after_s: float | None = None

    def __init__(self, detail: str = "", *, code: str | None = None, reason: str | None = None,
                 retry_after_s: float | None = None, **extra: Any) -> None:
        super().__init__(detail or self.__doc__ or self.code)
        self.detail = detail
        self.code = code or type(self).code
        self.reason = reason
        if retry_after_s is not None:
            self.retry_after_s = retry_after_s
        self.extra = extra

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"code": self.code, "detail": self.detail, **self.extra}
        if self.reason is not None:
            body["reason"] = self.reason
        if self.retry_after_s is not None:
            body["retry_after_s"] = self.retry_after_s
        return body


class Invalid(SandboxError):
    """The caller's request cannot be understood."""

    code = "invalid"


class NotFound(SandboxError):
    """No such machine, exec or operation here."""

    code = "not_found"


class NotRunning(SandboxError):
    """The machine has no running body now. Start it, then ask again."""

    code = "not_running"


class StaleGeneration(SandboxError):
    """The caller acts for an older generation than hostd has seen; it must read the truth again."""

    code = "stale_generation"


class Busy(SandboxError):
    """Another operation is under way on this machine."""

    code = "busy"
    retry_after_s = 1.0


class Conflict(SandboxError):
    """What was asked contradicts what is there."""

    code = "conflict"


class AgentLost(SandboxError):
    """The guest's agent did not answer. The guest's own fault or death; the host is well."""

    code = "agent_lost"
    retry_after_s = 2.0


class DiskFull(SandboxError):
    """The host has no space for this. Nothing was lost; free space and repeat."""

    code = "disk_full"
    retry_after_s = 60.0


class NoCapacity(SandboxError):
    """The host cannot carry another machine of this shape now."""

    code = "no_capacity"
    retry_after_s = 30.0


class HostUnreachable(SandboxError):
    """hostd did not answer. What it was doing goes on; observe again."""

    code = "host_unreachable"
    retry_after_s = 2.0


class StepFailed(SandboxError):
    """A step on the machine failed for a reason of the host's (named in detail)."""

    code = "step_failed"


class FileError(SandboxError):
    """A file call failed in the guest. `code` is one of FILE_CODES."""

    code = "file_error"


#: errno name -> code, the one table both the agent (which carries a copy of the names) and hostd use.
FILE_CODES = {
    "ENOENT": "file_not_found",
    "ENOTDIR": "not_a_directory",
    "EISDIR": "is_a_directory",
    "EACCES": "permission_denied",
    "EPERM": "permission_denied",
    "EEXIST": "file_exists",
    "ENOTEMPTY": "directory_not_empty",
    "ENOSPC": "guest_disk_full",
    "EDQUOT": "guest_disk_full",
    "EROFS": "read_only",
    "ELOOP": "too_many_links",
    "ENAMETOOLONG": "name_too_long",
    "EINVAL": "invalid",
    "EXDEV": "cross_device",
    "EBUSY": "file_busy",
    "ETXTBSY": "file_busy",
    "ENXIO": "not_a_regular_file",
    "EMFILE": "busy",
    "ENFILE": "busy",
    "EFBIG": "too_large",
    "EOPNOTSUPP": "not_supported",
}
