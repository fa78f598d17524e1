"""Decides whether KVM runs a stock guest here: by booting one, because opening /dev/kvm proves nothing.

Called by the driver and `doctor`. Boots the real kernel under `-accel kvm` without an init and waits for the panic
that says it got through its whole start; anything else within the deadline is a no, with the reason. The answer is
kept per boot of the host, QEMU version and kernel.
"""

from __future__ import annotations

import os
from pathlib import Path

from sandboxes.drivers.qemu.argv import BINARY
from sandboxes.drivers.qemu.facts import boot_id, qemu_version
from sandboxes.linux import atomic
from sandboxes.linux.processes import ProcessFailed, run

DEVICE = Path("/dev/kvm")
DEADLINE_S = 12.0
#: The kernel's last words when it has no init: it has then started all of itself.
ARRIVED = "Unable to mount root fs"


def probe_argv(kernel: Path) -> list[str]:
    return [
        BINARY, "-no-user-config", "-nodefaults", "-display", "none", "-no-reboot",
        "-M", "microvm,acpi=on,pit=on,pic=on,rtc=on", "-accel", "kvm", "-cpu", "host,migratable=on", "-m", "256M",
        "-kernel", str(kernel), "-append", "console=ttyS0 panic=-1 reboot=t edd=off", "-serial", "stdio",
    ]


async def refusal(state_dir: Path, kernel: Path) -> str:
    """Why KVM cannot be used, "" when it can."""
    kept_at = state_dir / "kvm-probe.json"
    key = {"boot_id": boot_id(), "qemu": await qemu_version(), "kernel": kernel.name, "size": kernel.stat().st_size}
    kept = atomic.known_json(kept_at) or {}
    if kept.get("key") == key and "refusal" in kept:
        return str(kept["refusal"])
    answer = await _probe(kernel)
    state_dir.mkdir(parents=True, exist_ok=True)
    atomic.write_json(kept_at, {"key": key, "refusal": answer})
    return answer


async def _probe(kernel: Path) -> str:
    if not DEVICE.exists():
        return "there is no /dev/kvm"
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return "/dev/kvm is not ours to open"
    try:
        done = await run(probe_argv(kernel), timeout_s=DEADLINE_S)
    except ProcessFailed as error:
        return _reason(error)
    if ARRIVED in done.text:
        return ""
    return "a probe guest ended on KVM before its kernel had started"


def _reason(error: ProcessFailed) -> str:
    if error.code is None and "no end within" in error.complaint:
        return f"a probe guest did not start on KVM within {DEADLINE_S:g} s, though /dev/kvm opens"
    last = error.complaint.splitlines()[-1] if error.complaint else f"exit {error.code}"
    return f"QEMU fails on KVM: {last}"
