"""A machine's disk: a base image, frozen layers over it, and one writable qcow2 head. Files, not hypervisors.

Called by the drivers. Calls `qcow2.py` for fresh heads and qemu-img through `processes.py`. A head becomes known only
when complete; which files make the chain is written in `chain.json`, published whole. Layers are never written again.

    base.img (raw, shared by hard link) ◀── layer-1.qcow2 ◀── … ◀── head-N.qcow2
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import shutil
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sandboxes.errors import DiskFull, StepFailed
from sandboxes.linux import atomic, qcow2
from sandboxes.linux.processes import ProcessFailed, run
from sandboxes.linux.space import reserved

GIB = 1 << 30
#: A fresh head's own tables, and room for the guest's first writes.
HEAD_BYTES = 16 << 20
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class Chain:
    """The files of one disk, in the machine's disk folder. `layers` from the base upward; no base: an empty disk."""

    base: str
    layers: tuple[str, ...]
    head: str
    size_bytes: int

    @staticmethod
    def from_json(data: dict[str, Any]) -> Chain:
        return Chain(data["base"], tuple(data["layers"]), data["head"], data["size_bytes"])

    def below_head(self) -> tuple[str, ...]:
        return (self.base, *self.layers) if self.base else self.layers

    def frozen(self, new_head: str) -> Chain:
        return replace(self, layers=(*self.layers, self.head), head=new_head)


COPY = "chain-copy.json"


def read_chain(folder: Path) -> Chain | None:
    """None where there is no disk. A chain file that a foreign hand cut short is read from its copy; when both are gone
    this raises StepFailed: a disk whose layers nobody can name is not an empty one.
    """
    broken = False
    for name in ("chain.json", COPY):
        try:
            data = atomic.read_json(folder / name)
            if data is not None:
                return Chain.from_json(data)
            broken |= (folder / name).exists()
        except (ValueError, KeyError, TypeError):
            broken = True
    if broken:
        raise StepFailed(f"{folder}: which files make this disk cannot be read", code="disk_unreadable")
    return None


def write_chain(folder: Path, chain: Chain, *, durable: bool = True) -> None:
    """The copy first: it may speak of a head that holds nothing yet, never of one that is a layer by now."""
    atomic.write_json(folder / COPY, asdict(chain), durable=False)
    atomic.write_json(folder / "chain.json", asdict(chain), durable=durable)


async def create(folder: Path, base: Path, disk_gib: int) -> Chain:
    """A first head over `base`. Already there: that. Raises DiskFull before anything is made."""
    folder.mkdir(parents=True, exist_ok=True)
    known = read_chain(folder)
    if known is not None:
        return known
    with reserved(folder, HEAD_BYTES, "a machine's disk"):
        share(base, folder / "base.img")
        size_bytes = max(disk_gib * GIB, base.stat().st_size)
        chain = Chain("base.img", (), "head-1.qcow2", size_bytes)
        await create_head(folder, chain)
        write_chain(folder, chain)
    return chain


async def nothing() -> None:
    """What `adopt` does before the swap when there is nothing to do."""


async def adopt(folder: Path, source: Path, before_swap: Callable[[], Awaitable[None]] = nothing) -> Chain:
    """The disk of `folder` becomes a fresh head over the frozen chain in `source`; files nobody names then go.

    All that can fail for want of space is done first, then `before_swap` (it ends the body), then one rename: up to it
    the disk is what it was, whatever happens. A disk that is so already (nothing was written since it was parked, or
    since it was adopted) stays.
    """
    frozen = read_chain(source)
    if frozen is None:
        raise StepFailed("this capture has no disk")
    present = read_chain(folder) if before_swap is nothing else None
    if present is not None and _is_untouched_over(folder, present, source, frozen):
        return present
    folder.mkdir(parents=True, exist_ok=True)
    with reserved(folder, HEAD_BYTES, "a machine's disk"):
        try:
            share(source / frozen.base, folder / "base.img")
            layers = tuple(_share_layer(source / name, folder) for name in (*frozen.layers, frozen.head))
            chain = Chain("base.img", layers, fresh_head(folder), frozen.size_bytes)
            await create_head(folder, chain)
            await before_swap()
        except BaseException:
            tidy(folder)
            raise
        write_chain(folder, chain)
    collect(folder, chain)
    return chain


