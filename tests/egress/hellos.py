"""ClientHellos as programs send them, and as nobody should: built by hand, so that every byte can be wrong."""

from __future__ import annotations

import struct


def hello(*names: str, extensions: tuple[tuple[int, bytes], ...] = (), twice: bool = False) -> bytes:
    """One handshake message; several names stand in one extension, `twice` in two."""
    listed = b"".join(b"\0" + struct.pack(">H", len(name)) + name.encode() for name in names)
    said = [(0, struct.pack(">H", len(listed)) + listed)] if names else []
    said += said if twice else []
    said += [*extensions, (43, b"\x02\x03\x04")]
    body = b"".join(struct.pack(">HH", kind, len(data)) + data for kind, data in said)
    whole = (b"\x03\x03" + bytes(range(32)) + b"\0" + struct.pack(">H", 2) + b"\x13\x01" + b"\x01\0"
             + struct.pack(">H", len(body)) + body)
    return b"\x01" + len(whole).to_bytes(3, "big") + whole


def records(message: bytes, size: int = 1 << 14) -> bytes:
    return b"".join(b"\x16\x03\x01" + struct.pack(">H", len(piece)) + piece
                    for piece in (message[at:at + size] for at in range(0, len(message), size)))


ECH = (0xFE0D, b"\0\0\x01\0\x01\0\0\x20" + bytes(32) + b"\0\x10" + bytes(16))
