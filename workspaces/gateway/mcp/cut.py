"""Bytes of a guest made fit for a model's context: bounded, UTF-8, and saying what was left out and where it is. Pure.

Called by the tools. Cuts never split a character; what is no UTF-8 is shown with U+FFFD and said to be so.
"""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_CHARACTER = 4


@dataclass(frozen=True)
class Shown:
    text: str
    is_utf8: bool


@dataclass(frozen=True)
class Cut:
    """A head and a tail of something longer; `first` to `last` (exclusive) was left out."""

    head: bytes
    tail: bytes
    first: int
    last: int

    @property
    def left_out(self) -> int:
        return self.last - self.first


def shown(data: bytes) -> Shown:
    try:
        return Shown(data.decode("utf-8"), True)
    except UnicodeDecodeError:
        return Shown(data.decode("utf-8", "replace"), False)


def whole_characters(data: bytes) -> bytes:
    """Without the beginning of a character at its end: the next piece begins with that."""
    for back in range(1, min(LONGEST_CHARACTER, len(data) + 1)):
        byte = data[-back]
        if byte < 0x80:
            return data
        if byte >= 0xC0:
            return data[:-back] if back < _length(byte) else data
    return data


def middle_out(data: bytes, most_bytes: int) -> Cut:
    """The first quarter and the rest from the end: how it began, and how it went."""
    if len(data) <= most_bytes:
        return Cut(data, b"", len(data), len(data))
    head = whole_characters(data[: most_bytes // 4])
    at = len(data) - (most_bytes - most_bytes // 4)
    rest = data[at: at + LONGEST_CHARACTER - 1]
    at += next((n for n, byte in enumerate(rest) if byte & 0xC0 != 0x80), len(rest))  # past the end of a character
    return Cut(head, data[at:], len(head), at)


def _length(first: int) -> int:
    return 2 if first < 0xE0 else 3 if first < 0xF0 else 4