def _is_untouched_over(folder: Path, chain: Chain, source: Path, frozen: Chain) -> bool:
    """By the files themselves, not by a note: a head that a wake wrote into before it failed does not count."""
    stands_on = [folder / name for name in chain.below_head()]
    wanted = [source / name for name in (*frozen.below_head(), frozen.head)]
    try:
        same = len(stands_on) == len(wanted) and all(map(Path.samefile, stands_on, wanted))
    except OSError:
        return False
    return same and chain.size_bytes == frozen.size_bytes and qcow2.is_empty(folder / chain.head)


async def freeze(folder: Path, into: Path) -> Chain:
    """Of a disk without a body: its head becomes a layer, named in `into` together with all below; a fresh head opens.

    Cut off half-way the disk has one layer more, which holds the same bytes.
    """
    chain = read_chain(folder)
    if chain is None:
        raise StepFailed("this machine has no disk")
    into.mkdir(parents=True, exist_ok=True)
    with reserved(folder, HEAD_BYTES, "a checkpoint of a disk"):
        grown = chain.frozen(fresh_head(folder))
        await create_head(folder, grown)
        write_chain(folder, grown)
        name_frozen(folder, grown, into)
        await asyncio.to_thread(atomic.sync_files, into)
    return grown


def name_frozen(folder: Path, grown: Chain, into: Path) -> None:
    """The layers of `grown` under names in `into`, then the chain that makes them a disk. The caller syncs them."""
    for name in (grown.base, *grown.layers):
        share(folder / name, into / name)
    write_chain(into, Chain(grown.base, grown.layers[:-1], grown.layers[-1], grown.size_bytes), durable=False)


def _share_layer(source: Path, folder: Path) -> str:
    """Named by its identity, because two machines number their heads alike."""
    status = source.stat()
    name = f"layer-{status.st_dev:x}-{status.st_ino:x}.qcow2"
    share(source, folder / name)
    return name


def fresh_head(folder: Path) -> str:
    """A name that no head has or had: a body may still know one that was given up."""
    numbers = [int(path.stem.removeprefix("head-")) for path in folder.glob("head-*.qcow2")]
    return f"head-{max(numbers, default=0) + 1}.qcow2"


def collect(folder: Path, chain: Chain) -> None:
    """Removes heads and layers that the chain does not name. A body has what it uses by descriptor, not by name."""
    for path in folder.glob("*.qcow2"):
        if path.name != chain.head and path.name not in chain.layers:
            path.unlink()


def tidy(folder: Path) -> None:
    """What was being made when its maker died: files not yet named, and names that no chain came to speak of."""
    for path in folder.glob(".*.new"):
        path.unlink()
    chain = read_chain(folder)
    if chain is not None:
        collect(folder, chain)


def share(source: Path, target: Path) -> None:
    """The same immutable file under a second name: a hard link, or a copy on another file system."""
    if target.exists():
        return
    with contextlib.suppress(OSError):
        os.link(source, target)
        return
    aside = target.with_name(f".{target.name}.new")
    with reserved(target.parent, source.stat().st_blocks * 512, f"a copy of {source.name}"):
        copy_sparse(source, aside)
        atomic.publish(aside, target)


def copy_sparse(source: Path, target: Path) -> None:
    """Copies data extents only."""
    with source.open("rb") as from_file, target.open("wb") as to_file:
        size = os.fstat(from_file.fileno()).st_size
        os.ftruncate(to_file.fileno(), size)
        for start, end in data_extents(from_file.fileno(), size):
            os.lseek(to_file.fileno(), start, os.SEEK_SET)
            copied = start
            while copied < end:
                copied += os.sendfile(to_file.fileno(), from_file.fileno(), copied, min(end - copied, 1 << 30))


def data_extents(fd: int, size: int) -> list[tuple[int, int]]:
    extents, at = [], 0
    while at < size:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:
            break
        at = os.lseek(fd, start, os.SEEK_HOLE)
        extents.append((start, at))
    return extents


async def create_head(folder: Path, chain: Chain) -> Path:
    """Makes the chain's head file over its topmost layer, complete before it has its name. That name means nothing
    until a chain speaks of it, and `write_chain` makes both durable.
    """
    below = chain.below_head()
    aside, final = folder / f".{chain.head}.new", folder / chain.head
    aside.unlink(missing_ok=True)
    try:
        await asyncio.to_thread(qcow2.write_empty, aside, chain.size_bytes, below[-1] if below else "",
                                "qcow2" if chain.layers else "raw")
        aside.rename(final)
    except OSError as error:
        aside.unlink(missing_ok=True)
        if error.errno in NO_SPACE:
            raise DiskFull(f"no space for a disk head: {error}") from error
        raise StepFailed(f"disk head: {error}") from error
    return final


