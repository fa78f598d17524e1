"""Who runs a command: users and groups of /etc/passwd and /etc/group, and the environment a login gives.

Called by `spawn` and the file workers. Reads the two files itself, because the C library the agent runs on is not
the one of the user's root file system, and that one's name services are nobody's business here.
"""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

from sandboxes.guest.agent.refusal import Refusal

MOST_BYTES = 1024 * 1024
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SHELLS = (b"/bin/bash", b"/bin/sh")


class Account(NamedTuple):
    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str


def account_of(user: str) -> Account:
    """The account by name or by number. Raises Refusal("invalid") naming a user who is not there."""
    for line in _lines("/etc/passwd"):
        fields = line.split(":")
        if len(fields) < 7 or user not in (fields[0], fields[2]):
            continue
        if fields[2].isdigit() and fields[3].isdigit():
            gid = int(fields[3])
            return Account(fields[0], int(fields[2]), gid, _groups_of(fields[0], gid), fields[5] or "/", fields[6])
    raise Refusal("invalid", f"there is no user {user!r} here", field="user")


def _groups_of(name: str, gid: int) -> tuple[int, ...]:
    found = {gid}
    for line in _lines("/etc/group"):
        fields = line.split(":")
        if len(fields) >= 4 and fields[2].isdigit() and name in fields[3].split(","):
            found.add(int(fields[2]))
    return tuple(sorted(found))


def names_by_id(path: str) -> dict[int, str]:
    """uid → name of /etc/passwd, or gid → name of /etc/group; the first of a number wins."""
    names: dict[int, str] = {}
    for line in _lines(path):
        fields = line.split(":")
        if len(fields) >= 3 and fields[2].isdigit():
            names.setdefault(int(fields[2]), fields[0])
    return names


def login_environment(account: Account, workspace: dict[str, str], own: dict[str, str],
                      terminal: bool) -> dict[str, str]:
    """The same for terminal, exec and background: login values, /etc/environment, the workspace's, the exec's own."""
    environment = {
        "HOME": account.home, "USER": account.name, "LOGNAME": account.name,
        "SHELL": account.shell or "/bin/sh", "LANG": "C.UTF-8", "PATH": f"{account.home.rstrip('/')}/.local/bin:{PATH}",
    }
    environment.update(_etc_environment())
    environment.update(workspace)
    if terminal:
        environment["TERM"] = "xterm-256color"
    environment.update(own)
    return environment


def shell_of(account: Account) -> bytes:
    """The account's shell, or one that is there: a broken entry must not lock anybody out."""
    for candidate in (os.fsencode(account.shell), *SHELLS):
        if candidate and os.access(candidate, os.X_OK):
            return candidate
    return SHELLS[-1]


def command_shell() -> bytes:
    """What a shell text runs in."""
    return SHELLS[0] if os.access(SHELLS[0], os.X_OK) else SHELLS[1]


def _etc_environment() -> dict[str, str]:
    values: dict[str, str] = {}
    for line in _lines("/etc/environment"):
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and name and not name.startswith("#"):
            values[name.strip()] = value.strip().strip("\"'")
    return values


def _lines(path: str) -> list[str]:
    """The lines of a small text file that root in the guest may have replaced by anything; a missing one is empty.

    Kept until the file changes: every exec and every listing asks.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):  # it says nothing about the file
            raise Refusal("busy", f"{path}: {error.strerror}", retry_after_s=1) from error
        return []
    try:
        found = os.fstat(fd)
        version = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        kept = _read_before.get(path)
        if kept is None or kept[0] != version:
            text = os.read(fd, MOST_BYTES).decode("utf-8", "surrogateescape")
            kept = version, [line for line in text.splitlines() if "\0" not in line]
            _read_before[path] = kept
        return kept[1]
    except OSError:
        return []
    finally:
        os.close(fd)


_read_before: dict[str, tuple[tuple[int, ...], list[str]]] = {}
