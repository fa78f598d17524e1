"""What hostd may rely on, held alike by the fake and by real machines."""

from __future__ import annotations

import asyncio
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from sandboxes.drivers import records, select
from sandboxes.drivers.base import MachineHome, nothing
from sandboxes.errors import Conflict, DiskFull, Invalid
from sandboxes.linux import space
from tests.drivers.world import World, silent


async def test_a_launched_machine_waits_then_attaches_then_runs_commands_and_keeps_files(world: World):
    driver = world.driver()
    home, spec = world.machine()
    await driver.create_disk(home, spec)
    stages: list[str] = []
    machine = await driver.launch(home, spec, stages.append)
    guest = await world.guest(machine, attach=False)
    assert guest.link.info["state"] == "waiting"
    await guest.attach(1)
    assert await guest.run("echo out; echo err >&2; pwd; id -u") == "out\n/home/user\n1000"
    await guest.write("/home/user/a file", b"\0\xff" * 5000)
    assert await guest.read("/home/user/a file") == b"\0\xff" * 5000
    assert await guest.run("hostname") == "workspace"
    assert stages[0] == "disk" and stages[-1] == "agent"


async def test_what_a_driver_can_do_is_a_fact_that_does_not_change(world: World):
    driver = world.driver()
    facts = await driver.capabilities()
    assert facts == await driver.capabilities() == await world.driver().capabilities()
    assert facts.max_cpus >= 1
    assert (facts.accelerator == "kvm") == (facts.why_not_kvm == "")


async def test_a_body_that_is_killed_is_seen_to_end_with_its_reason(world: World):
    driver = world.driver()
    home, spec = world.machine()
    machine = await driver.launch(home, spec, silent)
    watcher = asyncio.create_task(machine.wait_end())
    subprocess.run(["kill", "-9", str(machine.pid)], check=True)
    async with asyncio.timeout(30):
        assert await watcher == "killed:SIGKILL"
    await machine.kill()
    assert await driver.find(home) is None


async def test_kill_returns_when_the_body_is_gone_and_may_be_repeated(world: World):
    driver = world.driver()
    home, spec = world.machine()
    machine = await driver.launch(home, spec, silent)
    await machine.kill()
    assert spec.machine_id not in records.marked_bodies(world.instance)
    await machine.kill()


async def test_a_guest_that_shuts_down_ends_as_exited(world: World):
    driver = world.driver()
    home, spec = world.machine()
    machine = await driver.launch(home, spec, silent)
    guest = await world.guest(machine)
    await guest.shut_down()
    async with asyncio.timeout(60):
        assert await machine.wait_end() == "exited"


async def test_release_leaves_nothing_of_a_body_and_may_be_repeated(world: World):
    driver = world.driver()
    home, spec = world.machine()
    await driver.launch(home, spec, silent)
    await driver.release(home)
    await driver.release(home)
    await world.nothing_but()
    assert not list(home.run.glob("*.sock")) and not (home.run / "root").exists()
    assert not records.body_file(home).exists()


async def test_files_outlive_bodies_however_they_end(world: World):
    driver = world.driver()
    home, spec = world.machine()
    for round_number, kill in enumerate((True, False, True), start=1):
        machine = await driver.launch(home, spec, silent)
        guest = await world.guest(machine, round_number)
        if round_number > 1:
            assert await guest.run("cat log") == "\n".join(str(n) for n in range(1, round_number))
        await guest.run(f"echo {round_number} >> log; sync")
        if kill:
            await machine.kill()
        else:
            await guest.shut_down()
            await machine.wait_end()
        await driver.release(home)
    assert await driver.disk_used_bytes(home) > 0


async def test_a_body_outlives_its_driver_and_is_found_by_the_next(world: World):
    first = world.driver()
    home, spec = world.machine()
    machine = await first.launch(home, spec, silent)
    guest = await world.guest(machine)
    await guest.run("echo kept > /tmp/memory-only")
    await guest.link.close()
    pid = machine.pid
    await first.close()
    del first, machine

    second = world.driver()
    found = await second.find(home)
    assert found is not None and found.pid == pid
    assert await (await world.guest(found, 2)).run("cat /tmp/memory-only") == "kept"
    await found.kill()
    assert await second.find(home) is None
    await world.nothing_but()


