"""Looks at the disk of a real machine: a kernel's ext4, a kernel's journal, and one that was killed in the middle."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from tests.host.client import Hostd, eventually, kill_body, new_id, running_hostd
from tests.host.test_look import Look

pytestmark = pytest.mark.vm
SPEC = {"hostname": "box", "shape": {"cpus": 1, "memory_mib": 256}}
#: Many small changes right before the death: some are in the journal alone.
BUSY = """
import os, shutil
os.chdir('/home/user')
for n in range(300):
    os.makedirs(f't/{n}')
    open(f't/{n}/f', 'w').write(str(n))
    os.symlink('f', f't/{n}/l')
os.sync()
for n in range(1, 300, 2):
    shutil.rmtree(f't/{n}')
open('numbers', 'w').write(''.join(f'{n}\\n' for n in range(1, 100_001)))
os.sync()
for n in range(400):
    open(f'u{n}', 'w').write(str(n))
os.fsync(os.open('u1', os.O_RDONLY))
for n in range(400):
    os.rename(f'u{n}', f'v{n}')
"""


async def test_a_killed_machines_head_reads_as_its_next_mount_would_find_it(cache: Path, tmp_path: Path) -> None:
    async with running_hostd("qemu", images=cache) as hostd:
        machine_id = new_id()
        await hostd.up(machine_id, **SPEC)
        look = Look(hostd, machine_id)
        taken = await hostd.operate(machine_id, "capture", checkpoint_id="then", memory=False)
        assert taken["state"] == "done" and taken["result"]["consistency"] == "clean", taken
        assert (await look.get("then", "files", b"/home/user")).headers["Berth-Disk"] == "clean"
        begun = await hostd.exec(machine_id, ["python3", "-c", BUSY])
        ended = await hostd.end_of(machine_id, begun["id"])
        assert ended["outcome"] == {"kind": "exited", "code": 0}, ended
        changed = await look.changes("then", "head")
        assert changed["/home/user/numbers"] == changed["/home/user/t/2/l"] == "added"
        kill_body(hostd, machine_id)
        await dead(hostd, machine_id)
        answer = await look.get("head", "files", b"/home/user", recursive="true", limit=10_000)
        assert answer.status == 200 and answer.headers["Berth-Disk"] == "replayed", answer.body
        truth = mounted_view(hostd.state / "machines" / machine_id / "disk", tmp_path / "flat")
        assert {entry["path"] for entry in answer.json["entries"]} == truth
        numbers = await look.content("head", b"/home/user/numbers")
        assert hashlib.sha256(numbers.body).digest() == hashlib.sha256(
            "".join(f"{n}\n" for n in range(1, 100_001)).encode()).digest()


async def dead(hostd: Hostd, machine_id: str) -> None:
    async def is_dead() -> bool:
        return (await hostd.observe(machine_id))["phase"] == "dead"
    await eventually(is_dead, "the machine is dead")


def mounted_view(disk: Path, flat: Path) -> set[str]:
    """What e2fsck's own replay makes of a copy, by debugfs' own listing: every path below /home/user."""
    head = json.loads((disk / "chain.json").read_text())["head"]
    subprocess.run(["qemu-img", "convert", "-O", "raw", str(disk / head), str(flat)], check=True)
    subprocess.run(["e2fsck", "-p", "-E", "journal_only", str(flat)], check=True, capture_output=True)
    into = flat.with_name("out")
    into.mkdir()
    subprocess.run(["debugfs", "-R", f"rdump /home/user {into}", str(flat)], check=True, capture_output=True)
    return {"/home/" + str(path.relative_to(into)) for path in (into / "user").rglob("*")}
