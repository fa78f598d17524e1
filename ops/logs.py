"""Where processes write, and how a log stays bounded. Called by the supervisor alone.

A process writes to its file directly (append), so it loses nothing when the supervisor goes. Rotation copies
the file aside and cuts it: the writer keeps its descriptor and notices nothing.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import BinaryIO

LIMIT_BYTES = 10 * 1024 * 1024
KEPT = 3


def open_for(folder: Path, name: str) -> BinaryIO:
    return (folder / f"{name}.log").open("ab")


def rotate(folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
    """Cuts each log that has grown over the limit; the last KEPT pieces stay as NAME.log.1, .2, …"""
    for log in folder.glob("*.log"):
        if log.stat().st_size <= limit_bytes:
            continue
        for n in range(KEPT, 1, -1):
            older = folder / f"{log.name}.{n - 1}"
            if older.exists():
                older.rename(folder / f"{log.name}.{n}")
        shutil.copyfile(log, folder / f"{log.name}.1")
        os.truncate(log, 0)


def tail(folder: Path, name: str, lines: int = 15) -> str:
    try:
        text = (folder / f"{name}.log").read_text(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
