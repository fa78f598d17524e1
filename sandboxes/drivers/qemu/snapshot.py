"""THE ONLY FILE THAT KNOWS HOW A MACHINE IS CAPTURED AND RESUMED. Everyone else says `take` and `feed`.

Called by `machine.py`, `embody.py` and `templates.py`; calls QMP and `linux/pages.py`.

    take:  stop ─▶ device state (no memory in it) ─▶ the caller's work at rest (a new disk head)
           ─▶ pages that differ from what is kept already ─▶ cont
    feed:  QEMU waits for its device state ─▶ the pages are written into its memory ─▶ device state ─▶ cont

The device state is written by `xen-save-devices-state`, which ordinary builds of QEMU have: it leaves memory out and,
with live=false, leaves the block devices active, so that the machine can go on. Memory is a file mapped privately;
what was written since is found by pagemap. An image is a folder:

    image.json     fingerprint, memory size, checksums      device.state   what QEMU wrote
    base.mem       the immutable base (a hard link, or absent: zeros)
    pages-1 …      what differs from it, the eldest first: each says only what changed since those before it, which
                   are the former image's own files under a second name (`Kept`)

`image.json` is written last. A file that is not what it says there is noticed before the machine runs (`intact`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sandboxes.drivers.qemu.qmp import Qmp
from sandboxes.errors import Conflict, StepFailed
from sandboxes.linux import atomic, checksums, pages
from sandboxes.linux.bodies import Body
from sandboxes.linux.pages import Saved

POLL_S = 0.002
#: More files of pages than this make no memory, and what they hold together is not much more than the memory that
#: differs: then one file takes the place of all.
MOST_PAGES_FILES, MOST_PAGES_SHARE = 8, 1.5


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
    #: Names of the files of pages, the eldest first.
    pages: tuple[str, ...] = ()
    checksums: dict[str, str] = field(default_factory=dict)

    @property
    def base(self) -> Path | None:
        path = self.folder / "base.mem"
        return path if path.exists() else None

    @property
    def device_state(self) -> Path:
        return self.folder / "device.state"

    @property
    def pages_paths(self) -> list[Path]:
        return [self.folder / name for name in self.pages]

    @property
    def own_files(self) -> list[Path]:
        """All but the base, which all machines of a template share."""
        return [self.device_state, *self.pages_paths]

    @property
    def files(self) -> list[Path]:
        return [*self.own_files, *([self.base] if self.base else [])]


def read_image(folder: Path) -> Image | None:
    """The image in a folder; None when there is none that is complete (image.json is written last)."""
    try:
        data = atomic.read_json(folder / "image.json")
        known = {name: data[name] for name in Image.__dataclass_fields__ if name in data}
        return Image(folder, **{**known, "pages": tuple(known.get("pages", ()))})
    except (ValueError, TypeError):
        return None  # not there, or cut short by a foreign hand


def write_image(image: Image, *, durable: bool = True) -> None:
    body = asdict(image)
    del body["folder"]
    atomic.write_json(image.folder / "image.json", body, durable=durable)


def summed(image: Image, known: dict[str, str]) -> Image:
    """The same image, knowing what its files hold. `known`: of files that were summed when they were written. A base
    that all share is summed once in a life of hostd.
    """
    sums = {path.name: known.get(path.name) or _sum(path) for path in image.files}
    return Image(image.folder, image.fingerprint, image.memory_bytes, image.pages, sums)


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
class Kept:
    """The files of pages that a body's memory was last seen in, under names of the driver's own, and their sums. A
    page of the body that reads as it does there need not be written again.
    """

    names: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()
    #: How much of the memory differed from its base then.
    private_bytes: int = 0

    @staticmethod
    def of(noted: Mapping[str, Any]) -> Kept:
        return Kept(tuple(noted.get("names", ())), tuple(noted.get("sums", ())), noted.get("private_bytes", 0))

    def paths(self, folder: Path) -> list[Path]:
        return [folder / name for name in self.names]

    def usable(self, folder: Path) -> bool:
        """Whether one more file beside these is better than one in place of all."""
        held = sum(path.stat().st_size for path in self.paths(folder))
        return len(self.names) < MOST_PAGES_FILES and held <= self.private_bytes * MOST_PAGES_SHARE


@dataclass(frozen=True)
class Taken:
    pause_ms: float
    saved: Saved


async def take(qmp: Qmp, body: Body, memory: MappedMemory, into: Path, at_rest: Callable[[], Awaitable[None]], *,
               go_on: bool = True, former: Sequence[Path] = (), name: str = "pages-1",
               still: AbstractAsyncContextManager[object] | None = None) -> Taken:
    """Writes device state and pages into `into` (not synced); `at_rest` runs while nothing moves, all of it within
    `still`. The machine goes on, whatever happens; with `go_on=False` only when this raises.
    """
    mapping = await asyncio.to_thread(pages.find_mapping, body.pid, memory.inode, memory.size)
    state = os.open(into / "device.state", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        fdset, state_name = await qmp.pass_file(state, "device-state")
        try:
            async with still or contextlib.nullcontext():
                save = _Save(mapping, state_name, into / name, former)
                return await _take_paused(qmp, save, at_rest, go_on=go_on)
        finally:
            await qmp.take_back(fdset)
    finally:
        os.close(state)


@dataclass(frozen=True)
class _Save:
    mapping: pages.Mapping
    state_name: str
    pages: Path
    former: Sequence[Path]


async def _take_paused(qmp: Qmp, save: _Save, at_rest: Callable[[], Awaitable[None]], *, go_on: bool) -> Taken:
    began = time.monotonic()
    await qmp.execute("stop")
    try:
        saving = asyncio.ensure_future(asyncio.to_thread(pages.save_pages, save.mapping, save.pages, save.former))
        try:
            await qmp.execute("xen-save-devices-state", {"filename": save.state_name, "live": False})
            await at_rest()
        finally:
            await asyncio.wait({saving})
        saved = saving.result()
    except BaseException:
        await qmp.execute("cont")
        raise
    if go_on:
        await qmp.execute("cont")
    return Taken((time.monotonic() - began) * 1000, saved)


def flatten(image_folder: Path, memory_bytes: int) -> None:
    """Turns pages over zeros into a base, so that many machines can map it. Durable before pages go."""
    aside = image_folder / ".base.mem.new"
    fd = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_TRUNC, 0o600)
    try:
        os.ftruncate(fd, memory_bytes)
        pages.apply_pages(image_folder / "pages-1", fd)
    finally:
        os.close(fd)
    atomic.publish(aside, image_folder / "base.mem")
    (image_folder / "pages-1").unlink()


def incoming(image: Image) -> tuple[int, int | None]:
    """What QEMU reads its device state from, and the end we write to when pages must be in place first."""
    if not image.pages:
        return os.open(image.device_state, os.O_RDONLY | os.O_CLOEXEC), None
    return os.pipe()


async def feed(qmp: Qmp, body: Body, memory: MappedMemory, image: Image, write_end: int | None,
               proof: Awaitable[None] | None = None) -> None:
    """Completes a resume. Closes `write_end`. Raises StepFailed when QEMU does not take the image, and what `proof`
    raises: pages may be in place by then, but nothing has run.
    """
    if write_end is not None:
        with os.fdopen(write_end, "wb") as stream:
            await asyncio.to_thread(_feed_pages, body, memory, image)
            if proof is not None:
                await proof
            await asyncio.to_thread(stream.write, image.device_state.read_bytes())
    await loaded(qmp)


async def loaded(qmp: Qmp) -> None:
    """Waits until QEMU has its device state, then lets the guest run."""
    await _wait_loaded(qmp)
    await qmp.execute("cont")


def _feed_pages(body: Body, memory: MappedMemory, image: Image) -> None:
    mapping = pages.find_mapping(body.pid, memory.inode, memory.size)
    try:
        for path in image.pages_paths:
            pages.write_pages(path, mapping)
    except ValueError as error:
        raise Conflict(f"the memory image is damaged: {error}", reason="memory_image_damaged") from error


async def _wait_loaded(qmp: Qmp, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while (status := (await qmp.execute("query-status"))["status"]) == "inmigrate":
        if time.monotonic() > deadline:
            raise StepFailed(f"QEMU did not load its device state within {timeout_s:g} s")
        await asyncio.sleep(POLL_S)
    if status not in ("paused", "running", "prelaunch", "postmigrate"):
        raise StepFailed(f"QEMU is {status} after it was resumed")
