"""What image and driver must agree on about the machine: names of devices and words of the kernel's command line.

Read by the driver (`drivers/qemu/argv.py`) and by the image build. The agent carries its own copy of the names (it
imports nothing of the host's); a test holds them equal. Pure.
"""

from __future__ import annotations

#: virtio-blk serials, and the virtio-serial port's name.
ROOT_SERIAL = "berth-root"
TOOLS_SERIAL = "berth-tools"
AGENT_PORT = "berth.agent"

#: Where the tools disk is mounted, before and after the pivot.
TOOLS_MOUNT = "/run/berth"

#: Smallest disk the root image fits on.
LEAST_DISK_GIB = 2

#: `edd=off` and `quiet` save time, `panic=-1 reboot=t` end the machine at once where QEMU has `-no-reboot`.
KERNEL_WORDS = ("console=ttyS0", "quiet", "panic=-1", "reboot=t", "edd=off", "no_timer_check")

#: In dependency order; what a kernel has built in is left out.
BOOT_MODULES = (
    "virtio_ring", "virtio", "virtio_mmio",
    "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci",
    "virtio_blk", "failover", "net_failover", "virtio_net", "virtio_console",
)


def tcg_words(tsc_khz: int) -> tuple[str, ...]:
    """Under emulation the guest cannot calibrate its clock, and mitigations only cost."""
    return f"tsc_early_khz={tsc_khz}", "mitigations=off"
