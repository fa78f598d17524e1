"""One network namespace per machine, named so that `ip netns` shows it and two Berths never clash.

Called by the drivers. Made by system calls in a thread of its own (a namespace belongs to a thread, and this thread
ends with it), because starting `ip` four times would cost more than resuming a machine's memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sandboxes.errors import StepFailed
from sandboxes.linux.names import machine_of_netns, netns_name

RUN_NETNS = Path("/run/netns")
CLONE_NEWNET, MS_BIND, MNT_DETACH = 0x40000000, 4096, 2

T = TypeVar("T")
_libc = ctypes.CDLL(None, use_errno=True)


def path_of(instance: str, machine_id: str) -> Path:
    return RUN_NETNS / netns_name(instance, machine_id)


def _checked(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


async def create(instance: str, machine_id: str, inside: Callable[[], T]) -> T:
    """Makes the namespace, runs `inside` in it and answers what that answered. On any failure nothing is left."""
    path = path_of(instance, machine_id)
    await delete(instance, machine_id)
    try:
        return await _in_own_thread(lambda: _create(path, inside))
    except OSError as error:
        await delete(instance, machine_id)
        raise StepFailed(f"network namespace {path.name}: {error}") from error


async def enter(path: Path, inside: Callable[[], T]) -> T:
    """Runs `inside` in a namespace that is there. Raises OSError when it is not."""
    return await _in_own_thread(lambda: _enter(path, inside))


async def delete(instance: str, machine_id: str) -> None:
    """Takes the name away; the namespace ends with its last process. Repeatable."""
    path = path_of(instance, machine_id)
    if path.exists():
        await asyncio.to_thread(_unpin, path)


def machines(instance: str) -> set[str]:
    """The machine ids that have a namespace of this instance."""
    if not RUN_NETNS.is_dir():
        return set()
    return {found for entry in RUN_NETNS.iterdir() if (found := machine_of_netns(instance, entry.name))}


def _create(path: Path, inside: Callable[[], T]) -> T:
    _checked(_libc.unshare(CLONE_NEWNET), "unshare")
    RUN_NETNS.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    _checked(_libc.mount(b"/proc/thread-self/ns/net", str(path).encode(), b"none", MS_BIND, None), "bind")
    return inside()


def _enter(path: Path, inside: Callable[[], T]) -> T:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _checked(_libc.setns(fd, CLONE_NEWNET), "setns")
    finally:
        os.close(fd)
    return inside()


def _unpin(path: Path) -> None:
    while _libc.umount2(str(path).encode(), MNT_DETACH) == 0:
        pass
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


async def _in_own_thread(work: Callable[[], T]) -> T:
    """Never a pool's thread: whatever happens, the namespace must not stay with a thread that does other work."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def tell(setter: Callable[[], None]) -> None:
        loop.call_soon_threadsafe(lambda: None if answer.done() else setter())

    def run() -> None:
        try:
            result = work()
        except BaseException as error:
            failure = error
            tell(lambda: answer.set_exception(failure))
        else:
            tell(lambda: answer.set_result(result))

    threading.Thread(target=run, name="netns", daemon=True).start()
    return await asyncio.shield(answer)
