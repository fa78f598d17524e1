"""THE ONLY FILE THAT KNOWS HOW A MACHINE IS CAPTURED AND RESUMED. Everyone else says `take` and `feed`.

Called by `machine.py`, `embody.py` and `templates.py`; calls QMP and `linux/pages.py`.

    take:  stop ─▶ device state (no memory in it) ─▶ the caller's work at rest (a new disk head)
           ─▶ pages that differ from the mapped base ─▶ cont
    feed:  QEMU waits for its device state ─▶ the pages are written into its memory ─▶ device state ─▶ cont

The device state is written by `xen-save-devices-state`, which ordinary builds of QEMU have: it leaves memory out and,
with live=false, leaves the block devices active, so that the machine can go on. Memory is a file mapped privately;
what was written since is found by pagemap. An image is a folder:

    image.json     fingerprint, memory size, checksums      device.state   what QEMU wrote
    base.mem       the immutable base (a hard link, or absent: zeros)      pages   what differs from it, or absent

`image.json` is written last. A file that is not what it says there is noticed before the machine runs (`intact`).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sandboxes.drivers.qemu.qmp import Qmp
from sandboxes.errors import Conflict, StepFailed
from sandboxes.linux import atomic, checksums, disks, pages
from sandboxes.linux.bodies import Body
from sandboxes.linux.pages import Mapping

POLL_S = 0.004
#: The files of an image that a body's memory is made of.
MEMORY_FILES = ("device.state", "pages", "base.mem")


@dataclass(frozen=True)
class MappedMemory:
    """Which sealed file a body maps as its memory. `base` is "" where that file holds only zeros."""

    inode: int
    size: int
    base: str


@dataclass(frozen=True)
class Image:
    folder: Path
    fingerprint: str
    memory_bytes: int
    #: The base was made for this image alone: it is not shared by all machines of a template.
    own_base: bool = False
    checksums: dict[str, str] = field(default_factory=dict)

    @property
    def base(self) -> Path | None:
        path = self.folder / "base.mem"
        return path if path.exists() else None

    @property
    def pages(self) -> Path | None:
        path = self.folder / "pages"
        return path if path.exists() else None

    @property
    def device_state(self) -> Path:
        return self.folder / "device.state"


def read_image(folder: Path) -> Image | None:
    """The image in a folder; None when there is none that is complete (image.json is written last)."""
    try:
        data = atomic.read_json(folder / "image.json")
        known = {name: data[name] for name in Image.__dataclass_fields__ if name in data}
        return Image(folder, **known)
    except (ValueError, TypeError):
        return None  # not there, or cut short by a foreign hand


def write_image(image: Image) -> None:
    body = asdict(image)
    del body["folder"]
    atomic.write_json(image.folder / "image.json", body)


def summed(image: Image) -> Image:
    """The same image, knowing what its files hold. A base that all share is summed once in a life of hostd."""
    sums = {name: _sum(image.folder / name) for name in MEMORY_FILES if (image.folder / name).exists()}
    return Image(image.folder, image.fingerprint, image.memory_bytes, image.own_base, sums)


def intact(image: Image) -> bool:
    """Whether every file is there and holds what was written. Reads them all."""
    try:
        return all(_sum(image.folder / name) == said for name, said in image.checksums.items())
    except OSError:
        return False


_sums: dict[tuple[int, ...], str] = {}


def _sum(path: Path) -> str:
    if path.name != "base.mem":
        return checksums.of_file(path)
    status = path.stat()
    key = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
    if key not in _sums:
        _sums[key] = checksums.of_file(path)
    return _sums[key]


@dataclass(frozen=True)
class Taken:
    pause_ms: float
    pages_bytes: int


async def take(qmp: Qmp, body: Body, memory: MappedMemory, into: Path,
               at_rest: Callable[[], Awaitable[None]], *, go_on: bool = True) -> Taken:
    """Writes device state and pages into `into`; `at_rest` runs while nothing moves. The files are durable when this
    returns. The machine goes on, whatever happens; with `go_on=False` only when this raises.
    """
    mapping = await asyncio.to_thread(pages.find_mapping, body.pid, memory.inode, memory.size)
    state = os.open(into / "device.state", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        fdset, name = await qmp.pass_file(state, "device-state")
        try:
            taken = await _take_paused(qmp, mapping, name, into, at_rest, go_on=go_on)
        finally:
            await qmp.take_back(fdset)
        try:
            await asyncio.to_thread(_sync, state, into / "pages")
        except BaseException:
            if not go_on:
                await qmp.execute("cont")
            raise
        return taken
    finally:
        os.close(state)


async def _take_paused(qmp: Qmp, mapping: Mapping, state_name: str, into: Path,
                       at_rest: Callable[[], Awaitable[None]], *, go_on: bool) -> Taken:
    began = time.monotonic()
    await qmp.execute("stop")
    try:
        await qmp.execute("xen-save-devices-state", {"filename": state_name, "live": False})
        await at_rest()
        saved = await asyncio.to_thread(pages.save_pages, mapping, into / "pages")
    except BaseException:
        await qmp.execute("cont")
        raise
    if go_on:
        await qmp.execute("cont")
    return Taken((time.monotonic() - began) * 1000, saved)


def _sync(state: int, pages_file: Path) -> None:
    os.fsync(state)
    fd = os.open(pages_file, os.O_RDONLY | os.O_CLOEXEC)
    os.fsync(fd)
    os.close(fd)


def flatten(image_folder: Path, memory_bytes: int, base: Path | None = None) -> None:
    """Turns pages over zeros, or over `base`, into a base of their own, so that many machines can map it and the next
    image holds only what changed since. Durable before pages go.
    """
    aside = image_folder / ".base.mem.new"
    if base is not None:
        disks.copy_sparse(base, aside)
    fd = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | (0 if base else os.O_TRUNC), 0o600)
    try:
        os.ftruncate(fd, memory_bytes)
        pages.apply_pages(image_folder / "pages", fd, over_zeros=base is None)
    finally:
        os.close(fd)
    atomic.publish(aside, image_folder / "base.mem")
    (image_folder / "pages").unlink()


def incoming(image: Image) -> tuple[int, int | None]:
    """What QEMU reads its device state from, and the end we write to when pages must be in place first."""
    if image.pages is None:
        return os.open(image.device_state, os.O_RDONLY | os.O_CLOEXEC), None
    return os.pipe()


async def feed(qmp: Qmp, body: Body, memory: MappedMemory, image: Image, write_end: int | None) -> None:
    """Completes a resume. Closes `write_end`. Raises StepFailed when QEMU does not take the image."""
    if write_end is not None:
        await asyncio.to_thread(_feed_pages, body, memory, image, write_end)
    await loaded(qmp)


async def loaded(qmp: Qmp) -> None:
    """Waits until QEMU has its device state, then lets the guest run."""
    await _wait_loaded(qmp)
    await qmp.execute("cont")


def _feed_pages(body: Body, memory: MappedMemory, image: Image, write_end: int) -> None:
    with os.fdopen(write_end, "wb") as stream:
        mapping = pages.find_mapping(body.pid, memory.inode, memory.size)
        assert image.pages is not None
        try:
            pages.write_pages(image.pages, mapping)
        except ValueError as error:
            raise Conflict(f"the memory image is damaged: {error}", reason="memory_image_damaged") from error
        stream.write(image.device_state.read_bytes())


async def _wait_loaded(qmp: Qmp, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while (status := (await qmp.execute("query-status"))["status"]) == "inmigrate":
        if time.monotonic() > deadline:
            raise StepFailed(f"QEMU did not load its device state within {timeout_s:g} s")
        await asyncio.sleep(POLL_S)
    if status not in ("paused", "running", "prelaunch", "postmigrate"):
        raise StepFailed(f"QEMU is {status} after it was resumed")
