"""Turns what a machine shall be into QEMU's list of arguments. Pure: no I/O, same input, same list (golden tests).

Called by `launch.py` and `templates.py`. Every file is a descriptor number; numbers, not paths, are what the list
speaks of, so a template, a start and a resume differ only in what `Incoming` says. What is written here is part of
every memory image's fingerprint: change it and templates are captured anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sandboxes.guest.image.shape import AGENT_PORT, KERNEL_WORDS, ROOT_SERIAL, TOOLS_SERIAL, tcg_words
from sandboxes.linux.taps import GUEST_MAC
from sandboxes.spec import Shape

BINARY = "/usr/bin/qemu-system-x86_64"

#: Descriptor numbers inside the body. 0-2 are the standard streams.
FD_QMP, FD_AGENT, FD_TAP, FD_MEMORY, FD_KERNEL, FD_INITRAMFS, FD_INCOMING, FD_TOOLS, FD_HEAD = range(3, 12)
FD_HEAD_READ_ONLY = 12
FD_FIRST_LAYER = 13

ROOT_NODE, ROOT_DEVICE = "root", "root-device"
#: The raw file at the bottom of every root disk, as `_root_chain` names it.
BASE_NODE = "layer-0"
CONSOLE_BYTES = 65536
TRANSLATION_CACHE_MIB = 64


@dataclass(frozen=True)
class Accelerator:
    """How guest code runs. `tsc_khz` is told to the guest under TCG, where it cannot find out."""

    kind: str
    tsc_khz: int

    @property
    def cpu(self) -> str:
        return "host,migratable=on" if self.kind == "kvm" else "max"

    @property
    def option(self) -> str:
        return "kvm" if self.kind == "kvm" else f"tcg,tb-size={TRANSLATION_CACHE_MIB}"

    @property
    def kernel_words(self) -> tuple[str, ...]:
        return () if self.kind == "kvm" else tcg_words(self.tsc_khz)


@dataclass(frozen=True)
class BodyPlan:
    """One QEMU process. `layers` counts the files below the head (the raw base first)."""

    shape: Shape
    accelerator: Accelerator
    layers: int = 0
    incoming: bool = False
    label: str = "berth"
    kernel_words: tuple[str, ...] = field(default=KERNEL_WORDS)


def arguments(plan: BodyPlan) -> list[str]:
    return [
        BINARY, "-name", f"{plan.label},debug-threads=on", "-no-user-config", "-nodefaults", "-display", "none",
        "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
        *_machine(plan), *_boot(plan), *_disks(plan), *_ports(), *_network(), *_incoming(plan),
    ]


def _machine(plan: BodyPlan) -> list[str]:
    size = f"{plan.shape.memory_mib}M"
    return [
        "-M", f"{plan.shape.machine},acpi=on,pit=on,pic=on,rtc=on,mem-merge=off,dump-guest-core=off,memory-backend=ram",
        "-accel", plan.accelerator.option, "-cpu", plan.accelerator.cpu,
        "-smp", str(plan.shape.cpus), "-m", size,
        "-object", f"memory-backend-file,id=ram,size={size},mem-path=/proc/self/fd/{FD_MEMORY},share=off",
    ]


def _boot(plan: BodyPlan) -> list[str]:
    return [
        "-kernel", f"/proc/self/fd/{FD_KERNEL}", "-initrd", f"/proc/self/fd/{FD_INITRAMFS}",
        "-append", " ".join((*plan.kernel_words, *plan.accelerator.kernel_words)), "-no-reboot",
    ]


def _disks(plan: BodyPlan) -> list[str]:
    return [
        *_passed_file(FD_TOOLS, "tools-file", read_only=True),
        "-blockdev", "driver=raw,node-name=tools,file=tools-file,read-only=on",
        "-device", f"virtio-blk-device,drive=tools,serial={TOOLS_SERIAL},id=tools-device",
        *_root_chain(plan.layers),
        "-device", f"virtio-blk-device,drive={ROOT_NODE},serial={ROOT_SERIAL},id={ROOT_DEVICE}",
    ]


def _passed_file(fd: int, node: str, *, read_only: bool) -> list[str]:
    access = ",read-only=on" if read_only else ",discard=unmap"
    return [
        "-add-fd", f"fd={fd},set={fd},opaque={node}",
        "-blockdev", f"driver=file,node-name={node},filename=/dev/fdset/{fd},cache.direct=off{access}",
    ]


def _root_chain(layers: int) -> list[str]:
    """base ◀ layer ◀ … ◀ root, each an explicit node, so that no name inside a file is ever followed.

    The head comes with a second, read-only descriptor: QEMU wants it on the day the head is frozen.
    """
    words: list[str] = []
    below = "null"
    for index in range(layers):
        fd = FD_FIRST_LAYER + index
        words += _passed_file(fd, f"layer-{index}-file", read_only=True)
        driver = "driver=raw" if index == 0 else f"driver=qcow2,backing={below}"
        words += ["-blockdev", f"{driver},node-name=layer-{index},file=layer-{index}-file,read-only=on"]
        below = f"layer-{index}"
    words += ["-add-fd", f"fd={FD_HEAD_READ_ONLY},set={FD_HEAD},opaque=frozen-head"]
    words += _passed_file(FD_HEAD, "head-file", read_only=False)
    backing = f",backing={below}" if layers else ""
    words += ["-blockdev", f"driver=qcow2,node-name={ROOT_NODE},file=head-file,discard=unmap{backing}"]
    return words


def _ports() -> list[str]:
    return [
        "-chardev", f"socket,id=qmp,fd={FD_QMP},server=on,wait=off", "-mon", "chardev=qmp,mode=control",
        "-chardev", f"ringbuf,id=console,size={CONSOLE_BYTES}", "-serial", "chardev:console",
        "-chardev", f"socket,id=agent,fd={FD_AGENT},server=on,wait=off",
        "-device", "virtio-serial-device,max_ports=2",
        "-device", f"virtserialport,chardev=agent,name={AGENT_PORT}",
    ]


def _network() -> list[str]:
    return ["-netdev", f"tap,id=net,fd={FD_TAP}", "-device", f"virtio-net-device,netdev=net,mac={GUEST_MAC}"]


def _incoming(plan: BodyPlan) -> list[str]:
    """A capture's stream has no configuration section; a machine that will be captured is told the same."""
    words = ["-global", "migration.send-configuration=off"]
    return [*words, "-incoming", f"fd:{FD_INCOMING}"] if plan.incoming else words
