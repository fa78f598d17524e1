"""Gives a machine its body and takes it away again: namespace, tap, user, group, descriptors, process, memory.

Called by `driver.py` (machines) and `templates.py` (the machine a template is captured from), which differ only in the
image they hand over. Every piece has its undo in `release`, which needs nothing but the note in the machine's home.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Awaitable
from dataclasses import dataclass, field
from pathlib import Path

from sandboxes.drivers import records
from sandboxes.drivers.base import MachineHome, OnStage
from sandboxes.drivers.qemu import launch, snapshot
from sandboxes.drivers.qemu.argv import Accelerator, BodyPlan
from sandboxes.drivers.qemu.machine import Birth, QemuMachine, kept_folder
from sandboxes.drivers.qemu.snapshot import Image, Kept, MappedMemory
from sandboxes.errors import NotRunning, StepFailed
from sandboxes.linux import disks, netns
from sandboxes.linux.cgroups import Groups
from sandboxes.linux.disks import Chain
from sandboxes.linux.doors import guarded_tap
from sandboxes.linux.sealed import SealedFiles
from sandboxes.linux.spawner import Spawner
from sandboxes.linux.uids import Uids
from sandboxes.spec import ImageSet, Shape


@dataclass(frozen=True)
class Order:
    """One body that is wanted. Without an image it boots cold."""

    home: MachineHome
    machine_id: str
    shape: Shape
    fingerprint: str
    image: Image | None = None
    #: Raises Conflict when the image is damaged. Awaited before its device state is fed, so nothing has run.
    proof: Awaitable[None] | None = None


@dataclass
class Workshop:
    instance: str
    images: ImageSet
    accelerator: Accelerator
    groups: Groups
    uids: Uids
    spawner: Spawner = field(default_factory=Spawner)
    sealed: SealedFiles = field(default_factory=SealedFiles)

    async def embody(self, order: Order, on_stage: OnStage) -> QemuMachine:
        """A body that runs, its control socket connected. On any failure nothing of it is left."""
        home = order.home
        home.run.mkdir(parents=True, exist_ok=True)
        records.note_start(home, self.instance, order.machine_id)
        try:
            on_stage("network")
            tap = await netns.create(self.instance, order.machine_id, guarded_tap)
            try:
                on_stage("memory")
                machine = await self._start(order, tap)
            except BaseException:
                os.close(tap)
                raise
            machine.tap = tap
            try:
                on_stage("agent")
            except BaseException:
                await machine.close()
                raise
            return machine
        except BaseException:
            await self.release(home)
            raise

    async def _start(self, order: Order, tap: int) -> QemuMachine:
        chain = disks.read_chain(order.home.disk)
        if chain is None:
            raise StepFailed("this machine has no disk")
        with contextlib.ExitStack() as stack:
            memory_fd, memory = await self._memory(order)
            incoming, write_end = snapshot.incoming(order.image) if order.image else (None, None)
            if incoming is not None:
                stack.callback(os.close, incoming)
            head = order.home.disk / chain.head
            files = launch.Files(
                tap=tap, memory=memory_fd, kernel=await self.sealed.of(self.images.kernel),
                initramfs=await self.sealed.of(self.images.initramfs), incoming=incoming,
                tools=_open(stack, self.images.tools_disk, os.O_RDONLY), head=_open(stack, head, os.O_RDWR),
                head_read_only=_open(stack, head, os.O_RDONLY),
                layers=[_open(stack, order.home.disk / name, os.O_RDONLY) for name in chain.below_head()])
            machine = await self._process(order, chain, files, memory)
        return await self._awaken(machine, order, write_end)

    async def _memory(self, order: Order) -> tuple[int, MappedMemory]:
        size = order.shape.memory_mib << 20
        base = order.image.base if order.image else None
        if base is None or order.image is None:
            fd, kept = await self.sealed.zeros(size), ""
        else:
            kept = str(_keep_base(order.home, base))
            fd = await self.sealed.of(base, size)
        return fd, MappedMemory(os.fstat(fd).st_ino, size, kept)

    async def _process(self, order: Order, chain: Chain, files: launch.Files, memory: MappedMemory) -> QemuMachine:
        plan = BodyPlan(order.shape, self.accelerator, len(chain.below_head()), order.image is not None,
                        f"berth-{self.instance}-{order.machine_id}")
        limits = launch.limits_of(order.shape)
        confinement = launch.Confinement(
            netns=str(netns.path_of(self.instance, order.machine_id)), uid=self.uids.take(order.machine_id),
            cgroups=self.groups.create(order.machine_id, limits), mark=records.mark(self.instance, order.machine_id),
            kvm=self.accelerator.kind == "kvm", limits=limits)
        body, complaints = await launch.start(self.spawner, plan, files, order.home.run, confinement)
        birth = Birth(order.fingerprint, memory, chain.head, _keep_pages(order.home, order.image))
        records.note_body(order.home, body, **birth.to_json())
        return QemuMachine(order.home, body, birth, complaints, netns.path_of(self.instance, order.machine_id))

    async def _awaken(self, machine: QemuMachine, order: Order, write_end: int | None) -> QemuMachine:
        try:
            await machine.connect()
            if order.image is not None:
                feeding, write_end = write_end, None
                if order.proof is not None and feeding is None:
                    await order.proof
                await snapshot.feed(machine.qmp, machine.body, machine.birth.memory, order.image, feeding, order.proof)
            records.note_more(order.home, ready=True)
        except BaseException as error:
            if write_end is not None:
                os.close(write_end)
            machine.keep_complaints()
            said = machine.complaints()
            await machine.close()
            if isinstance(error, (NotRunning, StepFailed)) and said:
                raise StepFailed(f"{error.detail}; QEMU said: {said[-400:]}") from error
            raise
        return machine

    async def release(self, home: MachineHome) -> None:
        """Takes down everything that `embody` put up, whether its process lives or not. Repeatable."""
        machine_id = records.recorded_machine_id(home)
        body = records.recorded_body(home)
        if body is not None:
            if body.alive():
                await body.kill()
            if body.how_it_ended() != "exited":
                _mark_unclean(home)
            body.bury()
        if machine_id:
            await self.take_down(machine_id)
        for path in (kept_base(home), *kept_folder(home).glob("pages-*")):
            path.unlink(missing_ok=True)
        for name in ("qmp.sock", "agent.sock"):
            (home.run / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            (home.run / "root").rmdir()
        records.forget_body(home)

    async def take_down(self, machine_id: str) -> None:
        """What belongs to a machine's body outside its home."""
        await netns.delete(self.instance, machine_id)
        await self.groups.delete(machine_id)
        self.uids.free(machine_id)

    def close(self) -> None:
        self.spawner.close()
        self.sealed.close()


