"""The guest link's frames: one byte stream carries many streams, and both ends find each other again.

Shared by both ends: `link.py` (host) and `agent/` (guest; the tools disk carries this very file). Pure, stdlib only:
no I/O, no clock. Never knows what a method means.

    magic 4 | kind 1 | tag 1 | length 2 | stream 4 | session 4 | payload crc 4 | header crc 4 | payload …

A *session* begins with the host's HELLO (nonce, epoch, protocol generation). Every later frame carries the number
derived from nonce and epoch, so what is still in flight from another session or another epoch of the machine is
refused. Either side may meet half a frame of a torn session: a reader that sees a bad magic or checksum scans on for
the next good frame; a host that gets no WELCOME pads by more than a whole frame and says HELLO again.

Flow control is by credit, per stream and direction: DATA may be sent only into the window the other side has opened
(WINDOW_BYTES at first, then what CREDIT frames give back once bytes were *consumed*). Other kinds are small or rare
and are not counted.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any, NamedTuple

GENERATION = 1
MAGIC = b"\xb5Br\xa7"
MAX_PAYLOAD_BYTES = 16 * 1024
WINDOW_BYTES = 256 * 1024
#: A message (OPEN, HEAD, RESULT, ERROR, WELCOME) may span frames up to this size.
MAX_MESSAGE_BYTES = 16 * 1024 * 1024

HEADER = struct.Struct(">4sBBHIII")
CRC = struct.Struct(">I")
HEADER_BYTES = HEADER.size + CRC.size
MAX_FRAME_BYTES = HEADER_BYTES + MAX_PAYLOAD_BYTES
PADDING = bytes(MAX_FRAME_BYTES + HEADER_BYTES)

HELLO = 1      # host: message {"nonce","epoch","protocol"}; session 0
WELCOME = 2    # guest: message {"nonce","epoch","protocol","info"}
REFUSE = 3     # guest: message {"nonce","code","detail"}: no session (no nonce: a new agent, all are over)
OPEN = 4       # host: message {"method","params"}; opens `stream`
HEAD = 5       # guest: message, at most one, before any DATA
DATA = 6       # both: bytes; `tag` 0 the only or stdin, 1 stdout, 2 stderr
EOF = 7        # both: no more DATA from this side
CREDIT = 8     # both: u32, so many more bytes may be sent
RESULT = 9     # guest: message; the stream is over
ERROR = 10     # guest: message {"code","detail",…}; the stream is over
CANCEL = 11    # host: the stream is over, nobody waits for a result

#: In a message frame the tag says whether the message goes on in the next frame of the same kind and stream.
LAST, MORE = 0, 1
MESSAGE_KINDS = frozenset((HELLO, WELCOME, REFUSE, OPEN, HEAD, RESULT, ERROR))


class Frame(NamedTuple):
    kind: int
    stream: int
    session: int
    tag: int
    payload: bytes


class MessageTooLong(ValueError):
    """A message is larger than MAX_MESSAGE_BYTES."""


def encode(kind: int, stream: int, session: int, payload: bytes = b"", tag: int = 0) -> bytes:
    """One frame. The payload is at most MAX_PAYLOAD_BYTES."""
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise ValueError(f"payload of {len(payload)} bytes")
    head = HEADER.pack(MAGIC, kind, tag, len(payload), stream, session, zlib.crc32(payload))
    return head + CRC.pack(zlib.crc32(head)) + payload


def encode_message(kind: int, stream: int, session: int, body: dict[str, Any]) -> list[bytes]:
    """A JSON message as one or more frames."""
    data = json.dumps(body, separators=(",", ":")).encode()
    if len(data) > MAX_MESSAGE_BYTES:
        raise MessageTooLong(f"a message of {len(data)} bytes; at most {MAX_MESSAGE_BYTES}")
    parts = [data[at:at + MAX_PAYLOAD_BYTES] for at in range(0, len(data), MAX_PAYLOAD_BYTES)]
    return [encode(kind, stream, session, part, MORE if number < len(parts) else LAST)
            for number, part in enumerate(parts, 1)]


def encode_credit(stream: int, session: int, count: int) -> bytes:
    return encode(CREDIT, stream, session, CRC.pack(count))


def decode_credit(payload: bytes) -> int:
    """The count of a CREDIT frame; 0 for one that is malformed."""
    return int(CRC.unpack(payload)[0]) if len(payload) == CRC.size else 0


def session_number(nonce: str, epoch: int) -> int:
    """The number that every frame of a session carries; never 0, which belongs to HELLO."""
    return zlib.crc32(f"{epoch}:{nonce}".encode()) or 1


class FrameReader:
    """Bytes in, frames out; whatever is not a whole, sound frame is skipped. Holds at most one frame's bytes."""

    def __init__(self) -> None:
        self._held = bytearray()
        self.skipped_bytes = 0

    def feed(self, data: bytes) -> list[Frame]:
        self._held += data
        frames: list[Frame] = []
        at = 0
        while (step := self._step(at, frames)) is not None:
            at = step
        del self._held[:at]
        return frames

    def reset(self) -> None:
        """The stream was torn: what is held is half a frame that will never be whole."""
        self.skipped_bytes += len(self._held)
        self._held.clear()

    def _step(self, at: int, frames: list[Frame]) -> int | None:
        """The position after one frame, or after what is not one; None when more bytes are needed.

        On None everything before the position passed last is done with.
        """
        held = self._held
        if not held.startswith(MAGIC, at):
            return self._skip_to_magic(at)
        if len(held) - at < HEADER_BYTES:
            return None
        head = bytes(held[at:at + HEADER.size])
        if CRC.unpack_from(held, at + HEADER.size)[0] != zlib.crc32(head):
            return self._skip(at)
        kind, tag, length, stream, session, payload_crc = _unpack(head)
        if length > MAX_PAYLOAD_BYTES:
            return self._skip(at)
        end = at + HEADER_BYTES + length
        if len(held) < end:
            return None
        payload = bytes(held[at + HEADER_BYTES:end])
        if zlib.crc32(payload) != payload_crc:
            return self._skip(at)
        frames.append(Frame(kind, stream, session, tag, payload))
        return end

    def _skip(self, at: int) -> int:
        self.skipped_bytes += 1
        return at + 1

    def _skip_to_magic(self, at: int) -> int | None:
        """The next place where a magic begins, whole or cut by the end of what is held."""
        held = self._held
        found = held.find(MAGIC, at)
        if found < 0:
            found = max(at, len(held) - len(MAGIC) + 1)
            while found < len(held) and not MAGIC.startswith(bytes(held[found:])):
                found += 1
        self.skipped_bytes += found - at
        return found if found > at else None


