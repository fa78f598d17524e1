"""How the agent says no: a stable code and a sentence. Raised by every call, turned into an ERROR frame by `session`.

The code of an errno comes from the table that the host uses as well (`sandboxes.errors.FILE_CODES`).
"""

from __future__ import annotations

import errno
import os

from sandboxes.errors import FILE_CODES


class Refusal(Exception):
    """A call cannot be done. `extra` travels beside code and detail."""

    def __init__(self, code: str, detail: str, **extra: object) -> None:
        super().__init__(detail)
        self.code, self.detail, self.extra = code, detail, extra

    def to_json(self) -> dict[str, object]:
        return {"code": self.code, "detail": self.detail, **self.extra}


def refusal_of(error: OSError, what: str = "") -> Refusal:
    """The refusal for a failed system call, naming what it failed on."""
    name = errno.errorcode.get(error.errno or 0, "")
    text = os.strerror(error.errno) if error.errno else str(error)
    return Refusal(FILE_CODES.get(name, "file_error"), f"{what}: {text}" if what else text)


def shown(path: bytes) -> str:
    """A path in a sentence: any bytes, never unprintable."""
    return path.decode("utf-8", "backslashreplace")
