"""A user id of its own for each body, handed out by files and never given twice while its holder lives.

Called by the drivers. Two instances take from different ranges, derived from the instance's word.
"""

from __future__ import annotations

import os
from pathlib import Path

FIRST_UID = 0x60000000
RANGE = 65536
RANGES = 4096


def first_of(instance: str) -> int:
    return FIRST_UID + (int(instance, 16) % RANGES) * RANGE


class Uids:
    def __init__(self, folder: Path, instance: str) -> None:
        self.folder = folder
        self.first = first_of(instance)

    def take(self, machine_id: str) -> int:
        """The id that this machine holds already, or a free one. A crash between never frees one by mistake."""
        self.folder.mkdir(parents=True, exist_ok=True)
        taken = {int(entry.name): entry for entry in self.folder.iterdir() if entry.name.isdigit()}
        for uid, entry in taken.items():
            if entry.read_text() == machine_id:
                return uid
        for uid in range(self.first, self.first + RANGE):
            if uid not in taken and self._claim(uid, machine_id):
                return uid
        raise RuntimeError("every user id of this instance is taken")

    def _claim(self, uid: int, machine_id: str) -> bool:
        try:
            fd = os.open(self.folder / str(uid), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            return False
        with os.fdopen(fd, "w") as file:
            file.write(machine_id)
        return True

    def free(self, machine_id: str) -> None:
        """The machine has no process any more. Repeatable."""
        if self.folder.is_dir():
            for entry in self.folder.iterdir():
                if entry.read_text() == machine_id:
                    entry.unlink()
