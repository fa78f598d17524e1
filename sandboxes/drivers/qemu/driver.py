"""The driver of QEMU microVMs: what hostd asks, answered by the files of this folder.

hostd calls it through `base.Driver`. It decides once what this host can do (`facts.py`, `kvm_probe.py`), keeps the
templates, and gives and takes bodies through `embody.py`. How a capture works only `snapshot.py` knows.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import shutil
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path

from sandboxes.drivers import records
from sandboxes.drivers.base import Capabilities, Capture, Commit, MachineHome, OnStage, Use, nothing
from sandboxes.drivers.qemu import captures, embody, facts, kvm_probe
from sandboxes.drivers.qemu.embody import Order, Workshop
from sandboxes.drivers.qemu.machine import Birth, QemuMachine
from sandboxes.drivers.qemu.snapshot import Image, read_image
from sandboxes.drivers.qemu.templates import Templates
from sandboxes.errors import Conflict, NotRunning, StepFailed
from sandboxes.linux import disks, netns
from sandboxes.linux.cgroups import Groups
from sandboxes.linux.names import instance_of
from sandboxes.linux.uids import Uids
from sandboxes.spec import ImageSet, MachineSpec, Shape

log = logging.getLogger("berth.qemu")


@dataclass(frozen=True)
class Means:
    """What is found out once in a life of hostd."""

    capabilities: Capabilities
    workshop: Workshop
    templates: Templates


class QemuDriver:
    def __init__(self, state_dir: Path, images: ImageSet) -> None:
        self.state_dir = state_dir / "qemu"
        self.instance = instance_of(state_dir)
        self.images = images
        self._means: Means | None = None
        self._finding_out = asyncio.Lock()
        self._machines: dict[Path, QemuMachine] = {}
        self._held = captures.Held()

    async def means(self) -> Means:
        async with self._finding_out:
            if self._means is None:
                self._means = await self._find_out()
            return self._means

    async def _find_out(self) -> Means:
        self.state_dir.mkdir(parents=True, exist_ok=True)
        host = await facts.host_facts(self.state_dir)
        refusal = await kvm_probe.refusal(self.state_dir, self.images.kernel)
        accelerator = facts.accelerator(host, refusal)
        groups = Groups(self.instance)
        workshop = Workshop(self.instance, self.images, accelerator, groups,
                            Uids(self.state_dir / "uids", self.instance))
        capabilities = Capabilities(
            driver="qemu", version=host.qemu_version, accelerator=accelerator.kind, memory_images=True, templates=True,
            isolation="microvm", cgroups=groups.hierarchy.kind, max_cpus=os.cpu_count() or 1, why_not_kvm=refusal,
            egress=True)
        return Means(capabilities, workshop, Templates(self.state_dir / "templates", workshop, host))

    async def capabilities(self) -> Capabilities:
        return (await self.means()).capabilities

    async def prepare(self, shape: Shape, on_stage: OnStage) -> None:
        await (await self.means()).templates.ensure(shape, on_stage)

    # -- disks -------------------------------------------------------------------------------------------------------

    async def create_disk(self, home: MachineHome, spec: MachineSpec) -> None:
        if disks.read_chain(home.disk) is None:
            home.path.mkdir(parents=True, exist_ok=True)
            await disks.create(home.disk, await asyncio.to_thread(self._kept_root), spec.disk_gib)

    def _kept_root(self) -> Path:
        """The image's root file under a name of ours: disks stand on it when the image cache is long gone."""
        kept = self.state_dir / "bases" / f"{hashlib.sha256(self.images.fingerprint.encode()).hexdigest()[:24]}.img"
        kept.parent.mkdir(parents=True, exist_ok=True)
        disks.share(self.images.root_disk, kept)
        return kept

    async def disk_used_bytes(self, home: MachineHome) -> int:
        return await asyncio.to_thread(self._held.bytes, home)

    async def usage(self, capture_folder: Path) -> Use:
        return await asyncio.to_thread(captures.usage, capture_folder)

    async def freeze(self, home: MachineHome, into: Path) -> Capture:
        await embody.repair_if_unclean(home)
        await disks.freeze(home.disk, into)
        return Capture(into, 0.0, 0, "")

    async def adopt(self, home: MachineHome, capture_folder: Path, before_swap: Commit = nothing) -> None:
        await disks.adopt(home.disk, capture_folder, before_swap)

    async def tidy(self, home: MachineHome) -> None:
        """Whatever a body has open, it has by descriptor."""
        disks.tidy(home.disk)

    async def share(self, capture_folder: Path, into: Path, *, memory: bool) -> Capture:
        return await asyncio.to_thread(captures.share, capture_folder, into, memory=memory)

    async def fits(self, capture_folder: Path, spec: MachineSpec) -> str:
        image = read_image(capture_folder)
        if image is None:
            return "memory_image_missing"
        unfit = image.fingerprint != (await self.means()).templates.fingerprint(spec.shape)
        return "memory_image_unfit" if unfit else ""

    async def depth(self, home: MachineHome) -> int:
        chain = disks.read_chain(home.disk)
        return disks.depth(chain) if chain is not None else 0

    async def collapse(self, home: MachineHome, max_depth: int) -> int:
        if await self.depth(home) > max_depth:
            machine = await self.find(home)
            if machine is not None:
                await machine.shorten()
            else:
                await captures.shorten(home)
        return await self.depth(home)

    # -- bodies ------------------------------------------------------------------------------------------------------

    async def launch(self, home: MachineHome, spec: MachineSpec, on_stage: OnStage) -> QemuMachine:
        means = await self.means()
        await self.release(home)
        on_stage("disk")
        await self.create_disk(home, spec)
        await self._settle_disk(home, spec)
        try:
            return await self._from_template(means, home, spec, on_stage)
        except (StepFailed, NotRunning) as error:
            log.warning("the template of %s did not resume (%s); it is made anew", spec.shape.key, error)
            means.templates.discard(spec.shape)
            return await self._from_template(means, home, spec, on_stage)

    async def _from_template(self, means: Means, home: MachineHome, spec: MachineSpec,
                             on_stage: OnStage) -> QemuMachine:
        template = await means.templates.ensure(spec.shape, on_stage)
        machine = await self._embody(means, home, spec, template, on_stage)
        try:
            await machine.fit_disk(spec.disk_gib)
        except BaseException:
            await self.release(home)
            raise
        return machine

    async def _settle_disk(self, home: MachineHome, spec: MachineSpec) -> None:
        await embody.repair_if_unclean(home)
        chain = disks.read_chain(home.disk)
        if chain is not None:
            disks.collect(home.disk, await disks.grow(home.disk, chain, spec.disk_gib))

    async def _embody(self, means: Means, home: MachineHome, spec: MachineSpec, image: Image, on_stage: OnStage,
                      proof: Awaitable[None] | None = None) -> QemuMachine:
        order = Order(home, spec.machine_id, spec.shape, image.fingerprint, image, proof)
        machine = await means.workshop.embody(order, on_stage)
        self._machines[home.path] = machine
        return machine

    async def resume(self, home: MachineHome, spec: MachineSpec, capture: Capture, on_stage: OnStage) -> QemuMachine:
        means = await self.means()
        reason, image = await self.fits(capture.folder, spec), read_image(capture.folder)
        if reason or image is None:
            raise Conflict(captures.WHY_NOT.get(reason, reason), reason=reason)
        captures.require_all_files(image)
        await self.release(home)
        proof = asyncio.create_task(captures.prove(image), name=f"proof {spec.machine_id}")
        try:
            on_stage("disk")
            await disks.adopt(home.disk, capture.folder)
            machine = await self._embody(means, home, spec, image, on_stage, proof)
            machine.knows_its_disk = True
            return machine
        finally:
            proof.cancel()
            await asyncio.gather(proof, return_exceptions=True)

    async def find(self, home: MachineHome) -> QemuMachine | None:
        machine = self._machines.get(home.path)
        if machine is not None and machine.body.alive():
            return machine
        note, body = records.record(home), records.recorded_body(home)
        if body is None or not body.alive() or not note.get("ready"):
            await self.release(home)
            return None
        space = netns.path_of(self.instance, records.recorded_machine_id(home) or "")
        machine = QemuMachine(home, body, Birth.from_json(note), namespace=space)
        await machine.connect()
        await machine.go_on()
        self._machines[home.path] = machine
        return machine

    async def release(self, home: MachineHome) -> None:
        machine = self._machines.pop(home.path, None)
        await (await self.means()).workshop.release(home)
        if machine is not None:
            machine.keep_complaints()
            await machine.close()

    async def destroy(self, home: MachineHome) -> None:
        await self.release(home)
        self._held.forget(home)
        await asyncio.to_thread(disks.remove, home.disk)
        await asyncio.to_thread(shutil.rmtree, home.path / "driver", True)

    async def strays(self, known: set[str]) -> list[str]:
        means = await self.means()
        workshop = means.workshop
        bodies = records.marked_bodies(self.instance)
        seen = set(bodies) | netns.machines(self.instance) | workshop.groups.machines()
        strays = sorted(seen - known - means.templates.making)
        for machine_id in strays:
            if machine_id in bodies:
                await bodies[machine_id].kill()
                bodies[machine_id].bury()
            await workshop.take_down(machine_id)
        return strays

    async def close(self) -> None:
        """Lets go of every machine; all of them go on."""
        for machine in self._machines.values():
            await machine.close()
        self._machines.clear()
        if self._means is not None:
            self._means.workshop.close()
