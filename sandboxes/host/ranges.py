"""`Range` and entity tags as RFC 9110 reads them, for one range. Called by `files.py`; pure."""

from __future__ import annotations

import re

SPEC = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class NotSatisfiable(ValueError):
    """No byte of the range is there."""


def requested(header: str | None, size: int) -> tuple[int, int] | None:
    """(start, length), or None for the whole: no header, several ranges, or a form that is not understood."""
    match = SPEC.fullmatch(header.replace(" ", "")) if header else None
    if match is None or match.group(0) == "bytes=-":
        return None
    first, last = match.groups()
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1 if last else size)
        if last and int(last) < int(first):
            return None
    if start >= end:
        raise NotSatisfiable
    return start, end - start


def tag_matches(header: str, etag: str) -> bool:
    """Whether a list of tags names this one. `*` names any; weak tags compare by their text."""
    tags = [tag.strip().removeprefix("W/").strip('"') for tag in header.split(",")]
    return header.strip() == "*" or etag in tags
