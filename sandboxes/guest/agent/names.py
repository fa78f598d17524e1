"""The machine's names in its root file system: hostname, hosts, machine-id. Called by `world` and `clock`.

Root in the guest owns these files: they are read bounded, never through a link, and replaced only when they differ.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from sandboxes.guest.agent import syscalls

MOST_BYTES = 65536
MACHINE_ID = Path("/etc/machine-id")
_REAL_ID = re.compile(r"[0-9a-f]{32}")
_OWN_LINE = re.compile(r"^127\.0\.1\.1[ \t].*$", re.MULTILINE)


def write(hostname: str, machine_id: str) -> None:
    """Sets what is given; a file that cannot be written (a read-only or full disk) stops nobody's start."""
    if hostname:
        syscalls.set_hostname(hostname)
        _replace(Path("/etc/hostname"), hostname + "\n")
        hosts = _read(Path("/etc/hosts")) or "127.0.0.1\tlocalhost\n"
        line = f"127.0.1.1\t{hostname}"
        named = _OWN_LINE.sub(line, hosts, count=1) if _OWN_LINE.search(hosts) else f"{hosts.rstrip()}\n{line}\n"
        _replace(Path("/etc/hosts"), named)
    if machine_id:
        former = (_read(MACHINE_ID) or "").strip()
        _replace(MACHINE_ID, machine_id + "\n")
        if _REAL_ID.fullmatch(former) and former != machine_id:
            _renew_host_keys()


def _renew_host_keys() -> None:
    """This disk was another machine's: two of them must not answer with one key. New ones are made beside our work."""
    with contextlib.suppress(OSError):
        keys = list(Path("/etc/ssh").glob("ssh_host_*"))
        for key in keys:
            key.unlink()
        if keys:
            os.posix_spawn("/usr/bin/ssh-keygen", ["ssh-keygen", "-A"], {"PATH": "/usr/bin:/bin"})


def _read(path: Path) -> str | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(fd, MOST_BYTES).decode("utf-8", "surrogateescape")
    except OSError:
        return None
    finally:
        os.close(fd)


def _replace(path: Path, text: str) -> None:
    if _read(path) == text:
        return
    aside = path.with_name(f".{path.name}.berth")
    with contextlib.suppress(OSError):
        aside.unlink(missing_ok=True)
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            os.fchmod(fd, 0o644)
            os.write(fd, text.encode("utf-8", "surrogateescape"))
        finally:
            os.close(fd)
        aside.rename(path)
