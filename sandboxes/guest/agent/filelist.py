"""`file.list`: the entries of a folder in the order of their bytes, from a cursor, bounded. Called by `filecalls`."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Any

from sandboxes.guest.agent import filewalk
from sandboxes.guest.agent.filewalk import Found
from sandboxes.guest.agent.stats import Names, describe
from sandboxes.guest.agent.workers import Job

MOST_ENTRIES = 10_000
#: Of paths in one answer, so that an answer of the longest names stays a message.
MOST_PATH_BYTES = 2 * 1024 * 1024


def list_folder(job: Job, path: bytes, limit: int, after: bytes | None, recursive: bool) -> dict[str, Any]:
    base = path.rstrip(b"/")
    cursor = filewalk.below(base, after)
    fd = filewalk.open_folder(path)
    try:
        found = filewalk.deep(job, fd, base, cursor) if recursive else filewalk.flat(job, fd, base, cursor, limit + 1)
        return _page(found, limit)
    finally:
        os.close(fd)


def _page(found: Iterator[Found], limit: int) -> dict[str, Any]:
    entries: list[dict[str, Any]] = []
    path_bytes, names = 0, Names()
    for each in found:
        if len(entries) == limit or path_bytes >= MOST_PATH_BYTES:
            return {"entries": entries, "more": True}
        path_bytes += len(each.path)
        entries.append(describe(each.path, each.stat, _target(each), names))
    return {"entries": entries, "more": False}


def _target(found: Found) -> bytes | None:
    if not stat.S_ISLNK(found.stat.st_mode):
        return None
    try:
        return os.readlink(found.name, dir_fd=found.folder)
    except OSError:
        return b""  # it was a link a moment ago
