"""Files that become the truth only when complete. Called by registry and feed; calls the file system only.

Written aside, fsync of the file, rename, fsync of the folder. No space reads as `DiskFull`, and then the
former file is still whole.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sandboxes.errors import DiskFull
from sandboxes.linux.atomic import sync_folder

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}


@contextlib.contextmanager
def space_matters(what: str) -> Iterator[None]:
    """The one place where ENOSPC and EDQUOT of the host become `disk_full`."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise DiskFull(f"the host's disk is full: {what}") from error
        raise


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Replaces `path` whole or not at all. Blocks on fsync: call it in a thread."""
    aside = path.with_name(f".{path.name}.tmp")
    with space_matters(f"writing {path.name}"):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            with aside.open("wb") as file:
                file.write(json.dumps(value, separators=(",", ":")).encode())
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        except OSError:
            aside.unlink(missing_ok=True)
            raise
    sync_folder(path.parent)


def read_json(path: Path) -> dict[str, Any] | None:
    """None when it is missing or is not what `write_json` left (a foreign hand; never half of ours)."""
    try:
        value = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def append_all(descriptor: int, data: bytes, end: int, what: str) -> None:
    """Appends at `end` all of `data` or nothing of it. `end` is the file's size as its one writer knows it."""
    done = 0
    with space_matters(what):
        try:
            while done < len(data):
                done += os.pwrite(descriptor, data[done:], end + done)
        except OSError:
            os.ftruncate(descriptor, end)
            raise