async def test_a_host_that_dies_between_start_and_note_leaves_a_body_that_is_found_and_ended(world: World):
    first = world.driver()
    home, spec = world.machine()
    await first.launch(home, spec, silent)
    await first.close()
    records.body_file(home).write_text(json.dumps({"instance": world.instance, "machine_id": spec.machine_id}))
    second = world.driver()
    found = await second.find(home)
    if found is None:
        await world.nothing_but()
    else:
        assert spec.machine_id in records.marked_bodies(world.instance)
        await second.release(home)
        await world.nothing_but()


async def test_launching_over_a_body_that_lives_replaces_it(world: World):
    driver = world.driver()
    home, spec = world.machine()
    before = await driver.launch(home, spec, silent)
    after = await driver.launch(home, spec, silent)
    assert before.pid != after.pid
    assert records.marked_bodies(world.instance)[spec.machine_id].alive()
    async with asyncio.timeout(60):
        await before.wait_end()


async def test_a_launch_that_fails_at_any_stage_leaves_nothing(world: World):
    driver = world.driver()
    home, spec = world.machine()
    seen: list[str] = []
    await driver.launch(home, spec, seen.append)
    await driver.release(home)

    class Stopped(Exception):
        pass

    for stage in dict.fromkeys(seen):
        def stop(name: str, at: str = stage) -> None:
            if name == at:
                raise Stopped(name)

        with pytest.raises(Stopped):
            await driver.launch(home, spec, stop)
        await world.nothing_but()
    machine = await driver.launch(home, spec, silent)
    await world.guest(machine)


async def test_destroy_takes_body_and_disk_and_may_be_repeated(world: World):
    driver = world.driver()
    home, spec = world.machine()
    await driver.launch(home, spec, silent)
    await driver.destroy(home)
    await driver.destroy(home)
    await world.nothing_but()
    assert not home.disk.exists()
    assert await driver.disk_used_bytes(home) == 0


async def test_creating_a_disk_twice_keeps_the_first(world: World):
    driver = world.driver()
    home, spec = world.machine()
    await driver.create_disk(home, spec)
    before = sorted((path.name, path.stat().st_ino) for path in home.disk.rglob("*"))
    await driver.create_disk(home, spec)
    assert before == sorted((path.name, path.stat().st_ino) for path in home.disk.rglob("*"))


async def test_a_full_host_refuses_a_disk_before_anything_is_half_made(world: World, tmp_path: Path):
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={space.MARGIN_BYTES >> 20}m", "tmpfs", small], check=True)
    try:
        driver = world.driver()
        _, spec = world.machine()
        with pytest.raises(DiskFull) as refused:
            await driver.create_disk(MachineHome(small / spec.machine_id), spec)
        assert refused.value.code == "disk_full" and refused.value.retry_after_s
        assert [path for path in small.rglob("*") if path.is_file()] == []
    finally:
        subprocess.run(["umount", small], check=True)


async def test_strays_are_ended_and_named_and_what_is_known_is_left_alone(world: World):
    first = world.driver()
    kept_home, kept = world.machine()
    stray_home, stray = world.machine()
    machine = await first.launch(kept_home, kept, silent)
    await first.launch(stray_home, stray, silent)
    await first.close()
    second = world.driver()
    assert await second.strays({kept.machine_id}) == [stray.machine_id]
    await world.nothing_but(kept.machine_id)
    found = await second.find(kept_home)
    assert found is not None and found.pid == machine.pid
    assert await second.strays({kept.machine_id}) == []


async def test_preparing_at_once_is_preparing_once(world: World):
    driver = world.driver()
    _, spec = world.machine()
    await driver.prepare(spec.shape, silent)
    stages: list[str] = []
    await asyncio.gather(*(driver.prepare(spec.shape, stages.append) for _ in range(3)))
    assert stages == []


async def test_two_machines_have_each_their_own_disk(world: World):
    driver = world.driver()
    guests = []
    for _ in range(2):
        home, spec = world.machine()
        guests.append(await world.guest(await driver.launch(home, spec, silent)))
    await guests[0].run("echo mine > only")
    assert await guests[1].run("ls") == ""