async def repair(head: Path) -> str:
    """After an unclean death of its writer: leaked clusters are given back. Answers what was found, "" when nothing.

    The head is opened alone: what it stands on is immutable, and is known by `chain.json`, not by names inside files.
    """
    alone = {"driver": "qcow2", "file": {"driver": "file", "filename": str(head)}, "backing": None}
    argv = ["qemu-img", "check", "-q", "-r", "leaks", f"json:{json.dumps(alone)}"]
    try:
        done = await run(argv, ok=(0, 2, 3), timeout_s=600)
    except ProcessFailed as error:
        raise StepFailed(f"the disk head cannot be checked: {error.complaint}") from error
    if done.code == 2:
        raise StepFailed(f"the disk head is corrupt: {done.complaint or done.text}")
    return done.text.strip()


async def grow(folder: Path, chain: Chain, disk_gib: int) -> Chain:
    """Makes a disk without a running body larger; never smaller."""
    wanted = disk_gib * GIB
    if wanted <= chain.size_bytes:
        return chain
    await run(["qemu-img", "resize", "-q", "-f", "qcow2", str(folder / chain.head), str(wanted)])
    grown = replace(chain, size_bytes=wanted)
    write_chain(folder, grown)
    return grown


# -- depth -------------------------------------------------------------------------------------------------------------

def depth(chain: Chain) -> int:
    """How many files above the base a read may go through."""
    return len(chain.layers) + 1


async def flatten(folder: Path, chain: Chain) -> str:
    """All of the chain's layers as one new layer over the base, beside them; answers its name. Nothing is switched yet.

    A private copy of the topmost layer takes in what the others hold: none of them, which others may share, is written.
    """
    top = folder / chain.layers[-1]
    name = _flat_name(folder)
    aside = folder / f".{name}.new"
    held = sum((folder / layer).stat().st_blocks * 512 for layer in chain.layers)
    with reserved(folder, held, "a shorter chain"):
        try:
            await _to_its_end(copy_sparse, top, aside)
            await run(["qemu-img", "rebase", "-q", "-F", "raw", "-b", str((folder / chain.base).resolve()),
                       f"json:{json.dumps(opened(folder, chain.base, (*chain.layers[:-1], aside.name)))}"],
                      timeout_s=3600)
            await _to_its_end(atomic.publish, aside, folder / name)
        except asyncio.CancelledError:
            aside.unlink(missing_ok=True)
            (folder / name).unlink(missing_ok=True)
            raise
        except (ProcessFailed, OSError) as error:
            aside.unlink(missing_ok=True)
            if "No space left" in str(error):
                raise DiskFull(f"no space for a shorter chain: {error}") from error
            raise StepFailed(f"the chain cannot be shortened: {error}") from error
    return name


async def _to_its_end(work: Callable[..., None], *what: Path) -> None:
    """In a thread. Who is cancelled leaves none behind that still writes under a name that the next one takes."""
    working = asyncio.ensure_future(asyncio.to_thread(work, *what))
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait({working})
        raise


def _flat_name(folder: Path) -> str:
    numbers = [int(path.stem.removeprefix("flat-")) for path in folder.glob("flat-*.qcow2")]
    return f"flat-{max(numbers, default=0) + 1}.qcow2"


def opened(folder: Path, base: str, files: Sequence[str]) -> dict[str, Any]:
    """The images of a chain as QEMU's tools open them, each named by us: no name inside a file is followed."""
    below: dict[str, Any] = {"driver": "raw", "file": _file(folder / base)}
    for name in files:
        below = {"driver": "qcow2", "file": _file(folder / name), "backing": below}
    return below


def _file(path: Path) -> dict[str, Any]:
    return {"driver": "file", "filename": str(path.resolve())}


# -- space -------------------------------------------------------------------------------------------------------------

def used_bytes(paths: Iterable[Path]) -> int:
    """What these files occupy, each inode once however many names it has."""
    return sum(inodes(paths).values())


def inodes(paths: Iterable[Path]) -> dict[tuple[int, int], int]:
    """What each of these files occupies, by what it is whatever its names: (device, inode) -> bytes."""
    seen: dict[tuple[int, int], int] = {}
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            status = path.stat()
            seen[status.st_dev, status.st_ino] = status.st_blocks * 512
    return seen


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
