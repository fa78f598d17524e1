"""One captured machine per shape, from before its root disk was mounted: kernel booted, agent waiting.

Called by `driver.py`. A start resumes a template over the machine's own disk, so it costs a resume even under
emulation, and no stale memory can ever meet a changed disk. A template is keyed by its fingerprint; one that no longer
fits is made anew and the old one unlinked (bodies that run on it keep their own name for its memory).
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path

from sandboxes.drivers.base import MachineHome, OnStage
from sandboxes.drivers.qemu import snapshot
from sandboxes.drivers.qemu.argv import BodyPlan
from sandboxes.drivers.qemu.embody import Order, Workshop
from sandboxes.drivers.qemu.facts import HostFacts
from sandboxes.drivers.qemu.fingerprint import fingerprint, ingredients
from sandboxes.drivers.qemu.machine import QemuMachine
from sandboxes.drivers.qemu.snapshot import Image, read_image
from sandboxes.errors import AgentLost, StepFailed
from sandboxes.guest.link import GuestLink
from sandboxes.linux import atomic, disks
from sandboxes.linux.disks import Chain
from sandboxes.linux.space import reserved
from sandboxes.spec import Shape

log = logging.getLogger("berth.templates")

#: A cold boot takes 11 to 16 s under emulation on an idle host; a busy one gets its time.
BOOT_DEADLINE_S = 180.0
PLACEHOLDER = Chain("", (), "head-1.qcow2", disks.GIB)
MACHINE_PREFIX = "template-"


class Templates:
    def __init__(self, folder: Path, workshop: Workshop, facts: HostFacts) -> None:
        self.folder = folder
        self._workshop = workshop
        self._facts = facts
        self._locks: dict[str, asyncio.Lock] = {}
        #: Machine ids of templates that are being made now; one of a former hostd's is a stray.
        self.making: set[str] = set()

    def fingerprint(self, shape: Shape) -> str:
        plan = BodyPlan(shape, self._workshop.accelerator)
        return fingerprint(ingredients(plan, self._workshop.images.boot_fingerprint, self._facts))

    def _folder(self, shape: Shape) -> Path:
        return self.folder / f"{shape.key}-{self.fingerprint(shape)}"

    async def ensure(self, shape: Shape, on_stage: OnStage) -> Image:
        """The template of this shape, made when missing. Concurrent calls wait for one making."""
        async with self._locks.setdefault(shape.key, asyncio.Lock()):
            image = read_image(self._folder(shape))
            if image is None:
                on_stage("template")
                image = await self._make(shape, on_stage)
                self._drop_others(shape)
            return image

    def discard(self, shape: Shape) -> None:
        """This template did not resume: the next start makes a new one."""
        shutil.rmtree(self._folder(shape), ignore_errors=True)

    def _drop_others(self, shape: Shape) -> None:
        for folder in self.folder.glob(f"{shape.key}-*"):
            if folder != self._folder(shape):
                shutil.rmtree(folder, ignore_errors=True)

    async def _make(self, shape: Shape, on_stage: OnStage) -> Image:
        machine_id = f"{MACHINE_PREFIX}{shape.key}"
        home = MachineHome(self.folder / f".{machine_id}")
        self.folder.mkdir(parents=True, exist_ok=True)
        await self._workshop.release(home)
        shutil.rmtree(home.path, ignore_errors=True)
        self.making.add(machine_id)
        try:
            with reserved(self.folder, (shape.memory_mib << 20) + disks.HEAD_BYTES, "a template's memory"):
                return await self._boot_and_capture(shape, home, on_stage)
        finally:
            await self._workshop.release(home)
            self.making.discard(machine_id)
            shutil.rmtree(home.path, ignore_errors=True)

    async def _boot_and_capture(self, shape: Shape, home: MachineHome, on_stage: OnStage) -> Image:
        home.disk.mkdir(parents=True)
        await disks.create_head(home.disk, PLACEHOLDER)
        disks.write_chain(home.disk, PLACEHOLDER)
        order = Order(home, f"{MACHINE_PREFIX}{shape.key}", shape, self.fingerprint(shape))
        machine = await self._workshop.embody(order, on_stage)
        try:
            await self._agent_waits(machine)
            return await self._capture(shape, machine, home.path / "image")
        finally:
            await machine.quit()
            await machine.close()

    async def _agent_waits(self, machine: QemuMachine) -> None:
        """Until the agent has answered and nothing is in flight. A machine that dies meanwhile is not waited for."""
        opening = asyncio.create_task(GuestLink.open(machine.agent_socket, epoch=0, timeout_s=BOOT_DEADLINE_S))
        dying = asyncio.create_task(machine.body.ended())
        try:
            await asyncio.wait({opening, dying}, return_when=asyncio.FIRST_COMPLETED)
            if not opening.done():
                raise StepFailed(f"the template's machine ended while it booted: {machine.complaints()[-400:]}")
            link = await opening
        except AgentLost:
            log.error("the template's guest said: %s", (await machine.qmp.console())[-2000:])
            raise
        finally:
            opening.cancel()
            dying.cancel()
        await link.drain()
        await link.close()

    async def _capture(self, shape: Shape, machine: QemuMachine, aside: Path) -> Image:
        async def nothing() -> None:
            """A template has no disk worth freezing."""

        aside.mkdir()
        await snapshot.take(machine.qmp, machine.body, machine.birth.memory, aside, nothing)
        await asyncio.to_thread(snapshot.flatten, aside, machine.birth.memory.size)
        taken = Image(aside, machine.birth.fingerprint, machine.birth.memory.size)
        snapshot.write_image(await asyncio.to_thread(snapshot.summed, taken, {}))
        await asyncio.to_thread(atomic.sync_files, aside)
        final = self._folder(shape)
        shutil.rmtree(final, ignore_errors=True)
        aside.rename(final)
        atomic.sync_folder(self.folder)
        image = read_image(final)
        assert image is not None
        return image