async def test_without_memory_images_capture_and_resume_are_refused_by_name(world: World, tmp_path: Path):
    driver = world.driver()
    if (await driver.capabilities()).memory_images:
        home, spec = world.machine()
        from sandboxes.drivers.base import Capture
        with pytest.raises(Conflict) as refused:
            await driver.resume(home, spec, Capture(tmp_path, 0, 0, ""), silent)
        assert refused.value.reason == "memory_image_missing"
        return
    home, spec = world.machine()
    machine = await driver.launch(home, spec, silent)
    for refusal in (machine.capture(tmp_path), machine.park(tmp_path, nothing)):
        with pytest.raises(Conflict) as refused:
            await refusal
        assert (refused.value.code, refused.value.reason) == ("no_memory_images", "no_memory_images")
    assert await driver.fits(tmp_path, spec) == "memory_image_missing"
    assert machine.body.alive()


async def test_a_disk_goes_back_to_its_captures_and_needs_neither_body_nor_source(world: World, tmp_path: Path):
    """Field of checkpoints without memory: running and off, adopted in place and by another machine."""
    driver = world.driver()
    home, spec = world.machine()
    machine = await driver.launch(home, spec, silent)
    guest = await world.guest(machine)
    await guest.run("echo one > file; sync")
    running = await machine.capture(tmp_path / "running", memory=False)
    assert (running.memory_bytes, running.fingerprint) == (0, "")
    await guest.run("echo two > file; sync")
    assert await guest.run("cat file") == "two", "the machine goes on"
    await guest.shut_down()
    await machine.wait_end()
    await driver.release(home)
    await driver.freeze(home, tmp_path / "off")
    assert (await driver.usage(tmp_path / "off")).disk_bytes > 0
    await driver.share(tmp_path / "running", tmp_path / "again", memory=True)

    class CalledOff(Exception):
        pass

    async def call_off() -> None:
        raise CalledOff

    before = tree_of(home.disk)
    with pytest.raises(CalledOff):
        await driver.adopt(home, tmp_path / "again", call_off)
    assert tree_of(home.disk) == before, "up to the swap the disk is what it was"
    await driver.adopt(home, tmp_path / "again")
    other_home, other = world.machine()
    await driver.adopt(other_home, tmp_path / "off")
    await driver.destroy(home)
    assert await (await world.guest(await driver.launch(other_home, other, silent))).run("cat file") == "two"
    await driver.adopt(home, tmp_path / "running")
    assert await (await world.guest(await driver.launch(home, spec, silent), 2)).run("cat file") == "one"


def tree_of(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


async def test_fitting_the_disk_makes_the_guest_see_its_size(world: World):
    driver = world.driver()
    home, spec = world.machine()
    if (await driver.capabilities()).isolation != "microvm":
        machine = await driver.launch(home, spec, silent)
        await machine.fit_disk(9)
        return
    await driver.create_disk(home, spec)
    machine = await driver.launch(home, replace(spec, disk_gib=5), silent)
    guest = await world.guest(machine)
    total = int((await guest.run("df -B1 --output=size /")).split()[-1])
    assert total > 4 << 30, "a disk that was made larger while it was off"
    await machine.fit_disk(6)
    exec_text = "for f in /sys/block/vd*; do case $(cat $f/serial) in *root) cat $f/size;; esac; done"
    await until_says(guest, exec_text, str(6 << 21))


async def test_a_disk_asked_for_smaller_than_its_image_is_as_large_as_the_image(world: World):
    driver = world.driver()
    home, spec = world.machine()
    small = replace(spec, disk_gib=1)
    await driver.create_disk(home, small)
    machine = await driver.launch(home, small, silent)
    await machine.fit_disk(1)
    guest = await world.guest(machine)
    assert await guest.run("echo usable > f; cat f") == "usable"


async def until_says(guest, text: str, wanted: str) -> None:
    async with asyncio.timeout(60):
        while await guest.run(text) != wanted:
            await asyncio.sleep(0.2)


def test_auto_never_becomes_the_driver_that_isolates_nothing(tmp_path: Path):
    with pytest.raises(Invalid):
        select("auto", tmp_path, None)


