"""What may go wrong, each with a class: the server's problems by `code`, and what the client itself finds.

Raised by `retry` (answers), `sockets` (refusals and close codes) and the streams. Pure: knows no HTTP library. A code
that is newer than this file falls back on its status, so an old client names what it can.

    BerthError
      Problem                what the server said: .code .status .title .detail .reason .retry_after_s .errors .body
        InvalidRequest … see FAMILIES
      Unreachable            no answer came; `.sent` says whether the request may have arrived
        StreamBroken         an answer ended before it was whole
      BadAnswer              something answered that is not Berth
      WaitTimeout            not reached in time; `.last` is the object as it was
      WorkspaceFailed        it became `failed` while it was waited for
      ExecFailed             `run(check=True)` and the command did not exit with 0
      FileChanged            a file became another one in the middle of its download
      BadConfig              no address or token, or a configuration that cannot be trusted
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class BerthError(Exception):
    """Everything this package raises on its own."""


class Problem(BerthError):
    """The server refused, and says why."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        self.status = status
        self.body = dict(body)
        self.code = str(body.get("code") or "unknown")
        self.title = str(body.get("title") or "")
        self.detail = str(body.get("detail") or "")
        self.reason: str | None = _text(body.get("reason"))
        self.retry_after_s: float | None = _seconds(body.get("retry_after_s"))
        self.errors: dict[str, Any] = dict(body.get("errors") or {})
        super().__init__(self.sentence())

    def sentence(self) -> str:
        """One line for people: what, why, and where waiting helps, how long."""
        said = f"{self.detail or self.title or 'refused'} [{self.code}]"
        if self.reason:
            said += f", reason: {self.reason}"
        fields = "; ".join(f"{name}: {_joined(why)}" for name, why in self.errors.items())
        return f"{said} ({fields})" if fields else said


class InvalidRequest(Problem):
    """400, and the rest of what no repetition makes right. `.errors` says it by field."""


class NotSignedIn(Problem):
    """401: no token, an unknown one, or one that has expired."""


class NotAllowed(Problem):
    """403: known, but not allowed; the scope or the role is missing."""


class QuotaExceeded(NotAllowed):
    """Policy gives no more of this; `.body["counted"]` names what counts."""


class GuestRefused(NotAllowed):
    """The guest's own permissions: the user there may not."""


class ApprovalRefused(NotAllowed):
    """A member denied it, or nobody answered in time."""


class NotFound(Problem):
    """404: not there, or not yours; they look alike."""


class NoSuchFile(NotFound):
    """The workspace is there; the path in it is not."""


class Conflict(Problem):
    """409: the state of things does not allow it; `.reason` says which."""


class StateConflict(Conflict):
    """The workspace's state does not allow this now."""


class NameTaken(Conflict):
    """One has a workspace of that name already."""


class IdempotencyConflict(Conflict):
    """The key was used with another body."""


class FileConflict(Conflict):
    """The path is of another kind, is there already, is busy."""


class ExecConflict(Conflict):
    """The exec has ended, has no terminal, takes no input."""


class PreconditionFailed(Problem):
    """412: the file is not the one that was named; somebody else wrote it."""


class TooLarge(Problem):
    """413."""


class RateLimited(Problem):
    """429: too much at once; `.retry_after_s` says when again."""


class ServerFault(Problem):
    """500 and its like: not the caller's fault, and repeating does not help."""


class AgentLost(Problem):
    """502: the guest's agent does not answer."""


class Unavailable(Problem):
    """503: something is starting, restarting or away; waiting helps."""


class NoCapacity(Unavailable):
    """503: no host has room, or no GPU is free."""


class DiskFull(Problem):
    """507: the guest's disk or the host's."""


