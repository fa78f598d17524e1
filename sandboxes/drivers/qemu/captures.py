"""Captures as folders: one shared under another name, what one holds, one whose chain is too deep. No body, no QEMU.

Called by `driver.py`; calls `snapshot.py` for the memory's files and `linux/disks.py` for the disk's.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from sandboxes.drivers.base import Capture, MachineHome, Use
from sandboxes.drivers.qemu import embody, snapshot
from sandboxes.drivers.qemu.machine import kept_folder
from sandboxes.drivers.qemu.snapshot import Image, read_image
from sandboxes.errors import Conflict, StepFailed
from sandboxes.linux import atomic, disks
from sandboxes.linux.disks import Chain

Identity = tuple[int, ...]
Inodes = dict[tuple[int, int], int]
WHY_NOT = {
    "memory_image_missing": "there is no complete memory image",
    "memory_image_unfit": "this memory image was captured on another kind of machine",
    "memory_image_damaged": "the memory image is not what was written",
}


async def prove(image: Image) -> None:
    """Raises Conflict when a file of the image is not what was written."""
    if not await asyncio.to_thread(snapshot.intact, image):
        raise _damaged()


def require_all_files(image: Image) -> None:
    """As `prove`, for what is seen without reading: before anything is made of them."""
    if not all((image.folder / name).exists() for name in image.checksums):
        raise _damaged()


def _damaged() -> Conflict:
    return Conflict(WHY_NOT["memory_image_damaged"], reason="memory_image_damaged")


def share(source: Path, into: Path, *, memory: bool) -> Capture:
    """By hard links; `chain.json` and `image.json` last, because they say that the rest is there."""
    chain = disks.read_chain(source)
    if chain is None:
        raise StepFailed("this capture has no disk")
    into.mkdir(parents=True, exist_ok=True)
    for name in (*chain.below_head(), chain.head):
        disks.share(source / name, into / name)
    disks.write_chain(into, chain)
    image = read_image(source) if memory else None
    if image is None:
        return Capture(into, 0.0, 0, "")
    for path in image.files:
        disks.share(path, into / path.name)
    snapshot.write_image(replace(image, folder=into))
    return Capture(into, 0.0, memory_bytes(image), image.fingerprint)


def memory_bytes(image: Image) -> int:
    """What the image holds, without the base that all machines of a template share."""
    return disks.used_bytes(image.own_files)


def usage(folder: Path) -> Use:
    chain, image = disks.read_chain(folder), read_image(folder)
    top = disks.used_bytes([folder / chain.head]) if chain is not None else 0
    return Use(top, memory_bytes(image) if image is not None else 0)


class Held:
    """What machines occupy: every layer, head and memory file of disk, standby, checkpoints and a body, once.

    Nobody writes into a checkpoint again, so its files are counted once in a life of hostd, and asking costs no more
    after a hundred of them. Blocking.
    """

    def __init__(self) -> None:
        self._counted: dict[Path, dict[str, tuple[Identity, Inodes]]] = {}

    def bytes(self, home: MachineHome) -> int:
        before, now = self._counted.get(home.path, {}), {}
        found = disks.inodes([*home.disk.glob("*.qcow2"), *_files_of(home.standby),
                              *kept_folder(home).glob("pages-*")])
        for folder in (home.path / "checkpoints").glob("*"):
            identity = _identity(folder)
            known = before.get(folder.name)
            if known is None or known[0] != identity:
                known = identity, disks.inodes(_files_of(folder))
            found.update(known[1])
            if not folder.name.startswith("."):  # that one is being made, or is going
                now[folder.name] = known
        self._counted[home.path] = now
        return sum(found.values())

    def forget(self, home: MachineHome) -> None:
        self._counted.pop(home.path, None)


def _identity(folder: Path) -> Identity:
    """Another one where a folder of the same name is another, or names other files."""
    try:
        status = folder.stat()
    except FileNotFoundError:
        return ()
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _files_of(capture: Path) -> list[Path]:
    image = read_image(capture)
    return [*capture.glob("*.qcow2"), *(image.own_files if image is not None else [])]


async def shorten(home: MachineHome) -> None:
    """Of a disk without a body. A parked machine's standby names the same layers: it is told first, because a wake
    goes by it; in between each of the two chains is whole.
    """
    await embody.repair_if_unclean(home)
    chain = disks.read_chain(home.disk)
    parked = disks.read_chain(home.standby)
    if chain is None or not chain.layers or (parked is not None and not _same_layers(home, chain, parked)):
        return
    flat = await disks.flatten(home.disk, chain)
    if parked is not None:
        disks.share(home.disk / flat, home.standby / flat)
        disks.write_chain(home.standby, Chain(parked.base, (), flat, parked.size_bytes))
        disks.collect(home.standby, Chain(parked.base, (), flat, parked.size_bytes))
    short = Chain(chain.base, (flat,), chain.head, chain.size_bytes)
    disks.write_chain(home.disk, short)
    disks.collect(home.disk, short)
    atomic.sync_folder(home.disk)


def _same_layers(home: MachineHome, chain: Chain, parked: Chain) -> bool:
    """A rollback that was cut off may have left the standby of one past beside the disk of another."""
    return [(home.disk / name).stat().st_ino for name in chain.layers] == \
        [(home.standby / name).stat().st_ino for name in (*parked.layers, parked.head)]
