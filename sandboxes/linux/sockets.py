"""Unix sockets by path, however long the path is. Called by the drivers."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

NAME_BYTES = 107


@contextlib.contextmanager
def reachable(path: Path) -> Iterator[str]:
    """A name the kernel takes for this path: itself when it fits, else through its opened folder."""
    if len(os.fsencode(path)) <= NAME_BYTES:
        yield str(path)
        return
    fd = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{path.name}"
    finally:
        os.close(fd)


@contextlib.contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """A socket that listens before the process that will accept on it exists. Only its maker's user may reach it."""
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        with reachable(path) as name:
            listener.bind(name)
        path.chmod(0o600)
        listener.listen(8)
        yield listener