#: exception -> the codes that it stands for. A test holds this against the server's own table.
FAMILIES: dict[type[Problem], tuple[str, ...]] = {
    InvalidRequest: ("invalid", "malformed", "name_too_long", "method_not_allowed", "not_acceptable",
                     "unsupported_media_type", "range_not_satisfiable", "request_timeout"),
    NotSignedIn: ("unauthenticated", "token_expired"),
    NotAllowed: ("scope_missing", "forbidden", "csrf_failed", "origin_refused", "preview_forbidden"),
    QuotaExceeded: ("quota_exceeded",),
    GuestRefused: ("permission_denied",),
    ApprovalRefused: ("approval_denied", "approval_timeout"),
    NotFound: ("not_found",),
    NoSuchFile: ("file_not_found",),
    StateConflict: ("state_conflict", "not_running", "workspace_running", "disk_unreadable", "stale_generation",
                    "busy", "workspace_stopped"),
    Conflict: ("conflict",),
    NameTaken: ("name_taken",),
    IdempotencyConflict: ("idempotency_conflict",),
    FileConflict: ("not_a_directory", "is_a_directory", "file_exists", "directory_not_empty", "read_only",
                   "too_many_links", "cross_device", "file_busy", "not_a_regular_file", "not_supported", "file_error"),
    ExecConflict: ("exec_ended", "exec_not_tty", "stdin_closed"),
    PreconditionFailed: ("precondition_failed",),
    TooLarge: ("too_large",),
    RateLimited: ("rate_limited",),
    ServerFault: ("internal", "step_failed", "not_implemented"),
    AgentLost: ("agent_lost",),
    Unavailable: ("host_unreachable", "unavailable", "wake_timeout", "workspace_waking", "guest_reset",
                  "preview_timeout", "preview_not_listening"),
    NoCapacity: ("no_capacity", "gpu_unavailable"),
    DiskFull: ("guest_disk_full", "disk_full"),
}
BY_CODE: dict[str, type[Problem]] = {code: kind for kind, codes in FAMILIES.items() for code in codes}
BY_STATUS: dict[int, type[Problem]] = {
    400: InvalidRequest, 401: NotSignedIn, 403: NotAllowed, 404: NotFound, 409: Conflict, 412: PreconditionFailed,
    413: TooLarge, 429: RateLimited, 502: AgentLost, 503: Unavailable, 504: Unavailable,
    507: DiskFull,
}


class Unreachable(BerthError):
    """No answer came. `sent` is False only where the request surely never arrived."""

    def __init__(self, detail: str, *, sent: bool = True) -> None:
        super().__init__(detail)
        self.sent = sent


class StreamBroken(Unreachable):
    """An answer ended before it was whole."""


class BadAnswer(BerthError):
    """Something answered that is not Berth: a proxy's page, a wrong address."""

    def __init__(self, status: int, detail: str, retry_after_s: float | None = None) -> None:
        super().__init__(f"{detail} (HTTP {status})")
        self.status = status
        self.retry_after_s = retry_after_s


class WaitTimeout(BerthError):
    """Not reached in time. `last` is the object as it was; nothing was taken back."""

    def __init__(self, detail: str, last: Any) -> None:
        super().__init__(detail)
        self.last = last


class WorkspaceFailed(BerthError):
    """It became `failed`; starting it is the way out."""

    def __init__(self, workspace: Any) -> None:
        super().__init__(f"The workspace failed: {workspace.state_reason or 'no reason was given'}")
        self.workspace = workspace


class ExecFailed(BerthError):
    """The command did not exit with 0. `exec` is all that is known of it."""

    def __init__(self, ended: Any) -> None:
        super().__init__(f"{ended.command!r}: {ended.outcome}")
        self.exec = ended


class FileChanged(BerthError):
    """The file became another one in the middle of its download."""


class BadConfig(BerthError):
    """No address, no token, or a configuration that cannot be trusted."""


def problem(status: int, body: Mapping[str, Any], retry_after_s: float | None = None) -> Problem:
    """The exception for a problem object; the header `Retry-After` counts where the body is silent."""
    kind = BY_CODE.get(str(body.get("code"))) or BY_STATUS.get(status) or (
        ServerFault if status >= 500 else InvalidRequest)
    known = dict(body)
    if known.get("retry_after_s") is None and retry_after_s is not None:
        known["retry_after_s"] = retry_after_s
    return kind(status, known)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None


def _joined(why: Any) -> str:
    return " ".join(str(one) for one in why) if isinstance(why, list) else str(why)
