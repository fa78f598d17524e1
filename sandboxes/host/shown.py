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
from sandboxes.spec import Shape

Json = dict[str, Any]
Identity = tuple[int, int, int, int, Shape | None]


class Shown:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._known: dict[str, dict[str, tuple[Identity, Json]]] = {}

    async def of(self, machine: Machine, home: MachineHome) -> list[Json]:
        before, now = self._known.get(machine.machine_id, {}), {}
        for checkpoint_id, folder in points.checkpoints(home).items():
            identity = _identity(folder, machine)
            known = before.get(checkpoint_id)
            if known is None or known[0] != identity:
                known = identity, await self._read(machine, checkpoint_id, folder)
            now[checkpoint_id] = known
        self._known[machine.machine_id] = now
        return [said for _identity, said in now.values()]

    async def _read(self, machine: Machine, checkpoint_id: str, folder: Path) -> Json:
        point = points.read(folder)
        result = point.result if point is not None else {}
        memory = bool(result.get("memory"))
        usable = memory and machine.spec is not None and not await self._driver.fits(folder, machine.spec)
        return {"checkpoint_id": checkpoint_id, "disk_bytes": result.get("disk_bytes", 0),
                "memory_bytes": result.get("memory_bytes", 0), "memory": memory, "memory_usable": usable}

    def forget(self, machine_id: str) -> None:
        self._known.pop(machine_id, None)


def _identity(folder: Path, machine: Machine) -> Identity:
    shape = machine.spec.shape if machine.spec is not None else None
    try:
        there, note = folder.stat(), (folder / points.NOTE).stat()
    except FileNotFoundError:
        return 0, 0, 0, 0, shape
    return there.st_mtime_ns, note.st_ino, note.st_mtime_ns, note.st_size, shape
