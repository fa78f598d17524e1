"""What this host can do for QEMU machines: facts, each with the reason for a no. Read by the driver and by `doctor`.

Calls qemu-system-x86_64 for its version and reads /proc; the KVM question is answered by `kvm_probe.py`. What is
costly to find out is kept in the driver's state folder for this boot of the host.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from sandboxes.drivers.qemu import tsc
from sandboxes.drivers.qemu.argv import BINARY, Accelerator
from sandboxes.errors import StepFailed
from sandboxes.linux import atomic, cgroups
from sandboxes.linux.processes import ProcessFailed, run

NAMESPACES = ("mnt", "pid", "net", "ipc", "uts")


@dataclass(frozen=True)
class HostFacts:
    qemu_version: str
    cpu_model: str
    cpu_flags: str
    tsc_khz: int
    boot_id: str


@dataclass(frozen=True)
class Finding:
    """One line for `doctor`: a fact, whether it is well, and what to do when it is not."""

    name: str
    ok: bool
    fact: str
    advice: str = ""


async def qemu_version() -> str:
    """QEMU's version with the distribution's package version, e.g. "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)"."""
    try:
        done = await run([BINARY, "--version"])
    except ProcessFailed as error:
        raise StepFailed(f"QEMU does not start: {error.complaint}") from error
    match = re.search(r"version (.+)", done.text)
    return match.group(1).strip() if match else done.text.strip()


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def cpu_identity() -> tuple[str, str]:
    """Model and sorted flags of the host's processor."""
    fields = {}
    for line in Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines():
        key, _, value = line.partition(":")
        fields[key.strip()] = value.strip()
    return fields.get("model name", "unknown"), " ".join(sorted(fields.get("flags", "").split()))


async def host_facts(state_dir: Path) -> HostFacts:
    """Measured once per boot of the host; the counter's frequency is kept across boots while it is the same."""
    kept_at = state_dir / "host-facts.json"
    known = atomic.known_json(kept_at) or {}
    model, flags = cpu_identity()
    if known.get("boot_id") != boot_id() or "tsc_khz" not in known:
        known = {"boot_id": boot_id(), "tsc_khz": tsc.settle(known.get("tsc_khz"), tsc.measure_khz())}
        state_dir.mkdir(parents=True, exist_ok=True)
        atomic.write_json(kept_at, known)
    return HostFacts(await qemu_version(), model, flags, known["tsc_khz"], known["boot_id"])


def accelerator(facts: HostFacts, kvm_refusal: str) -> Accelerator:
    """KVM where nothing speaks against it (an empty refusal), else TCG."""
    return Accelerator("tcg" if kvm_refusal else "kvm", facts.tsc_khz)


async def findings(kvm_refusal: str) -> list[Finding]:
    """What `doctor` shows about this driver's host."""
    return [await _qemu_finding(), _kvm_finding(kvm_refusal), _cgroup_finding(), _namespace_finding(), _tap_finding()]


async def _qemu_finding() -> Finding:
    try:
        version = await qemu_version()
    except StepFailed as error:
        return Finding("qemu", False, str(error), "install qemu-system-x86 and qemu-utils")
    if shutil.which("qemu-img") is None:
        return Finding("qemu", False, f"QEMU {version} without qemu-img", "install qemu-utils")
    return Finding("qemu", True, f"QEMU {version}")


def _kvm_finding(refusal: str) -> Finding:
    if not refusal:
        return Finding("kvm", True, "a probe guest boots on KVM")
    return Finding("kvm", True, f"no usable KVM, machines are emulated (TCG): {refusal}",
                   "guests run about ten times slower; give this host nested virtualization or bare metal")


def _cgroup_finding() -> Finding:
    found = cgroups.detect()
    advice = "" if found.kind == "v2" else "delegate a cgroup v2 group with cpu and memory to hostd"
    return Finding("cgroups", True, f"limits by {found.kind}" + (f" ({found.why})" if found.why else ""), advice)


def _namespace_finding() -> Finding:
    missing = [name for name in NAMESPACES if not Path(f"/proc/self/ns/{name}").exists()]
    if missing or os.geteuid() != 0:
        return Finding("namespaces", False, f"missing: {' '.join(missing) or 'the right to make them'}",
                       "run hostd as root on a kernel with namespaces")
    return Finding("namespaces", True, " ".join(NAMESPACES))


def _tap_finding() -> Finding:
    if os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return Finding("tap", True, "/dev/net/tun opens")
    return Finding("tap", False, "/dev/net/tun is not there or not ours", "load the tun module")
