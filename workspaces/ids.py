"""Names for things: 20 random characters that are safe in URLs, DNS labels and file names. Pure."""

from __future__ import annotations

import base64
import re
import secrets

ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
LENGTH = 20
PATTERN = re.compile(r"\A[a-z2-7]{20}\Z")


def new_id() -> str:
    """100 random bits; nobody guesses one, and two never meet."""
    return base64.b32encode(secrets.token_bytes(13))[:LENGTH].decode("ascii").lower()


def is_id(text: str) -> bool:
    return PATTERN.match(text) is not None
