"""Finds the machine's devices by the names their driver gave them, whatever numbers the kernel chose.

Called by `world.py` and `__main__`. The names are `sandboxes/guest/image/shape.py`'s, copied: the agent imports
nothing of the host's.
"""

from __future__ import annotations

import os
from pathlib import Path

PORT_NAME = "berth.agent"
ROOT_SERIALS = ("berth-root", "root")


def virtio_port() -> str:
    """The device of the port named `berth.agent`. Raises FileNotFoundError while the kernel has none."""
    for entry in os.scandir("/sys/class/virtio-ports"):
        if Path(entry.path, "name").read_text().strip() == PORT_NAME:
            return f"/dev/{entry.name}"
    raise FileNotFoundError(2, "no such virtio port", PORT_NAME)


def root_disk() -> str:
    for entry in sorted(Path("/sys/block").iterdir()):
        try:
            serial = (entry / "serial").read_text().strip()
        except OSError:
            continue
        if serial in ROOT_SERIALS:
            return f"/dev/{entry.name}"
    raise FileNotFoundError(2, "no such disk", ROOT_SERIALS[0])