def _open(stack: contextlib.ExitStack, path: Path, flags: int) -> int:
    fd = os.open(path, flags | os.O_CLOEXEC)
    stack.callback(os.close, fd)
    return fd


def kept_base(home: MachineHome) -> Path:
    return kept_folder(home) / "base.mem"


def _keep_base(home: MachineHome, base: Path) -> Path:
    """A name of our own for the base this body maps: the template may be gone when the body is captured."""
    kept = kept_base(home)
    kept.unlink(missing_ok=True)
    disks.share(base, kept)
    return kept


def _keep_pages(home: MachineHome, image: Image | None) -> Kept:
    """As above, for what the image's own files hold: the next capture says only what differs from them."""
    if image is None:
        return Kept()
    for path in image.pages_paths:
        disks.share(path, kept_folder(home) / path.name)
    held = sum(path.stat().st_size for path in image.pages_paths)
    return Kept(image.pages, tuple(image.checksums[name] for name in image.pages), held)


def unclean_mark(home: MachineHome) -> Path:
    return home.path / "driver" / "unclean"


def _mark_unclean(home: MachineHome) -> None:
    unclean_mark(home).parent.mkdir(parents=True, exist_ok=True)
    unclean_mark(home).touch()


async def repair_if_unclean(home: MachineHome) -> None:
    """QEMU did not close the head itself: leaked clusters are given back before the next body opens it."""
    chain = disks.read_chain(home.disk)
    if chain is not None and unclean_mark(home).exists():
        await disks.repair(home.disk / chain.head)
        unclean_mark(home).unlink()
