"""The border where the agent's error codes become `sandboxes.errors` classes. Called by `link.py` alone."""

from __future__ import annotations

import re
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
#: What an agent may say beside code and detail. Everything else would travel on as words of ours, up to a header.
EXTRA_TEXTS = ("etag",)
EXTRA_NUMBERS = {"retry_after_s": 3600, "accepted_bytes": 2**53}
CODE = re.compile(r"[a-z][a-z0-9_]{0,39}")
DETAIL_LENGTH = 1000
#: Codes that are a Conflict with a name of their own.
_CONFLICTS = frozenset(("stdin_closed", "exec_ended", "not_a_terminal", "not_attached"))


def error_of(body: dict[str, Any]) -> SandboxError:
    """The exception for an ERROR or REFUSE message. An unknown code stays the code of a plain SandboxError. The words
    are a guest's, which may be hostile: they are bounded, printable, and only those that callers know."""
    said, detail, reason = body.get("code"), _text(body.get("detail"), DETAIL_LENGTH), body.get("reason")
    code = said if isinstance(said, str) and CODE.fullmatch(said) else "internal"
    rest: dict[str, Any] = {name: _text(body[name], 100) for name in EXTRA_TEXTS if name in body}
    for name, most in EXTRA_NUMBERS.items():
        value = body.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most:
            rest[name] = value
    if "field" in body:  # the agent names the field; callers read `errors` by field
        rest["errors"] = {_text(body["field"], 100): [detail]}
    return _class_of(code)(detail, code=code, reason=None if reason is None else _text(reason, 100), **rest)


def _text(value: Any, length: int) -> str:
    """One line that any log, header, database and page can hold."""
    if not isinstance(value, str):
        return ""
    return "".join(char if char.isprintable() else "\ufffd" for char in value[:length])


def _class_of(code: str) -> type[SandboxError]:
    if code in _CLASSES:
        return _CLASSES[code]
    if code in OTHER_FILE_CODES or code in FILE_CODES.values():
        return FileError
    return Conflict if code in _CONFLICTS else SandboxError
