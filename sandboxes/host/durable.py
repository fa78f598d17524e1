"""What hostd keeps on disk, with a full disk read as `DiskFull`: whole files and appended lines. Called by registry,
feed, journal and tapes; calls `linux/atomic.py`. After a refusal the former file is still whole.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sandboxes.errors import DiskFull
from sandboxes.linux import atomic

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
    with space_matters(f"writing {path.name}"):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        atomic.write_json(path, value)


def read_json(path: Path) -> dict[str, Any] | None:
    """None when it is missing or is not what `write_json` left (a foreign hand; never half of ours)."""
    return atomic.known_json(path)


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
