"""A QEMU machine that runs: how it ends, its disk's size, its capture. One object per body, in this life of hostd.

Made by `embody.py`; called by hostd through `base.LiveMachine`. Calls QMP, `snapshot.py` and `linux/disks.py`. Never
knows what runs in the guest.

    running ──BLOCK_IO_ERROR(nospace)──▶ condition "host_disk_full" ──space again: cont──▶ running
    running ──SHUTDOWN──▶ "exited"      running ──process gone──▶ "killed:…" or "unknown"
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sandboxes.drivers import records
from sandboxes.drivers.base import Capture, Commit, MachineHome, Still
from sandboxes.drivers.qemu import snapshot
from sandboxes.drivers.qemu.argv import BASE_NODE, ROOT_DEVICE, ROOT_NODE
from sandboxes.drivers.qemu.qmp import Qmp
from sandboxes.drivers.qemu.snapshot import Image, Kept, MappedMemory
from sandboxes.errors import NotRunning, StepFailed
from sandboxes.linux import atomic, disks, space
from sandboxes.linux.bodies import Body
from sandboxes.linux.disks import Chain
from sandboxes.linux.pages import Saved
from sandboxes.linux.sealed import read_bounded

SPACE_POLL_S = 2.0
#: The guest goes on once this much is free again beyond the margin.
SPACE_WANTED_BYTES = 64 << 20


@dataclass(frozen=True)
class Birth:
    """What was true of a body when it was started; kept in its note, so that a later hostd knows it, too."""

    fingerprint: str
    memory: MappedMemory
    head: str
    #: Of the image that it was resumed from, or of its last capture since.
    kept: Kept = field(default_factory=Kept)

    def to_json(self) -> dict[str, Any]:
        return {"fingerprint": self.fingerprint, "memory": vars(self.memory), "head": self.head,
                "kept": vars(self.kept)}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Birth:
        return Birth(data["fingerprint"], MappedMemory(**data["memory"]), data["head"], Kept.of(data.get("kept", {})))


def kept_folder(home: MachineHome) -> Path:
    """What a body's memory is made of has names of its own there as long as it lives."""
    return home.path / "driver"


