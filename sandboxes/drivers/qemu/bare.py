"""A template, or a machine's own capture, resumed by hand: the floor that `berth bench` measures a start or a wake
against. Never used to run workspaces.

Called by the bench alone. The same QEMU, arguments, memory and files as a start through the driver, but no jail, no
limits, no notes: what is left is what QEMU itself costs. `BareQemu.open` does what a hand would have ready.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandboxes.drivers.base import MachineHome
from sandboxes.drivers.qemu import argv, snapshot
from sandboxes.drivers.qemu.driver import QemuDriver
from sandboxes.drivers.qemu.qmp import Qmp
from sandboxes.errors import StepFailed
from sandboxes.linux import disks, netns
from sandboxes.linux.bodies import Body
from sandboxes.linux.processes import CLEAN_ENV, log_line
from sandboxes.linux.sockets import listening
from sandboxes.linux.taps import open_tap
from sandboxes.spec import MachineSpec

#: Descriptors are moved out of the way of the numbers that the arguments speak of.
ASIDE_FD = 512
MACHINE_ID = "bare"


@dataclass
class BareQemu:
    home: MachineHome
    spec: MachineSpec
    _driver: QemuDriver
    _plan: argv.BodyPlan
    _image: snapshot.Image
    _fixed: dict[int, int]
    #: While it is resumed: for who captures it by hand.
    qmp: Qmp | None = None
    body: Body | None = None

    @property
    def memory(self) -> snapshot.MappedMemory:
        return snapshot.MappedMemory(os.fstat(self._fixed[argv.FD_MEMORY]).st_ino, self._image.memory_bytes, "")

    @staticmethod
    async def open(driver: QemuDriver, home: MachineHome, spec: MachineSpec, capture: Path | None = None) -> BareQemu:
        """Makes the disk, the tap and the shared memory ready; none of it is part of what is measured."""
        means = await driver.means()
        if capture is None:
            image: snapshot.Image | None = await means.templates.ensure(spec.shape, lambda stage: None)
            await driver.create_disk(home, spec)
        else:
            image = snapshot.read_image(capture)
            await driver.adopt(home, capture)
        home.run.mkdir(parents=True, exist_ok=True)
        chain = disks.read_chain(home.disk)
        if chain is None or image is None or image.base is None:
            raise StepFailed("nothing to resume by hand")
        sealed = means.workshop.sealed
        fixed = {
            argv.FD_TAP: await netns.create(driver.instance, MACHINE_ID, open_tap),
            argv.FD_MEMORY: await sealed.of(image.base, spec.shape.memory_mib << 20),
            argv.FD_KERNEL: await sealed.of(driver.images.kernel),
            argv.FD_INITRAMFS: await sealed.of(driver.images.initramfs),
        }
        plan = argv.BodyPlan(spec.shape, means.workshop.accelerator, len(chain.below_head()), incoming=True)
        return BareQemu(home, spec, driver, plan, image, fixed)

    @contextlib.asynccontextmanager
    async def resumed(self) -> AsyncIterator[Path]:
        """One body, killed at the end of the block. Yields its agent's socket as soon as the guest runs."""
        with contextlib.ExitStack() as stack:
            incoming, write_end = snapshot.incoming(self._image)
            stack.callback(os.close, incoming)
            body = self.body = self._spawn({**self._fixed, **self._opened(stack), argv.FD_INCOMING: incoming})
        try:
            qmp = self.qmp = await Qmp.connect(self.home.run / "qmp.sock", lambda name, data: None)
            await snapshot.feed(qmp, body, self.memory, self._image, write_end)
            # The guest knows the template's placeholder until it is told its disk's real size.
            await qmp.execute("block_resize", {"node-name": argv.ROOT_NODE, "size": self.spec.disk_gib * disks.GIB})
            yield self.home.run / "agent.sock"
            await qmp.close()
        finally:
            self.qmp = self.body = None
            await body.kill()
            body.bury()

    def _opened(self, stack: contextlib.ExitStack) -> dict[int, int]:
        def opened(path: Path, flags: int) -> int:
            fd = os.open(path, flags | os.O_CLOEXEC)
            stack.callback(os.close, fd)
            return fd

        chain = disks.read_chain(self.home.disk)
        assert chain is not None
        below = {argv.FD_FIRST_LAYER + index: opened(self.home.disk / name, os.O_RDONLY)
                 for index, name in enumerate(chain.below_head())}
        return {
            argv.FD_QMP: stack.enter_context(listening(self.home.run / "qmp.sock")).fileno(),
            argv.FD_AGENT: stack.enter_context(listening(self.home.run / "agent.sock")).fileno(),
            argv.FD_TOOLS: opened(self._driver.images.tools_disk, os.O_RDONLY),
            argv.FD_HEAD: opened(self.home.disk / chain.head, os.O_RDWR),
            argv.FD_HEAD_READ_ONLY: opened(self.home.disk / chain.head, os.O_RDONLY),
            **below,
        }

    def _spawn(self, fds: Mapping[int, int]) -> Body:
        arguments = argv.arguments(self._plan)
        log_line(arguments)
        aside = {number: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, ASIDE_FD) for number, fd in fds.items()}
        actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in aside.items()]
        try:
            pid = os.posix_spawn(arguments[0], arguments, CLEAN_ENV, file_actions=actions)
        finally:
            for fd in aside.values():
                os.close(fd)
        body = Body.of(pid)
        assert body is not None
        return body

    async def close(self) -> None:
        os.close(self._fixed.pop(argv.FD_TAP))
        await netns.delete(self._driver.instance, MACHINE_ID)
        await self._driver.destroy(self.home)
