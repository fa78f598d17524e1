"""QEMU's list of arguments is part of every memory image: it changes only on purpose, and this file says to what."""

from __future__ import annotations

import itertools
from dataclasses import replace

from sandboxes.drivers.qemu import fingerprint as fp
from sandboxes.drivers.qemu.argv import Accelerator, BodyPlan, arguments
from sandboxes.drivers.qemu.facts import HostFacts
from sandboxes.spec import Shape

TCG = Accelerator("tcg", 2_596_150)
KVM = Accelerator("kvm", 2_596_150)

COLD_TCG = """
/usr/bin/qemu-system-x86_64 -name berth,debug-threads=on -no-user-config -nodefaults -display none
-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny
-M microvm,acpi=on,pit=on,pic=on,rtc=on,mem-merge=off,dump-guest-core=off,memory-backend=ram
-accel tcg,tb-size=64 -cpu max -smp 1 -m 512M
-object memory-backend-file,id=ram,size=512M,mem-path=/proc/self/fd/6,share=off
-kernel /proc/self/fd/7 -initrd /proc/self/fd/8
-append console=ttyS0·quiet·panic=-1·reboot=t·edd=off·no_timer_check·tsc_early_khz=2596150·mitigations=off -no-reboot
-add-fd fd=10,set=10,opaque=tools-file
-blockdev driver=file,node-name=tools-file,filename=/dev/fdset/10,cache.direct=off,read-only=on
-blockdev driver=raw,node-name=tools,file=tools-file,read-only=on
-device virtio-blk-device,drive=tools,serial=berth-tools,id=tools-device
-add-fd fd=12,set=11,opaque=frozen-head -add-fd fd=11,set=11,opaque=head-file
-blockdev driver=file,node-name=head-file,filename=/dev/fdset/11,cache.direct=off,discard=unmap
-blockdev driver=qcow2,node-name=root,file=head-file,discard=unmap
-device virtio-blk-device,drive=root,serial=berth-root,id=root-device
-chardev socket,id=qmp,fd=3,server=on,wait=off -mon chardev=qmp,mode=control
-chardev ringbuf,id=console,size=65536 -serial chardev:console
-chardev socket,id=agent,fd=4,server=on,wait=off -device virtio-serial-device,max_ports=2
-device virtserialport,chardev=agent,name=berth.agent
-netdev tap,id=net,fd=5 -device virtio-net-device,netdev=net,mac=02:be:47:00:00:02
-global migration.send-configuration=off
"""


def words(text: str) -> list[str]:
    """Spaces part arguments; inside one they are written as dots in the middle."""
    return [word.replace("·", " ") for word in text.split()]


def pairs(argv: list[str]) -> list[tuple[str, str]]:
    return [(a, b) for a, b in itertools.pairwise(argv) if a.startswith("-") and not b.startswith("-")]


def test_a_cold_machine_under_emulation():
    assert arguments(BodyPlan(Shape(), TCG)) == words(COLD_TCG)


def test_a_resume_differs_only_in_what_comes_in():
    cold, resumed = arguments(BodyPlan(Shape(), TCG)), arguments(BodyPlan(Shape(), TCG, incoming=True))
    assert resumed == [*cold, "-incoming", "fd:9"]


def test_every_layer_is_an_explicit_node_over_the_one_below():
    nodes = [value for key, value in pairs(arguments(BodyPlan(Shape(), TCG, layers=3))) if key == "-blockdev"]
    assert nodes[2:] == [
        "driver=file,node-name=layer-0-file,filename=/dev/fdset/13,cache.direct=off,read-only=on",
        "driver=raw,node-name=layer-0,file=layer-0-file,read-only=on",
        "driver=file,node-name=layer-1-file,filename=/dev/fdset/14,cache.direct=off,read-only=on",
        "driver=qcow2,backing=layer-0,node-name=layer-1,file=layer-1-file,read-only=on",
        "driver=file,node-name=layer-2-file,filename=/dev/fdset/15,cache.direct=off,read-only=on",
        "driver=qcow2,backing=layer-1,node-name=layer-2,file=layer-2-file,read-only=on",
        "driver=file,node-name=head-file,filename=/dev/fdset/11,cache.direct=off,discard=unmap",
        "driver=qcow2,node-name=root,file=head-file,discard=unmap,backing=layer-2",
    ]


def test_on_kvm_the_guest_has_the_host_s_processor_and_keeps_its_mitigations():
    argv = arguments(BodyPlan(Shape(cpus=4, memory_mib=2048), KVM))
    facts = dict(pairs(argv))
    assert facts["-accel"] == "kvm" and facts["-cpu"] == "host,migratable=on"
    assert facts["-smp"] == "4" and facts["-m"] == "2048M"
    assert "mitigations" not in facts["-append"] and "tsc" not in facts["-append"]


def test_no_argument_names_a_file_of_the_host():
    argv = arguments(BodyPlan(Shape(), TCG, layers=5, incoming=True))
    paths = [part for word in argv[1:] for part in word.replace(",", "=").split("=") if part.startswith("/")]
    assert paths and all(path.startswith(("/proc/self/fd/", "/dev/fdset/")) for path in paths)


FACTS = HostFacts("7.2.22 (Debian 1)", "EPYC", "fpu vme", 2_596_150, "boot")


def print_of(plan: BodyPlan = BodyPlan(Shape(), TCG), files: str = "files", facts: HostFacts = FACTS) -> str:  # noqa: B008
    return fp.fingerprint(fp.ingredients(plan, files, facts))


def test_a_memory_image_s_fingerprint_is_what_its_memory_depends_on():
    same = [print_of(), print_of(BodyPlan(Shape(), TCG, layers=7, incoming=True, label="other")),
            print_of(facts=replace(FACTS, boot_id="another"))]
    other = [
        print_of(BodyPlan(Shape(cpus=2), TCG)), print_of(BodyPlan(Shape(memory_mib=1024), TCG)),
        print_of(BodyPlan(Shape(), KVM)), print_of(BodyPlan(Shape(), Accelerator("tcg", 2_000_000))),
        print_of(BodyPlan(Shape(), TCG, kernel_words=("quiet",))), print_of(files="other files"),
        print_of(facts=replace(FACTS, qemu_version="7.2.22 (Debian 2)")),
        print_of(facts=replace(FACTS, cpu_model="Xeon")), print_of(facts=replace(FACTS, cpu_flags="fpu")),
    ]
    assert len(set(same)) == 1
    assert len({*same, *other}) == 1 + len(other)
