"""Picks the driver of this host. Called by hostd and `doctor`; the only place that knows drivers by name."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from sandboxes.drivers.base import Driver
from sandboxes.errors import Invalid
from sandboxes.spec import ImageSet

Kind = Literal["auto", "qemu", "fake"]


def select(kind: Kind, state_dir: Path, images: ImageSet | None) -> Driver:
    """`auto` is qemu: a host that cannot run machines must say so, never quietly run processes instead."""
    if kind == "fake":
        from sandboxes.drivers.fake import FakeDriver
        return FakeDriver(state_dir)
    if images is None:
        raise Invalid("the qemu driver needs a guest image")
    from sandboxes.drivers.qemu.driver import QemuDriver
    return QemuDriver(state_dir, images)
