"""Which built images a cache may forget: those that no process holds and that nobody has used for a month. Called by
`build.py` under the cache's lock, after a build. Each change of the agent makes another image; without this a cache
grows for ever.

A machine's disk stands on a name of its own in its instance's folder, so no disk needs the cache. What does is a hostd
that starts bodies: it holds its images by a lock for as long as it lives, however long that is and whichever instance
it belongs to. The stamp keeps what is only at rest: an instance that is down, an older version one may go back to.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

MANIFEST = "manifest.json"
ASIDE = ".building-"
STAMP = "last-used"
KINDS = ("boot-", "parts-", "root-", "system-")
UNUSED_DAYS = 30
DAY_S = 86400.0

#: Descriptors that hold a lock until this process ends, by folder.
_holding: dict[Path, int] = {}


def hold(folder: Path) -> bool:
    """Uses this image from now on. False: it was being removed, so it has to be built again."""
    if folder not in _holding:
        try:
            held = os.open(folder / MANIFEST, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        if not _lock(held, fcntl.LOCK_SH) or not _is_still(folder, held):
            os.close(held)
            return False
        _holding[folder] = held
    stamp(folder)
    return _is_still(folder, _holding[folder]) or _lost(folder)


def _lost(folder: Path) -> bool:
    """Somebody removed the folder by hand: what is held is not there any more."""
    os.close(_holding.pop(folder))
    return False


def stamp(folder: Path) -> None:
    """Used now. A cache that cannot be written is not pruned either."""
    with contextlib.suppress(OSError):
        (folder / STAMP).touch()


def prune(images: Path, keep: Collection[Path], now_s: float) -> list[str]:
    """Removes what is old and held by nobody, and what builds that were cut off left. The caller has the cache's
    lock. Names what went."""
    for folder in keep:
        stamp(folder)
    for left in images.glob(f"{ASIDE}*"):
        shutil.rmtree(left, ignore_errors=True)
    return [folder.name for folder in _old(images, now_s) if folder not in keep and _remove(folder)]


def _old(images: Path, now_s: float) -> Iterator[Path]:
    for folder in sorted(images.iterdir()):
        used_s = _used_s(folder) if folder.name.startswith(KINDS) else None
        if used_s is not None and now_s - used_s > UNUSED_DAYS * DAY_S:
            yield folder


def _used_s(folder: Path) -> float | None:
    for name in (STAMP, MANIFEST):
        with contextlib.suppress(OSError):
            return (folder / name).stat().st_mtime
    return None


def _remove(folder: Path) -> bool:
    """Under its own lock and by a rename first, so that a folder under its own name stays whole."""
    try:
        held = os.open(folder / MANIFEST, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if not _lock(held, fcntl.LOCK_EX):
            return False
        aside = folder.with_name(ASIDE + folder.name)
        folder.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
        return True
    finally:
        os.close(held)


def _lock(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(folder: Path, descriptor: int) -> bool:
    """The name still means the file that is held."""
    try:
        return os.path.samestat((folder / MANIFEST).stat(), os.fstat(descriptor))
    except OSError:
        return False
