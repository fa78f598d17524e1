"""A file becomes the truth only when complete: written aside, synced, renamed, and its folder synced.

Called by everything downstairs that keeps state in files. Blocking; small files only.
"""

from __future__ import annotations

import ctypes
import json
import os
from pathlib import Path
from typing import Any

_libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, RENAME_EXCHANGE = -100, 2


def exchange(one: Path, other: Path) -> None:
    """Two names of one file system change places at once; each is there at every instant."""
    if _libc.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(other))
    sync_folder(other.parent)


def sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_files(folder: Path) -> None:
    """All files of a folder and their names, at once: written one after another first, they cost one commit."""
    for path in folder.iterdir():
        if path.is_file():
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
    sync_folder(folder)


def publish(aside: Path, final: Path) -> None:
    """Makes a complete file at `aside` known as `final`, on the same file system, durably."""
    fd = os.open(aside, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    aside.replace(final)
    sync_folder(final.parent)


def write_bytes(path: Path, data: bytes, mode: int = 0o600, *, durable: bool = True) -> None:
    """Whole or not at all. What describes processes need not be `durable`: it means nothing after a power cut."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.new")
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        if durable:
            publish(aside, path)
        else:
            aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any, *, durable: bool = True) -> None:
    write_bytes(path, json.dumps(value, separators=(",", ":")).encode() + b"\n", durable=durable)


def read_json(path: Path) -> Any:
    """None when there is no such file. A file that is there is complete: it was renamed into place; one that a power
    cut emptied (it was not durable) counts as not there. Raises ValueError for what a foreign hand left.
    """
    try:
        return json.loads(path.read_bytes() or b"null")
    except FileNotFoundError:
        return None


def known_json(path: Path) -> dict[str, Any] | None:
    """None as well where it is not what `write_json` left: for what can be found out again, or named as missing."""
    try:
        value = read_json(path)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
