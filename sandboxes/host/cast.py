"""A stretch of a terminal's output as an asciicast v2 file: a header line, then [seconds, "o"|"r", text] lines.

Called by `recording.py`; reads a scroll and its marks. Flat memory: one piece at a time. Format:
https://docs.asciinema.org/manual/asciicast/v2/
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator

from sandboxes.host.scroll import Scroll
from sandboxes.host.timing import Mark

MEDIA = "application/x-asciicast"
PIECE_BYTES = 16 * 1024


def lines(scroll: Scroll, first: int, last: int, size: tuple[int, int], title: str) -> Iterator[bytes]:
    """`size` is the screen's where no mark says another. Bytes that are no UTF-8 become U+FFFD: the file is text."""
    marks = scroll.marks(first, last)
    began, size, mark = _in_force(marks, first, size)
    yield _line({"version": 2, "width": size[0], "height": size[1], "timestamp": int(began), "title": title,
                 "env": {"TERM": "xterm-256color"}})
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    offset, at = first, 0.0
    while mark is not None:
        yield from _output(scroll, offset, mark.offset, at, decoder)
        offset, at = max(offset, mark.offset), max(at, round(mark.at - began, 6))
        if mark.cols and (mark.cols, mark.rows) != size:
            size = (mark.cols, mark.rows)
            yield _line([at, "r", f"{mark.cols}x{mark.rows}"])
        mark = next(marks, None)
    yield from _output(scroll, offset, last, at, decoder)
    if rest := decoder.decode(b"", final=True):
        yield _line([at, "o", rest])


def _in_force(marks: Iterator[Mark], first: int, size: tuple[int, int]) -> tuple[float, tuple[int, int], Mark | None]:
    """When the stretch began, the size it began with, and the first mark within it."""
    began, mark = 0.0, None
    for mark in marks:
        if mark.offset > first:
            return began or mark.at, size, mark
        began = mark.at
        if mark.cols:
            size = (mark.cols, mark.rows)
    return began, size, None


def _output(scroll: Scroll, offset: int, end: int, at: float, decoder: codecs.IncrementalDecoder) -> Iterator[bytes]:
    while offset < end:
        data = scroll.read_in_order(offset, min(PIECE_BYTES, end - offset))[1]
        if not data:
            return
        offset += len(data)
        if text := decoder.decode(data):
            yield _line([at, "o", text])


def _line(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace") + b"\n"
