"""`ensure`: the one door to a built guest image. Called by hostd, `berth up` and the tests.

Idempotent and safe beside another `ensure` on the same cache (a lock on the folder); a build that was cut off leaves
nothing but a folder that the next one removes. Each build also removes images that nobody has used for a month
(`prune.py`).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sandboxes.guest.image import boot, parts, prune, recipe, rootfs, system
from sandboxes.spec import ImageSet

Progress = Callable[[str], None]
_MANIFEST = prune.MANIFEST
_ASIDE = prune.ASIDE


def ensure(cache_dir: Path, progress: Progress) -> ImageSet:
    """The image of the host's Debian release, built below `cache_dir`/images when it is not there yet.

    Minutes the first time (the system is fetched by mmdebstrap), seconds when only the agent changed, no work
    otherwise. Needs root. Raises ProcessFailed or UnsupportedHost.
    """
    images = cache_dir if cache_dir.name == "images" else cache_dir / "images"
    suite = recipe.host_suite()
    root = images / f"root-{recipe.root_key(suite)}"
    started = images / f"boot-{recipe.boot_key(suite)}"
    while not (_held(root) and _held(started)):
        images.mkdir(parents=True, exist_ok=True)
        with _locked(images):
            _build_missing(images, suite, root, started, progress)
    return ImageSet(kernel=started / boot.KERNEL, initramfs=started / boot.INITRAMFS, tools_disk=started / boot.TOOLS,
                    root_disk=root / rootfs.DISK, fingerprint=f"{_content(started)}:{_content(root)}")


def _held(folder: Path) -> bool:
    """Whole, and kept from being removed for as long as this process lives."""
    return _is_there(folder) and prune.hold(folder)


def _build_missing(images: Path, suite: str, root: Path, started: Path, progress: Progress) -> None:
    base = images / f"system-{recipe.system_key(suite)}"
    taken = images / f"parts-{recipe.parts_key(suite)}"
    _make(base, lambda folder: system.build(folder, suite), f"guest system: installing Debian {suite}", progress)
    _make(root, lambda folder: rootfs.build(folder, base), "guest root disk", progress)
    _make(taken, lambda folder: parts.build(folder, base), "guest kernel, busybox and interpreter", progress)
    _make(started, lambda folder: boot.build(folder, taken), "guest initramfs and tools disk", progress)
    for gone in prune.prune(images, keep={base, root, taken, started}, now_s=time.time()):
        progress(f"removed {gone}, unused for {prune.UNUSED_DAYS} days")


def _make(target: Path, build: Callable[[Path], None], what: str, progress: Progress) -> None:
    """Builds beside and renames, so that a folder under its own name is always whole."""
    if _is_there(target):
        return
    progress(what)
    aside = target.with_name(_ASIDE + target.name)
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    try:
        build(aside)
        (aside / _MANIFEST).write_text(json.dumps({"content": _hash_files(aside)}))
        os.sync()
        aside.rename(target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _is_there(folder: Path) -> bool:
    return (folder / _MANIFEST).is_file()


def _content(folder: Path) -> str:
    return str(json.loads((folder / _MANIFEST).read_text())["content"])


def _hash_files(folder: Path) -> str:
    """Of the content, not the recipe: an overlay or a memory image fits these bytes and no others."""
    hashed = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.is_file():
            hashed.update(path.name.encode() + b"\0")
            with path.open("rb") as file:
                hashed.update(hashlib.file_digest(file, "sha256").digest())
    return hashed.hexdigest()[:16]


@contextlib.contextmanager
def _locked(images: Path) -> Iterator[None]:
    with (images / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
