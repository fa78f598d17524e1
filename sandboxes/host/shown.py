"""What an observation says of a machine's checkpoints. Called by `machines.py`; calls the driver and `points.py`.

A checkpoint is never written again, so its note is read once in a life of hostd: what is asked of a machine many times
in a wake must not cost more after a hundred of them. A folder or a note that is another by now is read anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sandboxes.drivers.base import Driver, MachineHome
from sandboxes.host import points
from sandboxes.host.registry import Machine

Json = dict[str, Any]
Identity = tuple[int, ...]


class Shown:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._known: dict[str, dict[str, tuple[Identity, Json]]] = {}

    async def of(self, machine: Machine, home: MachineHome) -> list[Json]:
        before, now = self._known.get(machine.machine_id, {}), {}
        for checkpoint_id, folder in points.checkpoints(home).items():
            identity = _identity(folder)
            known = before.get(checkpoint_id)
            now[checkpoint_id] = known if known and known[0] == identity else (identity, _noted(folder))
        self._known[machine.machine_id] = now
        return [{"checkpoint_id": checkpoint_id, **noted,
                 "memory_usable": noted["memory"] and await self._usable(machine, home.checkpoint(checkpoint_id))}
                for checkpoint_id, (_, noted) in now.items()]

    async def _usable(self, machine: Machine, folder: Path) -> bool:
        """Not a matter of the checkpoint alone: asked each time."""
        return machine.spec is not None and not await self._driver.fits(folder, machine.spec)

    def forget(self, machine_id: str) -> None:
        self._known.pop(machine_id, None)


def _noted(folder: Path) -> Json:
    point = points.read(folder)
    result = point.result if point is not None else {}
    return {"disk_bytes": result.get("disk_bytes", 0), "memory_bytes": result.get("memory_bytes", 0),
            "memory": bool(result.get("memory"))}


def _identity(folder: Path) -> Identity:
    try:
        there, note = folder.stat(), (folder / points.NOTE).stat()
    except FileNotFoundError:
        return ()
    return there.st_mtime_ns, note.st_ino, note.st_mtime_ns, note.st_size
