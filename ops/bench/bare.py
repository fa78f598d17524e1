"""The floor of create and start: QEMU resumed by hand from the stage's own template to the result of a first `true`.

No jail, no limits, no records, no HTTP: the argument list, the template, the agent. What can be there beforehand (a
disk head, a tap, the shared memory file) is made before the clock starts.
"""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from ops.bench.round_trip import new_id
from ops.bench.stage import Stage
from sandboxes.drivers.qemu import argv, facts, snapshot
from sandboxes.drivers.qemu.argv import Accelerator, BodyPlan
from sandboxes.drivers.qemu.qmp import Qmp
from sandboxes.drivers.qemu.snapshot import Image, MappedMemory
from sandboxes.guest.image.build import ensure
from sandboxes.guest.link import GuestLink
from sandboxes.linux import disks, netns
from sandboxes.linux.bodies import Body
from sandboxes.linux.sealed import SealedFiles
from sandboxes.linux.taps import open_tap
from sandboxes.spec import ImageSet, Shape

INSTANCE, MACHINE = "bench", "bare"
DISK_GIB = 10


def resume_s(stage: Stage, rounds: int) -> list[float]:
    """Seconds of each round."""
    return asyncio.run(_rounds(stage, rounds))


async def _rounds(stage: Stage, rounds: int) -> list[float]:
    images = ensure(stage.instance.cache, lambda said: None)
    qemu_state = stage.instance.host_state / "qemu"
    host = await facts.host_facts(qemu_state)
    accelerated = str(stage.hostd().call("GET", "/v1/host")["capabilities"]["accelerator"])
    plan = BodyPlan(Shape(), Accelerator(accelerated, host.tsc_khz), layers=1, incoming=True)
    template = next(found for folder in qemu_state.glob(f"templates/{Shape().key}-*")
                    if (found := snapshot.read_image(folder)) is not None)
    sealed = SealedFiles()
    try:
        return [await _one(images, plan, template, sealed) for _ in range(rounds)]
    finally:
        sealed.close()


async def _one(images: ImageSet, plan: BodyPlan, template: Image, sealed: SealedFiles) -> float:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="berth-bare-")))
        chain = await disks.create(folder, images.root_disk, DISK_GIB)
        tap = await netns.create(INSTANCE, MACHINE, open_tap)
        stack.callback(os.close, tap)
        assert template.base is not None
        memory = await sealed.of(template.base, template.memory_bytes)
        incoming, _ = snapshot.incoming(template)
        files = {argv.FD_TAP: tap, argv.FD_MEMORY: memory, argv.FD_INCOMING: incoming,
                 argv.FD_KERNEL: opened(images.kernel), argv.FD_INITRAMFS: opened(images.initramfs),
                 argv.FD_TOOLS: opened(images.tools_disk), argv.FD_HEAD: opened(folder / chain.head, os.O_RDWR),
                 argv.FD_HEAD_READ_ONLY: opened(folder / chain.head),
                 argv.FD_FIRST_LAYER: opened(images.root_disk)}
        for number in files.keys() - {argv.FD_TAP, argv.FD_MEMORY}:
            stack.callback(os.close, files[number])
        for number, name in ((argv.FD_QMP, "qmp.sock"), (argv.FD_AGENT, "agent.sock")):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            listener.bind(str(folder / name))
            listener.listen(1)
            files[number] = listener.fileno()
        try:
            return await _timed(plan, files, folder, template)
        finally:
            await netns.delete(INSTANCE, MACHINE)


def opened(path: Path, flags: int = os.O_RDONLY) -> int:
    return os.open(path, flags | os.O_CLOEXEC)


async def _timed(plan: BodyPlan, files: dict[int, int], folder: Path, template: Image) -> float:
    started = time.perf_counter()
    process = start(plan, files)
    try:
        body = Body.of(process.pid)
        assert body is not None
        qmp = await Qmp.connect(folder / "qmp.sock", lambda name, data: None)
        memory = MappedMemory(os.fstat(files[argv.FD_MEMORY]).st_ino, template.memory_bytes, "")
        await snapshot.feed(qmp, body, memory, template, None)
        link = await GuestLink.open(folder / "agent.sock", epoch=1)
        await first_true(link, qmp)
        seconds = time.perf_counter() - started
        await link.close()
        await qmp.close()
        return seconds
    finally:
        process.kill()
        process.wait()


def start(plan: BodyPlan, files: dict[int, int]) -> subprocess.Popen[bytes]:
    """QEMU with each file at the number its argument list speaks of."""
    high = {number: os.dup(fd) for number, fd in files.items()}
    above = max([*high.values(), *files]) + 1

    def place() -> None:
        moved = {number: os.dup2(fd, above + number) for number, fd in high.items()}
        for number, fd in moved.items():
            os.dup2(fd, number)
        os.closerange(max(files) + 1, above + max(files) + 1)

    try:
        return subprocess.Popen(argv.arguments(plan), preexec_fn=place, close_fds=False,
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    finally:
        for fd in high.values():
            os.close(fd)


async def first_true(link: GuestLink, qmp: Qmp) -> None:
    """What hostd does between an agent's first word and a first result, and nothing else."""
    identity = {"hostname": "bare", "machine_id": "0" * 32}
    await link.request("resume", {"epoch": 1, "unix_time_ns": time.time_ns(),
                                  "entropy_b64": base64.b64encode(os.urandom(64)).decode(), **identity})
    await qmp.execute("block_resize", {"node-name": argv.ROOT_NODE, "size": DISK_GIB * disks.GIB})
    await link.request("attach", {**identity, "env": {}, "root": {}}, timeout_s=120)
    exec_id = new_id()
    await link.request("exec.start", {"exec_id": exec_id, "argv": ["true"], "env": {}, "user": "user", "stdin": False})
    output = await link.stream("exec.output", {"exec_id": exec_id, "offsets": {"stdout": 0, "stderr": 0}})
    async for _ in output:
        raise RuntimeError("true said something")
    ended = await output.result()
    if ended["outcome"] != {"kind": "exited", "code": 0}:
        raise RuntimeError(f"true ended as {ended['outcome']}")
