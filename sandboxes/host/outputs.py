"""Which kind of output an exec keeps, and how it is erased. Called by execs and running; calls tape and scroll."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from sandboxes.host.records import Record
from sandboxes.host.scroll import Scroll
from sandboxes.host.tape import Tape

Output = Tape | Scroll


def open_output(folder: Path, record: Record, *, fresh: bool = False) -> Output:
    if record.is_tty:
        return Scroll(folder, record.exec_id, held=record.held_output)
    return Tape(folder, record.exec_id, record.limit_bytes, fresh=fresh)


def erase_output(folder: Path, exec_id: str, *, is_tty: bool) -> None:
    """Repeatable."""
    for kind in ("tty", "at") if is_tty else ():
        for path in folder.glob(f"{exec_id}.{kind}.*"):
            path.unlink(missing_ok=True)
    for name in () if is_tty else ("out", "err", "idx"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{folder}/{exec_id}.{name}")  # noqa: PTH108 - text paths: done for each exec
