"""What a workspace may be called, and what its machine calls itself. Pure; called by serializers and reconcile."""

from __future__ import annotations

import re
import unicodedata

MAX_LENGTH = 100
CHECKPOINT_MAX_LENGTH = 255


def normalized(name: str, longest: int = MAX_LENGTH) -> str:
    """One spelling for what looks the same. Raises ValueError with a sentence for a person."""
    plain = unicodedata.normalize("NFC", name).strip()
    if not plain:
        raise ValueError("A name has at least one character.")
    if len(plain) > longest:
        raise ValueError(f"A name has at most {longest} characters.")
    if any(unicodedata.category(c) in ("Cc", "Cs", "Co", "Cn", "Zl", "Zp") for c in plain):
        raise ValueError("A name has no control characters.")
    return plain


def hostname_of(name: str) -> str:
    """A DNS label: what is left of the name in a-z, 0-9 and dashes, or `workspace`."""
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", ascii_name).strip("-")[:60].rstrip("-") or "workspace"
