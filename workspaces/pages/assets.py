"""Which built files a page loads, read from Vite's manifest.

Called by shell.py; reads `manifest.json` and nothing else: the collected one where static files were collected, so
that a page never names a file of a newer build than the one that is served. A replaced one is noticed by its time.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings

ENTRY = "src/main.ts"


@dataclass(frozen=True)
class Assets:
    """Names below STATIC_URL. `preloads` are the scripts that the entry imports at once."""

    script: str = ""
    styles: tuple[str, ...] = ()
    preloads: tuple[str, ...] = ()


def assets() -> Assets:
    """Empty names where nothing was built yet: the page then says so instead of failing."""
    for folder in (settings.STATIC_ROOT, settings.FRONTEND_DIST):
        path = Path(folder or "/nowhere") / "manifest.json"
        with contextlib.suppress(FileNotFoundError):
            return _read(path, path.stat().st_mtime_ns)
    return Assets()


@lru_cache(maxsize=2)
def _read(path: Path, _mtime_ns: int) -> Assets:
    manifest: dict[str, Any] = json.loads(path.read_text())
    needed = _needed(manifest, ENTRY)
    url = settings.STATIC_URL
    styles = [style for name in needed for style in manifest[name].get("css", [])]
    return Assets(
        script=url + manifest[ENTRY]["file"],
        styles=tuple(url + style for style in dict.fromkeys(styles)),
        preloads=tuple(url + manifest[name]["file"] for name in needed if name != ENTRY),
    )


def _needed(manifest: dict[str, Any], entry: str) -> list[str]:
    """The entry and everything it imports before it can run."""
    names = [entry]
    for name in names:
        names.extend(one for one in manifest[name].get("imports", []) if one not in names)
    return names
