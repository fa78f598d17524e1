"""What captures occupy, counted by their files alone: no QEMU runs here."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sandboxes.drivers.base import MachineHome
from sandboxes.drivers.qemu import captures
from sandboxes.linux import disks


@pytest.fixture
async def home(tmp_path: Path) -> MachineHome:
    base = tmp_path / "root.img"
    base.write_bytes(b"B" * (1 << 20))
    at = MachineHome(tmp_path / "m")
    await disks.create(at.disk, base, 1)
    return at


async def checkpoint(home: MachineHome, name: str) -> None:
    await disks.freeze(home.disk, home.checkpoint(name))


def on_disk(home: MachineHome) -> int:
    return disks.used_bytes(home.path.rglob("*.qcow2"))


async def test_each_layer_counts_once_however_many_checkpoints_name_it(home: MachineHome):
    held = captures.Held()
    for number in range(4):
        await checkpoint(home, f"c{number}")
        assert held.bytes(home) == on_disk(home) > 0


async def test_a_checkpoint_is_counted_once_and_another_of_its_name_anew(home: MachineHome, monkeypatch):
    held = captures.Held()
    for name in ("a", "b"):
        await checkpoint(home, name)
    held.bytes(home)
    counted: list[Path] = []
    files_of = captures._files_of

    def noting(folder: Path) -> list[Path]:
        counted.append(folder)
        return files_of(folder)

    monkeypatch.setattr(captures, "_files_of", noting)
    assert held.bytes(home) == on_disk(home)
    assert counted == [home.standby], "what cannot change is not looked at again"
    shutil.rmtree(home.checkpoint("a"))
    assert held.bytes(home) == on_disk(home)
    await checkpoint(home, "a")
    assert held.bytes(home) == on_disk(home) and home.checkpoint("a") in counted
    held.forget(home)
    assert held.bytes(home) == on_disk(home)
