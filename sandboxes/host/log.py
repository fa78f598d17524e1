"""Structured lines on stderr, one JSON object each. Called by every module of hostd, calls nothing.

It is never given environment values, standard input or output of execs: callers name ids, codes and counts.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

from sandboxes.host.clock import now_text


def line(event: str, **fields: Any) -> None:
    sys.stderr.write(json.dumps({"at": now_text(), "event": event, **fields}, default=str) + "\n")
    sys.stderr.flush()


def failure(event: str, error: BaseException, **fields: Any) -> None:
    """A line with the places of the failure: file, line and function, but no values."""
    frames = traceback.extract_tb(error.__traceback__)[-8:]
    where = [f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}" for frame in frames]
    line(event, error=type(error).__name__, message=str(error)[:500], where=where, **fields)
