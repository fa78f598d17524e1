"""`file.read`: a file's bytes from an offset on, at the host's pace. Called by `filecalls` in a worker thread."""

from __future__ import annotations

import os
from typing import Any

from sandboxes.guest.agent import paths, stats
from sandboxes.guest.agent.workers import Job
from sandboxes.guest.protocol import MAX_PAYLOAD_BYTES


def read_file(job: Job, path: bytes, offset: int, length: int | None) -> dict[str, Any]:
    """The head `{size, etag, mode}` goes first; the result says how many bytes went."""
    fd = paths.open_path(path)
    try:
        found = os.fstat(fd)
        stats.require_file(found, path)
        if stats.is_pseudo(fd):
            return _send_pseudo(job, stats.pseudo_content(fd, path), offset, length)
        opened = paths.reopen(fd, os.O_RDONLY)
    finally:
        os.close(fd)
    try:
        found = os.fstat(opened)
        job.head({"size": found.st_size, "etag": stats.etag_of(found)})
        return {"sent_bytes": _send(job, opened, offset, length)}
    finally:
        os.close(opened)


def _send(job: Job, fd: int, offset: int, length: int | None) -> int:
    sent = 0
    while length is None or sent < length:
        most = MAX_PAYLOAD_BYTES if length is None else min(MAX_PAYLOAD_BYTES, length - sent)
        data = os.pread(fd, most, offset + sent)
        if not data:
            break
        job.send(data)
        sent += len(data)
    return sent


def _send_pseudo(job: Job, content: bytes, offset: int, length: int | None) -> dict[str, Any]:
    job.head({"size": len(content), "etag": stats.PSEUDO_ETAG})
    wanted = content[offset:] if length is None else content[offset:offset + length]
    for at in range(0, len(wanted), MAX_PAYLOAD_BYTES):
        job.send(wanted[at:at + MAX_PAYLOAD_BYTES])
    return {"sent_bytes": len(wanted)}
