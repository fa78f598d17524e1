"""Capture and resume with memory on real machines: under load, several times over, and refused when it cannot fit."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from sandboxes.drivers.base import DEEPEST, nothing
from sandboxes.drivers.qemu import snapshot
from sandboxes.drivers.qemu.bare import BareQemu
from sandboxes.drivers.records import marked_bodies
from sandboxes.errors import Conflict, DiskFull, SandboxError
from sandboxes.guest.link import GuestLink
from sandboxes.linux import disks, space
from sandboxes.spec import Shape
from tests.drivers.world import TWO_CPUS, Guest, World, silent, until

pytestmark = pytest.mark.vm

#: Writes files named by their content's hash, each complete before it has its name.
WRITER = """
import hashlib, os, random
n = 0
while True:
    data = random.randbytes(64 * 1024)
    with open(".aside", "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.rename(".aside", f"{n:06d}-{hashlib.sha256(data).hexdigest()}")
    n += 1
"""
CHECK = """
import hashlib, os
wrong = [name for name in os.listdir(".") if name[0] != "." and
         hashlib.sha256(open(name, "rb").read()).hexdigest() != name[7:]]
print(len(os.listdir(".")), len(wrong))
"""


async def start_writer(guest: Guest) -> list[str]:
    """The execs that must be ended before files are compared."""
    await guest.write_text("writer.py", WRITER)
    await guest.write_text("check.py", CHECK)
    await guest.run("mkdir files")
    busy = [await guest.start("cd files && exec python3 ../writer.py"),
            await guest.start("while sleep 0.02; do :; done")]  # the other processor has work, too
    await count_reaches(guest, 5)
    return busy


async def count_of(guest: Guest) -> int:
    return int(await guest.run("ls files | wc -l"))


async def names_of(guest: Guest) -> set[str]:
    return set((await guest.run("ls files")).split())


async def count_reaches(guest: Guest, wanted: int) -> None:
    async with asyncio.timeout(90):
        while await count_of(guest) < wanted:
            await asyncio.sleep(0.2)


async def files_match(guest: Guest) -> int:
    """Reads everything back from the disk, past the guest's page cache."""
    await guest.run("sync; echo 3 > /proc/sys/vm/drop_caches", user="root")
    count, wrong = (await guest.run("cd files && python3 ../check.py")).split()
    assert wrong == "0"
    return int(count)


async def test_a_capture_under_io_on_two_processors_goes_on_and_its_files_match(qemu_world: World, tmp_path: Path):
    world, driver = qemu_world, qemu_world.driver()
    home, spec = world.machine(shape=TWO_CPUS)
    machine = await driver.launch(home, spec, silent)
    guest = await world.guest(machine)
    assert await guest.run("nproc") == "2"
    busy = await start_writer(guest)
    captures = []
    for number in range(2):
        before = await names_of(guest)
        captures.append((before, await machine.capture(tmp_path / f"capture-{number}")))
        await count_reaches(guest, await count_of(guest) + 2)
    assert machine.body.alive(), "a capture leaves the machine running"
    await guest.link.close()
    await machine.kill()

    epoch = 1
    for before, capture in reversed(captures):
        epoch += 1
        resumed = await driver.resume(home, replace(spec, generation=epoch), capture, silent)
        again = await world.guest(resumed, epoch, attach=False)
        assert before <= await names_of(again), "what was there before the capture is there, under its own name"
        count = await count_of(again)
        await count_reaches(again, count + 3)
        for exec_id in busy:
            await again.link.request("exec.kill", {"exec_id": exec_id, "reason": "killed"})
        assert await files_match(again) >= count + 3
        await again.link.close()
        await resumed.kill()
        await driver.release(home)
        await disks.repair(home.disk / disks.read_chain(home.disk).head)


async def test_generation_after_generation_keeps_a_process_its_memory_and_its_file(qemu_world: World, tmp_path: Path):
    world, driver = qemu_world, qemu_world.driver()
    home, spec = world.machine()
    machine = await driver.launch(home, spec, silent)
    guest = await world.guest(machine)
    exec_id = await guest.start("n=0; while :; do n=$((n+1)); echo $n > counter; sleep 0.05; done")
    kept = await guest.run("head -c 3000000 /dev/urandom > /tmp/blob; sha256sum < /tmp/blob")
    last = 0
    for generation in range(2, 5):
        capture = await machine.capture(tmp_path / f"generation-{generation}")
        await guest.link.close()
        await machine.kill()
        machine = await driver.resume(home, replace(spec, generation=generation), capture, silent)
        guest = await world.guest(machine, generation, attach=False)
        assert guest.link.info["state"] == "attached"
        assert exec_id in json.dumps(guest.link.info["execs"])
        counted = int(await guest.run("sleep 0.3; cat counter"))
        assert counted > last
        last = counted
        assert await guest.run("sha256sum < /tmp/blob") == kept


async def test_a_capture_can_be_resumed_as_another_machine_beside_the_first(qemu_world: World, tmp_path: Path):
    world, driver = qemu_world, qemu_world.driver()
    home, spec = world.machine()
    machine = await driver.launch(home, spec, silent)
    guest = await world.guest(machine)
    await guest.run("echo before > file; sync")
    capture = await machine.capture(tmp_path / "capture")
    fork_home, fork_spec = world.machine()
    fork = await world.guest(await driver.resume(fork_home, fork_spec, capture, silent), 2, attach=False)
    await guest.run("echo mine >> file; sync")
    await fork.run("echo theirs >> file; sync")
    assert await guest.run("cat file") == "before\nmine"
    assert await fork.run("cat file") == "before\ntheirs"
    await driver.destroy(home)
    assert await fork.run("cat file") == "before\ntheirs", "a fork needs nothing of the first"


async def test_a_capture_outlives_the_machine_and_its_template(qemu_world: World, tmp_path: Path):
    world, driver = qemu_world, qemu_world.driver()
    home, spec = world.machine()
    machine = await driver.launch(home, spec, silent)
    guest = await world.guest(machine)
    await guest.run("echo kept > /tmp/in-memory")
    capture = await machine.capture(tmp_path / "capture")
    await driver.destroy(home)
    templates = (await driver.means()).templates
    hidden = templates.folder.rename(templates.folder.with_name("hidden"))
    try:
        other_home, other = world.machine()
        resumed = await world.guest(await driver.resume(other_home, other, capture, silent), 2, attach=False)
        assert await resumed.run("cat /tmp/in-memory") == "kept"
    finally:
        hidden.rename(templates.folder)


async def test_a_capture_or_a_rest_that_fails_leaves_the_machine_running_on_a_disk_that_is_whole(
        qemu_world: World, tmp_path: Path, monkeypatch):
    world, driver = qemu_world, qemu_world.driver()
    home, spec = world.machine()
    machine = await driver.launch(home, spec, silent)
    guest = await world.guest(machine)
    await guest.run("echo one > file; sync")

    def fail(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    for module, name, word in ((snapshot.pages, "save_pages", "two"), (snapshot, "_take_paused", "three"),
                               (snapshot, "write_image", "four")):
        with monkeypatch.context() as broken:
            broken.setattr(module, name, fail)
            for rest in (False, True):
                into = tmp_path / f"{name}-{rest}"
                with pytest.raises(OSError, match="No space"):
                    await (machine.park(into, nothing) if rest else machine.capture(into))
                assert snapshot.read_image(into) is None
        await guest.run(f"echo {word} >> file; sync")
    await machine.capture(tmp_path / "whole")
    await guest.run("echo five >> file; sync")
    await guest.link.close()
    await machine.kill()
    relaunched = await world.guest(await driver.launch(home, spec, silent), 2)
    assert await relaunched.run("cat file") == "one\ntwo\nthree\nfour\nfive"


async def test_a_capture_without_room_is_refused_before_the_machine_is_paused(qemu_world: World, tmp_path: Path,
                                                                            monkeypatch):
    """Field case 079: with the amount, and the machine goes on."""
    world, driver = qemu_world, qemu_world.driver()
    home, spec = world.machine()
    machine = await driver.launch(home, spec, silent)
    monkeypatch.setattr(space, "free_bytes", lambda folder: space.MARGIN_BYTES + (100 << 20))
    before = sorted(os.listdir(home.disk))
    with pytest.raises(DiskFull, match=r"needs \d+ MiB and the host has 100 MiB to give"):
        await machine.capture(tmp_path / "capture")
    assert machine.body.alive()
    assert sorted(os.listdir(home.disk)) == before


async def test_an_image_of_another_kind_of_machine_is_refused_by_name(qemu_world: World, tmp_path: Path):
    world, driver = qemu_world, qemu_world.driver()
    home, spec = world.machine()
    machine = await driver.launch(home, spec, silent)
    capture = await machine.capture(tmp_path / "capture")
    with pytest.raises(Conflict) as refused:
        await driver.resume(home, replace(spec, shape=TWO_CPUS), capture, silent)
    assert refused.value.reason == "memory_image_unfit"
    assert machine.body.alive(), "a refusal touches nothing"


async def test_a_damaged_image_is_refused_and_leaves_nothing(qemu_world: World, tmp_path: Path):
    world, driver = qemu_world, qemu_world.driver()
    home, spec = world.machine()
    machine = await driver.launch(home, spec, silent)
    await world.guest(machine)
    capture = await machine.capture(tmp_path / "capture")
    await driver.destroy(home)
    pages = tmp_path / "capture" / "pages-1"
    os.truncate(pages, pages.stat().st_size // 2)
    other_home, other = world.machine()
    with pytest.raises(Conflict) as refused:
        await driver.resume(other_home, other, capture, silent)
    assert refused.value.reason == "memory_image_damaged"
    await world.nothing_but()
    pages.unlink()
    with pytest.raises(Conflict):
        await driver.resume(other_home, other, capture, silent)
    (tmp_path / "capture" / "image.json").write_text("{")
    assert await driver.fits(capture.folder, other) == "memory_image_missing"
    await world.nothing_but()


async def test_a_template_that_does_not_resume_is_made_anew(qemu_world: World):
    world, driver = qemu_world, qemu_world.driver()
    home, spec = world.machine()
    await driver.prepare(spec.shape, silent)
    template = next((await driver.means()).templates.folder.glob(f"{spec.shape.key}-*"))
    (template / "device.state").write_bytes(b"not a device state")
    stages: list[str] = []
    machine = await driver.launch(home, spec, stages.append)
    assert "template" in stages
    assert await (await world.guest(machine)).run("echo well") == "well"


async def test_a_host_that_dies_inside_a_capture_loses_nothing(qemu_world: World, tmp_path: Path, monkeypatch):
    world, first = qemu_world, qemu_world.driver()
    home, spec = world.machine()
    machine = await first.launch(home, spec, silent)
    guest = await world.guest(machine)
    await guest.run("echo one > file; sync")

    async def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(snapshot, "take", die)
    with pytest.raises(KeyboardInterrupt):
        await machine.capture(tmp_path / "cut-off")
    monkeypatch.undo()
    await first.close()
    second = world.driver()
    found = await second.find(home)
    assert found is not None and found.pid == machine.pid
    await guest.run("echo two >> file; sync")
    capture = await found.capture(tmp_path / "capture")
    await guest.run("echo three >> file; sync")
    await guest.link.close()
    await found.kill()
    back = await world.guest(await second.resume(home, replace(spec, generation=2), capture, silent), 2, attach=False)
    assert await back.run("cat file") == "one\ntwo"


async def test_the_floor_of_the_bench_is_the_same_guest_without_a_jail(qemu_world: World):
    driver = qemu_world.driver()
    home, spec = qemu_world.machine()
    bare = await BareQemu.open(driver, home, spec)
    try:
        for epoch in (1, 2):
            async with bare.resumed() as agent_socket:
                link = await GuestLink.open(agent_socket, epoch, timeout_s=60)
                assert link.info["state"] == "waiting"
                await link.close()
    finally:
        await bare.close()
    await qemu_world.nothing_but()


async def test_a_template_s_machine_that_a_dead_host_left_is_a_stray_and_one_being_made_is_not(qemu_world: World):
    """The boot of a template is cut off without any clean-up, as by a kill -9 of hostd."""
    world, first = qemu_world, qemu_world.driver()
    shape = Shape(cpus=1, memory_mib=300)
    making = asyncio.create_task(first.prepare(shape, silent))
    template_id = f"template-{shape.key}"
    await until(lambda: template_id in marked_bodies(world.instance))
    assert await first.strays(set()) == []
    second = world.driver()
    assert await second.strays(set()) == [template_id]
    with pytest.raises(SandboxError):
        await making
    await world.nothing_but()


async def test_a_chain_is_shortened_under_a_running_machine_and_its_captures_keep_what_they_had(qemu_world: World,
                                                                                              tmp_path: Path):
    world, driver = qemu_world, qemu_world.driver()
    home, spec = world.machine()
    machine = await driver.launch(home, spec, silent)
    guest = await world.guest(machine)
    busy = await guest.start("n=0; while :; do n=$((n+1)); echo $n > counter; done")
    for number in range(DEEPEST):
        await guest.run(f"echo {number} >> log; head -c 100000 /dev/urandom > blob; sync")
        await machine.capture(tmp_path / f"c{number}", memory=False)
    blob = await guest.run("sha256sum < blob")
    assert await driver.depth(home) == DEEPEST + 1
    sums = {path: path.read_bytes() for path in (tmp_path / "c3").glob("*.qcow2")}
    assert await driver.collapse(home, DEEPEST) == 2
    assert await driver.collapse(home, DEEPEST) == 2, "short enough"
    await guest.run("sync; echo 3 > /proc/sys/vm/drop_caches", user="root")
    assert await guest.run("sha256sum < blob") == blob
    last = await machine.capture(tmp_path / "last")
    assert await driver.depth(home) == 3
    await guest.run("echo after >> log; sync")
    await guest.link.close()
    await driver.close()

    again = world.driver()
    found = await again.find(home)
    assert found is not None
    await found.kill()
    assert {path: path.read_bytes() for path in sums} == sums, "a shared layer is never written"
    lines = "\n".join(map(str, range(DEEPEST)))
    resumed = await world.guest(await again.resume(home, replace(spec, generation=2), last, silent), 2, attach=False)
    assert await resumed.run("cat log; sha256sum < blob") == f"{lines}\n{blob}"
    await resumed.link.request("exec.kill", {"exec_id": busy})
    await resumed.link.close()
    await again.release(home)
    await disks.repair(home.disk / disks.read_chain(home.disk).head)
    await again.adopt(home, tmp_path / "c3")
    assert await (await world.guest(await again.launch(home, spec, silent), 3)).run("cat log") == "0\n1\n2\n3"


async def test_a_parked_machine_is_gone_and_comes_back_and_a_commit_called_off_lets_it_run(qemu_world: World,
                                                                                         tmp_path: Path, monkeypatch):
    """Three rests: the later ones say only what changed since the one before."""
    world, driver = qemu_world, qemu_world.driver()
    home, spec = world.machine()
    machine = await driver.launch(home, spec, silent)
    guest = await world.guest(machine)
    kept = await guest.run("head -c 9000000 /dev/urandom > /dev/shm/blob; sha256sum < /dev/shm/blob")

    async def call_off() -> None:
        raise DiskFull("called off")

    with pytest.raises(DiskFull):
        await machine.park(tmp_path / "off", call_off)
    assert await guest.run("echo on") == "on"
    await guest.link.close()
    first = await machine.park(tmp_path / "first", nothing)
    assert await driver.find(home) is None
    assert (await driver.usage(first.folder)).memory_bytes > 9_000_000
    machine = await driver.resume(home, replace(spec, generation=2), first, silent)
    guest = await world.guest(machine, 2, attach=False)
    assert await guest.run("sha256sum < /dev/shm/blob") == kept
    await guest.link.close()
    second = await machine.park(tmp_path / "second", nothing)
    former, image = snapshot.read_image(first.folder), snapshot.read_image(second.folder)
    assert image.pages_paths[-2].samefile(former.pages_paths[-1]), "what is as it was is the very same file"
    assert second.memory_bytes < 9_000_000
    monkeypatch.setattr(snapshot, "MOST_PAGES_FILES", 1)
    machine = await driver.resume(home, replace(spec, generation=3), second, silent)
    guest = await world.guest(machine, 3, attach=False)
    assert await guest.run("sha256sum < /dev/shm/blob") == kept
    await guest.link.close()
    third = await machine.park(tmp_path / "third", nothing)
    assert snapshot.read_image(third.folder).pages == ("pages-1",), "one file in place of many"
    last = await driver.resume(home, replace(spec, generation=4), third, silent)
    assert await (await world.guest(last, 4, attach=False)).run("sha256sum < /dev/shm/blob") == kept