class MessageJoiner:
    """Joins the frames of messages, one message per stream and kind at a time."""

    def __init__(self) -> None:
        self._parts: dict[tuple[int, int], bytearray] = {}
        #: What all messages that have begun and not ended have gathered.
        self.held_bytes = 0

    def add(self, frame: Frame) -> dict[str, Any] | None:
        """The whole message once its last frame is here. Raises MessageTooLong, or ValueError on what is no object."""
        key = (frame.stream, frame.kind)
        held = self._parts.pop(key, None)
        if held is None and frame.tag == LAST:
            return _parse(frame.payload)
        held = held if held is not None else bytearray()
        self.held_bytes -= len(held)
        held += frame.payload
        if len(held) > MAX_MESSAGE_BYTES:
            raise MessageTooLong("a message that does not end")
        if frame.tag == LAST:
            return _parse(bytes(held))
        self._parts[key] = held
        self.held_bytes += len(held)
        return None

    def forget(self, stream: int) -> None:
        for key in [key for key in self._parts if key[0] == stream]:
            self.held_bytes -= len(self._parts.pop(key))


def _unpack(head: bytes) -> tuple[int, int, int, int, int, int]:
    """(kind, tag, length, stream, session, payload crc)"""
    _, kind, tag, length, stream, session, payload_crc = HEADER.unpack(head)
    return kind, tag, length, stream, session, payload_crc


def _parse(data: bytes) -> dict[str, Any]:
    try:
        body = json.loads(data)
    except RecursionError as error:
        raise ValueError("a message nested too deep") from error
    if not isinstance(body, dict):
        raise ValueError("a message must be an object")
    return body
