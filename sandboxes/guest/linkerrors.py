"""The border where the agent's error codes become `sandboxes.errors` classes. Called by `link.py` alone."""

from __future__ import annotations

from typing import Any

from sandboxes.errors import (
    FILE_CODES,
    AgentLost,
    Busy,
    Conflict,
    FileError,
    Invalid,
    NotFound,
    NotRunning,
    SandboxError,
    StaleGeneration,
    StepFailed,
)

#: Codes of file calls that no errno stands for.
OTHER_FILE_CODES = frozenset(("precondition_failed", "not_a_regular_file", "file_error"))
_CLASSES: dict[str, type[SandboxError]] = {
    cls.code: cls for cls in (AgentLost, Busy, Conflict, Invalid, NotFound, NotRunning, StaleGeneration, StepFailed)}
#: Codes that are a Conflict with a name of their own.
_CONFLICTS = frozenset(("stdin_closed", "exec_ended", "not_a_terminal", "not_attached"))


def error_of(body: dict[str, Any]) -> SandboxError:
    """The exception for an ERROR or REFUSE message. An unknown code stays the code of a plain SandboxError."""
    rest = {key: value for key, value in body.items() if key not in ("code", "detail", "reason", "nonce")}
    if "field" in rest:  # the agent names the field; callers read `errors` by field
        rest["errors"] = {str(rest.pop("field")): [str(body.get("detail", ""))]}
    code, detail, reason = str(body.get("code", "internal")), str(body.get("detail", "")), body.get("reason")
    return _class_of(code)(detail, code=code, reason=reason, **rest)


def _class_of(code: str) -> type[SandboxError]:
    if code in _CLASSES:
        return _CLASSES[code]
    if code in OTHER_FILE_CODES or code in FILE_CODES.values():
        return FileError
    return Conflict if code in _CONFLICTS else SandboxError