class QemuMachine:
    def __init__(self, home: MachineHome, body: Body, birth: Birth, complaints: int | None = None,
                 namespace: Path | None = None) -> None:
        self.home = home
        self.namespace = namespace
        self.body = body
        self.birth = birth
        self.pid = body.pid
        self.agent_socket = home.run / "agent.sock"
        #: "" or "host_disk_full": why the guest stands still though its body lives.
        self.condition = ""
        self.knows_its_disk = False
        #: A second descriptor of its tap: the kernel takes a tenth of a second to undo a tap, which whoever waits for
        #: the body's end shall not wait for.
        self.tap: int | None = None
        self._complaints = complaints
        self._qmp: Qmp | None = None
        self._shut_down = False
        self._waiting_for_space: asyncio.Task[None] | None = None

    # -- control -----------------------------------------------------------------------------------------------------

    async def connect(self, timeout_s: float = 20.0) -> None:
        self._qmp = await Qmp.connect(self.home.run / "qmp.sock", self._on_event, timeout_s)

    @property
    def qmp(self) -> Qmp:
        if self._qmp is None:
            raise NotRunning("QEMU's control socket is held by someone else")
        return self._qmp

    def _on_event(self, name: str, data: dict[str, Any]) -> None:
        if name == "SHUTDOWN":
            self._shut_down = True
        elif name == "BLOCK_IO_ERROR" and data.get("nospace"):
            self.condition = "host_disk_full"
            if self._waiting_for_space is None or self._waiting_for_space.done():
                self._waiting_for_space = asyncio.create_task(self._go_on_with_space(), name="wait-for-space")
        elif name == "RESUME":
            self.condition = ""

    async def _go_on_with_space(self) -> None:
        while self.body.alive() and self.condition:
            if space.free_bytes(self.home.disk) > SPACE_WANTED_BYTES:
                with contextlib.suppress(StepFailed, NotRunning):
                    await self.qmp.execute("cont")
            await asyncio.sleep(SPACE_POLL_S)

    async def close(self) -> None:
        """Lets go of the machine without touching it."""
        if self._waiting_for_space is not None:
            self._waiting_for_space.cancel()
        if self._qmp is not None:
            await self._qmp.close()
            self._qmp = None
        if self._complaints is not None:
            os.close(self._complaints)
            self._complaints = None
        if self.tap is not None:
            asyncio.get_running_loop().run_in_executor(None, os.close, self.tap)
            self.tap = None

    # -- its end -----------------------------------------------------------------------------------------------------

    async def wait_end(self) -> str:
        reason = await self.body.ended()
        self.keep_complaints()
        return "exited" if reason == "unknown" and self._shut_down else reason

    async def kill(self) -> None:
        await self.body.kill()

    async def quit(self) -> None:
        """Ends QEMU in order: its files are closed cleanly. For machines whose guest is of no interest any more."""
        with contextlib.suppress(NotRunning, StepFailed):
            await self.qmp.execute("quit", timeout_s=5)
        try:
            async with asyncio.timeout(5):
                await self.body.ended()
        except TimeoutError:
            await self.body.kill()

    def complaints(self) -> str:
        """What QEMU itself said on its standard streams, bounded."""
        return read_bounded(self._complaints).strip() if self._complaints is not None else ""

    def keep_complaints(self) -> None:
        with contextlib.suppress(OSError):
            if said := self.complaints():
                (self.home.run / "console.log").write_text(said + "\n")

    # -- its disk ----------------------------------------------------------------------------------------------------

    async def _top_node(self) -> str:
        for device in await self.qmp.execute("query-block"):
            if str(device.get("qdev", "")).split("/")[-2:-1] == [ROOT_DEVICE] or device.get("qdev") == ROOT_DEVICE:
                return str(device["inserted"]["node-name"])
        raise StepFailed("QEMU has no root disk")

    async def fit_disk(self, disk_gib: int) -> None:
        """Never smaller than it is: what was resumed, or cloned, may rely on more than was asked for. A memory that was
        resumed over its own disk knows its size.
        """
        known = disks.read_chain(self.home.disk)
        if self.knows_its_disk and known is not None and known.size_bytes >= disk_gib * disks.GIB:
            return
        top = await self._top_node()
        chain = await self._true_chain(top)
        size_bytes = max(disk_gib * disks.GIB, chain.size_bytes)
        await self.qmp.execute("block_resize", {"node-name": top, "size": size_bytes})
        if size_bytes != chain.size_bytes:
            disks.write_chain(self.home.disk, replace(chain, size_bytes=size_bytes))

    async def _true_chain(self, top: str) -> Chain:
        """The chain as QEMU has it. A hostd that died while it froze a head may have noted one head too many."""
        chain = disks.read_chain(self.home.disk)
        if chain is None:
            raise StepFailed("this machine has no disk")
        head = self.birth.head if top == ROOT_NODE else f"{top}.qcow2"
        if head != chain.head and head in chain.layers:
            chain = Chain(chain.base, chain.layers[:chain.layers.index(head)], head, chain.size_bytes)
            disks.write_chain(self.home.disk, chain)
        return chain

    # -- capture -----------------------------------------------------------------------------------------------------

    async def capture(self, into: Path, *, memory: bool = True, still: Still | None = None) -> Capture:
        return await self._capture(into, memory=memory, still=still)

    async def park(self, into: Path, commit: Commit, still: Still | None = None) -> Capture:
        async with _begun(still or contextlib.nullcontext()) as entered:
            capture = await self._capture(into, memory=True, still=entered, go_on=False)
            try:
                await commit()
            except BaseException:
                await self.qmp.execute("cont")
                raise
            await self.quit()
        return capture

    async def _capture(self, into: Path, *, memory: bool, still: Still | None = None, go_on: bool = True) -> Capture:
        """What can be done before the guest stands still, or after, is."""
        into.mkdir(parents=True, exist_ok=True)
        size = self.birth.memory.size if memory else 0
        what, kept_for = ("a checkpoint", None) if go_on else ("a memory image", self.home.path)
        with space.reserved(into, size + disks.HEAD_BYTES, what, kept_for):
            top = await self._top_node()
            chain = await self._true_chain(top)
            grown = chain.frozen(disks.fresh_head(self.home.disk))
            await disks.create_head(self.home.disk, grown)
            try:
                await self._add_head(grown)
                disks.write_chain(self.home.disk, grown)
                kept, taken = await self._take(into, self._freezing(top, grown), memory, still, go_on)
            except Exception:
                await self._give_up_head(grown)
                raise
            try:
                return await asyncio.to_thread(self._finish_capture, into, grown, taken, kept)
            except BaseException:
                if not go_on:
                    await self.qmp.execute("cont")
                raise

    async def _take(self, into: Path, freeze: Callable[[], Awaitable[None]], memory: bool, still: Still | None,
                    go_on: bool) -> tuple[Kept | None, snapshot.Taken]:
        """With memory: which files of pages the new image stands on, its own the last of them."""
        if memory:
            former = self._former()
            name = f"pages-{len(former.names) + 1}"
            taken = await snapshot.take(self.qmp, self.body, self.birth.memory, into, freeze, go_on=go_on, still=still,
                                        former=former.paths(kept_folder(self.home)), name=name)
            return former, taken
        async with still or contextlib.nullcontext():
            began = time.monotonic()
            await freeze()
            return None, snapshot.Taken((time.monotonic() - began) * 1000, Saved(0, 0, ""))

    def _former(self) -> Kept:
        """What the next image may stand on: nothing where one whole file is the better by now."""
        kept = self.birth.kept
        return kept if kept.usable(kept_folder(self.home)) else Kept()

    def _freezing(self, top: str, grown: Chain) -> Callable[[], Awaitable[None]]:
        async def freeze() -> None:
            await self.qmp.execute("blockdev-snapshot", {"node": top, "overlay": _node_of(grown.head)})

        return freeze

    async def _give_up_head(self, grown: Chain) -> None:
        """A capture failed. When QEMU writes into the new head already, that one is the disk; else it goes."""
        with contextlib.suppress(StepFailed, NotRunning):
            if (await self._true_chain(await self._top_node())).head != grown.head:
                await self.qmp.execute("blockdev-del", {"node-name": _node_of(grown.head)})
                (self.home.disk / grown.head).unlink(missing_ok=True)

    async def _add_head(self, chain: Chain) -> None:
        """The next head becomes a node of QEMU's that nothing is above or below yet."""
        path, node = self.home.disk / chain.head, _node_of(chain.head)
        writable = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        readable = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fdset, name = await self.qmp.pass_file(writable, node)
            await self.qmp.pass_file(readable, node, fdset)
        finally:
            os.close(writable)
            os.close(readable)
        file = {"driver": "file", "filename": name, "node-name": f"{node}-file", "discard": "unmap"}
        await self.qmp.execute("blockdev-add", {"driver": "qcow2", "node-name": node, "file": file, "backing": None,
                                                "discard": "unmap"})

    def _finish_capture(self, into: Path, chain: Chain, taken: snapshot.Taken, former: Kept | None) -> Capture:
        """The capture's other files by hard link, then image.json, which makes its memory complete."""
        disks.name_frozen(self.home.disk, chain, into)
        if former is not None:
            snapshot.write_image(self._image(into, taken, former), durable=False)
        atomic.sync_files(into)
        if former is not None:
            self._keep(into, former, taken)
        return Capture(into, taken.pause_ms, taken.saved.bytes, "" if former is None else self.birth.fingerprint)

    def _image(self, into: Path, taken: snapshot.Taken, former: Kept) -> Image:
        """The files that the new pages stand on come under their places' names."""
        names = tuple(f"pages-{number + 1}" for number in range(len(former.names) + 1))
        for path, name in zip(former.paths(kept_folder(self.home)), names, strict=False):
            disks.share(path, into / name)
        if self.birth.memory.base:
            disks.share(Path(self.birth.memory.base), into / "base.mem")
        sums = dict(zip(names, (*former.sums, taken.saved.checksum), strict=True))
        return snapshot.summed(Image(into, self.birth.fingerprint, self.birth.memory.size, names), sums)

    def _keep(self, into: Path, former: Kept, taken: snapshot.Taken) -> None:
        """The next capture goes by this one. Noted whole before files that it goes by no longer lose their names."""
        before, folder = self.birth.kept, kept_folder(self.home)
        name = f"pages-{max((int(name.rpartition('-')[2]) for name in before.names), default=0) + 1}"
        disks.share(into / f"pages-{len(former.names) + 1}", folder / name)
        kept = Kept((*former.names, name), (*former.sums, taken.saved.checksum), taken.saved.private_bytes)
        records.note_more(self.home, kept=vars(kept))
        self.birth = replace(self.birth, kept=kept)
        for gone in set(before.names) - set(kept.names):
            (folder / gone).unlink(missing_ok=True)

    # -- the depth of its disk ---------------------------------------------------------------------------------------

    async def shorten(self) -> None:
        """All layers become one, and QEMU is handed that one in their place; the guest does not notice."""
        head = await self._top_node()
        chain = await self._true_chain(head)
        flat = await disks.flatten(self.home.disk, chain)
        await self._add_layer(flat)
        top = await self._node(head)
        await self.qmp.execute("blockdev-reopen", {"options": [{
            "driver": "qcow2", "node-name": head, "file": top["file"], "discard": "unmap", "backing": _node_of(flat)}]})
        short = Chain(chain.base, (flat,), chain.head, chain.size_bytes)
        disks.write_chain(self.home.disk, short)
        await self._drop_unused_nodes()
        disks.collect(self.home.disk, short)

    async def _node(self, name: str) -> dict[str, str]:
        """The node's children by role."""
        graph = await self.qmp.execute("x-debug-query-block-graph")
        names = {node["id"]: node["name"] for node in graph["nodes"]}
        return {edge["name"]: names[edge["child"]] for edge in graph["edges"] if names[edge["parent"]] == name}

    async def _add_layer(self, layer: str) -> None:
        node = _node_of(layer)
        readable = os.open(self.home.disk / layer, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _fdset, name = await self.qmp.pass_file(readable, node)
        finally:
            os.close(readable)
        file = {"driver": "file", "filename": name, "node-name": f"{node}-file", "read-only": True}
        await self.qmp.execute("blockdev-add", {"driver": "qcow2", "node-name": node, "file": file, "read-only": True,
                                                "backing": BASE_NODE})

    async def _drop_unused_nodes(self) -> None:
        """Layers that nothing stands on any more; QEMU itself refuses to drop one that is in use."""
        dropped = True
        while dropped:
            dropped = False
            for node in await self.qmp.execute("query-named-block-nodes", {"flat": True}):
                if node["drv"] == "qcow2":
                    with contextlib.suppress(StepFailed):
                        await self.qmp.execute("blockdev-del", {"node-name": node["node-name"]})
                        dropped = True

    async def go_on(self) -> None:
        """A capture that was cut off left it standing still. One that waits for space goes on by itself."""
        status = (await self.qmp.execute("query-status"))["status"]
        if status == "paused":
            await self.qmp.execute("cont")


@contextlib.asynccontextmanager
async def _begun(context: Still) -> AsyncIterator[Still]:
    """Enters a context meanwhile; who enters what is yielded waits until that one is entered. It is left at the end of
    the block."""
    async with contextlib.AsyncExitStack() as stack:
        entering = asyncio.ensure_future(stack.enter_async_context(context))

        @contextlib.asynccontextmanager
        async def entered() -> AsyncIterator[None]:
            await entering
            yield

        try:
            yield entered()
        finally:
            await asyncio.gather(entering, return_exceptions=True)


def _node_of(head: str) -> str:
    return head.removesuffix(".qcow2")
