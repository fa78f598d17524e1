"""`file.search`: names by a pattern, contents by a text, from a cursor on, bounded in answers, bytes and time.

Called by `filecalls` in a worker thread. Contents are searched as bytes, line by line as a reader sees them, without a
regular expression: one of a stranger could hold the whole agent. A page that ends early, because it is full or its
time is over, says so by `more` and `after`: everything up to `after` has been looked at. Binary files (a NUL in their
first bytes) have no lines; of a very large file the beginning is searched, and its entry says so.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from sandboxes.guest.agent import filewalk
from sandboxes.guest.agent.filewalk import Found
from sandboxes.guest.agent.params import base64_of
from sandboxes.guest.agent.stats import Names, describe
from sandboxes.guest.agent.workers import Job

MOST_RESULTS = 1000
#: A page gives what it has after so long.
PAGE_S = 5.0
MOST_ANSWER_BYTES = 4 * 1024 * 1024
MOST_FILE_BYTES = 64 * 1024 * 1024
MOST_MATCHES = 100
LINE_BYTES = 512
CHUNK_BYTES = 256 * 1024
BINARY_BYTES = 8192


class Wanted(NamedTuple):
    """`pattern`: a shell pattern of the name, or with a slash in it of the path below. `exclude`: such names are passed
    over with everything in them."""

    pattern: bytes | None
    content: bytes | None
    exclude: tuple[bytes, ...] = ()
    any_case: bool = False
    limit: int = 100


def search(job: Job, path: bytes, wanted: Wanted, after: bytes | None) -> dict[str, Any]:
    base = path.rstrip(b"/")
    fd = filewalk.open_folder(path)
    try:
        cursor = filewalk.below(base, after)
        page = _Page(wanted, base)
        for found in filewalk.deep(job, fd, base, cursor, page.enters):
            if page.over:
                return page.answer(more=True)
            page.take(job, found)
        return page.answer(more=False)
    finally:
        os.close(fd)


class _Page:
    def __init__(self, wanted: Wanted, base: bytes) -> None:
        self._wanted, self._base = wanted, base
        self._named = _named(wanted.pattern, base)
        self._excluded = [_named(pattern, base) for pattern in wanted.exclude]
        self._names = Names()
        self._until = time.monotonic() + PAGE_S
        self._results: list[dict[str, Any]] = []
        self._bytes = self._searched = 0
        self._after = b""

    @property
    def over(self) -> bool:
        full = len(self._results) >= self._wanted.limit or self._bytes >= MOST_ANSWER_BYTES
        return full or (time.monotonic() >= self._until and self._after != b"")

    def enters(self, found: Found) -> bool:
        return not any(named(found) for named in self._excluded)

    def take(self, job: Job, found: Found) -> None:
        self._after = found.path
        if not self.enters(found) or not self._named(found):
            return
        more: dict[str, Any] = {}
        if self._wanted.content is not None:
            if not stat.S_ISREG(found.stat.st_mode):
                return
            more = self._lines(job, found, self._wanted.content)
            if not more:
                return
        entry = {**describe(found.path, found.stat, names=self._names), **more}
        self._bytes += 2 * len(found.path) + sum(300 + len(match["text_b64"]) for match in more.get("matches", ()))
        self._results.append(entry)

    def _lines(self, job: Job, found: Found, content: bytes) -> dict[str, Any]:
        try:
            fd = os.open(found.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=found.folder)
        except OSError:
            return {}  # not readable for this user, or gone: it has nothing to show
        try:
            self._searched += 1
            lines = _matching(job, fd, content, self._wanted.any_case)
            matches: list[dict[str, Any]] = []
            for line in lines:
                if len(matches) == MOST_MATCHES:
                    return {"matches": matches, "cut": True}
                matches.append(line)
            cut = os.fstat(fd).st_size > MOST_FILE_BYTES
            return {"matches": matches, "cut": cut} if matches else {}
        except OSError:
            return {}
        finally:
            os.close(fd)

    def answer(self, *, more: bool) -> dict[str, Any]:
        return {"results": self._results, "more": more, "after_b64": base64_of(self._after), "searched": self._searched}


def _named(pattern: bytes | None, base: bytes) -> Callable[[Found], bool]:
    if pattern is None:
        return lambda _found: True
    matches = re.compile(fnmatch.translate(pattern.decode("latin-1")).encode("latin-1"), re.DOTALL).match
    if b"/" not in pattern:
        return lambda found: matches(found.name) is not None
    skipped = len(base) + 1
    return lambda found: matches(found.path[skipped:]) is not None


def _matching(job: Job, fd: int, content: bytes, any_case: bool) -> Iterator[dict[str, Any]]:
    """{line, column, text_b64} of each line that holds the content, both counted from 1, the column in bytes."""
    needle = content.lower() if any_case else content
    number = 1
    for at_line_start, block in _blocks(job, fd):
        haystack = block.lower() if any_case else block
        at = 0
        while (hit := haystack.find(needle, at)) >= 0:
            start = block.rfind(b"\n", 0, hit) + 1
            end = block.find(b"\n", hit)
            end = len(block) if end < 0 else end
            number += block.count(b"\n", at, start)
            shown = max(start, hit - LINE_BYTES // 2)
            column = hit - start + 1 if start > 0 or at_line_start else 0
            yield {"line": number, "column": column, "text_b64": base64_of(block[shown:min(end, shown + LINE_BYTES)])}
            at = min(end + 1, len(block))
            number += 1 if end < len(block) else 0
        number += block.count(b"\n", at)


def _blocks(job: Job, fd: int) -> Iterator[tuple[bool, bytes]]:
    """(begins a line, whole lines) up to MOST_FILE_BYTES; of a line without an end, pieces that overlap nowhere."""
    held, read, starts = b"", 0, True
    while read < MOST_FILE_BYTES:
        job.check()
        data = os.read(fd, CHUNK_BYTES)
        if read == 0 and b"\0" in data[:BINARY_BYTES]:
            return
        if not data:
            break
        read += len(data)
        held += data
        end = held.rfind(b"\n") + 1
        if end or len(held) >= 4 * CHUNK_BYTES:
            end = end or len(held)
            yield starts, held[:end]
            starts = held[end - 1:end] == b"\n"
            held = held[end:]
    if held:
        yield starts, held
